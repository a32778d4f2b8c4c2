"""Intervals and halves by conversation: turns of one conversation are no independent evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
_RESAMPLES = 500
_SEED = 0


def interval(
    conversations: Sequence[str], of: Callable[[Places], float], resamples: int = _RESAMPLES
) -> tuple[float, float]:
    """95% bootstrap interval of a figure, conversations drawn with replacement.

    Args:
        conversations: of each of N examples.
        of: the figure of the examples at these places, which may repeat.
    """
    groups = _places(conversations)
    rng = np.random.default_rng(_SEED)
    drawn = [
        of(np.concatenate([groups[number] for number in rng.integers(0, len(groups), len(groups))]))
        for _ in range(resamples)
    ]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(low), float(high)


class Halves:
    """The two ways of fitting on one half of the conversations and looking at the other; none of fewer than two."""

    def __init__(self, conversations: Sequence[str]) -> None:
        groups = _places(conversations)
        order = np.random.default_rng(_SEED).permutation(len(groups))
        sides = [order[::2], order[1::2]]
        self._sides = [np.concatenate([groups[number] for number in side]) for side in sides if len(side)]

    def __iter__(self) -> Iterator[tuple[Places, Places]]:
        if len(self._sides) == 2:
            yield self._sides[0], self._sides[1]
            yield self._sides[1], self._sides[0]


def _places(conversations: Sequence[str]) -> list[Places]:
    found: dict[str, list[int]] = {}
    for place, name in enumerate(conversations):
        found.setdefault(name, []).append(place)
    return [np.array(places, np.int64) for places in found.values()]
