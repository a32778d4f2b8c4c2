"""When a vocabulary grows: turns that fit no label are pooled, and what recurs there gets a label (STITCH, 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from ..types import Turn, Vector
from .vocabulary import Changes, Vocabulary, VocabularyChange

EVERY = 50
"""Steps between two looks at the pool, as in the paper."""

_LEAST_TURNS = 3
_SAME_KIND = 0.55
_MOST_POOLED = 400


class NamesLabels(Protocol):
    """The part of a writer that names labels."""

    def name_label(self, turn: Turn, kind: str, taken: list[str]) -> tuple[str, str]:
        """Name and describe a label from a turn; ("", "") to decline."""
        ...


class LabelGrowth:
    """The pool of one vocabulary.

    `observe` each turn with how well the best label fits; when `due`, `grow`.

    Args:
        vocabulary: what grows.
        fit: least fit, in [0, 1], of a turn that needs no new label.
    """

    def __init__(self, vocabulary: Vocabulary, fit: float = 0.5) -> None:
        self.vocabulary = vocabulary
        self.fit = fit
        self.steps = 0
        self._looked_at = 0
        self._pool: dict[str, Vector] = {}

    @property
    def due(self) -> bool:
        """Whether 50 steps have passed since the pool was looked at."""
        return self.steps - self._looked_at >= EVERY

    @property
    def pooled(self) -> tuple[str, ...]:
        """Ids of the turns in the pool, oldest first."""
        return tuple(self._pool)

    def observe(self, turn: str, vector: Vector, fit: float) -> None:
        """Count a turn, (D,), and pool it where no label fits. The same id again changes the pool by nothing."""
        self.steps += 1
        if fit < self.fit and turn not in self._pool:
            self._pool[turn] = np.asarray(vector, np.float32)
            while len(self._pool) > _MOST_POOLED:
                self._pool.pop(next(iter(self._pool)))

    def grow(self, writer: NamesLabels, turn_of: Callable[[str], Turn | None]) -> Changes:
        """Name what recurs in the pool, then merge near-synonyms; the pool keeps what did not recur.

        A turn that has been deleted meanwhile (`turn_of` gives None) leaves the pool. A writer may decline: those
        turns leave the pool too, so that it is not asked the same again. An error of the writer changes nothing.
        """
        changes: list[VocabularyChange] = []
        turns = {turn: found for turn in self._pool if (found := turn_of(turn)) is not None}
        done = set(self._pool) - set(turns)
        taken = [label.name for label in self.vocabulary.labels]
        named: list[tuple[str, str]] = []
        for cluster in self._clusters(list(turns)):  # all named before any is added: an error leaves nothing half-grown
            name, description = writer.name_label(
                turns[cluster[0]], self.vocabulary.kind, [*taken, *(n for n, _ in named)]
            )
            if any(character.isalnum() for character in name):
                named.append((name, description))
            done.update(cluster)
        for name, description in named:
            changes.extend(self.vocabulary.add(name, description)[1])
        changes.extend(self.vocabulary.merge_synonyms())
        self._pool = {turn: vector for turn, vector in self._pool.items() if turn not in done}
        self._looked_at = self.steps
        return tuple(changes)

    def state(self) -> dict[str, Any]:
        """Counters and pool as plain values and one (N, D) float32 array, `vectors`."""
        vectors = np.stack(list(self._pool.values())) if self._pool else np.zeros((0, 0), np.float32)
        return {"steps": self.steps, "looked_at": self._looked_at, "turns": list(self._pool), "vectors": vectors}

    @classmethod
    def restore(cls, vocabulary: Vocabulary, state: Mapping[str, Any], fit: float = 0.5) -> LabelGrowth:
        """The pool that `state` was taken of."""
        growth = cls(vocabulary, fit)
        growth.steps, growth._looked_at = state["steps"], state["looked_at"]
        vectors = np.asarray(state["vectors"], np.float32)
        growth._pool = dict(zip(state["turns"], vectors, strict=True))
        return growth

    def _clusters(self, turns: list[str]) -> list[list[str]]:
        """Groups of at least three pooled turns, largest first; the most central turn leads each.

        The turn with most neighbours takes them, again and again: deterministic, and a copy of a turn is its neighbour.
        """
        if len(turns) < _LEAST_TURNS:
            return []
        vectors = np.stack([self._pool[turn] for turn in turns])
        near = vectors @ vectors.T >= _SAME_KIND
        np.fill_diagonal(near, True)
        free = np.ones(len(turns), bool)
        clusters: list[list[str]] = []
        while True:
            counts = (near & free).sum(axis=1) * free
            centre = int(counts.argmax())
            if counts[centre] < _LEAST_TURNS:
                return clusters
            members = np.flatnonzero(near[centre] & free)
            clusters.append([turns[centre], *(turns[row] for row in members if row != centre)])
            free[members] = False
