import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.serving.bench.baselines import BM25, DENSE, RRF, Baselines, best_first, reciprocal_rank_fusion

TEXTS = ["I love hiking in the mountains", "The cats are sleeping", "of the and", "hiking boots for a cat"]
VECTORS = np.eye(4, dtype=np.float32)


@pytest.fixture(scope="module")
def baselines() -> Baselines:
    return Baselines(TEXTS, VECTORS)


def test_dense_ranks_by_cosine(baselines: Baselines) -> None:
    ranked = baselines.rank("anything", np.array([0.1, 0.4, 0.2, 0.3], np.float32))
    assert ranked[DENSE].tolist() == [1, 3, 2, 0]


def test_bm25_stems_words_drops_stop_words_and_ranks_matches_only(baselines: Baselines) -> None:
    ranked = baselines.rank("the hikers and their cats", VECTORS[0])[BM25].tolist()
    assert set(ranked) == {1, 3}
    assert baselines.rank("the hike with a cat", VECTORS[0])[BM25].tolist()[0] == 3


@pytest.mark.parametrize("query", ["the of and", "zebra", "?"])
def test_a_query_without_known_words_has_no_lexical_ranking(baselines: Baselines, query: str) -> None:
    ranked = baselines.rank(query, VECTORS[2])
    assert ranked[BM25].tolist() == []
    assert ranked[RRF].tolist() == ranked[DENSE].tolist()


@pytest.mark.parametrize("until", [0, 1, 2, 3, None])
def test_turns_that_may_not_be_searched_are_in_no_ranking(baselines: Baselines, until: int | None) -> None:
    searchable = set(range(len(TEXTS) if until is None else until))
    ranked = baselines.rank("hiking cats", VECTORS[3], until)
    assert set(ranked[DENSE].tolist()) == set(ranked[RRF].tolist()) == searchable
    assert set(ranked[BM25].tolist()) <= searchable


def test_a_ranking_of_a_part_is_the_ranking_of_that_part_alone() -> None:
    whole, part = Baselines(TEXTS, VECTORS), Baselines(TEXTS[:2], VECTORS[:2])
    for subject, ranked in whole.rank("hiking cats", VECTORS[1], 2).items():
        assert ranked.tolist() == part.rank("hiking cats", VECTORS[1])[subject].tolist()


def test_fusion_adds_reciprocal_ranks() -> None:
    # 0: 1/61 + 1/63; 1: 1/62 + 1/61; 2: 1/63
    assert reciprocal_rank_fusion((np.array([0, 1, 2]), np.array([1, 3, 0])), 5).tolist() == [1, 0, 3, 2]


@given(st.permutations(range(6)))
def test_fusing_a_ranking_with_itself_keeps_it(order: list[int]) -> None:
    ranking = np.array(order)
    assert reciprocal_rank_fusion((ranking, ranking), 6).tolist() == order


def test_a_session_stands_where_its_best_turn_stands() -> None:
    assert best_first(["b", None, "a", "b", "c", "a"]) == ["b", "a", "c"]
