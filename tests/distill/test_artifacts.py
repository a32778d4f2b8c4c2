from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intentmem.distill import artifacts, manifest
from intentmem.distill.backbone import Backbone
from intentmem.distill.runtime import StudentDecider
from intentmem.distill.training.outcome import Trained, TrainOptions
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import ArtifactError, InputError, StoreError
from intentmem.memory.tasks import Group, Item, Task

from . import standin
from .standin import MOOD, backbone, make_encoder, mood_traces

pytestmark = pytest.mark.usefixtures("mood_family")
Altered = Callable[[Path], None]


@pytest.fixture
def saved(trained: Trained, tiny: Backbone, tmp_path: Path) -> Path:
    return artifacts.save(trained, tmp_path / "mood", tiny, seed=1).folder


def logits(folder: Path, base: Backbone) -> Any:
    _, student, encodings = artifacts.load(folder, base, MOOD)
    assert isinstance(student, standin.MoodStudent)
    return student.logits([trace.item() for trace in mood_traces(20, seed=9)], encodings)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None], name: str = manifest.NAME) -> None:
    path = folder / name
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def resign(folder: Path) -> None:
    """Make the manifest agree with its files again, as someone would who repacks an artifact."""
    rewrite(folder, lambda m: m["files"].update({n: artifacts._sha256(folder / n) for n in artifacts.NEEDED}))


def test_an_artifact_says_the_same_after_loading_as_after_training(
    saved: Path, trained: Trained, tiny: Backbone
) -> None:
    found = artifacts.read(saved, MOOD).manifest
    assert found.parent == f"base:{found.base.weights}" and found.seed == 1
    assert found.labels == ("mood/warm", "mood/cold", "mood/flat")
    assert manifest.task_from(found.declaration) == MOOD
    assert set(found.splits) == {"train", "dev", "calibration"}
    assert {path.name for path in saved.iterdir()} == {
        "adapter.safetensors",
        "head.safetensors",
        "manifest.json",
        "canary.json",
        "judged.json",
        "README.md",
    }
    encodings = artifacts._encodings(trained, tiny)
    items = [trace.item() for trace in mood_traces(20, seed=9)]
    before = trained.student.logits(items, encodings)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(before, logits(saved, tiny))


def test_a_new_process_gives_identical_logits(saved: Path, tiny: Backbone, tiny_folder: Path) -> None:
    script = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from distill import standin, test_artifacts\n"
        "from intentmem.distill import families\n"
        "families.CLASSES['mood'] = 'distill.standin:MoodStudent'\n"
        "import torch; torch.set_num_threads(1)\n"
        "base = standin.backbone(Path(sys.argv[2]))\n"
        "sys.stdout.buffer.write(test_artifacts.logits(Path(sys.argv[1]), base).tobytes())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(saved), str(tiny_folder)],
        capture_output=True,
        cwd=Path(__file__).resolve().parents[1],
        check=True,
    )
    expected = logits(saved, tiny)
    np.testing.assert_array_equal(np.frombuffer(done.stdout, expected.dtype).reshape(expected.shape), expected)


def test_training_twice_with_one_seed_gives_the_same(trained: Trained, tiny: Backbone) -> None:
    again = standin.train([MOOD], mood_traces(400, 40), tiny, TrainOptions(seed=1))[0]
    assert again.measured[0].value == pytest.approx(trained.measured[0].value, abs=1e-6)
    for name, weights in trained.adapter.weights.items():
        np.testing.assert_allclose(again.adapter.weights[name], weights, atol=1e-3)


def test_l02_a_missing_head_is_refused(saved: Path, tiny: Backbone) -> None:
    (saved / "head.safetensors").unlink()
    with pytest.raises(ArtifactError, match=r"has no head\.safetensors.*train the student again"):
        artifacts.load(saved, tiny)


def test_l02_a_head_with_an_array_missing_is_refused(saved: Path, tiny: Backbone) -> None:
    from safetensors.numpy import load_file, save_file

    head = load_file(saved / "head.safetensors")
    save_file({"weights": head["weights"]}, saved / "head.safetensors")
    with pytest.raises(ArtifactError, match="not the file that the manifest describes"):
        artifacts.load(saved, tiny)
    resign(saved)
    with pytest.raises(ArtifactError, match=r"manifest\.head: declares"):
        artifacts.load(saved, tiny)


def test_l02_another_head_of_the_same_shape_fails_the_canary(saved: Path, tiny: Backbone) -> None:
    from safetensors.numpy import load_file, save_file

    head = load_file(saved / "head.safetensors")
    save_file({**head, "weights": np.float32(head["weights"] * 0.1)}, saved / "head.safetensors")
    resign(saved)
    with pytest.raises(ArtifactError, match=r"mood\.canary\[0\]"):
        artifacts.load(saved, tiny)


def test_l03_an_adapter_that_changes_nothing_is_refused(saved: Path, tiny: Backbone) -> None:
    from safetensors.numpy import load_file, save_file

    adapter = load_file(saved / "adapter.safetensors")
    save_file({name: np.zeros_like(array) for name, array in adapter.items()}, saved / "adapter.safetensors")
    resign(saved)
    with pytest.raises(ArtifactError, match="changes nothing"):
        artifacts.load(saved, tiny)


def test_l03_an_adapter_whose_effect_is_lost_is_refused(saved: Path, tiny: Backbone) -> None:
    rewrite(saved, lambda m: m["adapter"].update(scale=1e-7))
    with pytest.raises(ArtifactError, match="changes nothing: the canary comes out as the base alone"):
        artifacts.load(saved, tiny)


def test_l03_keys_that_name_no_layer_are_refused(saved: Path, tiny: Backbone) -> None:
    from safetensors.numpy import load_file, save_file

    adapter = load_file(saved / "adapter.safetensors")
    save_file({f"{name}.x": array for name, array in adapter.items()}, saved / "adapter.safetensors")
    resign(saved)
    with pytest.raises(ArtifactError, match="is not a LoRA weight"):
        artifacts.load(saved, tiny)


def with_labels(task: Task, change: Callable[[list[Any]], list[Any]]) -> Task:
    group = task.groups[0]
    return replace(task, groups=(Group(group.name, tuple(change(list(group.options)))),))


def test_l09_a_label_list_of_another_length_is_refused(saved: Path) -> None:
    with pytest.raises(ArtifactError, match=r"manifest\.labels: are 3, the task has 2.*train a student"):
        artifacts.read(saved, with_labels(MOOD, lambda options: options[:2]))
    rewrite(saved, lambda m: m.update(labels=m["labels"][:2]))
    with pytest.raises(ArtifactError, match=r"manifest\.labels"):
        artifacts.read(saved)


def test_l10_a_label_list_in_another_order_is_refused(saved: Path) -> None:
    with pytest.raises(ArtifactError, match="stand in another order"):
        artifacts.read(saved, with_labels(MOOD, lambda options: options[::-1]))
    rewrite(saved, lambda m: m.update(labels=m["labels"][::-1], labels_hash=manifest.labels_hash(m["labels"][::-1])))
    with pytest.raises(ArtifactError, match=r"manifest\.labels"):
        artifacts.read(saved)


def test_a_task_worded_anew_is_refused(saved: Path) -> None:
    with pytest.raises(ArtifactError, match=r"manifest\.task_hash.*train a student for the task as it is declared now"):
        artifacts.read(saved, replace(MOOD, question="How does it feel?"))
    with pytest.raises(ArtifactError, match=r"manifest\.task:"):
        artifacts.read(saved, replace(MOOD, name="tone"))


def test_another_base_is_refused_with_both_names(saved: Path, tmp_path: Path) -> None:
    other = backbone(make_encoder(tmp_path / "other", seed=5), "other")
    with pytest.raises(ArtifactError, match=r"trained on tiny \(.*the encoder here is other.*--base other"):
        artifacts.load(saved, other)


def test_l11_decisions_name_the_artifact_that_was_measured(saved: Path, tiny: Backbone) -> None:
    artifact = artifacts.read(saved)
    decider = StudentDecider.of([artifact], tiny, BaselineDecider())
    [decision] = decider.decide(MOOD, [Item({"turn": "w1 w2 w3"})])
    assert decision.decided_by == f"student:mood@{artifact.manifest.version}"
    assert decision.seconds > 0


def test_l12_probabilities_sum_to_one(saved: Path, tiny: Backbone) -> None:
    decider = StudentDecider.of([artifacts.read(saved)], tiny, BaselineDecider())
    for decision in decider.decide(MOOD, [trace.item() for trace in mood_traces(30, seed=4)]):
        assert sum(decision.probabilities.values()) == pytest.approx(1)


def test_l14_l17_splits_are_disjoint_and_the_parent_is_the_base(
    saved: Path, trained: Trained, tiny: Backbone, tmp_path: Path
) -> None:
    assert artifacts.read(saved).manifest.parent.startswith("base:")
    mixed = replace(trained, splits={"train": ("a", "b"), "calibration": ("b", "c")})
    with pytest.raises(InputError, match="conversation 'b' is in 'train' and in 'calibration'"):
        artifacts.save(mixed, tmp_path / "mixed", tiny)
    assert not (tmp_path / "mixed").exists()


@pytest.mark.parametrize("name", ["manifest.json", "adapter.safetensors", "head.safetensors", "canary.json"])
def test_l18_any_file_missing_or_altered_is_refused(saved: Path, tiny: Backbone, name: str) -> None:
    whole = (saved / name).read_bytes()
    for content in (whole[: len(whole) // 2], b"", None):
        (saved / name).unlink(missing_ok=True)
        if content is not None:
            (saved / name).write_bytes(content)
        with pytest.raises(ArtifactError):
            artifacts.load(saved, tiny)
    (saved / name).write_bytes(whole)
    artifacts.load(saved, tiny)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format=2), "upgrade intentmem"),
        (lambda m: m.update(family="unknown"), "known: "),
        (lambda m: m.update(extra=1), "manifest.extra"),
        (lambda m: m.pop("labels_hash"), "manifest.labels_hash"),
        (lambda m: m["declaration"].update(question="?"), "manifest.task_hash"),
        (lambda m: m["declaration"].pop("space"), "manifest.declaration"),
        (lambda m: m["files"].pop("head.safetensors"), "manifest.files"),
    ],
)
def test_l18_an_altered_manifest_is_refused(
    saved: Path, tiny: Backbone, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    rewrite(saved, change)
    with pytest.raises(ArtifactError, match=message):
        artifacts.load(saved, tiny)


def test_a_full_disk_leaves_the_former_artifact_and_no_remains(
    saved: Path, trained: Trained, tiny: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(artifacts, "model_card", full)
    with pytest.raises(StoreError, match="No space left on device; nothing was replaced"):
        artifacts.save(trained, saved, tiny)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_folder_with_something_else_is_not_replaced(trained: Trained, tiny: Backbone, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else"):
        artifacts.save(trained, tmp_path, tiny)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_student_without_a_canary_is_not_saved(trained: Trained, tiny: Backbone, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="canary"):
        artifacts.save(replace(trained, canary=()), tmp_path / "mood", tiny)


def test_a_renamed_copy_loads(saved: Path, tiny: Backbone, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "elsewhere")
    assert artifacts.load(tmp_path / "elsewhere", tiny)[0].manifest == artifacts.read(saved).manifest


def test_the_card_states_data_figures_and_limits(saved: Path) -> None:
    card = (saved / "README.md").read_text()
    assert "| development | all | accuracy |" in card and "## Limits" in card and "not from another student" in card
