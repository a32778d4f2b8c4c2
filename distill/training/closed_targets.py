"""What a closed head is to say: soft targets, weights of rare labels, and the check that each label has an example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import Task
from intentmem.memory.types import Vector

from ..students.closed import group_names, label_names
from ..traces import Trace

_SMOOTHING = 0.05


def check_every_label(task: Task, traces: Sequence[Trace]) -> None:
    """Pass traces that hold an example of each label.

    Raises:
        InputError: some label has none.
    """
    seen = {label for trace in traces for label in trace.labels}
    if missing := [name for name in label_names(task) if name not in seen]:
        raise InputError(
            "traces", f"to train {task.name!r} on hold no example of {missing[0]!r}", "collect some, or drop the label"
        )


def targets(task: Task, traces: Sequence[Trace]) -> list[Vector]:
    """(L,) a trace: in each group the teacher's probabilities where it gives them, else its label, smoothed."""
    names, found = group_names(task), []
    for trace in traces:
        parts = []
        for group, label in zip(names, trace.labels, strict=True):
            given = np.array([trace.probabilities.get(name, 0.0) for name in group], np.float32)
            hard = np.array([name == label for name in group], np.float32)
            soft = given / given.sum() if given.sum() > 0 else hard
            parts.append((1 - _SMOOTHING) * soft + np.float32(_SMOOTHING / len(group)))
        found.append(np.concatenate(parts).astype(np.float32))
    return found


def label_weights(task: Task, traces: Sequence[Trace]) -> Vector:
    """(L,): the root of how much rarer a label is than if all of its group were even, within a factor of 3."""
    parts = []
    for place, group in enumerate(group_names(task)):
        counts = np.array([sum(trace.labels[place] == name for trace in traces) for name in group], np.float64)
        parts.append(np.clip(np.sqrt(len(traces) / len(group) / np.maximum(counts, 1)), 1 / 3, 3))
    return np.concatenate(parts).astype(np.float32)
