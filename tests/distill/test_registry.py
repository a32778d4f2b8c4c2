from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from intentmem.distill import artifacts, registry
from intentmem.distill.backbone import Backbone
from intentmem.distill.registry import Registry, ship
from intentmem.distill.runtime import ServedStudents, StudentDecider
from intentmem.distill.training.outcome import Trained
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import ArtifactError, DecisionError, InputError, StoreError
from intentmem.memory.tasks import PLAN, Item

from .standin import MOOD, MoodStudent, backbone, make_encoder

pytestmark = pytest.mark.usefixtures("mood_family")
Making = Callable[[float], Path]
ASKED = [Item({"turn": "w1 w2 w30"})]


@pytest.fixture
def made(trained: Trained, tiny: Backbone, tmp_path: Path) -> Making:
    """Students that differ in their temperature, each saved in a folder of its own."""

    def make(temperature: float) -> Path:
        head = trained.student.head()
        student = MoodStudent(MOOD, "mood", head["weights"], head["bias"], temperature)
        return artifacts.save(replace(trained, student=student), tmp_path / f"t{temperature}", tiny).folder

    return make


@pytest.fixture
def own(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "registry", tmp_path / "shipped")


def served(own: Registry, tiny: Backbone) -> ServedStudents:
    return ServedStudents(own, lambda: tiny, BaselineDecider())


def test_promotion_and_rollback_lead_there_and_back(made: Making, own: Registry, tiny: Backbone) -> None:
    assert own.current() == {} and own.versions() == []
    first, second = own.promote(made(1.0), tiny), own.promote(made(2.0), tiny)
    assert [one.version for one in own.versions("mood") if one.current] == [second.version]
    back = own.rollback("mood")
    assert back is not None and back.version == first.version
    assert own.rollback("mood") is None and own.current() == {}
    assert own.use("mood", second.version[:6]).current
    with pytest.raises(InputError, match="has no student"):
        own.find("tone")
    with pytest.raises(InputError, match="names 0 of them"):
        own.find("mood", "zzz")


def test_a_shipped_student_answers_until_another_is_promoted(
    made: Making, own: Registry, tiny: Backbone, tmp_path: Path
) -> None:
    place = ship(made(1.0), tmp_path / "shipped")
    assert {path.name for path in place.iterdir()} == {
        "adapter.safetensors",
        "head.safetensors",
        "canary.json",
        "manifest.json",
        "README.md",
    }
    shipped = own.find("mood")
    assert shipped.origin == "shipped"
    artifacts.load(shipped.folder, tiny, MOOD)
    own.promote(made(2.0), tiny)
    assert own.find("mood").origin == "registry"
    back = own.rollback("mood")
    assert back is not None and back.version == shipped.version


def test_promoting_the_same_student_twice_is_no_step(made: Making, own: Registry, tiny: Backbone) -> None:
    own.promote(made(1.0), tiny)
    own.promote(made(2.0), tiny)
    own.promote(made(2.0), tiny)
    assert len(own.versions()) == 2
    back = own.rollback("mood")
    assert back is not None and back.version == artifacts.read(made(1.0)).manifest.version


def test_a_student_that_fails_its_canary_is_not_promoted(made: Making, own: Registry, tmp_path: Path) -> None:
    other = backbone(make_encoder(tmp_path / "other", seed=7), "other")
    with pytest.raises(ArtifactError, match="was trained on tiny"):
        own.promote(made(1.0), other)
    assert own.current() == {}


def test_a_full_disk_leaves_what_answers(
    made: Making, own: Registry, tiny: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = own.promote(made(1.0), tiny)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(registry.shutil, "copy2", full)
    with pytest.raises(StoreError, match="No space left"):
        own.promote(made(2.0), tiny)
    assert own.find("mood").version == first.version and len(own.versions()) == 1


def test_a_pointer_that_cannot_be_read_is_named(own: Registry) -> None:
    own.folder.mkdir()
    (own.folder / "current.json").write_text("{")
    with pytest.raises(ArtifactError, match="delete it and promote again"):
        own.current()


def test_a_running_process_takes_over_what_is_promoted(made: Making, own: Registry, tiny: Backbone) -> None:
    first = own.promote(made(1.0), tiny)
    running = served(own, tiny)
    [before] = running.decide(MOOD, ASKED)
    second = own.promote(made(3.0), tiny)
    [after] = running.decide(MOOD, ASKED)
    assert before.decided_by.endswith(first.version) and after.decided_by.endswith(second.version)
    assert after.confidence < before.confidence
    own.rollback("mood")
    assert running.decide(MOOD, ASKED)[0].decided_by.endswith(first.version)


def test_a_running_process_keeps_the_old_one_where_the_new_one_fails(
    made: Making, own: Registry, tiny: Backbone
) -> None:
    first = own.promote(made(1.0), tiny)
    running = served(own, tiny)
    running.decide(MOOD, ASKED)
    second = own.promote(made(3.0), tiny)
    (second.folder / "head.safetensors").write_bytes(b"torn")
    [after] = running.decide(MOOD, ASKED)
    assert after.decided_by.endswith(first.version)
    assert isinstance(running.refused, ArtifactError)
    own.rollback("mood")
    assert running.decide(MOOD, ASKED)[0].decided_by.endswith(first.version)


def test_l05_a_student_damaged_in_memory_is_found_by_its_canary_and_loaded_anew(
    made: Making, own: Registry, tiny: Backbone
) -> None:
    own.promote(made(1.0), tiny)
    running = served(own, tiny)
    before = running.decide(MOOD, ASKED)[0]
    assert running.recheck()
    encodings = running.active().encodings
    assert encodings is not None
    for weights in next(iter(encodings.encoder._tops.values())).module.encoder.layer[-1].parameters():
        weights.data.zero_()
    assert not running.recheck()
    assert running.decide(MOOD, ASKED)[0].probabilities == before.probabilities


def test_nothing_is_loaded_for_tasks_without_a_student(made: Making, own: Registry, tiny: Backbone) -> None:
    own.promote(made(1.0), tiny)

    def fails() -> Backbone:
        raise AssertionError("loaded")

    running = ServedStudents(own, fails, BaselineDecider())
    assert running.decide(PLAN, [Item({"question": "When did she leave?"})])[0].decided_by == "baseline"
    assert running.turn_space is None
    with pytest.raises(AssertionError, match="loaded"):
        running.decide(MOOD, ASKED)


def test_a_task_declared_otherwise_is_not_the_students(made: Making, tiny: Backbone) -> None:
    decider = StudentDecider.of([artifacts.read(made(1.0))], tiny, BaselineDecider())
    assert decider.decides(MOOD) and not decider.decides(replace(MOOD, question="?"))
    with pytest.raises(DecisionError, match="baseline cannot answer"):
        decider.decide(replace(MOOD, question="?"), ASKED)


def test_deciding_together_or_alone_is_the_same(made: Making, tiny: Backbone) -> None:
    artifact = artifacts.read(made(1.0))
    asked = [Item({"turn": f"w{n} w{n + 1} w{2 * n}"}) for n in range(20)]
    together = StudentDecider.of([artifact], tiny, BaselineDecider()).decide(MOOD, asked)
    apart = StudentDecider.of([artifact], tiny, BaselineDecider())
    for item, one in zip(asked, together, strict=True):
        [alone] = apart.decide(MOOD, [item])
        assert alone.labels == one.labels
        np.testing.assert_allclose(alone.confidence, one.confidence, atol=1e-5)
