"""From a scale and the logit of none to a student: confidence, and what its artifact states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.tasks import Task

from ..backbone import Backbone
from ..calibration import ece, reliability, temperature
from ..encoding import AdaptedEncoder, Adapter
from ..evaluation.candidates import measure
from ..evaluation.intervals import Halves
from ..judging import compare
from ..students.base import Encodings
from ..students.candidates import CandidatesStudent
from ..students.closed import UNSURE, certainty, softmax
from ..traces import Trace
from .closed_fit import platt
from .loop import Curve
from .outcome import Measured, Trained

Floats = NDArray[np.float64]


def finished(
    task: Task,
    scale: float,
    none: float,
    adapter: Adapter,
    base: Backbone,
    curve: Curve,
    dev: Sequence[Trace],
    calibration: Sequence[Trace],
    splits: Mapping[str, tuple[str, ...]],
) -> Trained:
    """The student on its stored adapter, calibrated, and measured on the calibration split.

    Temperature and confidence follow from both splits: of the development split only the epoch was chosen. No choice
    depends on the calibration, so the top-1 of its split is that of unseen conversations; the calibration error is
    measured across: fitted on one half of the conversations, seen on the other.
    """
    encodings = Encodings(AdaptedEncoder(base, (adapter,)), ())
    held = [*dev, *calibration]
    bare = CandidatesStudent(task, adapter.name, scale, none, _options((1.0, 0.0)))
    logits = bare.logits([trace.item() for trace in held], encodings)
    wanted = np.array([_place(trace) for trace in held])
    warmth, line = calibrated(logits, wanted)
    student = CandidatesStudent(task, adapter.name, scale / warmth, none / warmth, _options(line))
    decisions = student.decide([trace.item() for trace in calibration], encodings)
    judged = tuple(compare(task, trace, decision) for trace, decision in zip(calibration, decisions, strict=True))
    error = crossed_ece(logits, wanted, [trace.conversation for trace in held])
    measured = [one for one in measure(task, decisions, calibration) if one.metric != "ece"]
    return Trained(
        student=student,
        adapter=adapter,
        curve=curve,
        measured=(*measured, Measured(task.name, "ece", error, len(held), data="dev+calibration")),
        splits=splits,
        reliability=reliability([one.confidence for one in judged], [one.agrees for one in judged]),
        judged=judged,
    )


def calibrated(logits: Sequence[Floats], wanted: NDArray[np.int64]) -> tuple[float, tuple[float, float]]:
    """A temperature, and slope and offset of the confidence; `wanted` names the right place in each row."""
    warmth = temperature(logits, wanted)
    shares = [softmax(row / warmth) for row in logits]
    right = np.array([int(row.argmax()) == place for row, place in zip(shares, wanted, strict=True)])
    return warmth, platt(np.array([row.max() for row in shares]), right)


def crossed_ece(logits: Sequence[Floats], wanted: NDArray[np.int64], conversations: Sequence[str]) -> float:
    """Calibration error where each half of the conversations is calibrated on the other half."""
    confidence, correct = [], []
    for fitted, seen in Halves(conversations):
        warmth, line = calibrated([logits[place] for place in fitted], wanted[fitted])
        for place in seen:
            shares = softmax(logits[place] / warmth)
            confidence.append(certainty(float(shares.max()), *line))
            correct.append(int(shares.argmax()) == wanted[place])
    return ece(confidence, correct) if confidence else float("nan")


def _place(trace: Trace) -> int:
    return trace.options.ids.index(trace.labels[0]) if trace.labels else len(trace.options.ids)


def _options(line: tuple[float, float]) -> Mapping[str, object]:
    return {"certainty": list(line), "unsure": UNSURE}
