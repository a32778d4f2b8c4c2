"""Whether a student may answer in its teacher's place, and where it fails if it may not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from intentmem.memory.errors import ArtifactError, InputError

from .judging import Judged
from .thresholds import Threshold, choose_threshold

TARGET = 0.9
USEFUL = 0.3
"""Least share of decisions that a student must be able to take over."""
_SHOWN = 5
_FEWEST = 5


@dataclass(frozen=True, slots=True)
class Weak:
    """A label that the student misses: agreement among the n examples the teacher gave it, and what it says instead."""

    label: str
    agreement: float
    n: int
    instead: str


@dataclass(frozen=True, slots=True)
class Parity:
    """What a gate found. threshold: None where the target is met at no confidence. inputs: sure, and wrong."""

    target: float
    least: float
    agreement: float
    n: int
    threshold: Threshold | None
    labels: tuple[Weak, ...]
    inputs: tuple[Judged, ...]

    @property
    def passes(self) -> bool:
        """Whether the target is met at a useful coverage."""
        return self.threshold is not None and self.threshold.coverage >= self.least

    def check(self, name: str) -> None:
        """Pass a student that passes.

        Raises:
            ArtifactError: it does not; says where it fails.
        """
        if self.passes:
            return
        reached = f"at {self.threshold.coverage:.0%} of decisions" if self.threshold else "at no confidence"
        labels = "; ".join(f"{w.label} {w.agreement:.0%} of {w.n}, says {w.instead}" for w in self.labels)
        inputs = "; ".join(f"{one.text!r} is {one.expected}, says {one.predicted}" for one in self.inputs[:2])
        raise ArtifactError(
            f"student {name}",
            f"agrees with its teacher in {self.agreement:.0%} of {self.n} calibration examples; an agreement of "
            f"{self.target:.0%} is certain {reached}, {self.least:.0%} are asked for. It fails on labels: "
            f"{labels or 'none in particular'}. On inputs: {inputs or 'none where it is sure'}",
            "collect more traces of these, correct them with `intentmem distill suspects`, lower --target, "
            "or promote with --force",
        )


def parity(judged: Sequence[Judged], target: float = TARGET, least: float = USEFUL) -> Parity:
    """Judge a student by its answers on the calibration split.

    Args:
        target: agreement that must be certain, see `choose_threshold`.
        least: share of decisions at which it must be.

    Raises:
        InputError: there are no answers, or shares outside (0, 1].
    """
    if not judged:
        raise InputError("student", "was saved without answers on its calibration split", "train it again, or --force")
    if not 0 < least <= 1:
        raise InputError("coverage", f"is {least}", "a share above 0, at most 1")
    threshold = choose_threshold([one.confidence for one in judged], [one.agrees for one in judged], target)
    wrong = sorted((one for one in judged if not one.agrees), key=lambda one: -one.confidence)
    agreement = 1 - len(wrong) / len(judged)
    return Parity(target, least, agreement, len(judged), threshold, _weak(judged), tuple(wrong[:_SHOWN]))


def _weak(judged: Sequence[Judged]) -> tuple[Weak, ...]:
    by_label: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        by_label[one.expected].append(one)
    found = []
    for label, rows in by_label.items():
        missed = [one.predicted for one in rows if not one.agrees]
        if missed and len(rows) >= min(_FEWEST, len(judged)):
            found.append(Weak(label, 1 - len(missed) / len(rows), len(rows), Counter(missed).most_common(1)[0][0]))
    return tuple(sorted(found, key=lambda weak: (weak.agreement, -weak.n))[:_SHOWN])
