"""From which confidence on an answer may stand: where agreement is certain enough, not where it is so on average."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from intentmem.memory.errors import InputError, MissingExtraError

LEVEL = 0.95
FEWEST = 20


@dataclass(frozen=True, slots=True)
class Threshold:
    """A student keeps its answers at confidences of at least `value`.

    target: agreement that was asked for. coverage: share of decisions kept. agreement: measured among them, with
    `bound`, its one-sided lower confidence bound. n: decisions kept, of the split that it was chosen on.
    """

    target: float
    value: float
    coverage: float
    agreement: float
    bound: float
    n: int


def lower_bound(agreeing: int, n: int, level: float = LEVEL) -> float:
    """One-sided exact binomial lower bound of a share (Clopper and Pearson, 1934).

    Raises:
        MissingExtraError: scipy is absent.
    """
    return _quantile(1 - level, agreeing, n - agreeing + 1) if agreeing else 0.0


def upper_bound(agreeing: int, n: int, level: float = LEVEL) -> float:
    """One-sided exact binomial upper bound of a share; see `lower_bound`."""
    return _quantile(level, agreeing + 1, n - agreeing) if agreeing < n else 1.0


def _quantile(share: float, a: int, b: int) -> float:
    """Of the beta distribution."""
    try:
        from scipy.stats import beta
    except ImportError as error:
        raise MissingExtraError("sentence-transformers", "cpu") from error
    return float(beta.ppf(share, a, b))


def choose_threshold(
    confidence: ArrayLike, agrees: ArrayLike, target: float, level: float = LEVEL, fewest: int = FEWEST
) -> Threshold | None:
    """The lowest threshold at which the lower bound of agreement meets the target; None where none does.

    Args:
        confidence: (N,), of decisions on the calibration split, which no other choice was made on.
        agrees: (N,), whether each agrees with the teacher.
        target: share of agreement, in (0, 1).
        level: of the one-sided bound.
        fewest: decisions that must lie above a threshold.

    Raises:
        InputError: sizes that differ, or a target or level outside (0, 1).
    """
    scores, right = np.asarray(confidence, np.float64), np.asarray(agrees, bool)
    if scores.ndim != 1 or scores.shape != right.shape:
        raise InputError("agrees", f"has the shape {right.shape}, the confidences {scores.shape}")
    if not (0 < target < 1 and 0 < level < 1):
        raise InputError("target", f"is {target} at level {level}", "shares strictly between 0 and 1")
    order = np.argsort(-scores, kind="stable")
    scores, agreeing = scores[order], np.cumsum(right[order])
    # Only after the last of equal confidences: a threshold keeps all of them or none.
    ends = np.flatnonzero(np.append(np.diff(scores) != 0, True)) if len(scores) else np.empty(0, np.int64)
    for end in ends[::-1]:
        kept = int(end) + 1
        if kept < fewest:
            return None
        share = int(agreeing[end]) / kept
        if share >= target and (bound := lower_bound(int(agreeing[end]), kept, level)) >= target:
            value = 0.0 if kept == len(scores) else float(scores[end])
            return Threshold(target, value, kept / len(scores), share, bound, kept)
    return None
