"""The end of reading: the best turns are scored for their support of the original question (EMIR2, section 3.3).

What the scores say is mixed into the order of those turns; all others stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import DecisionError, ModelError
from ..protocols import Decider
from ..store import Store
from ..tasks import SUPPORT, Candidates, Decision, Item
from ..types import Turn, Vector
from .columns import Floats, Ints

_HELPS = 0.5
"""What a turn that only helps to find the answer counts, beside one that states it."""
_WEIGHT = 1.0
_STEADY = 8.0
"""Ranks by which the best of the order stand closer together: the larger, the more the scores move them."""


@dataclass(frozen=True, slots=True)
class Supported:
    """Support of the first turns, (N,) in [0, 1], with the calls that it took and why there are no more scores."""

    scores: Floats
    calls: int = 0
    failure: str = ""


class Supports:
    """Scores turns by the task `support`, with whatever decides."""

    def __init__(self, store: Store, decider: Decider) -> None:
        self._store = store
        self._decider = decider

    @property
    def answers(self) -> bool:
        """Whether the decider takes the task: rules do not."""
        try:
            self._decider.decide(SUPPORT, [])
        except DecisionError:
            return False
        return True

    def of(self, namespace: int, question: str, query: Vector, rows: Ints, vectors: Vector, calls: int) -> Supported:
        """Score turns; none where the decider does not take the task.

        Args:
            query: (D,), the question's. rows: (N,) of the turns, best first. vectors: (N, D), zero where a turn has
                none. calls: requests to a served model at most; a decider that takes some takes at most one a turn.
        """
        turns = self._store.turns.by_rows(namespace, rows)
        items = [
            _item(question, query, turns[row], vector)
            for row, vector in zip(rows.tolist(), vectors, strict=True)
            if row in turns
        ]
        if len(items) < len(rows):
            return Supported(np.zeros(0, np.float32))  # deleted since it was ranked
        found: list[Decision] = []
        spent = 0
        while len(found) < len(items) and spent < calls:
            try:
                made = self._decider.decide(SUPPORT, items[len(found) : len(found) + calls - spent])
            except DecisionError:
                break
            except ModelError as error:
                return Supported(_scores(found), spent, f"turns were not scored for their support: {error}")
            found += made
            spent += sum(decision.calls for decision in made)
        return Supported(_scores(found), spent)


def mixed(support: Floats) -> Ints:
    """The order (N,) of the first N turns of a ranking by rank and support."""
    if not len(support):
        return np.zeros(0, np.int64)
    standing = -np.log(np.arange(len(support)) + _STEADY)
    return np.argsort(-(standing + _WEIGHT * support), kind="stable")


def _item(question: str, query: Vector, turn: Turn, vector: Vector) -> Item:
    who = turn.speaker or turn.role
    # A student holds the stored vector against the question; whoever reads the text needs to know who said it when.
    evidence = f"[{turn.time:%Y-%m-%d %H:%M}] {who}: {turn.searchable_text}"
    own = Candidates((turn.id,), (evidence,), vector[None]) if vector.any() else Candidates()
    return Item({"question": question, "evidence": evidence}, own, query)


def _scores(found: Sequence[Decision]) -> Floats:
    shares = [(one.probabilities.get("states", 0.0), one.probabilities.get("helps", 0.0)) for one in found]
    return np.array([states + _HELPS * helps for states, helps in shares], np.float32)
