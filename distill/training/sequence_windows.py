"""Windows of trajectories that a scope encoder learns from: who may answer whom, as numbers.

Where each session is of one goal, windows are of sessions drawn from all over the trajectory and cut short: returns
then reach back further than a window of adjacent turns would.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.deciders.cues import strip_speaker
from intentmem.memory.write.scopes import RECENT

from ..evaluation.scope_runs import Run

_KEEP = 0.9
_SESSION_TURNS = 4
_LEAST_SESSIONS = 8

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Q decided turns of n turns, and for each the K goals before it; -1 stands for no such turn.

    texts: n. query: (Q,) places of the decided turns. last_assistant, last_user, opening: (Q, K) places.
    recent: (Q, K, RECENT) places. centroid: (Q, K, n) weights. numbers: (Q, K, len(BOOK)). turn: (Q, 3): after an
    assistant, session known, session starts. target: (Q,) goal, K for a new one. here: (Q, K) whether there is a goal.
    """

    source: str
    texts: tuple[str, ...]
    query: Ints
    last_assistant: Ints
    last_user: Ints
    opening: Ints
    recent: Ints
    centroid: Floats
    numbers: Floats
    turn: Floats
    target: Ints
    here: NDArray[np.bool_]


BOOK = ("previous", "previous_same", "previous_other", "age")


def windows(run: Run, size: int, rng: random.Random) -> Iterator[Window]:
    """Windows of about `size` turns that cover a run once."""
    sessions = _single_goal_sessions(run)
    if sessions is None:
        first = rng.randrange(size) if len(run.steps) > size else 0
        starts = [0, *range(first, len(run.steps), size)] if first else range(0, len(run.steps), size)
        chosen = [list(range(a, b)) for a, b in zip(starts, [*starts[1:], len(run.steps)], strict=True)]
    else:
        short = [session[:_SESSION_TURNS] for session in sessions]
        order = list(range(len(short)))
        rng.shuffle(order)
        count = max(2, size // _SESSION_TURNS)
        groups = [sorted(order[start : start + count]) for start in range(0, len(order), count)]
        chosen = [[place for session in group for place in short[session]] for group in groups]
    for places in chosen:
        window = _window(run, places)
        if window is not None:
            yield window


def _single_goal_sessions(run: Run) -> list[list[int]] | None:
    if any(step.session is None for step in run.steps):
        return None
    sessions = [list(group) for _, group in groupby(range(len(run.steps)), key=lambda at: run.steps[at].session)]
    pure = all(len({run.gold[place] for place in session}) == 1 for session in sessions)
    return sessions if pure and len(sessions) >= _LEAST_SESSIONS else None


def _window(run: Run, places: Sequence[int]) -> Window | None:
    """The window of these turns of a run; None where nothing in it is to be decided."""
    rows: list[_Row] = []
    goals: dict[str, _Goal] = {}
    before: int | None = None
    for at, place in enumerate(places):
        step, gold = run.steps[place], run.gold[place]
        if before is not None and step.role == "user":
            rows.append(_Row.of(run, places, at, goals))
        if gold not in goals:
            goals[gold] = _Goal(at, len(goals))
        goals[gold].add(at, step.role == "user", step.session)
        before = place
    return _stacked(run, places, rows, len(goals)) if rows else None


class _Goal:
    def __init__(self, opening: int, number: int) -> None:
        self.opening, self.number = opening, number
        self.last_user = self.last_assistant = -1
        self.turns: list[int] = []
        self.sessions: set[str | None] = set()

    def add(self, at: int, by_user: bool, session: str | None) -> None:
        if by_user:
            self.last_user = at
        else:
            self.last_assistant = at
        self.turns.append(at)
        self.sessions.add(session)


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    at: int
    target: int
    turn: tuple[float, float, float]
    goals: tuple[tuple[int, int, int, list[int], tuple[float, ...]], ...]

    @classmethod
    def of(cls, run: Run, places: Sequence[int], at: int, goals: dict[str, _Goal]) -> _Row:
        step, last = run.steps[places[at]], run.steps[places[at - 1]]
        previous = run.gold[places[at - 1]]
        known = float(step.session is not None)
        made = []
        for name, goal in goals.items():
            here = float(name == previous)
            same = known * (step.session in goal.sessions)
            numbers = (here, here * same, here * known * (1 - same), float(np.log1p(at - goal.turns[-1])))
            made.append((goal.last_assistant, goal.last_user, goal.opening, list(goal.turns), numbers))
        gold = goals.get(run.gold[places[at]])
        return cls(
            at,
            -1 if gold is None else gold.number,
            (float(last.role != "user"), known, known * (step.session != last.session)),
            tuple(made),
        )


def _stacked(run: Run, places: Sequence[int], rows: Sequence[_Row], most: int) -> Window:
    count, n = len(rows), len(places)
    shape = (count, most)
    last_assistant, last_user, opening = (np.full(shape, -1, np.int64) for _ in range(3))
    recent = np.full((*shape, RECENT), -1, np.int64)
    centroid = np.zeros((*shape, n), np.float32)
    numbers = np.zeros((*shape, len(BOOK)), np.float32)
    here = np.zeros(shape, np.bool_)
    for q, row in enumerate(rows):
        for k, (assistant, user, first, turns, booked) in enumerate(row.goals):
            last_assistant[q, k], last_user[q, k], opening[q, k] = assistant, user, first
            latest = turns[-RECENT:]
            recent[q, k, : len(latest)] = latest
            centroid[q, k, turns] = _KEEP ** np.arange(len(turns) - 1, -1, -1)
            numbers[q, k], here[q, k] = booked, True
    return Window(
        run.source,
        tuple(strip_speaker(run.steps[place].text) for place in places),
        np.array([row.at for row in rows]),
        *(last_assistant, last_user, opening, recent, centroid, numbers),
        np.array([row.turn for row in rows], np.float32),
        np.array([row.target if row.target >= 0 else most for row in rows]),
        here,
    )
