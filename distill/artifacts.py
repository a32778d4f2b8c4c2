"""Students on disk: a directory each, checked whole before anything of it is used, and never pickled."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intentmem.memory.errors import ArtifactError, InputError, MissingExtraError, StoreError
from intentmem.memory.tasks import ASKED_OF_QUESTIONS, Item, Task
from intentmem.memory.types import Vector

from . import canary, manifest
from .backbone import Backbone
from .calibration import ece
from .encoding import AdaptedEncoder, Adapter
from .families import family_of, student_class
from .judging import Judged
from .layers import layer_stack
from .manifest import Manifest
from .model_card import model_card
from .splits import check_disjoint, digest
from .students.base import Encodings, Student
from .thresholds import Threshold, choose_threshold
from .weights import weights_digest

if TYPE_CHECKING:
    from .training.outcome import Trained

ADAPTER, HEAD, JUDGED, CARD = "adapter.safetensors", "head.safetensors", "judged.json", "README.md"
NEEDED = (ADAPTER, HEAD, canary.NAME)
TARGETS = (0.8, 0.9, 0.95)
"""Agreements for which an artifact states the threshold."""
_AGAIN = "copy the artifact again from where it was made, or train the student again"
_MODULE = re.compile(r"encoder\.layer\.\d+\.(.+)\.lora_[AB]\.")


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact as it was read: complete and unaltered, not yet tried on a base."""

    folder: Path
    manifest: Manifest
    task: Task
    adapter: Adapter
    head: Mapping[str, Vector]
    canary: Mapping[str, Any]

    def student(self) -> Student:
        """The student, on the adapter of this artifact's own name."""
        made = student_class(self.manifest.family)
        return made.from_head(self.task, self.adapter.name, self.head, self.manifest.options)


def save(
    trained: Trained,
    folder: Path,
    base: Backbone,
    *,
    seed: int = 0,
    canary_items: Sequence[Item] = (),
    latency: Mapping[str, float] | None = None,
) -> Artifact:
    """Write an artifact beside its place, load it back, and only then put it there.

    Args:
        trained: what training gave.
        folder: where to; an artifact that is there already is replaced whole, anything else is refused.
        base: what it was trained on, in full precision.
        seed: that it was trained with.
        canary_items: inputs to keep with their outputs, where `trained` has none.
        latency: figures by name, such as `turns_per_s` and `p95_ms`.

    Raises:
        InputError: splits that overlap, no canary, or a folder that holds something else.
        ArtifactError: it could not be loaded again.
        StoreError: the disk is full or read-only; what was there before is untouched.
    """
    check_disjoint(trained.splits)
    items = trained.canary or tuple(canary_items)
    if not items:
        raise InputError("canary", "has no inputs", "give the items whose answers a loader has to check")
    if folder.exists() and any(folder.iterdir()) and not (folder / manifest.NAME).is_file():
        raise InputError("out", f"{folder} holds something else", "choose an empty or a new folder")
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        _write(trained, fresh, base, seed, items, dict(latency or {}))
        load(fresh, base)
        _put(fresh, folder)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror or error}; nothing was replaced") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return read(folder)


def read(folder: Path, task: Task | None = None) -> Artifact:
    """Read an artifact and check everything that needs no model.

    Args:
        folder: of the artifact.
        task: what it is wanted for; None takes the task that it declares itself.

    Raises:
        ArtifactError: incomplete, altered, or of another task; says what to do.
    """
    found = manifest.read_manifest(folder)
    if task is not None:
        manifest.check_task(found, task)
    for name in NEEDED:
        if name not in found.files:
            raise ArtifactError("manifest.files", f"does not list {name}", _AGAIN)
        if not (folder / name).is_file():
            raise ArtifactError("artifact", f"{folder} has no {name}: the student would answer at random", _AGAIN)
        if _sha256(folder / name) != found.files[name]:
            raise ArtifactError("artifact", f"{folder / name} is not the file that the manifest describes", _AGAIN)
    head = _arrays(folder / HEAD)
    shapes = {name: array.shape for name, array in head.items()}
    if shapes != found.head:
        raise ArtifactError("manifest.head", f"declares {dict(found.head)}, the file holds {shapes}", _AGAIN)
    weights = _arrays(folder / ADAPTER)
    shape = found.adapter
    name = f"{shape.name}@{_weights_digest(weights)}"
    adapter = Adapter(name, shape.first_layer, shape.scale, weights, shape.max_tokens)
    return Artifact(folder, found, task or manifest.task_from(found.declaration), adapter, head, canary.read(folder))


def check_base(artifact: Artifact, base: Backbone) -> None:
    """Pass an artifact that was trained on exactly this base.

    Raises:
        ArtifactError: another base.
    """
    wanted, here = artifact.manifest.base, weights_digest(base.folder)
    if wanted.weights != here:
        raise ArtifactError(
            "manifest.base",
            f"the student of {artifact.task.name!r} was trained on {wanted.profile} ({wanted.weights[:12]}), "
            f"the encoder here is {base.name} ({here[:12]})",
            f"use the embedder {wanted.profile!r}, or train with --base {base.name}",
        )


def assemble(artifacts: Sequence[Artifact], base: Backbone) -> tuple[dict[str, Student], Encodings]:
    """Students by task over one shared encoder, each tried on its canary.

    Raises:
        ArtifactError: another base, an adapter that changes nothing, or a canary that comes out otherwise.
    """
    for artifact in artifacts:
        check_base(artifact, base)
    adapters = {artifact.adapter.name: artifact.adapter for artifact in artifacts}
    try:
        encoder = AdaptedEncoder(base, tuple(adapters.values()))
        students = {artifact.task.name: artifact.student() for artifact in artifacts}
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise ArtifactError("artifact", f"does not fit together: {error}", _AGAIN) from error
    encodings = encodings_for(students.values(), encoder)
    try_canaries(artifacts, students, encodings)
    return students, encodings


def try_canaries(artifacts: Sequence[Artifact], students: Mapping[str, Student], encodings: Encodings) -> None:
    """Pass students that still say what they said when they were made.

    Raises:
        ArtifactError: one does not.
    """
    if not artifacts:
        return
    alone = canary.plain(encodings.encoder.base)
    for artifact in artifacts:
        canary.check(artifact.task.name, students[artifact.task.name], artifact.canary, encodings, alone)


def encodings_for(students: Iterable[Student], encoder: AdaptedEncoder) -> Encodings:
    """Encodings in which the adapters of turn-level students are asked together, and those that a question passes.

    A student whose options say `tokens` reads the states of single tokens too.
    """
    asked = {task.name for task in ASKED_OF_QUESTIONS}
    known = list(students)
    of_turns = [student for student in known if student.task.fields[0].name == "turn"]
    of_questions = [student for student in known if student.task.name in asked]
    groups = [tuple(dict.fromkeys(student.adapter for student in group)) for group in (of_turns, of_questions)]
    return Encodings(encoder, groups, [student.adapter for student in of_turns if student.options().get("tokens")])


def load(folder: Path, base: Backbone, task: Task | None = None) -> tuple[Artifact, Student, Encodings]:
    """Read one artifact and try it on its base.

    Raises:
        ArtifactError: as for `read` and `assemble`.
    """
    artifact = read(folder, task)
    students, encodings = assemble([artifact], base)
    return artifact, students[artifact.task.name], encodings


def threshold_of(artifact: Artifact, target: float) -> Threshold | None:
    """Where an artifact's student meets a target: from its answers where they lie beside it, else as it states.

    Of the targets that are stated, the lowest that is not below the one asked for counts.
    """
    if answers := judged(artifact.folder):
        return choose_threshold([one.confidence for one in answers], [one.agrees for one in answers], target)
    stated = [one for one in artifact.manifest.calibration.thresholds if one.target >= target]
    return min(stated, key=lambda one: one.target, default=None)


def judged(folder: Path) -> list[Judged]:
    """Answers on the calibration split that lie beside an artifact; none where it was copied without them."""
    try:
        return [Judged(**row) for row in json.loads((folder / JUDGED).read_text("utf-8"))]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        raise ArtifactError("artifact", f"{folder / JUDGED} cannot be read: {error}", _AGAIN) from error


def _write(
    trained: Trained, folder: Path, base: Backbone, seed: int, items: Sequence[Item], latency: dict[str, float]
) -> None:
    save_arrays = _safetensors().save_file
    head = {name: np.ascontiguousarray(array) for name, array in trained.student.head().items()}
    weights = {name: np.ascontiguousarray(array, np.float16) for name, array in trained.adapter.weights.items()}
    save_arrays(head, folder / HEAD)
    save_arrays(weights, folder / ADAPTER)
    for name in (HEAD, ADAPTER):
        (folder / name).chmod(0o644)  # safetensors writes for the owner alone; a package is installed for others
    said = canary.record(trained.student, items, _encodings(trained, base))
    (folder / canary.NAME).write_text(json.dumps(said), "utf-8")
    (folder / JUDGED).write_text(json.dumps([one.as_dict() for one in trained.judged]), "utf-8")
    made = _manifest(trained, folder, base, seed, head, latency)
    (folder / manifest.NAME).write_text(made.model_dump_json(indent=1), "utf-8")
    (folder / CARD).write_text(model_card(made), "utf-8")


def _encodings(trained: Trained, base: Backbone) -> Encodings:
    stored = Adapter(
        trained.student.adapter,
        trained.adapter.first_layer,
        trained.adapter.scale,
        trained.adapter.weights,
        trained.adapter.max_tokens,
    )
    return encodings_for([trained.student], AdaptedEncoder(base, (stored,)))


def _manifest(
    trained: Trained, folder: Path, base: Backbone, seed: int, head: Mapping[str, Vector], latency: dict[str, float]
) -> Manifest:
    task, adapter, labels = trained.student.task, trained.adapter, manifest.label_names(trained.student.task)
    weights = weights_digest(base.folder)
    return Manifest(
        format=manifest.FORMAT,
        task=task.name,
        task_hash=task.hash,
        declaration=manifest.declaration(task),
        labels=labels,
        labels_hash=manifest.labels_hash(labels),
        family=family_of(trained.student),
        base=manifest.BaseModelRecord(
            profile=base.name, weights=weights, dimension=base.dimension, pooling=base.pooling,
            layers=len(layer_stack(base.module)),
        ),
        adapter=manifest.AdapterRecord(
            name=adapter.name, first_layer=adapter.first_layer, scale=adapter.scale, max_tokens=adapter.max_tokens,
            rank=min(min(array.shape) for array in adapter.weights.values()),
            modules=tuple(sorted({m[1] for key in adapter.weights if (m := _MODULE.search(key))})),
        ),
        head={name: array.shape for name, array in head.items()},
        options=json.loads(json.dumps(dict(trained.student.options()))),
        files={name: _sha256(folder / name) for name in NEEDED},
        seed=seed,
        parent=f"base:{weights}",
        data=dict(trained.data),
        data_hash=hashlib.sha256(json.dumps(sorted(trained.data.items())).encode()).hexdigest()[:16],
        splits={
            name: manifest.SplitRecord(n=len(set(inside)), digest=digest(inside))
            for name, inside in trained.splits.items()
        },
        metrics=tuple(
            manifest.MetricRecord(
                task=one.task, metric=one.metric, value=one.value, n=one.n, group=one.group, data=one.data,
                low=None if np.isnan(one.low) else one.low, high=None if np.isnan(one.high) else one.high,
            )
            for one in trained.measured
        ),
        calibration=_calibration(trained),
        latency=latency,
        package=metadata.version("intentmem"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


def _calibration(trained: Trained) -> manifest.Calibration:
    scores = [one.confidence for one in trained.judged]
    right = [one.agrees for one in trained.judged]
    found = [choose_threshold(scores, right, target) for target in TARGETS] if scores else []
    return manifest.Calibration(
        reliability=tuple(trained.reliability),
        ece=ece(scores, right) if scores else None,
        thresholds=tuple(one for one in found if one is not None),
    )


def _put(fresh: Path, folder: Path) -> None:
    """Rename a finished artifact to its place; a former one steps aside and comes back if that fails."""
    former = folder.with_name(f".{folder.name}.former.{os.getpid()}")
    if folder.exists():
        folder.replace(former)
    try:
        fresh.replace(folder)
    except OSError:
        with suppress(FileNotFoundError):
            former.replace(folder)
        raise
    shutil.rmtree(former, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _weights_digest(weights: Mapping[str, Vector]) -> str:
    """Equal for equal weights, whatever file they lie in: students of one adapter share a pass."""
    found = hashlib.sha256()
    for name in sorted(weights):
        found.update(name.encode())
        found.update(np.ascontiguousarray(weights[name]).tobytes())
    return found.hexdigest()[:12]


def _arrays(path: Path) -> dict[str, Vector]:
    try:
        found: dict[str, Vector] = _safetensors().load_file(path)
    except (OSError, ValueError, RuntimeError) as error:
        raise ArtifactError("artifact", f"{path} cannot be read: {error}", _AGAIN) from error
    return found


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise MissingExtraError("transformers", "cpu") from error
    return safetensors.numpy
