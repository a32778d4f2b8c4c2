"""Words of a question in the turns of a pool: BM25 over fields, the neighbours of a turn among them.

A turn of a conversation is found by what was said around it. Instead of indexing neighbours' words with each turn, term
frequencies are spread along the conversation when a question comes: the same score, and no copy of any text.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..store import Store
from ..store.lexical import Postings
from .columns import Columns, Floats, Ints
from .kept import Kept

K1, B = 1.2, 0.4
"""Saturation and length normalisation of BM25."""
PREVIOUS = (0.5, 0.4, 0.3, 0.2, 0.1)
FOLLOWING = (0.4, 0.3, 0.2, 0.1)
"""Weight of what was said one, two, ... turns before and after, within the sitting."""
_LENGTH_PRIOR = 3.0
_CACHED_TERMS = 4096


class PostingCache:
    """Postings looked up last; dropped when the namespace changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept = Kept[tuple[int, str], tuple[tuple[int, int, int], Postings]](_CACHED_TERMS)

    def get(self, columns: Columns, term: str) -> Postings:
        """Where a term occurs, as of the columns."""
        key = (columns.namespace, term)
        version = (columns.epoch, len(columns), columns.last_intent)
        found = self._kept.get(key)
        if found is not None and found[0] == version:
            return found[1]
        postings = self._store.lexical.postings(columns.namespace, term)
        self._kept.put(key, (version, postings))
        return postings


@dataclass(frozen=True, slots=True)
class Pool:
    """Turns that are scored together, in order of trajectory and time.

    positions: (P,) into the columns. eligible: (P,) which of them may be returned; the others only lend context.
    shifts: for each distance d in -5..-1, 1..4 the (P,) weight with which a turn hears the one d places on. goal: (P,)
    code of the goal that each serves, `NO_SCOPE` where it has none yet.
    """

    columns: Columns
    positions: Ints
    eligible: NDArray[np.bool_]
    shifts: dict[int, Floats]
    goal: Ints

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def session(self) -> Ints:
        """Code of each turn's sitting, (P,)."""
        return self.columns.session[self.positions]

    @property
    def sessions(self) -> int:
        """How many sittings the namespace has."""
        return len(self.columns.sessions.names)

    @property
    def rows(self) -> Ints:
        """Integer keys of the turns, (P,)."""
        return self.columns.rows[self.positions]

    def places(self, rows: Ints) -> tuple[Ints, Ints]:
        """Where rows are in the pool: indices into the pool, and indices into `rows` of those that are in it."""
        order = np.argsort(self.rows, kind="stable")
        ordered = self.rows[order]
        at = np.searchsorted(ordered, rows)
        inside = np.flatnonzero((at < len(ordered)) & (ordered[np.minimum(at, len(ordered) - 1)] == rows))
        return order[at[inside]], inside


def make_pool(columns: Columns, positions: Ints, eligible: Ints, goals: Ints | None = None) -> Pool:
    """A pool of positions, of which `eligible` may be returned.

    Args:
        goals: (N,) code of each turn's goal, by position; the scopes that they were placed in where None.
    """
    order = np.lexsort((columns.seq[positions], columns.trajectory[positions]))
    ordered = positions[order]
    session, seq = columns.session[ordered], columns.seq[ordered]
    shifts: dict[int, Floats] = {}
    for distance, weight in [(-1 - i, w) for i, w in enumerate(PREVIOUS)] + [
        (1 + i, w) for i, w in enumerate(FOLLOWING)
    ]:
        heard = np.zeros(len(ordered), np.float32)
        here, there = _pair(len(ordered), distance)
        heard[here] = weight * ((session[here] == session[there]) & (np.abs(seq[here] - seq[there]) <= abs(distance)))
        shifts[distance] = heard
    goal = (columns.scope if goals is None else goals)[ordered]
    return Pool(columns, ordered, np.isin(ordered, eligible), shifts, goal)


def _pair(n: int, distance: int) -> tuple[slice, slice]:
    """Slices of the turns that have one `distance` places on, and of those."""
    if distance < 0:
        return slice(min(n, -distance), n), slice(0, max(0, n + distance))
    return slice(0, max(0, n - distance)), slice(min(n, distance), n)


def spread(pool: Pool, values: Floats) -> Floats:
    """Values (..., P) with those of the neighbours added, by distance, within the sitting."""
    out = values.copy()
    for distance, weight in pool.shifts.items():
        here, there = _pair(len(pool), distance)
        out[..., here] += weight[here] * values[..., there]
    return out


def frequencies(pool: Pool, terms: list[str], cache: PostingCache, grounding: bool = True) -> tuple[Floats, Floats]:
    """Frequencies of terms in text, with what grounding added to it, and in speaker and date: (T, P) each."""
    text = np.zeros((len(terms), len(pool)), np.float32)
    meta = np.zeros((len(terms), len(pool)), np.float32)
    for at, term in enumerate(terms):
        postings = cache.get(pool.columns, term)
        if len(postings.rows):
            places, found = pool.places(postings.rows)
            text[at, places] = postings.text[found]
            meta[at, places] = postings.meta[found]
        if grounding and len(postings.grounded_rows):
            places, found = pool.places(postings.grounded_rows)
            text[at, places] += postings.grounded[found]
    return text, meta


def rarity(frequency: Floats, eligible: NDArray[np.bool_]) -> Floats:
    """Inverse document frequency of each term over the eligible turns, (T,); 0 for a term that none holds."""
    n = int(eligible.sum())
    holds = (frequency[:, eligible] > 0).sum(axis=1)
    idf = np.log1p((n - holds + 0.5) / (holds + 0.5))
    return np.where(holds > 0, idf, 0.0).astype(np.float32)


def documents(group: Ints, groups: int, frequency: Floats, length: Floats) -> Floats:
    """BM25 of each of `groups` groups of turns as one document, (G,); 0 for one without words.

    Args:
        group: (P,) code of each turn's group. frequency: (T, P) of the terms. length: (P,) of the turns.
    """
    size = np.bincount(group, length, groups).astype(np.float32)
    whole = np.zeros((len(frequency), groups), np.float32)
    for at, row in enumerate(frequency):
        held = np.flatnonzero(row)
        whole[at] = np.bincount(group[held], row[held], groups)
    real = size > 0
    scores = np.zeros(groups, np.float32)
    scores[real] = rarity(whole, real) @ saturated(whole[:, real], size[real])
    return scores


def saturated(frequency: Floats, length: Floats) -> Floats:
    """BM25's damped frequency, (T, P)."""
    if not length.size:
        return np.zeros_like(frequency, np.float32)  # no turn to take a mean of
    padded = length + _LENGTH_PRIOR
    norm = K1 * (1 - B + B * padded / max(float(padded.mean()), 1e-6))
    return np.asarray(frequency * (K1 + 1) / (frequency + norm), np.float32)
