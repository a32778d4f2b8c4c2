"""Traces: what a teacher decided, as the examples that a student learns from and the record of what happened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from intentmem.memory.tasks import Candidates, Item, Space, Task

GOLD = "gold:"
"""What the names of teachers begin with that are annotations of a corpus."""


@dataclass(frozen=True)
class LabelSet:
    """The options of many traces, written once. ids, texts: N each, in the order in which they were offered."""

    ids: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """Digest of ids and texts in their order."""
        return hashlib.sha256(json.dumps([self.ids, self.texts]).encode()).hexdigest()[:16]


NO_LABELS = LabelSet()


@dataclass(frozen=True, slots=True)
class Trace:
    """One decision of a teacher.

    Attributes:
        task, task_hash: what was decided, and under which declaration of it.
        fields: the task's inputs.
        labels: what the teacher chose, best first; empty means none of the candidates, or no label.
        teacher: who decided; `gold:<corpus>` for annotations.
        conversation: trajectory that it belongs to: splits never cut through one.
        seq: its place there; traces of `scope` are read in this order.
        options: candidates that were offered; empty for a closed space.
        probabilities: of the labels considered, where the teacher gives them.
        prompt: digest of the prompt's wording, "" for annotations.
        turn: id of the turn that was decided for; the trace is erased with it.
        time: when it was decided.
        meta: what a trainer may need beside the fields: `role`, `session`, `turn_time` (ISO), `group` (seen, unseen),
            `template`, `source`.
    """

    task: str
    task_hash: str
    fields: Mapping[str, str | tuple[str, ...]]
    labels: tuple[str, ...]
    teacher: str
    conversation: str
    seq: int = 0
    options: LabelSet = NO_LABELS
    probabilities: Mapping[str, float] = field(default_factory=dict)
    prompt: str = ""
    turn: str | None = None
    time: datetime | None = None
    meta: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Identity of the question and of who answered it: equal ones are duplicates."""
        asked = [self.task, self.task_hash, self.teacher, self.prompt, self.conversation, self.seq, self.options.key]
        fields = sorted(
            (name, list(value) if not isinstance(value, str) else value) for name, value in self.fields.items()
        )
        return hashlib.sha256(json.dumps([asked, fields]).encode("utf-8", "surrogatepass")).hexdigest()[:24]

    def item(self) -> Item:
        """The question again, as a decider takes it; without vectors."""
        return Item(dict(self.fields), Candidates(self.options.ids, self.options.texts))


def belongs(task: Task, trace: Trace) -> str:
    """Why a trace cannot teach a task, "" where it can."""
    if trace.task != task.name:
        return f"is of task {trace.task!r}"
    if trace.task_hash != task.hash:
        return f"is of another version of {task.name!r} ({trace.task_hash}, now {task.hash})"
    if task.space is Space.CLOSED:
        known = [{option.name for option in group.options} for group in task.groups]
        if len(trace.labels) != len(known) or any(
            name not in group for name, group in zip(trace.labels, known, strict=False)
        ):
            return f"has labels {list(trace.labels)}, not one of each group"
    elif unknown := {label for label in trace.labels if label not in trace.options.ids}:
        return f"has labels that were not offered: {sorted(unknown)}"
    return ""
