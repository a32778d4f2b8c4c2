"""Traces of open tasks as examples: what is read, which labels apply, and which were offered at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import Space, Task

from ..students.open import ONE, SEVERAL
from ..students.open_reading import Reading, read
from ..traces import Trace, belongs


class Example(NamedTuple):
    """One decision. positives: rows of the vocabulary that apply; offered: which set of labels was offered."""

    reading: Reading
    positives: tuple[int, ...]
    offered: int


@dataclass(frozen=True, slots=True)
class Lesson:
    """All that one task is taught.

    Attributes:
        kind: of its head.
        texts: of the L labels of its vocabulary, over all traces; names: what stands before their description.
        offers: (S, L) bool, the labels of each set that was offered: what was not offered is no negative.
        examples: by conversation, in their order there.
    """

    task: Task
    kind: str
    texts: tuple[str, ...]
    offers: NDArray[np.bool_]
    examples: Mapping[str, Sequence[Example]]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the labels."""
        return tuple(label_name(text) for text in self.texts)


def lesson(task: Task, traces: Sequence[Trace]) -> Lesson:
    """The examples of one task; traces whose options hold no label are left out.

    Raises:
        InputError: the task is not open, a trace cannot teach it, or none has a label.
    """
    if task.space is not Space.OPEN:
        raise InputError("tasks", f"{task.name!r} has a {task.space} label space", "this family trains open ones")
    rows: dict[str, int] = {}
    sets: dict[str, int] = {}
    offered: list[list[int]] = []
    examples: dict[str, list[Example]] = {}
    for trace in sorted(traces, key=lambda trace: (trace.conversation, trace.seq)):
        if reason := belongs(task, trace):
            raise InputError("traces", f"{trace.conversation}, turn {trace.seq}, {reason}")
        options = trace.options
        if not options.ids:
            continue
        if options.key not in sets:
            sets[options.key] = len(offered)
            offered.append([rows.setdefault(text, len(rows)) for text in options.texts])
        place = dict(zip(options.ids, options.texts, strict=True)) if trace.labels else {}
        positives = tuple(rows[place[label]] for label in trace.labels)
        found = Example(read(task, trace.item()), positives, sets[options.key])
        examples.setdefault(trace.conversation, []).append(found)
    if not any(example.positives for part in examples.values() for example in part):
        raise InputError("traces", f"of {task.name!r} give no label to anything", "collect traces with labels")
    offers = np.zeros((len(offered), len(rows)), bool)
    for row, places in zip(offers, offered, strict=True):
        row[places] = True
    return Lesson(task, kind_of(task), tuple(rows), offers, examples)


def kind_of(task: Task) -> str:
    """The head of an open task: an order of labels where its metric asks for the best, else each label by itself."""
    return ONE if task.metric == "top1" else SEVERAL


def label_name(text: str) -> str:
    """The name in a label's text `name: description`."""
    return text.partition(": ")[0]
