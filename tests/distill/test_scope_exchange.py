"""A student of scopes is exchanged while a memory runs: its trackers go on in the new student's vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import make_memory

from intentmem.distill import artifacts, families
from intentmem.distill.backbone import Backbone
from intentmem.distill.registry import Registry
from intentmem.distill.runtime import ServedStudents, StudentDecider, TurnSpace
from intentmem.distill.students.base import Encodings
from intentmem.distill.training.outcome import Trained
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import ArtifactError, DecisionError
from intentmem.memory.memory import Memory
from intentmem.memory.tasks import SCOPE, Candidates, Decision, Item, Task
from intentmem.memory.types import Vector

pytestmark = pytest.mark.usefixtures("mood_family", "nearest_family")
TALK = ("w0 w1 w2", "w20 w21 w22", "w0 w1 w3", "w20 w22 w23")
Making = Callable[..., Path]


class Nearest:
    """Continues the scope whose centre is nearest, if its cosine reaches the threshold, (1,)."""

    def __init__(self, task: Task, adapter: str, threshold: Vector) -> None:
        self.task, self.adapter, self._threshold = task, adapter, threshold

    @classmethod
    def from_head(cls, task: Task, adapter: str, head: Mapping[str, Vector], options: Mapping[str, object]) -> Nearest:
        return cls(task, adapter, head["threshold"])

    def head(self) -> Mapping[str, Vector]:
        return {"threshold": self._threshold}

    def options(self) -> Mapping[str, object]:
        return {}

    def decide(self, items: Sequence[Item], encodings: Encodings) -> list[Decision]:
        found = []
        for item in items:
            offered = item.candidates
            if item.vector is None or offered.vectors is None or not len(offered):
                found.append(Decision((), {}, 1.0, self.adapter))
                continue
            cosines = offered.vectors @ item.vector
            best = int(cosines.argmax())
            labels = (offered.ids[best],) if cosines[best] >= self._threshold[0] else ()
            found.append(Decision(labels, {}, 1.0, self.adapter))
        return found


@pytest.fixture
def nearest_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(families.CLASSES, "nearest", f"{Nearest.__module__}:{Nearest.__qualname__}")


@pytest.fixture
def made(trained: Trained, tiny: Backbone, tmp_path: Path) -> Making:
    """Students of scopes that differ in their threshold, or in the vectors that they see too."""

    def make(threshold: float, strength: float = 1.0) -> Path:
        weights = {
            name: array * np.float16(strength if "lora_B" in name else 1) if array.dtype == np.float16 else array
            for name, array in trained.adapter.weights.items()
        }
        vector = np.eye(1, tiny.dimension, dtype=np.float32)[0]
        canary = Item({"turn": "w1"}, Candidates(("s1",), ("one",), vector[None]), vector)
        student = Nearest(SCOPE, "mood", np.array([threshold], np.float32))
        adapter = replace(trained.adapter, weights=weights)
        whole = replace(trained, student=student, adapter=adapter, canary=(canary,), judged=())
        return artifacts.save(whole, tmp_path / f"scope-{threshold}-{strength}", tiny).folder

    return make


@pytest.fixture
def own(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "registry", tmp_path / "shipped")


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that were encoded for trackers so far."""
    seen: list[str] = []
    real = TurnSpace.encode

    def watched(self: TurnSpace, texts: Sequence[str], kind: str) -> Vector:
        seen.extend(texts)
        return real(self, texts, kind)  # type: ignore[arg-type]

    monkeypatch.setattr(TurnSpace, "encode", watched)
    return seen


def opened(folder: Path, students: ServedStudents) -> Memory:
    memory = make_memory(folder, decider=students, turn_space=lambda: students.turn_space)
    for text in TALK:
        memory.add(text, namespace="n")
    return memory


def fingerprints(memory: Memory) -> dict[str, int]:
    rows = memory.store.database.read(
        "SELECT fingerprint, count(*) FROM embedding WHERE view = 'scope' GROUP BY fingerprint"
    )
    return {str(name): int(count) for name, count in rows}


def scopes(memory: Memory) -> list[str]:
    return [str(turn["scope"]) for turn in memory.list(namespace="n")["results"]]


def test_another_head_over_the_same_vectors_goes_on_without_encoding_anything_again(
    made: Making, own: Registry, tiny: Backbone, folder: Path, encoded: list[str]
) -> None:
    own.promote(made(-1.0), tiny, SCOPE)
    students = ServedStudents(own, lambda: tiny, BaselineDecider())
    with opened(folder, students) as memory:
        assert len(set(scopes(memory))) == 1
        version = own.promote(made(2.0), tiny, SCOPE).version
        memory.add("w0 w1 w4", namespace="n")
        assert len(set(scopes(memory))) == 2
        assert encoded == [*TALK, "w0 w1 w4"]
        assert len(fingerprints(memory)) == 1
    assert students.artifacts[0].manifest.version == version and students.refused is None


def test_trackers_are_replayed_in_the_vectors_of_a_student_that_sees_turns_otherwise(
    made: Making, own: Registry, tiny: Backbone, folder: Path, encoded: list[str]
) -> None:
    own.promote(made(0.9), tiny, SCOPE)
    students = ServedStudents(own, lambda: tiny, BaselineDecider())
    with opened(folder, students) as memory:
        before = scopes(memory)
        own.promote(made(0.9, strength=3.0), tiny, SCOPE)
        memory.add("w0 w1 w4", namespace="n")
        assert encoded == [*TALK, *TALK, "w0 w1 w4"]
        assert sorted(fingerprints(memory).values()) == [len(TALK), len(TALK) + 1]
        assert scopes(memory)[: len(TALK)] == before
        state = memory.pipeline._states.current(memory.store.namespaces.ordinal("n"))
        [tracker] = state.trackers.values()
        assert tracker.turns == len(TALK) + 1
        space = students.turn_space
        assert space is not None
        kept = tracker.state()["turns_kept"].reshape(-1, tiny.dimension)
        for vector in space.encode(["w0 w1 w3", "w0 w1 w4"], "passage"):
            assert np.abs(kept - vector).max(axis=1).min() < 1e-5

        own.rollback("scope")
        encoded.clear()
        memory.add("w20 w21 w24", namespace="n")
        assert sorted(encoded) == ["w0 w1 w4", "w20 w21 w24"], "what the former student saw is still stored"


def test_a_block_under_way_when_the_student_is_exchanged_is_decided_again(
    made: Making, own: Registry, tiny: Backbone, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.promote(made(0.9), tiny, SCOPE)
    other = made(0.9, strength=3.0)
    students = ServedStudents(own, lambda: tiny, BaselineDecider())
    with opened(folder, students) as memory:
        real, asked = students.decide, []

        def decide(task: Task, items: Sequence[Item]) -> list[Decision]:
            if task == SCOPE:
                asked.append(len(items))
                if len(asked) == 1:
                    own.promote(other, tiny, SCOPE)
            return real(task, items)

        monkeypatch.setattr(students, "decide", decide)
        assert memory.add("w0 w1 w4", namespace="n")["status"] == "done"
        assert asked == [1, 1]
        assert sorted(fingerprints(memory).values()) == [len(TALK), len(TALK) + 1]


def test_a_student_of_scopes_that_fails_its_canary_leaves_trackers_as_they_are(
    made: Making, own: Registry, tiny: Backbone, folder: Path, encoded: list[str]
) -> None:
    own.promote(made(0.9), tiny, SCOPE)
    students = ServedStudents(own, lambda: tiny, BaselineDecider())
    with opened(folder, students) as memory:
        torn = own.promote(made(0.9, strength=3.0), tiny, SCOPE)
        (torn.folder / "adapter.safetensors").write_bytes(b"torn")
        memory.add("w0 w1 w4", namespace="n")
        assert isinstance(students.refused, ArtifactError)
        assert encoded == [*TALK, "w0 w1 w4"] and len(fingerprints(memory)) == 1


def test_rules_take_over_in_the_embedders_vectors_where_no_student_is_left(
    made: Making, own: Registry, tiny: Backbone, folder: Path
) -> None:
    own.promote(made(0.9), tiny, SCOPE)
    students = ServedStudents(own, lambda: tiny, BaselineDecider())
    with opened(folder, students) as memory:
        own.rollback("scope")
        assert memory.add("w0 w1 w4", namespace="n")["status"] == "done"
        assert students.turn_space is None and fingerprints(memory) != {}
        own.promote(made(0.9), tiny, SCOPE)
        assert memory.add("w0 w1 w5", namespace="n")["status"] == "done"
        assert list(fingerprints(memory).values()) == [len(TALK) + 2]


def test_turns_are_not_seen_by_students_that_were_exchanged_before_anything_was_encoded(
    made: Making, own: Registry, tiny: Backbone
) -> None:
    own.promote(made(0.9), tiny, SCOPE)
    students = ServedStudents(own, lambda: tiny, BaselineDecider())
    early = students.turn_space
    own.promote(made(0.9, strength=3.0), tiny, SCOPE)
    assert early is not None
    with pytest.raises(DecisionError, match="it was exchanged"):
        early.encode(["w1"], "passage")
    assert isinstance(students.active(), StudentDecider)
