"""Goals as documents: what was said under each goal, and how it was opened and taken up again.

Where many goals share one sitting, an answer seldom names the goal it serves ("It opens at nine"): the turn that opened
the run of turns does. So a question is held against goals, against runs of turns of one goal, and against the turns
that open such runs; each turn of them is lent the score (the theme of STITCH, section 3.3, without a label in between).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .columns import NO_SCOPE, Floats, Ints
from .words import Pool, documents, rarity, saturated

_MANY_RUNS = 32.0
"""Runs a sitting from which on goals are taken to be fully interleaved."""

_FEW_RETURN, _MOST_RETURN = 0.5, 0.9
"""Share of runs whose goal has several, up to which goals are not taken to be told apart, and from which they are."""

_ONE_RUN = 0.5
"""Damps what a goal that was opened once says of itself."""


@dataclass(frozen=True, slots=True)
class Threads:
    """The runs of a pool: turns of one sitting and goal that follow one another.

    run: (P,) code of each turn's run. opening: (R,) place of the first turn of each. scope: (R,) code of its goal, one
    of its own where it has none. scopes: how many codes there are.
    """

    run: Ints
    opening: Ints
    scope: Ints
    scopes: int

    @property
    def by_turn(self) -> Ints:
        """Code of each turn's goal, (P,)."""
        return self.scope[self.run]


def threads_of(pool: Pool) -> Threads:
    """The runs of a pool, in its order."""
    session, scope = pool.session, pool.goal
    begins = np.ones(len(pool), bool)
    begins[1:] = (session[1:] != session[:-1]) | (scope[1:] != scope[:-1])
    run = np.cumsum(begins) - 1
    opening = np.flatnonzero(begins)
    of_run = scope[opening]
    known = int(scope.max(initial=NO_SCOPE)) + 1
    bare = np.flatnonzero(of_run == NO_SCOPE)
    of_run = of_run.copy()
    of_run[bare] = known + np.arange(len(bare))
    return Threads(run, opening, of_run, known + len(bare))


def alternation(pool: Pool, threads: Threads) -> float:
    """How much goals alternate within sittings: 0 where each sitting is one run, 1 from 32 runs a sitting on."""
    sittings = len(np.unique(pool.session))
    each = len(threads.opening) / max(1, sittings)
    return float(np.clip(np.log2(max(each, 1.0)) / np.log2(_MANY_RUNS), 0.0, 1.0))


def interleaving(pool: Pool, threads: Threads) -> float:
    """`alternation` as far as goals are returned to, in [0, 1]: nothing where few runs are of a goal that has several.

    Goals that are opened once tell little apart: where talk names them in ways that the tracker of scopes does not
    know, returns are taken for new goals, and what a run was opened with is not what its goal is called.
    """
    runs = np.bincount(threads.scope, minlength=1)
    returned = float(runs[runs > 1].sum() / max(1, runs.sum()))
    known = (returned - _FEW_RETURN) / (_MOST_RETURN - _FEW_RETURN)
    return alternation(pool, threads) * float(np.clip(known, 0.0, 1.0))


def word_signals(pool: Pool, threads: Threads, text: Floats) -> dict[str, Floats]:
    """BM25 of goals, of runs and of openings as documents, lent to their turns, (P,) each.

    Args:
        text: (T, P) frequencies of the question's terms.
    """
    length = pool.columns.length[pool.positions]
    by_turn = threads.by_turn
    opened, runs = text[:, threads.opening], len(threads.opening)
    return {
        "scope_words": documents(by_turn, threads.scopes, text, length)[by_turn],
        "run_words": documents(threads.run, runs, text, length)[threads.run],
        "scope_opening": _taken_up(threads, opened)[by_turn],
        "run_opening": (rarity(opened, np.ones(runs, bool)) @ saturated(opened, length[threads.opening]))[threads.run],
    }


def _taken_up(threads: Threads, opened: Floats) -> Floats:
    """How regularly the turns that open a goal's runs say the question's terms, by the terms' rarity, (S,).

    What is said whenever a goal is taken up again names it; what is said once is by the way.
    """
    runs = np.bincount(threads.scope, minlength=threads.scopes)
    said = np.stack([np.bincount(threads.scope, row > 0, threads.scopes) for row in opened])
    share = said / (runs + _ONE_RUN)
    holds = share.sum(axis=1, keepdims=True)
    idf = np.log1p((threads.scopes - holds + 0.5) / (holds + 0.5))
    return np.asarray((idf * share).sum(axis=0), np.float32)


def meaning_signals(threads: Threads, cosine: Floats) -> dict[str, Floats]:
    """How close the question comes to the openings of a turn's goal and run, (P,) each; cosine: (P,)."""
    opened = cosine[threads.opening]
    best = np.full(threads.scopes, -np.inf, np.float32)
    np.maximum.at(best, threads.scope, opened)
    return {"scope_opening_dense": best[threads.by_turn], "run_opening_dense": opened[threads.run]}
