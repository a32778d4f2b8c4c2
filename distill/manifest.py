"""What a student's artifact says of itself: enough to refuse it wherever it does not belong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from intentmem.memory.errors import ArtifactError
from intentmem.memory.tasks import Field as TaskField
from intentmem.memory.tasks import Group, Option, Space, Task

from .thresholds import Threshold

FORMAT = 1
NAME = "manifest.json"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BaseModelRecord(_Part):
    """The encoder that an adapter was trained on. weights: see `weights_digest`."""

    profile: str
    weights: str
    dimension: int
    layers: int
    pooling: str


class AdapterRecord(_Part):
    """Shape of an adapter; `scale` is alpha / rank."""

    name: str
    first_layer: int
    scale: float
    rank: int
    max_tokens: int
    modules: tuple[str, ...]


class SplitRecord(_Part):
    """Conversations of a split: how many, and the digest of their names."""

    n: int
    digest: str


class MetricRecord(_Part):
    """One figure. low, high: its 95% interval, None where there is none."""

    task: str
    metric: str
    value: float
    n: int
    low: float | None = None
    high: float | None = None
    group: str = "all"
    data: str = ""


class Calibration(_Part):
    """What confidence means. reliability: (mean confidence, accuracy, n) by bin."""

    reliability: tuple[tuple[float, float, int], ...] = ()
    ece: float | None = None
    thresholds: tuple[Threshold, ...] = ()


class Manifest(_Part):
    """The whole of it. `files` holds the SHA-256 of each other file that a student cannot do without.

    labels: the labels of a closed space in their order, else empty. options: the head's plain values. parent: what
    training started from; always the base, never another adapter. data: hash of each source.
    """

    format: int
    task: str
    task_hash: str
    declaration: dict[str, Any]
    labels: tuple[str, ...]
    labels_hash: str
    family: str
    base: BaseModelRecord
    adapter: AdapterRecord
    head: dict[str, tuple[int, ...]]
    options: dict[str, Any]
    files: dict[str, str]
    seed: int
    parent: str
    data: dict[str, str] = Field(default_factory=dict)
    data_hash: str
    splits: dict[str, SplitRecord] = Field(default_factory=dict)
    metrics: tuple[MetricRecord, ...] = ()
    calibration: Calibration = Calibration()
    latency: dict[str, float] = Field(default_factory=dict)
    package: str
    created: str

    @property
    def version(self) -> str:
        """Short identity of what decides: weights, head, declaration and plain values."""
        made = [self.task_hash, self.files, self.options, self.base.weights]
        return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def decider(self) -> str:
        """Who decides, as it stands on each decision."""
        return f"student:{self.task}@{self.version}"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an artifact, its format and self-consistency checked.

    Raises:
        ArtifactError: there is none, it cannot be read, is of a later format, or contradicts itself.
    """
    path = folder / NAME
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise ArtifactError("path", f"{folder} holds no {NAME}", "give the folder of one trained student") from error
    except (OSError, ValueError) as error:
        raise ArtifactError("manifest", f"{path} cannot be read: {error}", "train the student again") from error
    if isinstance(data, dict) and isinstance(data.get("format"), int) and data["format"] != FORMAT:
        raise ArtifactError(
            "manifest.format", f"is {data['format']}, this version reads {FORMAT}", "upgrade intentmem, or train again"
        )
    try:
        manifest = Manifest.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(("manifest", *map(str, first["loc"])))
        raise ArtifactError(name, first["msg"].lower(), "train the student again") from error
    _consistent(manifest)
    return manifest


def _consistent(manifest: Manifest) -> None:
    again = "the manifest was altered; train the student again"
    task = task_from(manifest.declaration)
    if label_names(task) != manifest.labels or labels_hash(manifest.labels) != manifest.labels_hash:
        raise ArtifactError(
            "manifest.labels", f"are {list(manifest.labels)}, the task declares {list(label_names(task))}", again
        )
    if task.hash != manifest.task_hash or task.name != manifest.task:
        raise ArtifactError("manifest.task_hash", "is not that of the declaration beside it", again)


def check_task(manifest: Manifest, task: Task) -> None:
    """Pass a manifest that was made for exactly this task, labels in this order.

    Raises:
        ArtifactError: another task, other labels, or another wording of the declaration.
    """
    again = "train a student for the task as it is declared now"
    if manifest.task != task.name:
        raise ArtifactError("manifest.task", f"is {manifest.task!r}, not {task.name!r}", "give it to its own task")
    if manifest.labels != (expected := label_names(task)):
        same = sorted(manifest.labels) == sorted(expected)
        what = "stand in another order" if same else f"are {len(manifest.labels)}, the task has {len(expected)}"
        raise ArtifactError("manifest.labels", f"{what}: {list(manifest.labels)}, now {list(expected)}", again)
    if manifest.task_hash != task.hash:
        raise ArtifactError("manifest.task_hash", f"is {manifest.task_hash}, that of the task is {task.hash}", again)


def label_names(task: Task) -> tuple[str, ...]:
    """Labels of a closed space as `group/label`, in their order; none for another space."""
    return tuple(f"{group.name}/{option.name}" for group in task.groups for option in group.options)


def labels_hash(labels: Sequence[str]) -> str:
    """Digest of labels in their order."""
    return hashlib.sha256(json.dumps(list(labels)).encode()).hexdigest()[:16]


def declaration(task: Task) -> dict[str, Any]:
    """A task as plain values, so that an artifact needs no code to say what it decides."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(task)))
    return found


def task_from(values: Mapping[str, Any]) -> Task:
    """The task of a declaration.

    Raises:
        ArtifactError: it is none.
    """
    try:
        plain = dict(values)
        plain["fields"] = tuple(TaskField(**field) for field in plain["fields"])
        plain["space"] = Space(plain["space"])
        plain["groups"] = tuple(
            Group(group["name"], tuple(Option(**option) for option in group["options"])) for group in plain["groups"]
        )
        return Task(**plain)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError("manifest.declaration", f"declares no task: {error}", "train the student again") from error
