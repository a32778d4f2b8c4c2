"""Students, baselines and a served model on the same examples: quality, calibration and speed in one table."""

from __future__ import annotations

import inspect
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from intentmem.distill.evaluation.similarity import baseline_for
from intentmem.distill.families import family_for
from intentmem.distill.sources import Source, load_examples
from intentmem.distill.traces import Trace
from intentmem.distill.training.outcome import Measured
from intentmem.memory.errors import DecisionError, InputError
from intentmem.memory.protocols import Decider, Embedder, TextKind
from intentmem.memory.tasks import Decision, Item, Space, Task
from intentmem.memory.types import Fingerprint, Vector

from .progress import Progress, silent
from .report import Report, Row, header

if TYPE_CHECKING:
    from intentmem.distill.runtime import StudentDecider

_ALONE = 100
_MODULES = {"sequence": "scope", "open": "labels", "closed": "closed", "candidates": "candidates", "spans": "spans"}
STUDENT, BASELINE, MAJORITY, TEACHER = "student", "baseline", "majority", "teacher"


@dataclass(frozen=True, slots=True)
class StudentsPlan:
    """What to measure. limit: the first so many examples, cut between conversations; None takes all."""

    task: Task
    source: Source
    seed: int = 0
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise InputError("limit", f"is {self.limit}", "at least 1")


@dataclass(frozen=True, slots=True)
class Subjects:
    """Who is measured. student: makes a fresh one, nothing encoded yet. teacher: None where no model is served."""

    student: Callable[[], StudentDecider] | None
    teacher: Decider | None
    embedder: Embedder


def run(
    plan: StudentsPlan, subjects: Subjects, command: str, about: Mapping[str, Any], progress: Progress = silent
) -> Report:
    """Measure all subjects on the same examples.

    Args:
        about: what the report states of the students, such as their version.

    Raises:
        InputError: the source says nothing about the task.
    """
    started = time.perf_counter()
    examples = load_examples([plan.task], [plan.source], plan.seed, evaluation=True)
    traces = _first(examples.of(plan.task), plan.limit)
    corpus = plan.source.name
    rows: list[Row] = []
    names = [
        *([STUDENT] if subjects.student else []),
        BASELINE,
        *([MAJORITY] if family_for(plan.task) != "spans" else []),  # no value comes most often
        *([TEACHER] if subjects.teacher else []),
    ]
    failures: dict[str, int] = {}
    for done, name in enumerate(names):
        progress("subjects", done, len(names))
        try:
            rows += _subject(name, plan.task, traces, subjects, corpus)
        except DecisionError:
            failures[name] = len(traces)  # it answers no such task
    if subjects.teacher is not None and subjects.student is not None:
        rows += _against_teacher(plan.task, traces, subjects, corpus)
    progress("subjects", len(names), len(names))
    configuration = {"task": plan.task.name, "task_hash": plan.task.hash, "seed": plan.seed, "limit": plan.limit}
    return Report(
        header(
            "students",
            configuration,
            command,
            time.perf_counter() - started,
            failures,
            "+".join(examples.hashes.values()),
            examples=len(traces),
            conversations=len({trace.conversation for trace in traces}),
            students=dict(about),
        ),
        rows,
    )


def _subject(name: str, task: Task, traces: Sequence[Trace], subjects: Subjects, corpus: str) -> list[Row]:
    if name == STUDENT and subjects.student is not None:
        alone = _alone(subjects.student(), task, traces)
        clocked = _Clocked(subjects.student())
        found = measured(clocked, task, traces, None)
    else:
        decider = baseline_for(task, subjects.embedder)
        if name == MAJORITY:
            decider = MajorityDecider(task, traces)
        elif name == TEACHER and subjects.teacher is not None:
            decider = subjects.teacher
        clocked = _Clocked(decider)
        found = measured(clocked, task, traces, subjects.embedder)
        alone = np.array(clocked.each) if name == TEACHER else np.empty(0)
    rows = _rows(found, corpus, name)
    if name != MAJORITY and (speed := clocked.per_second()):
        rows.append(Row(corpus, name, "all", "turns_per_s", speed, None, None, clocked.decided))
    if len(alone):
        milliseconds = float(np.percentile(alone, 95) * 1000)
        rows.append(Row(corpus, name, "all", "p95_ms", milliseconds, None, None, len(alone)))
    return rows


def measured(decider: Decider, task: Task, traces: Sequence[Trace], embedder: Embedder | None) -> list[Measured]:
    """Figures of a decider on traces of one task, as its family measures them."""
    module = import_module(f"intentmem.distill.evaluation.{_MODULES[family_for(task)]}")
    evaluate: Callable[..., list[Measured]] = module.evaluate
    more = {"task": task} if "task" in inspect.signature(evaluate).parameters else {}
    return evaluate(decider, traces, embedder, **more)


def _rows(found: Sequence[Measured], corpus: str, subject: str) -> list[Row]:
    def end(value: float) -> float | None:
        return None if math.isnan(value) else value

    return [
        Row(corpus, subject, one.group, one.metric, one.value, end(one.low), end(one.high), one.n)
        for one in found
        if not math.isnan(one.value)
    ]


def _against_teacher(task: Task, traces: Sequence[Trace], subjects: Subjects, corpus: str) -> list[Row]:
    """The student's figures where the teacher's answers are taken for right."""
    assert subjects.teacher is not None and subjects.student is not None
    answers = subjects.teacher.decide(task, _with_vectors(task, traces, subjects.embedder))
    told = [replace(trace, labels=answer.labels) for trace, answer in zip(traces, answers, strict=True)]
    found = measured(subjects.student(), task, told, None)
    return _rows(found, f"{corpus}, labels by {subjects.teacher.name}", STUDENT)


def _with_vectors(task: Task, traces: Sequence[Trace], embedder: Embedder) -> list[Item]:
    items = [trace.item() for trace in traces]
    texts = [str(item.fields[task.fields[0].name]) for item in items]
    return [replace(item, vector=row) for item, row in zip(items, embedder.encode(texts, "passage"), strict=True)]


def _alone(decider: StudentDecider, task: Task, traces: Sequence[Trace]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Seconds of decisions asked one by one, on texts not encoded before."""
    part = traces[:: max(1, len(traces) // _ALONE)][:_ALONE]
    items = [trace.item() for trace in part]
    if task.space is Space.OPEN and items:
        decider.decide(task, items[:1])  # the vocabulary is encoded once, not for each turn
    found = []
    for item in items:
        started = time.perf_counter()
        if decider.turn_space is not None:  # candidates come with vectors of their own: a turn costs its one pass
            decider.turn_space.encode([str(item.fields["turn"])], "passage")
        else:
            decider.decide(task, [item])
        found.append(time.perf_counter() - started)
    return np.array(found)


def _first(traces: Sequence[Trace], limit: int | None) -> list[Trace]:
    """The first conversations that hold so many traces together; the last of them may exceed it."""
    if limit is None or len(traces) <= limit:
        return list(traces)
    kept: set[str] = set()
    count = 0
    sizes = Counter(trace.conversation for trace in traces)
    for name in dict.fromkeys(trace.conversation for trace in traces):
        if count >= limit:
            break
        kept.add(name)
        count += sizes[name]
    return [trace for trace in traces if trace.conversation in kept]


class MajorityDecider:
    """What comes most often, whatever is asked; of scopes, the one that the turn before belongs to."""

    name = MAJORITY
    reads_window = False

    def __init__(self, task: Task, traces: Sequence[Trace]) -> None:
        columns = zip(*(trace.labels for trace in traces), strict=True) if task.space is Space.CLOSED else ()
        self._closed = tuple(Counter(column).most_common(1)[0][0] for column in columns)
        counts = Counter(label for trace in traces for label in trace.labels)
        self._ranked = [label for label, _ in counts.most_common()]
        self._none = sum(not trace.labels for trace in traces) * 2 > len(traces)

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        """The same for every item, as far as it is offered."""
        return [self._decision(task, item) for item in items]

    def _decision(self, task: Task, item: Item) -> Decision:
        previous = item.candidates.signals.get("is_previous")
        if task.space is Space.CLOSED:
            labels = self._closed
        elif previous is not None and len(previous):
            labels = (item.candidates.ids[int(previous.argmax())],)
        else:
            offered = set(item.candidates.ids)
            labels = () if self._none else tuple(label for label in self._ranked if label in offered)[:1]
        return Decision(labels, dict.fromkeys(labels, 1.0), 1.0, self.name)


class _Clocked:
    """A decider whose time is kept, encoding included."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self.decided = 0
        self.each: list[float] = []
        self._seconds = 0.0
        space = getattr(decider, "turn_space", None)
        self.turn_space = None if space is None else _ClockedSpace(space)
        self.span_reader = getattr(decider, "span_reader", None)

    @property
    def name(self) -> str:
        return self._decider.name

    @property
    def reads_window(self) -> bool:
        return self._decider.reads_window

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        started = time.perf_counter()
        found = self._decider.decide(task, items)
        self._seconds += time.perf_counter() - started
        self.decided += len(items)
        self.each += [decision.seconds for decision in found]
        return found

    def per_second(self) -> float:
        """Decisions a second, 0 where nothing was decided."""
        if not self.decided or not self._seconds:
            return 0.0
        encoding = self.turn_space.each if self.turn_space is not None else 0.0
        return 1 / (self._seconds / self.decided + encoding)


class _ClockedSpace:
    def __init__(self, space: Embedder) -> None:
        self._space = space
        self._seconds, self._texts = 0.0, 0

    @property
    def fingerprint(self) -> Fingerprint:
        return self._space.fingerprint

    @property
    def each(self) -> float:
        """Seconds a text."""
        return self._seconds / max(1, self._texts)

    def encode(self, texts: Sequence[str], kind: TextKind) -> Vector:
        started = time.perf_counter()
        found = self._space.encode(texts, kind)
        self._seconds += time.perf_counter() - started
        self._texts += len(texts)
        return found

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._space.count_tokens(texts)
