"""From the weights of a reader of values to a student: what is chosen on held-out dialogues, and what it measures there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intentmem.memory.protocols import ReadSpan
from intentmem.memory.tasks import Task
from intentmem.memory.types import Turn, Vector

from ..backbone import Backbone
from ..encoding import AdaptedEncoder, Adapter
from ..evaluation.spans import grounded, measure, read_with, turn_id
from ..students.base import Encodings
from ..students.spans import SpansStudent
from ..students.spans_reading import Passage
from ..traces import Trace
from .loop import Curve
from .outcome import Trained

OUTSIDE = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0)
MARGIN = (0.0, 1.0, 2.0, 4.0, 8.0)
NAMING = (0.0, 0.2, 0.35, 0.5)
"""What is tried, the first of equals winning: see the options of `SpansStudent`."""
Encoded = list[tuple[Passage, list[Vector]]]


def finished(
    task: Task,
    head: Mapping[str, Vector],
    plain: Mapping[str, object],
    adapter: Adapter,
    base: Backbone,
    curve: Curve,
    parts: Mapping[str, Sequence[Trace]],
    splits: Mapping[str, tuple[str, ...]],
) -> Trained:
    """The student on its stored adapter. What it decides by is chosen on the dev split, its figures are of calibration."""
    encodings = Encodings(AdaptedEncoder(base, (adapter,)), ())

    def made(outside: float, margin: float, naming: float) -> SpansStudent:
        return SpansStudent(task, adapter.name, head, {**plain, "outside": outside, "margin": margin, "naming": naming})

    dev, first = list(parts["dev"]), made(0.0, 0.0, 0.0)
    names, encoded, episodes = first.names(encodings), _encoded(first, dev, encodings), grounded(dev)

    def figure(metric: str, *chosen: float) -> float:
        ready = _Ready(dev, made(*chosen), encoded, names)
        found = measure(dev, read_with(ready, dev, episodes), intervals=False)
        return next(one.value for one in found if one.metric == metric and one.group == "all")

    outside = max(OUTSIDE, key=lambda one: figure("span_f1", one, 0.0, 0.0))
    margin = max(MARGIN, key=lambda one: figure("property_f1", outside, one, 0.0))
    naming = max(NAMING, key=lambda one: figure("property_f1", outside, margin, one))
    student, held = made(outside, margin, naming), list(parts["calibration"])
    ready = _Ready(held, student, _encoded(student, held, encodings), names)
    measured = measure(held, read_with(ready, held, grounded(held)))
    return Trained(student=student, adapter=adapter, curve=curve, measured=tuple(measured), splits=splits)


def _encoded(student: SpansStudent, traces: Sequence[Trace], encodings: Encodings) -> Encoded:
    texts = [str(trace.fields["text"]) for trace in traces]
    near = [trace.fields.get("before", ()) for trace in traces]
    return list(student.encoded(texts, [[one] if isinstance(one, str) else list(one) for one in near], encodings))


class _Ready:
    """A reader of turns that were encoded beforehand."""

    name = "student"

    def __init__(self, traces: Sequence[Trace], student: SpansStudent, encoded: Encoded, names: Vector) -> None:
        self._spans = {
            turn_id(trace): student.spans(passage, states, names)
            for trace, (passage, states) in zip(traces, encoded, strict=True)
        }

    def read(self, turns: Sequence[Turn]) -> list[tuple[ReadSpan, ...]]:
        return [self._spans[turn.id] for turn in turns]
