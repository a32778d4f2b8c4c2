"""From learnt rows to a student: temperatures, confidence, and what its artifact states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import MissingExtraError
from intentmem.memory.tasks import Task
from intentmem.memory.types import Vector

from ..backbone import Backbone
from ..calibration import ece, reliability, temperature
from ..encoding import AdaptedEncoder, Adapter
from ..evaluation.closed import macro_f1, measure
from ..evaluation.intervals import Halves
from ..judging import compare
from ..students.base import Encodings
from ..students.closed import UNSURE, ClosedStudent, group_ends, group_names, label_names, softmax
from ..traces import Trace
from .loop import Curve
from .outcome import Measured, Trained

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """What the loop gave. kind: of head; weights: (L, F); bias: (L,)."""

    task: Task
    kind: str
    weights: Vector
    bias: Vector
    adapter: Adapter
    curve: Curve

    def student(self, temperatures: Sequence[float], line: tuple[float, float]) -> ClosedStudent:
        """With this calibration."""
        options = {
            "kind": self.kind,
            "labels": label_names(self.task),
            "temperatures": list(temperatures),
            "certainty": list(line),
            "unsure": UNSURE,
        }
        return ClosedStudent(self.task, self.adapter.name, self.weights, self.bias, options)


def finished(
    learnt: Learnt,
    base: Backbone,
    dev: Sequence[Trace],
    calibration: Sequence[Trace],
    splits: Mapping[str, tuple[str, ...]],
) -> Trained:
    """The student on its stored adapter, calibrated, and measured on the calibration split.

    Temperatures and the confidence follow from both splits: of the development split only the epoch was chosen, and
    confidence needs as many conversations as there are. No label depends on them, so the F1 of the calibration split is
    that of unseen conversations. The calibration error is measured across: fitted on one half of the conversations,
    seen on the other.
    """
    task = learnt.task
    encodings = Encodings(AdaptedEncoder(base, (learnt.adapter,)), ())
    held = [*dev, *calibration]
    places = [[names.index(label) for names, label in zip(group_names(task), t.labels, strict=True)] for t in held]
    wanted = np.array(places)
    logits = learnt.student([1.0] * len(task.groups), (1.0, 0.0)).logits([trace.item() for trace in held], encodings)
    student = learnt.student(*calibrated(task, logits, wanted))
    decisions = student.decide([trace.item() for trace in calibration], encodings)
    judged = tuple(compare(task, trace, decision) for trace, decision in zip(calibration, decisions, strict=True))
    measured = [one for one in measure(task, decisions, calibration) if one.metric != "ece"]
    error = crossed_ece(task, logits, wanted, [trace.conversation for trace in held])
    measured.append(Measured(task.name, "ece", error, len(held), data="dev+calibration"))
    confusion = Counter((d.labels[0], t.labels[0]) for d, t in zip(decisions, calibration, strict=True))
    return Trained(
        student=student,
        adapter=learnt.adapter,
        curve=learnt.curve,
        measured=tuple(measured),
        splits=splits,
        confusion=dict(confusion),
        reliability=reliability([one.confidence for one in judged], [one.agrees for one in judged]),
        judged=judged,
    )


def calibrated(task: Task, logits: Floats, wanted: NDArray[np.int64]) -> tuple[list[float], tuple[float, float]]:
    """A temperature for each group, and slope and offset of the confidence that all groups are right (Platt, 1999).

    Args:
        logits: (N, L). wanted: (N, G), the right option of each group.
    """
    parts = np.split(logits, group_ends(task), axis=1)
    found = [temperature(part, wanted[:, place]) for place, part in enumerate(parts)]
    together, right = np.ones(len(logits)), np.ones(len(logits), bool)
    for place, (part, warmth) in enumerate(zip(parts, found, strict=True)):
        shares = np.stack([softmax(row / warmth) for row in part])
        together *= shares.max(axis=1)
        right &= shares.argmax(axis=1) == wanted[:, place]
    return found, platt(together, right)


def platt(scores: Floats, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and offset by which the log-odds of scores in (0, 1) become those of being right; slope is positive."""
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "train") from error
    bounded = np.clip(scores, 1e-6, 1 - 1e-6)
    odds = np.log(bounded / (1 - bounded))
    # Targets off 0 and 1 by what N examples cannot rule out (Platt, 1999, section 2.2).
    sure = np.where(right, (right.sum() + 1) / (right.sum() + 2), 1 / ((~right).sum() + 2))

    def surprise(parameters: Floats) -> float:
        z = np.exp(parameters[0]) * odds + parameters[1]
        return float((np.logaddexp(0, z) - sure * z).mean())

    slope, offset = minimize(surprise, np.zeros(2), method="Nelder-Mead").x
    return float(np.exp(slope)), float(offset)


def crossed_ece(task: Task, logits: Floats, wanted: NDArray[np.int64], conversations: Sequence[str]) -> float:
    """Calibration error where each half of the conversations is calibrated on the other half."""
    confidence, correct = [], []
    for fitted, seen in Halves(conversations):
        temperatures, line = calibrated(task, logits[fitted], wanted[fitted])
        for row in seen:
            parts = np.split(logits[row], group_ends(task))
            shares = [softmax(part / warmth) for part, warmth in zip(parts, temperatures, strict=True)]
            together = np.prod([share.max() for share in shares])
            bounded = min(max(float(together), 1e-6), 1 - 1e-6)
            odds = np.log(bounded / (1 - bounded))
            confidence.append(1 / (1 + np.exp(-(line[0] * odds + line[1]))))
            correct.append(all(share.argmax() == wanted[row, g] for g, share in enumerate(shares)))
    return ece(confidence, correct) if confidence else float("nan")


def mean_macro_f1(task: Task, logits: Vector, wanted: Vector) -> tuple[float, dict[str, float]]:
    """Macro-F1 averaged over groups, and of each group, of (N, L) logits against (N, L) target shares."""
    by_group = {}
    ends = group_ends(task)
    for group, given, right in zip(
        task.groups, np.split(logits, ends, axis=1), np.split(wanted, ends, axis=1), strict=True
    ):
        by_group[group.name] = macro_f1(right.argmax(axis=1).tolist(), given.argmax(axis=1).tolist())
    return float(np.mean(list(by_group.values()))), by_group
