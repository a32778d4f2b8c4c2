import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.serving.bench.metrics import (
    all_found,
    any_found,
    ndcg,
    recall,
    session_scores,
    turn_scores,
    within_budget,
)

IDS = st.lists(st.sampled_from("abcdefgh"), max_size=8)
GOLD = st.sets(st.sampled_from("abcdefgh"), min_size=1)
COSTS = st.lists(st.integers(0, 50), max_size=20)


def test_recall_is_the_share_of_the_gold_that_was_found() -> None:
    assert recall(["a", "x", "b"], ["a", "b", "c", "d"]) == 0.5
    assert recall([], ["a"]) == 0


def test_any_and_all_are_what_their_names_say() -> None:
    assert (any_found("ax", "ab"), all_found("ax", "ab")) == (1, 0)
    assert (any_found("abx", "ab"), all_found("abx", "ab")) == (1, 1)
    assert (any_found("x", "ab"), all_found("x", "ab")) == (0, 0)


def test_ndcg_agrees_with_values_worked_out_by_hand() -> None:
    # hits at ranks 1 and 3 of two gold; the first two ranks count in full: (1 + 1/log2(3)) / (1 + 1)
    assert ndcg(["a", "x", "b"], ["a", "b"], 3) == pytest.approx((1 + 1 / math.log2(3)) / 2)
    assert ndcg(["x", "x2", "x3", "a"], ["a"], 5) == pytest.approx(0.5)
    assert ndcg(["x", "a"], ["a"], 5) == 1
    assert ndcg(["x", "a"], ["a"], 1) == 0


def test_ndcg_of_a_short_ranking_is_judged_by_what_fits_into_it() -> None:
    assert ndcg(["a", "b"], ["a", "b", "c"], 2) == 1


def test_a_repeated_id_gains_once_and_at_its_first_rank() -> None:
    assert ndcg(["x", "a", "a"], ["a", "b"], 3) == ndcg(["x", "a", "y"], ["a", "b"], 3)


def test_a_budget_is_packed_until_the_first_item_that_does_not_fit() -> None:
    assert within_budget([400, 500, 200, 10], 1000) == 2
    assert within_budget([1000, 1], 1000) == 1
    assert within_budget([1001, 1], 1000) == 0
    assert within_budget([], 1000) == 0


def test_turns_are_scored_at_a_number_and_at_each_budget() -> None:
    scores = turn_scores(["a", "x", "b"], [10, 10, 10], ["a", "b"], k=1, budgets=[20, 30])
    assert scores == {"R@1": 0.5, "R@20tok": 0.5, "R@30tok": 1.0, "all@20tok": 0.0, "all@30tok": 1.0}


def test_sessions_are_scored_at_each_cut_off() -> None:
    scores = session_scores(["x", "s"], ["s"], cutoffs=[1, 2])
    names = [f"{m}@{k}" for m in ("any", "all", "NDCG", "NDCG-steep") for k in (1, 2)]
    assert list(scores) == names
    assert list(scores.values()) == [0, 1, 0, 1, 0, 1, 0, pytest.approx(1 / math.log2(3))]


def test_a_question_without_gold_has_no_score() -> None:
    for score in (lambda: recall(["a"], []), lambda: all_found(["a"], []), lambda: ndcg(["a"], [], 1)):
        with pytest.raises(ValueError, match="without gold"):
            score()


def test_ndcg_at_less_than_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ndcg(["a"], ["a"], 0)


@given(IDS, GOLD, st.integers(1, 10))
def test_scores_lie_between_0_and_1_and_keep_their_order(ranked: list[str], gold: set[str], k: int) -> None:
    found = ranked[:k]
    assert 0 <= all_found(found, gold) <= recall(found, gold) <= any_found(found, gold) <= 1
    assert 0 <= ndcg(ranked, gold, k) <= 1 + 1e-12


@given(GOLD, st.integers(1, 10))
def test_gold_alone_is_a_perfect_ranking(gold: set[str], k: int) -> None:
    assert ndcg(sorted(gold), gold, k) == pytest.approx(1)


@given(IDS, GOLD, st.integers(1, 9))
def test_a_longer_list_never_finds_less(ranked: list[str], gold: set[str], k: int) -> None:
    assert recall(ranked[:k], gold) <= recall(ranked[: k + 1], gold)


@given(COSTS, st.integers(0, 200), st.integers(0, 200))
def test_what_is_packed_fits_and_grows_with_the_budget(costs: list[int], budget: int, more: int) -> None:
    count = within_budget(costs, budget)
    assert sum(costs[:count]) <= budget
    assert count == len(costs) or sum(costs[: count + 1]) > budget
    assert count <= within_budget(costs, budget + more)


@given(COSTS.flatmap(lambda c: st.tuples(st.just(c), st.permutations(c))), st.integers(0, 200))
def test_no_order_packs_more_items_than_the_cheapest_first(both: tuple[list[int], list[int]], budget: int) -> None:
    costs, shuffled = both
    assert within_budget(shuffled, budget) <= within_budget(sorted(costs), budget)
