"""Which runs of talk serve one goal, looked at again when they are over.

The tracker of scopes places a turn as it comes, by how it begins (STITCH, section 3.1): where a goal is taken up again
by an allusion, or not named at all, that is a guess. Once a run is over, all that was said in it tells more. So where
what is said is telling, runs are grouped anew by their likeness, with the scopes they were placed in as a hint. Where
little is said beside names ("How much is it?"), scopes stay as they were placed. Stored scopes are not touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..store import Store
from ..store.vectors import VectorIndex
from ..write.numbered import numbered_terms
from .columns import NO_SCOPE, Columns, Floats, Ints
from .kept import Kept
from .likeness import alike, telling
from .linkage import grouped
from .matrix import gathered

_RUNS_A_SITTING = 4
"""Runs a sitting below which goals do not alternate: each sitting has its own."""
_FEWEST, _MOST = 8, 1500
"""Runs to group: few are what they are, and of very many the likeness of each two would take too long."""
_TELLING = 0.8
_LEAST = 0.9
"""Mean likeness from which on runs are of one goal."""
_PLACED_ALIKE = 0.2
"""What it adds to their likeness that runs were placed in one scope."""
_GROWTH = 32
"""Of so many runs, one more has all of them grouped again: half a second at a thousand runs."""
_KEPT = 8


@dataclass(slots=True)
class _Known:
    """What was worked out for a namespace when it had so many runs: terms and, where they tell, goals of its turns by
    position.
    """

    epoch: int
    terms: list[list[str]] = field(default_factory=list)
    runs: int = 0
    goal: Ints | None = None


class Goals:
    """Goals of the namespaces read last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known = Kept[int, _Known](_KEPT)

    def of(self, columns: Columns, index: VectorIndex) -> Ints:
        """Code of the goal of each turn, (N,), by position; `NO_SCOPE` where a turn has none yet.

        Runs that have begun since the last grouping count to the goal of the last run of their scope, until there are
        enough of them to group all again.
        """
        order = np.lexsort((columns.seq, columns.trajectory))
        run = _runs(columns, order)
        count = int(run[-1]) + 1 if len(run) else 0
        sittings = len(np.unique(columns.session))
        if not max(_FEWEST, _RUNS_A_SITTING * sittings) <= count <= _MOST:
            return columns.scope
        known = self._known.get(columns.namespace)
        if known is None or known.epoch != columns.epoch or known.runs > count:
            known = _Known(columns.epoch)
        if count > known.runs + known.runs // _GROWTH:
            known = self._grouped(columns, order, run, known, index)
            self._known.put(columns.namespace, known)
        if known.goal is None:
            return columns.scope
        first = order[np.flatnonzero(np.diff(run, prepend=-1))]
        found = np.empty(len(columns), np.int64)
        found[order] = _with_new(known.goal, first, columns.scope[first])[run]
        return np.where(columns.scope == NO_SCOPE, NO_SCOPE, found)

    def _grouped(self, columns: Columns, order: Ints, run: Ints, known: _Known, index: VectorIndex) -> _Known:
        terms = known.terms + self._terms(columns, len(known.terms))
        vectors, _ = gathered(index, columns.rows)
        pieces = np.split(order, np.flatnonzero(np.diff(run)) + 1)
        goal: Ints | None = None
        if telling(pieces, terms, vectors) >= _TELLING:
            first = np.array([piece[0] for piece in pieces])
            goal = np.empty(len(columns), np.int64)
            goal[order] = grouped(_likeness(columns, first, alike(pieces, terms, vectors)), _LEAST)[run]
        return _Known(columns.epoch, terms, len(pieces), goal)

    def _terms(self, columns: Columns, start: int) -> list[list[str]]:
        """Terms of the turns from a position on; none of one that was removed since."""
        rows = columns.rows[start:].tolist()
        turns = self._store.turns.by_rows(columns.namespace, rows)
        return [numbered_terms(turns[row].searchable_text) if row in turns else [] for row in rows]


def _runs(columns: Columns, order: Ints) -> Ints:
    """Code of the run of each turn, (N,), in their order: turns of one sitting and scope that follow one another."""
    session, scope = columns.session[order], columns.scope[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (session[1:] != session[:-1]) | (scope[1:] != scope[:-1])
    return np.cumsum(begins) - 1


def _with_new(goal: Ints, first: Ints, scope: Ints) -> Ints:
    """Goals of all runs, (R,), by their first turns and scopes: of new ones, that of the last run of their scope, or
    one of their own.
    """
    found, latest, fresh = np.empty(len(first), np.int64), dict[int, int](), int(goal.max()) + 1
    for run, (at, placed) in enumerate(zip(first.tolist(), scope.tolist(), strict=True)):
        if at < len(goal):
            latest[placed] = int(goal[at])
        elif placed not in latest:
            latest[placed], fresh = fresh, fresh + 1
        found[run] = latest[placed]
    return found


def _likeness(columns: Columns, first: Ints, found: Floats) -> Floats:
    """Likeness of runs with what their scopes add, nothing of other trajectories being alike."""
    scope, trajectory = columns.scope[first], columns.trajectory[first]
    together = (scope[:, None] == scope[None]) & (scope[:, None] != NO_SCOPE)
    apart = trajectory[:, None] != trajectory[None]
    return np.asarray(np.where(apart, -np.inf, found + _PLACED_ALIKE * together), np.float32)
