"""The best turns are scored for their support of the question, where something can."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import make_memory

from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import ModelError, ModelUnavailableError
from intentmem.memory.memory import Memory
from intentmem.memory.read.budget import Budget
from intentmem.memory.read.parts import ALL_PARTS
from intentmem.memory.read.request import Recipe
from intentmem.memory.read.support import mixed
from intentmem.memory.tasks import SUPPORT, Decision, Item, Task

SAID = [f"The hotel has note {at}." for at in range(12)]
ASKED = "What does the hotel have?"


class Supporting(BaselineDecider):
    """Finds that a turn states the answer where it holds a word; each costs so many calls."""

    def __init__(self, word: str, calls: int = 0, error: ModelError | None = None) -> None:
        super().__init__()
        self.word, self.calls, self.error = word, calls, error
        self.batches: list[list[Item]] = []

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        if task.name != SUPPORT.name:
            return super().decide(task, items)
        if not items:
            return []
        if self.error is not None:
            raise self.error
        self.batches.append(list(items))
        return [self._of(item) for item in items]

    def _of(self, item: Item) -> Decision:
        states = 0.9 if self.word in str(item.fields["evidence"]) else 0.05
        shares = {"states": states, "helps": 0.05, "unrelated": 0.95 - states}
        return Decision((max(shares, key=lambda name: shares[name]),), shares, 0.9, "test", calls=self.calls)


Opened = Callable[..., Memory]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    def make(decider: BaselineDecider, **budget: Any) -> Memory:
        memory = make_memory(tmp_path, decider=decider)
        memory.searcher.budget = Budget(**{"reranked": 8, **budget})
        memory.add([{"role": "user", "content": text} for text in SAID], namespace="n")
        return memory

    return make


def found(memory: Memory, **options: Any) -> list[dict[str, Any]]:
    return list(memory.search(ASKED, namespace="n", explain=True, **options)["results"])


def test_a_turn_that_states_the_answer_is_moved_up_and_says_so(opened: Opened) -> None:
    decider = Supporting("note 5")
    with opened(decider) as memory:
        before = [hit["memory"] for hit in _without(memory)]
        hits = found(memory)
    assert hits[0]["memory"] == "The hotel has note 5." != before[0]
    assert hits[0]["explain"]["support"] == pytest.approx(0.925)
    assert sorted(hit["memory"] for hit in hits) == sorted(before)
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    (batch,) = decider.batches
    assert len(batch) == 8 and batch[0].candidates.vectors is not None and batch[0].vector is not None


def _without(memory: Memory) -> list[dict[str, Any]]:
    memory.searcher.parts = ALL_PARTS.without("reranker")
    try:
        return found(memory)
    finally:
        memory.searcher.parts = ALL_PARTS


def test_turns_beyond_the_best_stay_where_they_are(opened: Opened) -> None:
    with opened(Supporting("note 5"), reranked=3) as memory:
        assert [hit["id"] for hit in found(memory)][3:] == [hit["id"] for hit in _without(memory)][3:]


def test_rules_score_nothing_and_leave_the_order(opened: Opened) -> None:
    with opened(BaselineDecider()) as memory:
        hits = found(memory)
        assert [hit["id"] for hit in hits] == [hit["id"] for hit in _without(memory)]
        assert "support" not in hits[0]["explain"]
        ordinal = memory.store.namespaces.ordinal("n")
        assert "reranker" not in memory.searcher.parts_in_use(ordinal, Recipe.FUSED)


def test_the_reranker_is_in_use_where_it_is_wanted_and_something_scores(opened: Opened) -> None:
    with opened(Supporting("note 5")) as memory:
        ordinal = memory.store.namespaces.ordinal("n")
        assert "reranker" in memory.searcher.parts_in_use(ordinal, Recipe.FUSED)
        assert "reranker" not in memory.searcher.parts_in_use(ordinal, Recipe.STITCH)
        memory.searcher.budget = replace(memory.searcher.budget, reranked=0)
        assert "reranker" not in memory.searcher.parts_in_use(ordinal, Recipe.FUSED)


@pytest.mark.parametrize(("calls", "scored"), [(5, 5), (8, 8), (100, 8)])
def test_no_more_calls_are_made_than_the_budget_has(opened: Opened, calls: int, scored: int) -> None:
    with opened(Supporting("note", calls=1), calls=calls) as memory:
        result = memory.search(ASKED, namespace="n", explain=True)
    assert result["usage"]["llm_calls"] == scored
    assert sum("support" in hit["explain"] for hit in result["results"]) == scored


def test_who_takes_no_calls_scores_all_whatever_the_budget_of_calls(opened: Opened) -> None:
    decider = Supporting("note")
    with opened(decider, calls=3) as memory:
        assert sum("support" in hit["explain"] for hit in found(memory)) == 8
    assert [len(batch) for batch in decider.batches] == [3, 3, 2]


def test_a_model_that_fails_leaves_the_order_and_is_reported(opened: Opened) -> None:
    with opened(Supporting("note 5", error=ModelUnavailableError("test", "gone"))) as memory:
        result = memory.search(ASKED, namespace="n")
        assert [hit["id"] for hit in result["results"]] == [hit["id"] for hit in _without(memory)]
    assert any("not scored for their support" in warning for warning in result["warnings"])


@given(st.lists(st.floats(0, 1), max_size=40))
def test_an_order_by_rank_and_support_has_every_place_once(scores: list[float]) -> None:
    order = mixed(np.array(scores, np.float32))
    assert sorted(order.tolist()) == list(range(len(scores)))
    assert mixed(np.full(5, 0.3, np.float32)).tolist() == list(range(5))
