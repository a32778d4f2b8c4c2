"""Grouping by likeness: average linkage (UPGMA; Sokal and Michener, 1958), cut where groups are no longer alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .columns import Floats, Ints


def grouped(alike: Floats, least: float) -> Ints:
    """Groups by code, (N,), in order of first appearance.

    The two groups that are most alike on average become one, again and again, until none are alike by `least`.

    Args:
        alike: (N, N), symmetric; minus infinity for what must not be together. The diagonal is not looked at.
    """
    n = len(alike)
    member = np.arange(n)
    if n < 2:
        return member
    between = alike.astype(np.float64)
    np.fill_diagonal(between, -np.inf)
    size = np.ones(n)
    best = between.argmax(axis=1)
    score = between[np.arange(n), best]
    while score[top := int(score.argmax())] >= least:
        kept, gone = sorted((top, int(best[top])))
        _join(between, size, kept, gone)
        member[member == gone] = kept
        stale = np.flatnonzero((best == kept) | (best == gone))
        stale = np.union1d(stale, [kept])
        best[stale] = between[stale].argmax(axis=1)
        score[stale] = between[stale, best[stale]]
        closer = between[:, kept] > score
        best[closer], score[closer] = kept, between[closer, kept]
        score[gone] = -np.inf
    # The lower of two is kept: a group is called by its first member.
    return np.unique(member, return_inverse=True)[1].astype(np.int64)


def _join(between: NDArray[np.float64], size: NDArray[np.float64], kept: int, gone: int) -> None:
    """Make two groups one: likeness to others is the mean over all pairs of members."""
    whole = size[kept] + size[gone]
    mean = (size[kept] * between[kept] + size[gone] * between[gone]) / whole
    mean[[kept, gone]] = -np.inf
    between[kept], between[:, kept] = mean, mean
    between[gone], between[:, gone] = -np.inf, -np.inf
    size[kept] = whole
