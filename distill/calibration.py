"""Scores that mean what they say: temperature (Guo et al., 2017, section 4.2), isotonic regression, and their error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intentmem.memory.errors import InputError, MissingExtraError

Floats = NDArray[np.float64]
_LOWEST, _HIGHEST = 0.05, 20.0


@dataclass(frozen=True, slots=True)
class Isotonic:
    """A rising step function with straight lines between its knots. scores, values: N each, both rising."""

    scores: tuple[float, ...]
    values: tuple[float, ...]

    def __call__(self, scores: ArrayLike) -> Floats:
        """Calibrated probabilities of scores of any shape."""
        return np.asarray(np.interp(np.asarray(scores, np.float64), self.scores, self.values), np.float64)


def isotonic(scores: ArrayLike, correct: ArrayLike) -> Isotonic:
    """Fit on a split of its own: (N,) scores, and (N,) whether each was right.

    The ends are kept off 0 and 1 by one example's worth of doubt, which N examples cannot rule out.

    Raises:
        InputError: no examples, or sizes that differ.
        MissingExtraError: scikit-learn is absent.
    """
    x, y = _pair(scores, correct)
    try:
        from sklearn.isotonic import IsotonicRegression
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "train") from error
    doubt = 1 / (len(x) + 2)
    fitted = IsotonicRegression(y_min=doubt, y_max=1 - doubt, out_of_bounds="clip").fit(x, y)
    return Isotonic(
        tuple(float(v) for v in fitted.X_thresholds_),
        tuple(float(v) for v in fitted.y_thresholds_),
    )


def softmax(logits: ArrayLike, temperature: float = 1.0) -> Floats:
    """Probabilities over the last axis; -inf stands for an option that is not there."""
    scaled = np.asarray(logits, np.float64) / temperature
    scaled = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return np.asarray(scaled / scaled.sum(axis=-1, keepdims=True), np.float64)


def temperature(logits: Sequence[ArrayLike] | NDArray[np.floating], targets: ArrayLike) -> float:
    """The temperature that makes `softmax(logits / temperature)` most likely.

    Args:
        logits: N rows; they may differ in length, as candidates do.
        targets: (N,) index of the right option in each row.

    Raises:
        InputError: no rows, sizes that differ, or a target outside its row.
        MissingExtraError: scipy is absent.
    """
    rows = padded_rows(logits)
    right = np.asarray(targets, np.int64)
    if right.shape != (len(rows),) or not len(rows):
        raise InputError("targets", f"has the shape {right.shape} for {len(rows)} rows of logits")
    places = np.arange(len(rows))
    if (right < 0).any() or (right >= rows.shape[1]).any() or not np.isfinite(rows[places, right]).all():
        raise InputError("targets", "names an option that its row does not have")
    try:
        from scipy.optimize import minimize_scalar
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "train") from error

    def surprise(log_temperature: float) -> float:
        share = softmax(rows, float(np.exp(log_temperature)))[places, right]
        return float(-np.log(np.maximum(share, 1e-300)).mean())

    found = minimize_scalar(surprise, bounds=(np.log(_LOWEST), np.log(_HIGHEST)), method="bounded")
    return float(np.exp(found.x))


def padded_rows(logits: Sequence[ArrayLike] | NDArray[np.floating]) -> Floats:
    """Rows of logits as one (N, K) matrix, short ones filled up with -inf."""
    rows = [np.asarray(row, np.float64) for row in logits]
    filled = np.full((len(rows), max((len(row) for row in rows), default=0)), -np.inf)
    for target, row in zip(filled, rows, strict=True):
        target[: len(row)] = row
    return filled


def ece(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> float:
    """Expected calibration error over bins of equal width: mean distance of confidence and accuracy, in [0, 1].

    Raises:
        InputError: no examples, sizes that differ, or a confidence outside [0, 1].
    """
    filled = reliability(confidence, correct, bins)
    return float(sum(n * abs(mean - accuracy) for mean, accuracy, n in filled) / sum(n for *_, n in filled))


def reliability(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> tuple[tuple[float, float, int], ...]:
    """(mean confidence, accuracy, n) of each bin of equal width that holds anything, lowest first.

    Raises:
        InputError: as for `ece`.
    """
    x, y = _pair(confidence, correct)
    if (x < 0).any() or (x > 1).any():
        raise InputError("confidence", "has values outside [0, 1]")
    places = np.minimum((x * bins).astype(np.int64), bins - 1)
    return tuple(
        (float(x[inside].mean()), float(y[inside].mean()), int(inside.sum()))
        for number in range(bins)
        for inside in (places == number,)
        if inside.any()
    )


def _pair(scores: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(scores, np.float64), np.asarray(correct, np.float64)
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise InputError("correct", f"has the shape {y.shape}, the scores {x.shape}", "one of each an example")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("scores", "holds a value that is not finite")
    return x, y
