"""Decisions beside what the teacher said, whatever the task: what thresholds, gates and suspects are drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from intentmem.memory.tasks import Decision, Item, Space, Task

from .traces import Trace

if TYPE_CHECKING:
    from intentmem.memory.protocols import Decider

NONE = "none"
"""How a decision that chooses nothing is written."""
_SHOWN = 120
_BATCH = 256


@dataclass(frozen=True, slots=True)
class Judged:
    """One decision and what the teacher said. text: the beginning of the task's main field."""

    confidence: float
    agrees: bool
    expected: str
    predicted: str
    text: str = ""
    conversation: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def agree(task: Task, given: Sequence[str], expected: Sequence[str]) -> bool:
    """Whether two answers say the same: for several open labels as sets, the first label for one scored by its top."""
    if task.space is Space.OPEN:
        if task.metric == "top1":
            return (given[0] in expected) if given else not expected
        return set(given) == set(expected)
    return tuple(given) == tuple(expected)


def judge(decider: Decider, task: Task, traces: Sequence[Trace], items: Sequence[Item] | None = None) -> list[Judged]:
    """Ask a decider what a teacher was asked. items: the questions, where they hold more than the traces do."""
    asked = list(items) if items is not None else [trace.item() for trace in traces]
    decisions: list[Decision] = []
    for start in range(0, len(asked), _BATCH):
        decisions += decider.decide(task, asked[start : start + _BATCH])
    return [compare(task, trace, decision) for trace, decision in zip(traces, decisions, strict=True)]


def compare(task: Task, trace: Trace, decision: Decision) -> Judged:
    """One decision beside one trace."""
    names = dict(zip(trace.options.ids, trace.options.texts, strict=True))
    return Judged(
        decision.confidence,
        agree(task, decision.labels, trace.labels),
        spoken(trace.labels, names),
        spoken(decision.labels, names),
        main_text(task, trace)[:_SHOWN],
        trace.conversation,
    )


def spoken(labels: Sequence[str], names: Mapping[str, str]) -> str:
    """Labels as a reader knows them."""
    return ", ".join(names.get(label) or label for label in labels) or NONE


def main_text(task: Task, trace: Trace) -> str:
    """The task's main field as one text."""
    value = trace.fields.get(task.fields[0].name, "")
    return value if isinstance(value, str) else "\n".join(value)
