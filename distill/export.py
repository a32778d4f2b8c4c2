"""A student's adapter in the format of peft, for other servers, and what such a server can and cannot do with it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intentmem.memory.errors import ArtifactError, InputError, StoreError

from . import artifacts, canary, manifest
from .artifacts import Artifact
from .weights import weights_digest

_PEFT_ADAPTER, _PEFT_CONFIG = "adapter_model.safetensors", "adapter_config.json"
SERVERS = ("peft", "vllm")


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written. note: what the receiver has to know, one sentence a line."""

    folder: Path
    note: tuple[str, ...]


def export(folder: Path, out: Path, base_folder: Path, target: str = "peft") -> Exported:
    """Write `adapter_model.safetensors` and `adapter_config.json`, the head and the manifest beside them.

    Args:
        folder: of the artifact.
        out: a folder that does not exist yet, or is empty.
        base_folder: files of the base that it was trained on.
        target: "peft", or "vllm", which is refused for bases that vLLM serves no adapters of.

    Raises:
        ArtifactError: the artifact cannot be used, or the target cannot serve it.
        InputError: an unknown target, or a folder that holds something.
        StoreError: it cannot be written; nothing is left of it.
    """
    if target not in SERVERS:
        raise InputError("target", f"is {target!r}", f"one of {', '.join(SERVERS)}")
    artifact = artifacts.read(folder)
    if artifact.manifest.base.weights != weights_digest(base_folder):
        raise ArtifactError("manifest.base", f"is not the base in {base_folder}", "name the one it was trained on")
    if target == "vllm":
        check_served(base_folder)
    if out.exists() and any(out.iterdir()):
        raise InputError("out", f"{out} holds something", "name a new folder")
    fresh = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        shutil.copyfile(folder / artifacts.ADAPTER, fresh / _PEFT_ADAPTER)
        (fresh / _PEFT_CONFIG).write_text(json.dumps(peft_config(artifact, base_folder), indent=1), "utf-8")
        for name in (artifacts.HEAD, canary.NAME, manifest.NAME, artifacts.CARD):
            shutil.copyfile(folder / name, fresh / name)
        if out.exists():
            out.rmdir()
        fresh.replace(out)
    except OSError as error:
        raise StoreError(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return Exported(out, _note(artifact, base_folder))


def check_served(base_folder: Path) -> None:
    """Pass a base whose adapters vLLM serves: models that generate.

    Raises:
        ArtifactError: it is an encoder.
    """
    kinds = ", ".join(_architectures(base_folder)) or "a model of no declared architecture"
    if "CausalLM" not in kinds:
        raise ArtifactError(
            "base",
            f"{kinds} is an encoder: vLLM serves LoRA adapters of models that generate only, and would drop the head",
            "serve it in process (`intentmem distill promote`), or export for peft and merge it there",
        )


def peft_config(artifact: Artifact, base_folder: Path) -> dict[str, Any]:
    """What `PeftModel.from_pretrained` reads beside the weights."""
    shape = artifact.manifest.adapter
    layers = list(range(shape.first_layer, artifact.manifest.base.layers))
    return {
        "peft_type": "LORA",
        "task_type": "FEATURE_EXTRACTION",
        "base_model_name_or_path": str(base_folder),
        "inference_mode": True,
        "r": shape.rank,
        "lora_alpha": shape.scale * shape.rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({f"encoder.layer.{n}.{module}" for n in layers for module in shape.modules}),
    }


def _architectures(base_folder: Path) -> list[str]:
    try:
        settings: Mapping[str, Any] = json.loads((base_folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError("base", f"{base_folder} has no readable config.json: {error}") from error
    return [str(name) for name in settings.get("architectures") or ()]


def _note(artifact: Artifact, base_folder: Path) -> tuple[str, ...]:
    return (
        f"The adapter gives token states of {artifact.manifest.base.profile}; the decision is made by "
        f"{artifacts.HEAD}, which other servers do not apply.",
        f"Check a server with {canary.NAME}: its mean-pooled vectors of `sentences` must be `vectors`.",
        f"{', '.join(_architectures(base_folder)) or 'This base'} is an encoder: vLLM serves no LoRA adapters of it. "
        "Serve it in process, or merge the adapter into the base (`merge_and_unload` of peft).",
    )
