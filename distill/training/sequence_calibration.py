"""What is set after a scope head has been trained: the temperature of its probabilities, and how it chooses by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from intentmem.memory.tasks import Decision, Item, Task

from ..calibration import temperature
from ..evaluation.scope import measure
from ..evaluation.scope_runs import Run
from ..students.sequence import SequenceStudent
from ..students.sequence_features import CANDIDATE, TURN, Matching
from .sequence_head import Case, cases

_BIASES = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0)
_FRESH = (-0.5, 0.0, 0.5)
_CAUTION = 0.1
_PLAIN = 0.02
"""What a bias of 1 must gain: small samples favour one by chance."""


class Alone:
    """A student as a decider of items that come with vectors, without an encoder."""

    name, reads_window = "student", False

    def __init__(self, student: SequenceStudent) -> None:
        self._student = student

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        """As the student decides."""
        return self._student.decide(items)


def calibrated(student: SequenceStudent, matching: Matching, runs: Sequence[Run]) -> SequenceStudent:
    """The student with what `runs` say of its probabilities, and of when to leave a scope or open one.

    Temperatures: under gold history. The score of the previous scope where people chat: what tells shifts best. Where
    an assistant takes part, it and the score of a new scope: what places whole trajectories best.
    """
    gathered = [case for run in runs for case in cases(student, matching, run, forced=True)]
    options = dict(student.options())
    chats, replies = _by_regime(gathered)
    if replies:
        options["temperature"] = _temperature(student, replies)
    if chats:
        options["peer_temperature"] = _temperature(student, chats)
        options["peer_stay_bias"] = max(_BIASES, key=lambda bias: _shift_f1(student, chats, bias) - _PLAIN * abs(bias))
    served = [run for run in runs if any(step.role == "assistant" for step in run.steps)]
    if served:
        trials = [
            options | {"stay_bias": stay, "fresh_bias": fresh} for stay, fresh in product((-0.5, 0.0, 0.5), _FRESH)
        ]
        options = max(
            trials,
            key=lambda trial: _placing(with_options(student, trial), served) - _PLAIN * _size(trial),
        )
    return with_options(student, options)


def _size(options: Mapping[str, object]) -> float:
    return sum(abs(float(str(options[name]))) for name in ("stay_bias", "fresh_bias"))


def _by_regime(gathered: Sequence[Case]) -> tuple[list[Case], list[Case]]:
    """Turns after another user's, and turns after an assistant's."""
    after = TURN.index("after_assistant")
    return [case for case in gathered if not case.turn[after]], [case for case in gathered if case.turn[after]]


def with_options(student: SequenceStudent, options: dict[str, object]) -> SequenceStudent:
    """The same head with other options."""
    return SequenceStudent.from_head(student.task, student.adapter, student.head(), options)


def _temperature(student: SequenceStudent, gathered: Sequence[Case]) -> float:
    """Where several answers are right, the likeliest of them counts."""
    logits, targets = [], []
    for case in gathered:
        scores, _ = student.scores(case.candidates, case.turn)
        logits.append(scores)
        targets.append(int(np.where(case.right, scores, -np.inf).argmax()))
    return temperature(logits, targets)


def _shift_f1(student: SequenceStudent, chats: Sequence[Case], bias: float) -> float:
    hits = gold = given = 0
    for case in chats:
        scores, _ = student.scores(case.candidates, case.turn)
        previous = np.append(case.candidates[:, CANDIDATE.index("previous")] > 0, False)
        leaves = not previous[(scores + bias * previous).argmax()]
        shifts = not (case.right & previous).any()
        hits, gold, given = hits + (leaves and shifts), gold + shifts, given + leaves
    return 2 * hits / max(1, gold + given)


def _placing(student: SequenceStudent, runs: Sequence[Run]) -> float:
    """Online ARI and macro-F1 under gold history, less what a wrong number of scopes costs, averaged over sources."""
    found: dict[str, dict[str, float]] = {}
    for measured in measure(Alone(student), runs, resamples=0):
        found.setdefault(measured.data, {})[measured.metric] = measured.value
    return float(
        np.mean(
            [
                figures["online_ari"] + figures["macro_f1"] - _CAUTION * abs(np.log(figures["scopes_ratio"]))
                for figures in found.values()
            ]
        )
    )
