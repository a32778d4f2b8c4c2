"""Percentile bootstrap over questions (Efron, 1979)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import InputError

_DRAWS_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the ends of its interval, in the unit of the values."""

    mean: float
    low: float
    high: float


def intervals(values: NDArray[np.float64], samples: int, seed: int, level: float = 0.95) -> list[Interval]:
    """Means over questions of several metrics, with their intervals.

    Args:
        values: (Q, M), one row a question, one column a metric. All columns are resampled alike.
        samples: resamples, at least 1.
        seed: equal seeds give equal intervals.
        level: share of the resampled means that lies inside.

    Raises:
        InputError: there are no questions, `samples` is below 1, or a value is not finite.
    """
    if values.ndim != 2 or not len(values):
        raise InputError("values", f"has the shape {values.shape}", "pass at least one question")
    if not np.isfinite(values).all():
        raise InputError("values", "holds a value that is not finite")
    means = resampled_means(values, samples, seed)  # (samples, M)
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    columns = zip(values.mean(axis=0), low, high, strict=True)
    return [Interval(float(mean), float(bottom), float(top)) for mean, bottom, top in columns]


def resampled_means(values: NDArray[np.float64], samples: int, seed: int) -> NDArray[np.float64]:
    """Means of `samples` resamples with replacement of the rows of (Q, M); the result is (samples, M)."""
    if samples < 1:
        raise InputError("samples", f"is {samples}", "at least 1")
    generator = np.random.default_rng(seed)
    size = len(values)
    block = max(1, _DRAWS_AT_ONCE // size)
    means = []
    for start in range(0, samples, block):
        count = min(block, samples - start)
        # How often each question is drawn: a resample's mean is then one row of a matrix product.
        weights = generator.multinomial(size, np.full(size, 1 / size), size=count)  # (count, Q)
        means.append(weights @ values / size)
    return np.concatenate(means)
