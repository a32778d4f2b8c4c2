"""A teacher run: decisions of a teacher on trajectories or items, written down as traces.

It may be interrupted at any time and goes on where it stopped: what is in the file is not asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from intentmem.memory.errors import DecisionError, InputError, IntentMemError
from intentmem.memory.protocols import Decider
from intentmem.memory.tasks import Decision, Item, Task

from .recording import RecordingDecider
from .trace_files import TraceFile
from .traces import Trace, belongs

Progress = Callable[[int], None]
"""Told how many more items are done."""
BATCH = 32


@dataclass(frozen=True, slots=True)
class Asked:
    """An item with its place: what stands on its trace beside the answer."""

    item: Item
    conversation: str
    seq: int
    meta: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Collected:
    """What a run came to. `failed`: the first reasons for items that got no usable answer, at most ten."""

    items: int = 0
    kept: int = 0
    known: int = 0
    rejected: int = 0
    failed: list[str] = field(default_factory=list)
    failures: int = 0


def collect(
    task: Task, asked: Sequence[Asked], teacher: RecordingDecider, file: TraceFile, progress: Progress | None = None
) -> Collected:
    """Ask a teacher about items that do not depend on one another, a batch at a time; each batch is on the disk before
    the next is asked.

    An answer off the list of labels never reaches the file; it counts as rejected.
    """
    found = Collected(items=len(asked))
    waiting = [one for one in asked if not _known(task, one, teacher, file, found)]
    if progress is not None:
        progress(found.known)
    for start in range(0, len(waiting), BATCH):
        part = waiting[start : start + BATCH]
        file.append(_kept(task, part, _answers(task, [one.item for one in part], teacher, found), teacher, found))
        if progress is not None:
            progress(len(part))
    return found


def traced(task: Task, one: Asked, decision: Decision, teacher: RecordingDecider) -> Trace:
    """The trace of an answer."""
    trace = teacher.trace(task, one.item, decision)
    return replace(trace, conversation=one.conversation, seq=one.seq, meta={**trace.meta, **one.meta})


def _known(task: Task, one: Asked, teacher: RecordingDecider, file: TraceFile, found: Collected) -> bool:
    key = traced(task, one, Decision((), {}, 0.0, teacher.name), teacher).key
    found.known += key in file.keys
    return key in file.keys


def _answers(task: Task, items: Sequence[Item], teacher: Decider, found: Collected) -> list[Decision | None]:
    """Decisions, None where there is none: a batch that fails is asked one by one, lest one item cost them all."""
    try:
        return list(teacher.decide(task, items))
    except InputError:
        raise
    except IntentMemError as error:
        if len(items) == 1:
            found.failures += 1
            if len(found.failed) < 10:
                found.failed.append(str(error))
            return [None]
    return [answer for item in items for answer in _answers(task, [item], teacher, found)]


def _kept(
    task: Task, part: Sequence[Asked], answers: Sequence[Decision | None], teacher: RecordingDecider, found: Collected
) -> Iterator[Trace]:
    for one, answer in zip(part, answers, strict=True):
        if answer is None:
            continue
        trace = traced(task, one, answer, teacher)
        try:
            task.check(one.item, answer)
            problem = belongs(task, trace)
        except DecisionError as error:
            problem = str(error)
        if problem or answer.decided_by != teacher.name:
            found.rejected += 1
            continue
        found.kept += 1
        yield trace
