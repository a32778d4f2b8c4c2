from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.distill.evaluation import candidates, closed
from intentmem.distill.evaluation.intervals import Halves, interval
from intentmem.distill.evaluation.similarity import SimilarityDecider, baseline_for
from intentmem.distill.gold.plan import plan_traces
from intentmem.distill.traces import LabelSet, Trace
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import DecisionError, InputError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.tasks import PLAN, PROPERTY_MATCH, SCOPE, SUPPORT, Candidates, Decision, Item, Task

from .standin import MOOD, mood_traces


class Says:
    """Answers with what it was given, in turn."""

    name, reads_window = "says", False

    def __init__(self, answers: Sequence[Sequence[str]], shares: Sequence[dict[str, float]] = ()) -> None:
        self.answers, self.shares = list(answers), list(shares) or [{} for _ in answers]

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        return [Decision(tuple(self.answers.pop(0)), self.shares.pop(0), 0.9, self.name) for _ in items]


def values(found: Sequence[object], group: str = "all") -> dict[str, float]:
    return {one.metric: one.value for one in found if one.group == group}  # type: ignore[attr-defined]


def test_a_decider_that_repeats_the_gold_scores_one() -> None:
    traces = mood_traces(40)
    found = values(closed.evaluate(Says([trace.labels for trace in traces]), traces, task=MOOD))
    assert found["macro_f1"] == found["exact"] == 1
    assert found["ece"] == pytest.approx(0.1)


def test_the_baseline_is_measured_on_the_same_items_group_by_group() -> None:
    found = closed.evaluate(BaselineDecider(), plan_traces(0, 120, "test"))
    assert {"macro_f1_reasoning", "macro_f1_target", "macro_f1_span", "macro_f1_gate"} <= set(values(found))
    assert all(one.low <= one.value <= one.high for one in found if one.metric == "exact")


def test_seen_and_unseen_are_measured_apart() -> None:
    traces = [replace(t, meta={"group": "seen" if n % 2 else "unseen"}) for n, t in enumerate(mood_traces(20))]
    answers = [t.labels if t.meta["group"] == "seen" else ("flat",) for t in traces]
    found = closed.evaluate(Says(answers), traces, task=MOOD)
    assert values(found, "seen")["exact"] == 1 > values(found, "unseen")["exact"]


def test_an_answer_outside_the_label_space_is_an_error() -> None:
    with pytest.raises(DecisionError):
        closed.evaluate(Says([("hot",)] * 5), mood_traces(5), task=MOOD)


def test_traces_of_an_unknown_task_ask_for_its_declaration() -> None:
    with pytest.raises(InputError, match="give the task"):
        closed.evaluate(BaselineDecider(), mood_traces(5))
    with pytest.raises(InputError, match="are none"):
        closed.evaluate(BaselineDecider(), [])


def test_turns_are_ranked_within_each_question() -> None:
    rows = [("q1", "states"), ("q1", "unrelated"), ("q2", "unrelated"), ("q2", "helps")]
    traces = [
        Trace(SUPPORT.name, SUPPORT.hash, {"question": q, "evidence": f"e{n}"}, (label,), "t", "c")
        for n, (q, label) in enumerate(rows)
    ]
    good = [{"states": 0.9}, {"states": 0.1}, {"states": 0.2}, {"states": 0.0, "helps": 0.9}]
    found = closed.evaluate(Says([("states",)] * 4, good), traces)
    ranked = next(one for one in found if one.metric == "ndcg")
    assert (ranked.value, ranked.n) == (1.0, 2)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_ndcg_is_one_for_the_best_order_and_never_more(gains: list[float]) -> None:
    assert closed.ndcg(gains, gains) == pytest.approx(1)
    assert 0 <= closed.ndcg(gains, list(range(len(gains)))) <= 1 + 1e-9


@settings(deadline=None)  # the first call imports the library
@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_macro_f1_agrees_with_the_library(wanted: list[int]) -> None:
    from sklearn.metrics import f1_score

    given_labels = wanted[::-1]
    assert closed.macro_f1(wanted, given_labels) == pytest.approx(f1_score(wanted, given_labels, average="macro"))


def test_none_is_an_answer_where_no_candidate_is_right() -> None:
    options = LabelSet(("a", "b"), ("price", "date"))
    traces = [
        Trace(PROPERTY_MATCH.name, PROPERTY_MATCH.hash, {"requirement": "cost"}, labels, "t", f"c{n}", n, options)
        for n, labels in enumerate([("a",), (), ("b",), ()])
    ]
    shares = [{"a": 0.8, "b": 0.1, "none": 0.1}] * 4
    found = values(candidates.evaluate(Says([("a",), (), ("a",), ("a",)], shares), traces, HashEmbedder()))
    assert (found["top1"], found["top1_some"], found["top5"]) == (0.5, 0.5, 1.0)
    assert found["none_f1"] == pytest.approx(2 / 3)


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=30))
def test_halves_split_no_conversation(names: list[str]) -> None:
    for fitted, seen in Halves(names):
        assert not {names[place] for place in fitted} & {names[place] for place in seen}
        assert len(fitted) + len(seen) == len(names)


def test_an_interval_holds_the_figure_and_is_the_same_each_time() -> None:
    hits = np.array([1.0, 0, 1, 1, 0, 1, 1, 1])
    names = list("aabbccdd")
    low, high = interval(names, lambda places: float(hits[places].mean()))
    assert low <= hits.mean() <= high
    assert (low, high) == interval(names, lambda places: float(hits[places].mean()))


def test_similarity_is_the_floor_where_there_are_no_rules() -> None:
    embedder = HashEmbedder()
    kinds = [type(baseline_for(task, embedder)) for task in (PLAN, SCOPE, PROPERTY_MATCH, SUPPORT)]
    assert kinds == [BaselineDecider, BaselineDecider, SimilarityDecider, SimilarityDecider]


def test_similarity_takes_the_likest_candidate_and_none_where_all_are_unlike() -> None:
    offered = Candidates(("a", "b"), ("price per night", "phone number"))
    items = [Item({"requirement": text}, offered) for text in ("the price per night", "zodiac")]
    near, far = SimilarityDecider(HashEmbedder()).decide(PROPERTY_MATCH, items)
    assert (near.labels, far.labels) == (("a",), ())
    assert sum(near.probabilities.values()) == pytest.approx(1)


def test_similarity_ranks_what_shares_words_first() -> None:
    items = [Item({"question": "Where is the red bicycle?", "evidence": text}) for text in ("The red bicycle!", "No.")]
    first, second = SimilarityDecider(HashEmbedder()).decide(SUPPORT, items)
    assert first.probabilities["states"] > second.probabilities["states"]
    with pytest.raises(DecisionError):
        SimilarityDecider(HashEmbedder()).decide(MOOD, [Item({"turn": "w1"})])
