"""Students of open label spaces: labels are encoded texts, so that a label nobody trained on is scored like any other.

The likeliest labels are weighed against each other: what speaks for each (`Vocabulary.signs`) gives the chance that it
applies. Two kinds of answer follow. `one` names the likeliest, as `event` needs, and others beside it; `several` names
all that are likely enough, as `entity_types` needs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import Candidates, Decision, Item, Task
from intentmem.memory.types import Vector

from .base import Encodings
from .open_reading import Reading, read
from .open_scoring import Floats, Scoring, unit

ONE, SEVERAL = "one", "several"
CONSIDERED = 16
"""Labels whose probability is stated, at most."""
UNCALIBRATED = {ONE: (1.0, 0.0, 0.0, 0.0, 0.5), SEVERAL: (0.0, 1.0, 0.0, 0.0, 0.0)}
"""`OpenOptions.chance` of a head that has not been calibrated."""
_KEPT_MATRICES = 8
_LEAST = 0.02
_UNLIKE = 0.4
"""Cosine of two labels below which they are no rivals."""
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """Plain values of a student.

    Attributes:
        kind: `one` or `several`.
        chance: log-odds that a label applies, as weights of its signs in their order, and an offset.
        floor: least chance of the best label of `one`; below it no label fits.
        threshold: least chance of any other label, or of each of `several`.
        certainty: of `several`, slope and offset that turn the log-odds of all labels being right into a confidence.
        most: labels given, at most.
        unsure: confidence below which a decision is marked so.
        tokens: whether single tokens are read.
        taught: names of the labels it was trained on.
        labels: of a user's own task, the texts of the labels that its traces offered, by id; empty for a built-in
            one, whose labels are those of each memory.
    """

    kind: str
    chance: tuple[float, float, float, float, float]
    floor: float = 0.0
    threshold: float = 0.5
    certainty: tuple[float, float] = (1.0, 0.0)
    most: int = 5
    unsure: float = 0.5
    tokens: bool = False
    taught: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def chances(self, signs: Doubles) -> Doubles:
        """The chance that each label applies, from its signs (..., 4)."""
        odds = signs @ np.array(self.chance[:-1]) + self.chance[-1]
        return np.asarray(1 / (1 + np.exp(-np.clip(odds, -30, 30))), np.float64)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> OpenOptions:
        """From plain values, lists standing for tuples.

        Raises:
            InputError: a kind that does not exist.
        """
        if values.get("kind") not in (ONE, SEVERAL):
            raise InputError("options.kind", f"is {values.get('kind')!r}", f"{ONE!r} or {SEVERAL!r}")
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**plain)


class OpenStudent:
    """Labels of an open vocabulary for texts in their context.

    Args:
        task: open.
        adapter: name of its adapter.
        scoring: the head.
        options: thresholds and calibration.
    """

    def __init__(self, task: Task, adapter: str, scoring: Scoring, options: OpenOptions) -> None:
        self.task, self.adapter, self.scoring = task, adapter, scoring
        self.settings = replace(options, tokens=scoring.reads_tokens)
        self._vocabularies: OrderedDict[tuple[int, int], Vocabulary] = OrderedDict()

    @classmethod
    def from_head(
        cls, task: Task, adapter: str, head: Mapping[str, Vector], options: Mapping[str, object]
    ) -> OpenStudent:
        """The student that `head()` and `options()` describe."""
        return cls(task, adapter, Scoring.of(head), OpenOptions.of(options))

    def head(self) -> Mapping[str, Vector]:
        """The arrays of `Scoring` by name."""
        return self.scoring.arrays()

    def options(self) -> Mapping[str, object]:
        """Plain values; see `OpenOptions`."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self.settings).items()
        }

    def decide(self, items: Sequence[Item], encodings: Encodings) -> list[Decision]:
        """Decide items; results in order. Items that share their candidates are scored together.

        Raises:
            InputError: an item lacks a required field or has an unknown one.
        """
        groups: dict[tuple[int, int], list[int]] = {}
        for place, item in enumerate(items):
            groups.setdefault(_identity(item.candidates), []).append(place)
        readings = [read(self.task, item) for item in items]
        decided: dict[int, Decision] = {}
        for places in groups.values():
            candidates = items[places[0]].candidates
            if not len(candidates):
                decided |= {place: Decision((), {}, 1.0, self.adapter) for place in places}
                continue
            vocabulary = self._vocabulary(candidates, encodings)
            scores = self._scores([readings[place] for place in places], vocabulary.vectors, encodings)
            for place, row in zip(places, scores, strict=True):
                decided[place] = self._decision(row.astype(np.float64), vocabulary)
        return [decided[place] for place in range(len(items))]

    def scores(self, items: Sequence[Item], encodings: Encodings) -> tuple[Floats, Vocabulary]:
        """(N, L): how well each label fits items that share their candidates; for calibration."""
        vocabulary = self._vocabulary(items[0].candidates, encodings)
        return self._scores([read(self.task, item) for item in items], vocabulary.vectors, encodings), vocabulary

    def _scores(self, readings: Sequence[Reading], labels: Vector, encodings: Encodings) -> Floats:
        reach = self.scoring.reach
        earlier = [reading.before[:reach] for reading in readings]
        texts = [reading.text for reading in readings]
        found = encodings.turns(texts, self.adapter, tokens=self.scoring.reads_tokens)
        turns = np.stack([one.pooled for one in found])
        wanted = list(dict.fromkeys(text for before in earlier for text in before))
        encoded = dict(zip(wanted, encodings.turns(wanted, self.adapter), strict=True))
        before = np.zeros((len(texts), reach, turns.shape[1]), np.float32)
        known = np.zeros(before.shape[:2], bool)
        for row, said in enumerate(earlier):
            for lag, text in enumerate(said):
                before[row, lag], known[row, lag] = encoded[text].pooled, True
        tokens = [one.tokens for one in found if one.tokens is not None] if self.scoring.reads_tokens else []
        sides = np.array([reading.side for reading in readings], np.int64)
        return self.scoring.scores(turns, before, known, sides, labels, tokens or None)

    def _vocabulary(self, candidates: Candidates, encodings: Encodings) -> Vocabulary:
        # A vocabulary holds its texts, so that their id cannot be taken by another object while it is kept.
        key = _identity(candidates)
        if key not in self._vocabularies:
            pooled = [one.pooled for one in encodings.texts(candidates.texts, self.adapter)]
            self._vocabularies[key] = Vocabulary(candidates, unit(np.stack(pooled)))
            while len(self._vocabularies) > _KEPT_MATRICES:
                self._vocabularies.popitem(last=False)
        self._vocabularies.move_to_end(key)
        return self._vocabularies[key]

    def _decision(self, scores: Doubles, vocabulary: Vocabulary) -> Decision:
        if self.settings.kind == ONE:
            return self._best(scores, vocabulary)
        options = self.settings
        rows, signs = vocabulary.signs(scores)
        found = options.chances(signs)
        order = np.argsort(-found, kind="stable")
        chances = dict(zip(rows[order].tolist(), found[order].tolist(), strict=True))
        labels = [row for row, chance in chances.items() if chance >= options.threshold][: options.most]
        return self._said(labels, chances, certainty(found, options), vocabulary)

    def _best(self, scores: Doubles, vocabulary: Vocabulary) -> Decision:
        options = self.settings
        order, signs = vocabulary.signs(scores)
        chances = dict(zip(order.tolist(), options.chances(signs).tolist(), strict=True))
        best = int(order[0])
        if chances[best] >= options.floor:
            others = [row for row in chances if row != best and chances[row] >= options.threshold]
            return self._said([best, *others][: options.most], chances, chances[best], vocabulary)
        coarse = vocabulary.closest_coarse(scores)
        if coarse is not None and (likely := float(options.chances(coarse[1]))) >= options.floor:
            return self._said([coarse[0]], {coarse[0]: likely, **chances}, likely, vocabulary)
        return self._said([], chances, 1 - chances[best], vocabulary)

    def _said(
        self, labels: Sequence[int], chances: Mapping[int, float], confidence: float, vocabulary: Vocabulary
    ) -> Decision:
        ids = vocabulary.ids
        return Decision(
            tuple(ids[row] for row in labels),
            {ids[row]: chance for row, chance in chances.items()},
            confidence,
            self.adapter,
            unsure=confidence < self.settings.unsure,
        )


class Vocabulary:
    """The labels of one set of candidates. Where some are coarse, the others alone are chosen from.

    Args:
        candidates: with the signal `parent`, the row of each one's coarse label, where there are two levels.
        vectors: (L, D), L2-normalised.
    """

    def __init__(self, candidates: Candidates, vectors: Vector) -> None:
        self.texts, self.ids, self.vectors = candidates.texts, candidates.ids, vectors
        self._parents = candidates.signals.get("parent", np.full(len(candidates), -1.0)).astype(np.int64)
        self._coarse = np.unique(self._parents[self._parents >= 0])
        self.fine = np.ones(len(candidates), bool)
        self.fine[self._coarse] = False
        self._size = float(np.log(self.fine.sum()))

    def signs(self, scores: Doubles) -> tuple[NDArray[np.int64], Doubles]:
        """The likeliest fine labels, best first, as rows (K,), and what speaks for each, (K, 4).

        Signs of a label: the logarithm of its share of the softmax; its score; the logarithm of its share among its
        rivals alone, which are labels of like meaning; the logarithm of the number of labels. A turn may well bear two
        labels that are unlike, hardly two that are alike; and the best of many is less often right than that of few.
        """
        logs = self._logs(scores)
        order = np.argsort(-logs, kind="stable")[: min(CONSIDERED, int(self.fine.sum()))]
        near = self.vectors[order]
        alike = np.clip((near @ near.T - _UNLIKE) / (1 - _UNLIKE), 0, 1)
        shares = np.exp(logs[order])
        among = shares / np.maximum(alike @ shares, 1e-30)
        size = np.full(len(order), self._size)
        return order, np.stack([logs[order], scores[order], np.log(np.clip(among, 1e-30, 1)), size], axis=1)

    def closest_coarse(self, scores: Doubles) -> tuple[int, Doubles] | None:
        """The coarse label whose fine ones have most of the softmax between them, with its signs (4,); None without."""
        if not len(self._coarse):
            return None
        shares = np.exp(self._logs(scores))
        under = [np.flatnonzero(self._parents == row) for row in self._coarse]
        own = np.array([shares[rows].sum() for rows in under])
        best = int(own.argmax())
        share = float(np.log(max(own[best], 1e-30)))
        return int(self._coarse[best]), np.array([share, scores[under[best]].max(), share, self._size])

    def _logs(self, scores: Doubles) -> Doubles:
        scaled = np.where(self.fine, scores, -np.inf)
        raised = scaled - scaled.max()
        return np.asarray(raised - np.log(np.exp(raised).sum()), np.float64)


def certainty(chances: Doubles, options: OpenOptions) -> float:
    """Confidence that each of several labels is rightly given or rightly left out (Platt, 1999)."""
    slope, offset = options.certainty
    return float(1 / (1 + np.exp(-np.clip(slope * together(chances, options.threshold) + offset, -30, 30))))


def together(chances: Doubles, threshold: float) -> float:
    """Log-odds of all labels being right at once, were they independent."""
    doubtful = chances[chances > _LEAST]
    logs = float(np.log(np.where(doubtful >= threshold, doubtful, 1 - doubtful).clip(1e-6)).sum())
    bounded = min(max(np.exp(logs), 1e-6), 1 - 1e-6)
    return float(np.log(bounded / (1 - bounded)))


def _identity(candidates: Candidates) -> tuple[int, int]:
    return id(candidates.ids), id(candidates.texts)
