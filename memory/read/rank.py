"""Recipes: from signals to one score a turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from ..errors import IntentMemError
from ..types import Vector
from .columns import Floats, Ints
from .plan import Plan
from .signals import SIGNALS, Evidence, standardise

_LIKENESS = 10.0
_SHORT, _LONG = 6.0, 12.0
"""Content words up to which a question is a look-up, and from which a message is one that needs background."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the fused recipe, learned by `python -m intentmem.distill.learn_fusion`.

    lookup, background: weight of each signal for a short question and for a long message; between the two they are
    mixed. threads: weights where many goals alternate within a sitting; mixed with the others by how much they do.
    kin: share of what similar groups score in a group's score.
    """

    lookup: Mapping[str, float]
    background: Mapping[str, float]
    threads: Mapping[str, float]
    kin: float

    def mixed(self, question_words: int, interleaving: float) -> dict[str, float]:
        """Weights for a question with so many content words, where goals alternate so much (0 to 1)."""
        long = length_share(question_words)
        shares = ((1 - interleaving) * (1 - long), (1 - interleaving) * long, interleaving)
        parts = (self.lookup, self.background, self.threads)
        return {
            name: sum(share * part.get(name, 0.0) for share, part in zip(shares, parts, strict=True))
            for name in SIGNALS
        }


def length_share(question_words: int) -> float:
    """0 for a short question, 1 for a long message, by the logarithm of its content words."""
    return float(np.clip(np.log2(max(question_words, 1) / _SHORT) / np.log2(_LONG / _SHORT), 0.0, 1.0))


@cache
def shipped_weights() -> Weights:
    """The weights in the package.

    Raises:
        IntentMemError: the file does not fit this release's signals.
    """
    loaded: dict[str, Any] = json.loads(files(__package__).joinpath("fused.json").read_text(encoding="utf-8"))
    unknown = (set(loaded["lookup"]) | set(loaded["background"]) | set(loaded["threads"])) - set(SIGNALS)
    if unknown:
        raise IntentMemError(
            f"fused.json weighs unknown signals: {', '.join(sorted(unknown))}: learn the weights again"
        )
    return Weights(loaded["lookup"], loaded["background"], loaded["threads"], float(loaded["kin"]))


def fused(evidence: Evidence, weights: Weights) -> tuple[Floats, dict[str, Floats]]:
    """Scores (P,) and each signal's share in them; turns that are not eligible get minus infinity."""
    mixed = weights.mixed(evidence.question_words, evidence.interleaving)
    shares = {name: weight * evidence.standardised(name) for name, weight in mixed.items() if weight}
    total = np.zeros(len(evidence.pool), np.float32)
    for share in shares.values():
        total += share
    return _only_eligible(evidence, total), shares


def dense(evidence: Evidence) -> Floats:
    """Cosine to the question, in [-1, 1]."""
    return _only_eligible(evidence, evidence.raw["dense"])


def lexical(evidence: Evidence) -> Floats:
    """BM25 of the turn's own words, speaker and date."""
    return _only_eligible(evidence, evidence.raw["lexical"])


def stitch(evidence: Evidence, plan: Plan, scope: bool = True) -> Floats:
    """Label density first, cosine among equals (STITCH, section 3.3).

    The question's filter F_q holds its best scope, its best event type and its two best entity types; a turn's density
    is the number of the three facets in which it matches. The cosine, in [-1, 1], is halved: it never outweighs one.
    `scope` False leaves the scope out.
    """
    density = hard_density(evidence, plan, scope)
    return _only_eligible(evidence, (density + 0.49 * evidence.raw["dense"]).astype(np.float32))


def hard_density(evidence: Evidence, plan: Plan, by_scope: bool = True) -> Floats:
    """Number of facets matched, 0 to 3, (P,); without `by_scope` 0 to 2."""
    pool = evidence.pool
    columns, at = pool.columns, pool.positions
    density = np.zeros(len(pool), np.float32)
    for facets, most in ((plan.events, 1), (plan.entity_types, 2)):
        wanted = sorted(facets, key=lambda label: -facets[label])[:most]
        density += (np.isin(columns.labels[at], columns.label_codes.of(wanted)) & columns.given[at]).any(axis=1)
    scope = columns.scope[at]
    known = (scope >= 0) & pool.eligible
    if by_scope and known.any():
        best = _closest_scope(scope[known], evidence.raw["dense"][known])
        density += scope == best
    return density


def _closest_scope(scope: np.ndarray[Any, np.dtype[np.int64]], cosine: Floats) -> int:
    """The scope whose three turns closest to the question are closest on average."""
    best, found = -np.inf, -1
    for code in np.unique(scope):
        top = np.sort(cosine[scope == code])[-3:].mean()
        if top > best:
            best, found = float(top), int(code)
    return found


def group_scores(scores: Floats, group: Ints, centroids: Vector, kin: float) -> Floats:
    """Score of each group, (G,): a soft maximum over its turns, and a share of what groups like it score.

    Args:
        scores: (R,), of the turns. The soft maximum is log-sum-exp, as in the loss that the fused weights were learned
            with: several good turns beat one.
        group: (R,), code of each turn's group; every group has a turn.
        centroids: (G, D), L2-normalised mean vector of each.
    """
    top = float(scores.max())
    best = (top + np.log(np.maximum(np.bincount(group, np.exp(scores - top)), 1e-30))).astype(np.float32)
    standing = standardise(best, np.ones(len(best), bool))
    if len(best) < 3 or not kin:
        return standing
    likeness = np.exp(_LIKENESS * (centroids @ centroids.T))
    np.fill_diagonal(likeness, 0.0)
    lent = likeness @ np.maximum(standing, 0.0) / np.maximum(likeness.sum(axis=1), 1e-9)
    return standing + kin * standardise(lent, np.ones(len(best), bool))


def _only_eligible(evidence: Evidence, scores: Floats) -> Floats:
    return np.where(evidence.pool.eligible, scores, -np.inf).astype(np.float32)
