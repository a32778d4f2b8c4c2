from __future__ import annotations

from pathlib import Path

import pytest

from intentmem.distill import families, weights
from intentmem.distill.backbone import Backbone
from intentmem.distill.training.outcome import Trained, TrainOptions

from . import standin


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return standin.make_encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Backbone:
    """A base of two layers with random weights."""
    import torch

    torch.set_num_threads(1)
    return standin.backbone(tiny_folder)


@pytest.fixture(scope="session")
def trained(tiny: Backbone) -> Trained:
    """A stand-in student, trained for real."""
    return standin.train([standin.MOOD], standin.mood_traces(400, 40), tiny, TrainOptions(seed=1))[0]


@pytest.fixture
def mood_family(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The stand-in in the table of families; weights are remembered elsewhere than in the user's own cache."""
    reference = f"{standin.MoodStudent.__module__}:{standin.MoodStudent.__qualname__}"
    monkeypatch.setitem(families.CLASSES, "mood", reference)
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(weights, "user_cache_path", lambda _: cache)
