"""Students in service: every task that has one is answered by it, and a new one takes over without a restart."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from intentmem.memory.errors import ArtifactError, DecisionError, IntentMemError
from intentmem.memory.protocols import Decider, ReadSpan, TextKind
from intentmem.memory.tasks import RECORD_SPANS, SCOPE, TASKS, Decision, Item, Task
from intentmem.memory.types import Fingerprint, Vector

from . import artifacts
from .artifacts import Artifact
from .backbone import Backbone
from .registry import Registry
from .span_reader import StudentSpanReader
from .students.base import Encodings, Student
from .students.spans import SpansStudent

_log = logging.getLogger(__name__)


class StudentDecider:
    """Answers with students, and hands on the tasks that have none.

    Args:
        students: by task.
        encodings: of all of them: turns that several tasks ask about are encoded once.
        fallback: answers the other tasks.
        names: who decides, by task, as it stands on decisions; the task's name where it is absent.
        threads: of the encoder, for the whole process; None leaves them as they are.
    """

    name = "students"

    def __init__(
        self,
        students: Mapping[str, Student],
        encodings: Encodings | None,
        fallback: Decider,
        names: Mapping[str, str] | None = None,
        threads: int | None = None,
    ) -> None:
        self.students = dict(students)
        self.encodings = encodings
        self._fallback = fallback
        self.names = dict(names or {})
        self._lock = threading.RLock()
        self.turn_space: TurnSpace | None = None
        if threads is not None and students:
            import torch

            torch.set_num_threads(threads)

    @classmethod
    def of(
        cls, found: Sequence[Artifact], base: Backbone, fallback: Decider, threads: int | None = None
    ) -> StudentDecider:
        """Students of artifacts, each tried on its canary.

        Raises:
            ArtifactError: one of them cannot be used on this base.
        """
        students, encodings = artifacts.assemble(found, base)
        names = {artifact.task.name: artifact.manifest.decider for artifact in found}
        made = cls(students, encodings, fallback, names, threads)
        made.turn_space = next((TurnSpace(one, lambda: made) for one in found if one.task.name == SCOPE.name), None)
        return made

    @property
    def reads_window(self) -> bool:
        """Whether the turns before the present one are rendered: only for a fallback that decides about scopes."""
        return SCOPE.name not in self.students and self._fallback.reads_window

    def decides(self, task: Task) -> bool:
        """Whether a student answers this task as it is declared."""
        student = self.students.get(task.name)
        return student is not None and student.task.hash == task.hash

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        """Decide items; results in order, each with who decided and its share of the time.

        Raises:
            DecisionError: neither a student nor the fallback answers this task.
        """
        if not self.decides(task) or self.encodings is None:
            return self._fallback.decide(task, items)
        started = time.perf_counter()
        with self._lock:
            found = self.students[task.name].decide(items, self.encodings)
        seconds = (time.perf_counter() - started) / max(1, len(items))
        name = self.names.get(task.name, f"student:{task.name}")
        return [replace(decision, decided_by=name, seconds=seconds) for decision in found]

    @property
    def span_reader(self) -> StudentSpanReader | None:
        """What records are read with; None where no student reads values."""
        return StudentSpanReader(lambda: self, lambda: self.names) if self.decides(RECORD_SPANS) else None

    def read_spans(self, texts: Sequence[str], before: Sequence[Sequence[str]]) -> list[tuple[ReadSpan, ...]]:
        """Values of texts, each after what was said before it, oldest first; none where no student reads values."""
        student = self.students.get(RECORD_SPANS.name)
        if not isinstance(student, SpansStudent) or not self.decides(RECORD_SPANS) or self.encodings is None:
            return [()] * len(texts)
        with self._lock:
            return student.read(texts, before, self.encodings)

    def turn_vectors(self, texts: Sequence[str], adapter: str) -> Vector:
        """Turns as one adapter sees them, (N, D), L2-normalised.

        Raises:
            DecisionError: none of the students has this adapter.
        """
        if self.encodings is None or all(student.adapter != adapter for student in self.students.values()):
            raise DecisionError(f"no student here sees turns by {adapter}: it was exchanged")
        if not texts:
            return np.empty((0, self.encodings.encoder.dimension), np.float32)
        with self._lock:
            pooled = np.stack([one.pooled for one in self.encodings.turns(texts, adapter)])
        return np.asarray(pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-9), np.float32)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text by the base's tokenizer, special ones left out."""
        assert self.encodings is not None
        return [len(ids) for ids in self.encodings.encoder.base.bodies(texts)]


class TurnSpace:
    """The vectors in which a student of scopes tells them apart, as an `Embedder` for scope trackers.

    It keeps to one artifact, and to the students that it first asked: what a tracker has stored must not change under
    it when they are exchanged.
    """

    def __init__(self, artifact: Artifact, load: Callable[[], StudentDecider]) -> None:
        self._adapter = artifact.adapter.name
        self._load = load
        self._decider: StudentDecider | None = None
        self._fingerprint = Fingerprint(
            f"student:{self._adapter.partition('@')[0]}",
            f"{self._adapter.partition('@')[2]}{artifact.manifest.base.weights}",
            artifact.manifest.base.dimension,
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """Names the adapter's weights and the base's."""
        return self._fingerprint

    def encode(self, texts: Sequence[str], kind: TextKind) -> Vector:
        """Turns as the adapter sees them: (N, D) float32, L2-normalised. `kind` makes no difference."""
        return self._students().turn_vectors(texts, self._adapter)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text by the base's tokenizer."""
        return self._students().count_tokens(texts)

    def _students(self) -> StudentDecider:
        if self._decider is None:
            self._decider = self._load()
        return self._decider


class ServedStudents:
    """The students of a registry, loaded at the first decision, exchanged when another is promoted.

    An exchange is tried whole: where a canary or anything else fails, those that answer now go on, and `refused` says
    why. With a student of scopes its `turn_space` is exchanged: trackers that hold vectors of the former are replayed.

    Args:
        registry: what is looked at before each call, at the cost of one look at a file's date.
        base: gives the loaded encoder.
        fallback: answers tasks without a student.
        threads: see `StudentDecider`.
        weights: of the base, by which students of other bases are left out; None refuses them when they are loaded.

    Raises:
        ArtifactError: an artifact in use is incomplete or altered.
    """

    name = "students"

    def __init__(
        self,
        registry: Registry,
        base: Callable[[], Backbone],
        fallback: Decider,
        threads: int | None = None,
        weights: str | None = None,
    ) -> None:
        self.registry = registry
        self.refused: IntentMemError | None = None
        self._base, self._fallback, self._threads = base, fallback, threads
        self._weights = weights
        self._stamp = registry.stamp()
        self.artifacts = self._fitting(registry.open(TASKS))
        self._active: StudentDecider | None = None
        self._loading = threading.Lock()

    @property
    def reads_window(self) -> bool:
        """See `StudentDecider.reads_window`."""
        return SCOPE.name not in self.tasks and self._fallback.reads_window

    @property
    def turn_space(self) -> TurnSpace | None:
        """Vectors for scope trackers; None where no student decides about scopes."""
        if self._active is not None or self._stamp != self.registry.stamp():
            return self.active().turn_space
        scope = next((one for one in self.artifacts if one.task.name == SCOPE.name), None)
        return None if scope is None else TurnSpace(scope, self.active)

    @property
    def span_reader(self) -> StudentSpanReader:
        """What records are read with, whichever student reads values then; none reads none."""
        return StudentSpanReader(self.active, lambda: {one.task.name: one.manifest.decider for one in self.artifacts})

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks that students answer, by name."""
        return {artifact.task.name: artifact.task for artifact in self.artifacts}

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        """As `StudentDecider.decide`.

        Raises:
            ArtifactError: the students do not fit the encoder.
            DecisionError: nobody answers this task.
        """
        if self._active is None and task.name not in self.tasks and self._stamp == self.registry.stamp():
            return self._fallback.decide(task, items)
        return self.active().decide(task, items)

    def active(self) -> StudentDecider:
        """The students that answer now.

        Raises:
            ArtifactError: they do not fit the encoder, and none answered before.
        """
        stamp = self.registry.stamp()
        if self._active is None or stamp != self._stamp:
            with self._loading:
                if self._active is None or stamp != self._stamp:
                    self._exchange(stamp)
        assert self._active is not None
        return self._active

    def recheck(self) -> bool:
        """Try the canaries again on what is loaded, as after a device slept, and load anew where one fails.

        Returns:
            Whether everything was as it should be.

        Raises:
            ArtifactError: also what was loaded anew fails.
        """
        active = self.active()
        assert active.encodings is not None
        try:
            artifacts.try_canaries(self.artifacts, active.students, active.encodings)
        except ArtifactError as error:
            _log.warning("students in memory are damaged, they are loaded anew: %s", error)
            with self._loading:
                self._active = StudentDecider.of(self.artifacts, self._base(), self._fallback, self._threads)
            return False
        return True

    def _exchange(self, stamp: tuple[int, int]) -> None:
        first, changed = self._active is None, stamp != self._stamp
        self._stamp = stamp  # also where it fails: one promotion is tried once
        try:
            found = self._fitting(self.registry.open(TASKS)) if changed else self.artifacts
            self._active = StudentDecider.of(found, self._base(), self._fallback, self._threads)
        except IntentMemError as error:
            if first and not changed:
                raise
            self.refused = error
            _log.warning("the students promoted last are not used, those before go on: %s", error)
            if first:
                self._active = StudentDecider.of(self.artifacts, self._base(), self._fallback, self._threads)
            return
        self.artifacts, self.refused = found, None

    def _fitting(self, found: Sequence[Artifact]) -> list[Artifact]:
        return [one for one in found if self._weights in (None, one.manifest.base.weights)]
