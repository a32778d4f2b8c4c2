"""What goes into the training of students and what comes out, whatever their family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from intentmem.memory.tasks import Item

from ..encoding import Adapter
from ..judging import Judged
from ..students.base import Student
from .adapting import LoraShape
from .loop import Curve, LoopConfig, Progress


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How to train. None leaves the choice to the family, which has measured one.

    loop: instead of the family's. epochs: passes over the data at most, in either loop.
    """

    seed: int = 0
    loop: LoopConfig | None = None
    shape: LoraShape | None = None
    checkpoints: Path | None = None
    progress: Progress | None = None
    epochs: int | None = None

    def loop_or(self, chosen: LoopConfig, slices: int = 1) -> LoopConfig:
        """The loop to train with, where the family chose this one.

        Args:
            slices: epochs of the loop that make one pass over the data.
        """
        made = replace(self.loop or chosen, seed=self.seed)
        return made if self.epochs is None else replace(made, epochs=self.epochs * slices)


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure. `group`: all, seen, unseen. `low`, `high`: its 95% bootstrap interval, by conversation."""

    task: str
    metric: str
    value: float
    n: int
    low: float = float("nan")
    high: float = float("nan")
    group: str = "all"
    data: str = ""


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained student with all that its artifact states.

    Attributes:
        adapter: weights, in half precision; students of one adapter carry equal ones.
        measured: on development data, never on data that a choice was made on.
        splits: conversations by split (train, dev, calibration), disjoint.
        canary: inputs whose outputs a loader checks; where empty, they are drawn from the traces.
        confusion: counts by (given, predicted), for the plot; empty where labels are open.
        reliability: (mean confidence, accuracy, n) by bin, after calibration.
        judged: answers on the calibration split, from which thresholds follow; where empty, they are asked for.
    """

    student: Student
    adapter: Adapter
    curve: Curve
    measured: tuple[Measured, ...]
    splits: Mapping[str, tuple[str, ...]]
    data: Mapping[str, str] = field(default_factory=dict)
    confusion: Mapping[tuple[str, str], int] = field(default_factory=dict)
    reliability: tuple[tuple[float, float, int], ...] = ()
    canary: tuple[Item, ...] = ()
    judged: tuple[Judged, ...] = ()
