"""The floor for tasks that rules cannot answer: the cosine of texts as the base encodes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import DecisionError
from intentmem.memory.protocols import Decider, Embedder
from intentmem.memory.tasks import SCOPE, Decision, Item, Space, Task
from intentmem.memory.types import Vector

from ..students.candidates import NONE, asked_text
from ..students.closed import two_texts

_FLOOR = 0.45
_RANKING = "ndcg"


def baseline_for(task: Task, embedder: Embedder) -> Decider:
    """What a student of a task has to beat: rules where there are any, else similarity."""
    by_likeness = task.space is Space.CANDIDATES and task.name != SCOPE.name
    return SimilarityDecider(embedder) if by_likeness or task.metric == _RANKING else BaselineDecider()


class SimilarityDecider:
    """The likest candidate, none below a cosine of .45; of a task that ranks, the likeness of its first two fields.

    Args:
        embedder: encodes all texts.
    """

    name = "similarity"
    reads_window = False

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        """Decide items; results in order.

        Raises:
            DecisionError: a task that neither has candidates nor ranks.
        """
        if task.space is Space.CANDIDATES:
            return self._chosen(task, items)
        if task.metric == _RANKING and len(task.groups) == 1:
            return self._ranked(task, items)
        raise DecisionError(f"{self.name} cannot answer the task {task.name!r}")

    def _chosen(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        asked = [asked_text(task, item) for item in items]
        vectors = self._vectors([*asked, *(text for item in items for text in item.candidates.texts)])
        found = []
        for text, item in zip(asked, items, strict=True):
            likeness = [_share(vectors[text], vectors[offered]) for offered in item.candidates.texts]
            shares = {NONE: _FLOOR} | dict(zip(item.candidates.ids, likeness, strict=True))
            best = max([NONE, *item.candidates.ids], key=shares.__getitem__)
            total = sum(shares.values())
            labels = () if best == NONE and best not in item.candidates.ids else (best,)
            probabilities = {label: share / total for label, share in shares.items()}
            found.append(Decision(labels, probabilities, shares[best], self.name, unsure=shares[best] < 0.5))
        return found

    def _ranked(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        pairs = [two_texts(task, item) for item in items]
        vectors = self._vectors([text for pair in pairs for text in pair])
        names = [option.name for option in task.groups[0].options]
        found = []
        for first, second in pairs:
            share = _share(vectors[first], vectors[second])
            best = names[0] if share > 0.5 else names[-1]
            shares = dict.fromkeys(names, 0.0) | {names[0]: share, names[-1]: 1 - share}
            found.append(Decision((best,), shares, max(share, 1 - share), self.name))
        return found

    def _vectors(self, texts: Sequence[str]) -> dict[str, Vector]:
        distinct = list(dict.fromkeys(texts))
        encoded = self._embedder.encode(distinct, "passage")
        unit = encoded / np.maximum(np.linalg.norm(encoded, axis=1, keepdims=True), 1e-9)
        return dict(zip(distinct, unit, strict=True))


def _share(first: Vector, second: Vector) -> float:
    return min(max(float(first @ second), 0.0), 1.0)
