"""Whole trajectories placed by a decider, step by step, as the write path does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

import numpy as np

from intentmem.memory.deciders.cues import strip_speaker
from intentmem.memory.protocols import Decider
from intentmem.memory.tasks import SCOPE, Decision
from intentmem.memory.types import Role, ScopeMove, Vector
from intentmem.memory.write.scopes import ScopeTracker, Step

from ..traces import Trace

Encode = Callable[[Sequence[str]], Vector]
_START = datetime(2025, 1, 1, tzinfo=UTC)
_ROLES: Mapping[str, Role] = {"assistant": "assistant", "system": "system", "tool": "tool"}


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One trajectory to place: its steps, the gold scope of each, and the corpus or teacher that it comes from."""

    id: str
    source: str
    steps: tuple[Step, ...]
    gold: tuple[str, ...]

    @property
    def decided(self) -> list[int]:
        """Places of the turns that are decided: those of users, but the first."""
        return [place for place, step in enumerate(self.steps) if place and step.role == "user"]


@dataclass(slots=True, eq=False)
class Walk:
    """A run as it was placed: the scope of each turn, and for the decided ones move and decision."""

    run: Run
    placed: list[str]
    moves: dict[int, ScopeMove]
    decisions: dict[int, Decision]


def runs_of(traces: Sequence[Trace], encode: Encode) -> list[Run]:
    """Trajectories from traces of `scope`; `encode` gets the bare texts of all turns, without speakers."""
    ordered = sorted(traces, key=lambda trace: (trace.teacher, trace.conversation, trace.seq))
    texts = [str(trace.fields["turn"]) for trace in ordered]
    vectors = encode([strip_speaker(text) for text in texts])
    runs = []
    for (teacher, name), group in groupby(
        zip(ordered, vectors, texts, strict=True), key=lambda row: (row[0].teacher, row[0].conversation)
    ):
        rows = list(group)
        steps = tuple(_step(trace, vector, text, place) for place, (trace, vector, text) in enumerate(rows))
        runs.append(Run(name, teacher, steps, tuple(gold_scopes([trace for trace, *_ in rows]))))
    return runs


def gold_scopes(traces: Sequence[Trace]) -> Iterator[str]:
    """The scope of each turn of one trajectory; one that a turn opens is named by the candidates that follow it."""
    for place, trace in enumerate(traces):
        if trace.labels:
            yield trace.labels[0]
            continue
        following = traces[place + 1].options.ids if place + 1 < len(traces) else ()
        opened = [name for name in following if name not in set(trace.options.ids)]
        yield opened[0] if opened else f"{trace.conversation}#{trace.seq}"


def walk(decider: Decider, runs: Sequence[Run], forced: bool) -> list[Walk]:
    """Place all runs, the n-th turns of all of them together.

    Args:
        forced: the history that each decision sees is gold; else it is what was decided before.
    """
    walks = [Walk(run, [], {}, {}) for run in runs]
    trackers = [ScopeTracker("evaluation", run.id) for run in runs]
    for place in range(max((len(run.steps) for run in runs), default=0)):
        live = [row for row, run in enumerate(runs) if place < len(run.steps)]
        asked = [row for row in live if place and runs[row].steps[place].role == "user"]
        items = [trackers[row].propose(runs[row].steps[place], with_window=decider.reads_window) for row in asked]
        answers = dict(zip(asked, decider.decide(SCOPE, items) if items else [], strict=True))
        for row in live:
            _place(walks[row], trackers[row], place, answers.get(row), forced)
    return walks


def gold_move(run: Run, place: int, known: Sequence[str] | set[str]) -> ScopeMove:
    """The gold move at a place, given the gold scopes before it."""
    if run.gold[place] == run.gold[place - 1]:
        return ScopeMove.CONTINUE
    return ScopeMove.RETURN if run.gold[place] in known else ScopeMove.NEW


def _place(walked: Walk, tracker: ScopeTracker, place: int, decision: Decision | None, forced: bool) -> None:
    step = walked.run.steps[place]
    answer: str | None = tracker.previous
    if decision is not None:
        answer = decision.labels[0] if decision.labels else None
        walked.decisions[place] = decision
        walked.moves[place] = (
            ScopeMove.NEW if answer is None else ScopeMove.CONTINUE if answer == tracker.previous else ScopeMove.RETURN
        )
    goes_to = walked.run.gold[place] if forced else answer
    if goes_to in tracker.scopes and goes_to is not None:
        tracker.place(step, goes_to)
    else:
        goes_to = goes_to or f"scope {len(tracker.scopes)}"
        tracker.open(step, goes_to, goes_to)
    # The scope that was given, not the one that gold then put it in.
    walked.placed.append((answer or f"new {place}") if forced and place else goes_to)


def _step(trace: Trace, vector: Vector, text: str, place: int) -> Step:
    stated = trace.meta.get("turn_time")
    time = datetime.fromisoformat(stated) if stated else _START + timedelta(minutes=place)
    role = _ROLES.get(trace.meta.get("role", ""), "user")
    return Step(np.asarray(vector, np.float32), role, time, trace.meta.get("session"), text)
