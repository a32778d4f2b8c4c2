"""What decides, by the settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from distill.conftest import mood_family, tiny, tiny_folder, trained
from distill.standin import MOOD

from distill import standin
from intentmem.distill import artifacts, registry
from intentmem.distill.backbone import Backbone
from intentmem.distill.cascade import CascadeDecider
from intentmem.distill.registry import Registry
from intentmem.distill.runtime import ServedStudents
from intentmem.distill.training.outcome import Trained
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import InputError
from intentmem.memory.protocols import Decider
from intentmem.memory.tasks import Item
from intentmem.serving.compose import make_client, make_decider, make_embedder, thresholds_of
from intentmem.serving.settings import Settings, load_settings

__all__ = ["mood_family", "tiny", "tiny_folder", "trained"]
pytestmark = pytest.mark.usefixtures("mood_family")


@pytest.fixture
def folder(tmp_path: Path, trained: Trained, tiny: Backbone, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry with one student, and none that ship."""
    monkeypatch.setattr(registry, "shipped_folder", lambda: tmp_path / "shipped")
    saved = artifacts.save(trained, tmp_path / "mood", tiny).folder
    Registry(tmp_path / "registry").promote(saved, tiny)
    return tmp_path / "registry"


def decider(kind: str, folder: Path, profile: str) -> tuple[Decider, Settings]:
    settings = load_settings(
        {
            "decider": kind,
            "students": {"registry": folder, "agreement": 0.6},
            "embedder": profile,
            "llm": {"base_url": "http://127.0.0.1:1/v1", "model": "m"},
        }
    )
    client = make_client(settings) if kind in ("cascade", "llm") else None
    return make_decider(settings, make_embedder(settings.embedder), client), settings


def test_students_answer_by_default_where_they_fit_the_embedder(folder: Path, tiny_folder: Path) -> None:
    for kind in ("auto", "student"):
        made, _ = decider(kind, folder, str(tiny_folder))
        assert isinstance(made, ServedStudents)
        assert made.decide(MOOD, [Item({"turn": "w1"})])[0].decided_by.startswith("student:mood@")


def test_the_baseline_answers_where_none_fits(folder: Path, tmp_path: Path) -> None:
    other = standin.make_encoder(tmp_path / "other", seed=4)
    for kind, profile in (("auto", "hash"), ("auto", str(other)), ("baseline", str(other))):
        assert isinstance(decider(kind, folder, profile)[0], BaselineDecider)
    assert isinstance(decider("auto", tmp_path / "empty", str(other))[0], BaselineDecider)
    with pytest.raises(InputError, match="'hash' has no encoder that students could work on"):
        decider("student", folder, "hash")
    with pytest.raises(InputError, match="there are none"):
        decider("student", tmp_path / "empty", str(other))


def test_a_cascade_takes_its_thresholds_from_the_students(folder: Path, tiny_folder: Path) -> None:
    made, _ = decider("cascade", folder, str(tiny_folder))
    assert isinstance(made, CascadeDecider)
    found = thresholds_of(Registry(folder).open(), 0.3)
    assert set(found) == {"mood"} and 0 <= found["mood"] < 1
    assert thresholds_of(Registry(folder).open(), 0.999) == {}
