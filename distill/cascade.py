"""A student that knows when to ask: confident answers stand, the rest goes to the teacher and becomes examples."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from intentmem.memory.errors import DecisionError, InputError, ModelError
from intentmem.memory.protocols import Decider, Embedder, SpanReader
from intentmem.memory.tasks import Decision, Item, Task

from .audit import Audit
from .judging import agree
from .recording import RecordingDecider
from .thresholds import Threshold, choose_threshold
from .traces import Trace

__all__ = ["CascadeDecider", "OnTrace", "Threshold", "choose_threshold", "threshold_for_share"]

_log = logging.getLogger(__name__)
OnTrace = Callable[[Trace], object]
"""Told each decision of the teacher, to be kept as an example."""
ALWAYS = 1.0 + 1e-9
"""A threshold that no confidence reaches."""


class CascadeDecider:
    """Student first, teacher where its confidence falls short.

    Args:
        student: answers everything once.
        teacher: answers again below the threshold; None keeps the student's answer and flags it as unsure.
        thresholds: by task, see `choose_threshold`; a task without one is escalated whole.
        on_trace: told every answer of the teacher.
        budget: escalations in all, audits included; None sets no bound. When it is used up, answers are flagged.
        audit: sends a sample of confident answers to the teacher as well, and demotes a student that drifts.
        baseline: answers for a demoted student where there is no teacher.
        prompts: digests of the teacher's prompts by name, for the traces.
    """

    def __init__(
        self,
        student: Decider,
        teacher: Decider | None,
        thresholds: Mapping[str, float],
        on_trace: OnTrace | None = None,
        *,
        budget: int | None = None,
        audit: Audit | None = None,
        baseline: Decider | None = None,
        prompts: Mapping[str, str] | None = None,
    ) -> None:
        self._student, self._teacher, self._baseline = student, teacher, baseline
        self._thresholds = dict(thresholds)
        self._audit = audit
        self._on_trace = on_trace
        self._recorder = None if teacher is None else RecordingDecider(teacher, _kept_by_caller, prompts)
        self._left = budget
        self._lock = threading.Lock()
        self.escalated = 0
        self.failed = 0

    @property
    def name(self) -> str:
        """Student and teacher; each decision says which of the two it was."""
        return f"cascade({self._student.name}, {self._teacher.name if self._teacher else 'no teacher'})"

    @property
    def reads_window(self) -> bool:
        """Whether either of them does."""
        return self._student.reads_window or (self._teacher is not None and self._teacher.reads_window)

    @property
    def turn_space(self) -> Embedder | None:
        """The student's, for scope trackers."""
        found: Embedder | None = getattr(self._student, "turn_space", None)
        return found

    @property
    def span_reader(self) -> SpanReader | None:
        """The student's, for records."""
        found: SpanReader | None = getattr(self._student, "span_reader", None)
        return found

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        """Decide items; results in order.

        Raises:
            DecisionError: nobody answers this task.
        """
        demoted = self._audit is not None and self._audit.demoted(task.name)
        if demoted and self._teacher is None and self._baseline is not None:
            return self._baseline.decide(task, items)
        try:
            decisions = self._student.decide(task, items)
        except DecisionError:
            if self._teacher is None:
                raise
            return self._teacher.decide(task, items)
        threshold = ALWAYS if demoted else self._thresholds.get(task.name, ALWAYS)
        doubtful = [at for at, one in enumerate(decisions) if one.confidence < threshold]
        audited = self._sampled(task, [at for at, one in enumerate(decisions) if one.confidence >= threshold])
        answers = self._ask(task, items, self._within_budget([*doubtful, *audited]))
        for at in audited:
            if self._audit is not None and at in answers:
                self._audit.record(task.name, agree(task, decisions[at].labels, answers[at].labels))
        for at in doubtful:
            decisions[at] = answers[at] if at in answers else replace(decisions[at], unsure=True)
        return decisions

    def _sampled(self, task: Task, confident: Sequence[int]) -> list[int]:
        if self._audit is None or self._teacher is None:
            return []
        return [at for at in confident if self._audit.draws(task.name)]

    def _within_budget(self, wanted: Sequence[int]) -> Sequence[int]:
        with self._lock:
            if self._teacher is None or self._left is None:
                return wanted
            kept = wanted[: self._left]
            self._left -= len(kept)
        return kept

    def _ask(self, task: Task, items: Sequence[Item], places: Sequence[int]) -> dict[int, Decision]:
        """The teacher's answers by place; where it fails or answers off the list, the student's stand."""
        if not places or self._teacher is None:
            return {}
        found: dict[int, Decision] = {}
        try:
            given = self._teacher.decide(task, [items[at] for at in places])
        except (ModelError, DecisionError) as error:
            self.failed += len(places)
            _log.warning("%s: the teacher gave no answer, the student's stand: %s", task.name, error)
            return found
        for at, answer in zip(places, given, strict=True):
            try:
                found[at] = task.check(items[at], answer)
            except DecisionError as error:
                self.failed += 1
                _log.warning("%s: the teacher's answer is not used: %s", task.name, error)
                continue
            if self._on_trace is not None and self._recorder is not None:
                self._on_trace(self._recorder.trace(task, items[at], answer))
        self.escalated += len(found)
        return found


def _kept_by_caller(traces: Sequence[Trace]) -> None:
    """Nothing: `on_trace` keeps them."""


def threshold_for_share(confidence: ArrayLike, share: float) -> float:
    """The threshold below which that share of decisions lies: for a budget of escalations instead of a target."""
    scores = np.sort(np.asarray(confidence, np.float64))
    if not len(scores) or not 0 <= share <= 1:
        raise InputError("share", f"is {share} of {len(scores)} decisions", "a share between 0 and 1 of at least one")
    place = int(share * len(scores))
    return float(scores[place]) if place < len(scores) else float(np.nextafter(scores[-1], 2))
