"""Which labels of a vocabulary fit a turn, from similarity, the hierarchy, and surface cues.

A label's score is its cosine to the turn plus a share of its parent's, plus what the wording adds; a softmax over the
fine labels (event) or a logistic of each label (entity types) makes it a probability. The parent of each candidate is
the signal `parent`: its row among the candidates, -1 for none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tasks import Candidates
from ..types import Vector
from .cues import strip_speaker
from .label_cues import EVENT_CUES, TYPE_CUES, LabelCues


@dataclass(frozen=True, slots=True)
class EventWeights:
    """Weights of the event rule.

    `floor` is the least score of a label that fits at all, `cue` the cosine that a clear cue is worth; the runner-up is
    chosen too where its probability is at least `second` times the best one's.
    """

    parent: float = 0.25
    cue: float = 0.5
    temperature: float = 0.08
    floor: float = 0.12
    second: float = 0.6


@dataclass(frozen=True, slots=True)
class TypeWeights:
    """Weights of the entity-type rule: probability = logistic(slope * (score - threshold))."""

    parent: float = 0.3
    cue: float = 0.4
    slope: float = 14.0
    threshold: float = 0.34
    most: int = 5


Chosen = tuple[tuple[str, ...], dict[str, float], float]
"""Labels best first, probabilities of those considered, and the confidence in the labels as a whole."""


class LabelScorer:
    """Scores turns against one vocabulary; what depends on the labels alone is computed once."""

    def __init__(self, candidates: Candidates, vectors: Vector, kind: str) -> None:
        self.candidates = candidates
        self._vectors = vectors
        parents = candidates.signals.get("parent", np.full(len(candidates), -1.0)).astype(np.int64)
        self._parents = np.where(parents >= 0, parents, np.arange(len(candidates)))
        self.fine = parents >= 0 if (parents >= 0).any() else np.ones(len(candidates), bool)
        self._cues = LabelCues(EVENT_CUES if kind == "event" else TYPE_CUES, candidates.texts)

    def scores(self, turns: Vector, texts: list[str], parent: float, cue: float) -> NDArray[np.float64]:
        """(N, L): turns (N, D) against L labels, in units of cosine."""
        cosines = (turns @ self._vectors.T).astype(np.float64)
        cues = np.array([self._cues.read(strip_speaker(text)) for text in texts])
        own = cosines + cue * cues
        return (own + parent * own[:, self._parents]) / (1 + parent)


def choose_events(scorer: LabelScorer, scores: NDArray[np.float64], weights: EventWeights) -> Chosen:
    """Two labels at most, from one turn's scores (L,); none where nothing fits.

    Where the vocabulary has two levels, fine labels are chosen: their coarse ones only lend them their evidence.
    """
    ids = scorer.candidates.ids
    rows = np.flatnonzero(scorer.fine)
    shares = np.exp((scores[rows] - scores[rows].max()) / weights.temperature)
    shares /= shares.sum()
    order = np.argsort(-shares, kind="stable")[:5]
    probabilities = {ids[rows[k]]: float(shares[k]) for k in order}
    best = int(order[0])
    if scores[rows[best]] < weights.floor:
        return (), probabilities, 0.5
    labels = [ids[rows[best]]]
    if len(order) > 1 and shares[order[1]] >= weights.second * shares[best]:
        labels.append(ids[rows[order[1]]])
    return tuple(labels), probabilities, float(shares[best])


def choose_types(scorer: LabelScorer, scores: NDArray[np.float64], weights: TypeWeights) -> Chosen:
    """Up to `weights.most` labels whose own probability is at least one half, from one turn's scores (L,)."""
    ids = scorer.candidates.ids
    likely = 1 / (1 + np.exp(-weights.slope * (scores - weights.threshold)))
    order = [int(k) for k in np.argsort(-likely, kind="stable") if scorer.fine[k]][: 2 * weights.most]
    chosen = [k for k in order if likely[k] >= 0.5][: weights.most]
    confidence = float(np.mean([max(likely[k], 1 - likely[k]) for k in order])) if order else 1.0
    return tuple(ids[k] for k in chosen), {ids[k]: float(likely[k]) for k in order}, confidence
