"""From the weights of a reader of values to a student: what held-out dialogues choose, and what it measures there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intentmem.memory.protocols import ReadSpan
from intentmem.memory.tasks import Task
from intentmem.memory.types import Turn, Vector

from ..backbone import Backbone
from ..calibration import reliability
from ..encoding import AdaptedEncoder, Adapter
from ..evaluation.spans import grounded, measure, read_with, turn_id
from ..judging import compare
from ..students.base import Encodings
from ..students.spans import SpansStudent
from ..students.spans_reading import Passage, before_of
from ..traces import Trace
from .loop import Curve
from .outcome import Trained

OUTSIDE = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0)
MARGIN = (0.0, 1.0, 2.0, 4.0, 8.0)
YIELDS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
NAMING = (0.0, 0.2, 0.3, 0.4, 0.5)
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
    """The student on its stored adapter. Dev chooses what it decides by; its figures are of calibration."""
    encodings = Encodings(AdaptedEncoder(base, (adapter,)), ())

    def made(outside: float = 0.0, margin: float = 0.0, yields: float = 0.0, naming: float = 0.0) -> SpansStudent:
        chosen = {"outside": outside, "margin": margin, "yields": yields, "naming": naming}
        return SpansStudent(task, adapter.name, head, {**plain, **chosen})

    dev, first = list(parts["dev"]), made()
    names, encoded, episodes = first.names(encodings), _encoded(first, dev, encodings), grounded(dev)

    def figure(metric: str, *chosen: float) -> float:
        ready = _Ready(dev, made(*chosen), encoded, names)
        found = measure(dev, read_with(ready, dev, episodes), intervals=False)
        return next(one.value for one in found if one.metric == metric and one.group == "all")

    outside = max(OUTSIDE, key=lambda one: figure("span_f1", one))
    margin = max(MARGIN, key=lambda one: figure("property_f1", outside, one))
    yields = max(YIELDS, key=lambda one: figure("property_f1", outside, margin, one))
    naming = max(NAMING, key=lambda one: figure("property_f1", outside, margin, yields, one))
    student, held = made(outside, margin, yields, naming), list(parts["calibration"])
    ready = _Ready(held, student, _encoded(student, held, encodings), names)
    measured = measure(held, read_with(ready, held, grounded(held)))
    judged = tuple(compare(task, one, student.decision(one.item(), ready.spans[turn_id(one)])) for one in held)
    return Trained(
        student=student,
        adapter=adapter,
        curve=curve,
        measured=tuple(measured),
        splits=splits,
        reliability=reliability([one.confidence for one in judged], [one.agrees for one in judged]),
        judged=judged,
    )


def _encoded(student: SpansStudent, traces: Sequence[Trace], encodings: Encodings) -> Encoded:
    texts = [str(trace.fields["text"]) for trace in traces]
    return list(student.encoded(texts, [before_of(trace.fields) for trace in traces], encodings))


class _Ready:
    """A reader of turns that were encoded beforehand."""

    name = "student"

    def __init__(self, traces: Sequence[Trace], student: SpansStudent, encoded: Encoded, names: Vector) -> None:
        self.spans = {
            turn_id(trace): student.spans(passage, states, names)
            for trace, (passage, states) in zip(traces, encoded, strict=True)
        }

    def read(self, turns: Sequence[Turn]) -> list[tuple[ReadSpan, ...]]:
        return [self.spans[turn.id] for turn in turns]
