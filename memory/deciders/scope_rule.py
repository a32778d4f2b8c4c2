"""Which scope a turn belongs to, from continuity and similarity (STITCH, section 3.1: continuity is the default).

Each scope gets a score, a new one a fixed threshold, and a softmax makes them probabilities::

    score(k)    = weight * cosine(turn, centroid k) * coherence(k) ** coherence_power
    previous   += continuity + short * exp(-words / 6) + affirms + refers - opens      (cues of the turn's wording)
    previous   += session * exp(-session_turns / session_fade)    where it was active in the turn's session
    previous   -= sitting                                         where it was not
    score(none) = weight * threshold

Coherence keeps a scope from growing more alike to everything as it grows, which would make it an absorbing state.
The weight of the session fades for the same reason: a short one tends to serve one goal, a long one does not.
An assistant's or a tool's turn inherits the previous scope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..tasks import Candidates, Item
from .cues import read_cues

NONE = "none"
"""Key of the probability that no candidate fits: the turn opens a new scope."""

_INHERITED = 0.97


@dataclass(frozen=True, slots=True)
class ScopeWeights:
    """Weights of the scope rule, found by `python -m intentmem.distill.tune_scope`.

    Attributes:
        weight: of the cosine; the inverse temperature of the choice.
        threshold: cosine below which a scope other than the previous one is less likely than a new one.
        coherence_power: how far a scope's spread lowers its cosines; 1 makes them the mean cosine to its turns.
        continuity: for the previous scope.
        session: for the previous scope where it was active in the turn's session; fades by e each `session_fade` turns.
        session_fade: in turns.
        sitting: against the previous scope where a new session has begun since.
        short: for the previous scope, at a turn of no words; falls by a factor e each 6 words.
        affirms: for the previous scope, where the turn starts like a reply.
        refers: for the previous scope, where the turn points back with a pronoun.
        opens: against the previous scope, where the turn starts like a request.
        temperature: divides the scores before the softmax, which calibrates it without changing the choice.
    """

    weight: float = 8.0
    threshold: float = 0.34
    coherence_power: float = 0.35
    continuity: float = 1.0
    session: float = 3.0
    session_fade: float = 15.0
    sitting: float = 6.0
    short: float = 2.0
    affirms: float = 3.0
    refers: float = 1.0
    opens: float = 2.0
    temperature: float = 1.0


def choose_scope(item: Item, weights: ScopeWeights) -> tuple[str | None, dict[str, float]]:
    """The scope's id, None for a new one, and the probabilities of all candidates and of `none`.

    Raises:
        InputError: the item has no vector, or its candidates have none.
    """
    candidates = item.candidates
    if not len(candidates):
        return None, {NONE: 1.0}
    previous = _signal(candidates, "is_previous", 0.0)
    if _signal(candidates, "role_assistant", 0.0)[0] and previous.any():
        return _inherit(candidates, int(previous.argmax()))
    scores = np.append(_scores(item, previous, weights), weights.weight * weights.threshold)
    best = int(scores.argmax())
    shares = np.exp((scores - scores[best]) / weights.temperature)
    shares /= shares.sum()
    probabilities = dict(zip((*candidates.ids, NONE), shares.tolist(), strict=True))
    return (candidates.ids[best] if best < len(candidates) else None), probabilities


def _scores(item: Item, previous: NDArray[np.float64], weights: ScopeWeights) -> NDArray[np.float64]:
    vectors = item.candidates.vectors
    if item.vector is None or vectors is None:
        raise InputError("scope.vector", "is missing from the turn or its candidates", "encode the turn first")
    cosines = (vectors @ item.vector).astype(np.float64)
    if weights.coherence_power:
        cosines *= _signal(item.candidates, "coherence", 1.0) ** weights.coherence_power
    same_session = _signal(item.candidates, "same_session", 0.5)
    fading = np.exp(-_signal(item.candidates, "session_turns", 0.0) / weights.session_fade)
    stay_seated = (same_session == 1) * weights.session * fading - (same_session == 0) * weights.sitting
    cues = read_cues(str(item.fields["turn"]))
    stay = (
        weights.continuity
        + weights.short * math.exp(-cues.words / 6)
        + weights.affirms * cues.affirms
        + weights.refers * cues.refers
        - weights.opens * cues.opens
    )
    scores: NDArray[np.float64] = weights.weight * cosines + previous * (stay + stay_seated)
    return scores


def _inherit(candidates: Candidates, row: int) -> tuple[str, dict[str, float]]:
    rest = (1 - _INHERITED) / len(candidates)
    probabilities = dict.fromkeys((*candidates.ids, NONE), rest)
    probabilities[candidates.ids[row]] = _INHERITED
    return candidates.ids[row], probabilities


def _signal(candidates: Candidates, name: str, default: float) -> NDArray[np.float64]:
    found = candidates.signals.get(name)
    return np.asarray(np.full(len(candidates), default) if found is None else found, np.float64)
