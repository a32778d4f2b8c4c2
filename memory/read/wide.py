"""Reading widely where an answer stands in several places: the next of them is seldom beside the one before.

A ranking puts a passage and all that was said around it first. That is right for one answer; of several, the others
then come after the neighbours of the first. So each turn that is read makes its neighbours and the rest of its sitting
a little less wanted, as far as the plan holds that everything matching is needed (EMIR2, section 3.3: a round looks
for what those before it did not bring).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .columns import Floats, Ints

_NEIGHBOUR = 0.6
"""What a turn loses, in units of the fused score, for each turn next to it that is read already."""
_SITTING = 0.3
"""And for each turn of its sitting."""
_FIRST = 5
"""Turns that stay where they are: the best are the best whatever else is needed."""
_SINGLE = ("value", "time", "explanation")
"""Targets that one passage answers."""
_LEAST = 0.05
"""Below this there is nothing to gain, and the ranking stays as it is."""


def width(groups: Mapping[str, Mapping[str, float]], alternation: float) -> float:
    """How widely to read, in [0, 1]: the probability, by the plan, that all that matches is needed and is several.

    Args:
        alternation: in [0, 1]; where many goals share a sitting, what belongs together stands in one of them.
    """
    several = 1.0 - sum(groups["target"][name] for name in _SINGLE)
    found = groups["span"]["all_matching"] * max(0.0, several) * (1.0 - alternation)
    return found if found >= _LEAST else 0.0


def widely(places: Ints, scores: Floats, sittings: Ints, wide: float) -> Ints:
    """The order in which to read the first N turns of a ranking.

    Args:
        places: (N,) into a pool in order of arrival, best first; scores: (N,), theirs; sittings: (N,), theirs by code.
        wide: as `width` gives it, in [0, 1].

    Returns:
        (N,) indices of `places`; the first few stay first.
    """
    wanted = scores.astype(np.float64)
    order = np.empty(len(places), np.int64)
    for rank in range(len(places)):
        best = rank if rank < _FIRST else int(np.argmax(wanted))
        order[rank] = best
        alike = sittings == sittings[best]
        wanted -= wide * (_SITTING * alike + _NEIGHBOUR * (alike & (np.abs(places - places[best]) <= 1)))
        wanted[best] = -np.inf
    return order
