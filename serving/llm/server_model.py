"""A model's folder: where it lies, what it weighs, what a token of context costs. Read from its headers alone."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from intentmem.memory.errors import InputError

GIB = 1 << 30
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_STORED = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_QUANTISED_BYTES = {"fp8": 1.0, "bitsandbytes": 0.55}
_HEADER_LIMIT = 100 << 20


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes: of the weights as loaded, and of one token in the KV cache. None where the files do not tell."""

    weights: float | None
    token: float | None
    context: int | None


def find_model(model: str, download: bool = False) -> Path | None:
    """The folder of a model. None for one that vLLM is to fetch from the hub.

    Args:
        model: a folder, or an id on the hub, "owner/name", that was fetched before.
        download: one that is not here may be fetched.

    Raises:
        InputError: it is not on this machine, or its folder holds no model.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(
                "server.model", f"{folder} holds no config.json", "name the folder of a Hugging Face model"
            )
        return folder.resolve()
    is_id = model.count("/") == 1 and not model.startswith((".", "/", "~"))
    cached = _cached(model) if is_id else None
    if cached is not None or (is_id and download):
        return cached
    problem = f"{model} is not a folder" + (", nor a model of the hub that was fetched before" if is_id else "")
    remedy = f"`hf download {model}` fetches it, as does server.download = true" if is_id else "check the path"
    raise InputError("server.model", problem, remedy)


def footprint(folder: Path, dtype: str, quantisation: str | None) -> Footprint:
    """What a model takes, once loaded as `dtype` ("auto": as its configuration says)."""
    config = _config(folder)
    stored = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16")
    size = _BYTES.get(stored if dtype == "auto" else dtype, 2)
    weights = _weights(folder, size, _QUANTISED_BYTES.get(quantisation or ""))
    text = config.get("text_config") or config
    context = text.get("max_position_embeddings")
    return Footprint(weights, _token(text, size), int(context) if context else None)


def _cached(model: str) -> Path | None:
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    snapshots = (hub / f"models--{model.replace('/', '--')}" / "snapshots").glob("*")
    usable = [folder for folder in snapshots if (folder / "config.json").exists()]
    return max(usable, key=lambda folder: folder.stat().st_mtime, default=None)


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError("server.model", f"{folder / 'config.json'} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise InputError("server.model", f"{folder / 'config.json'} holds no object")
    return config


def _weights(folder: Path, size: int, quantised: float | None) -> float | None:
    parts = sorted(folder.glob("*.safetensors"))
    if not parts:
        others = [path.stat().st_size for path in folder.glob("pytorch_model*.bin")]
        return float(sum(others)) or None
    return sum(_loaded(path, size, quantised) for path in parts)


def _loaded(path: Path, size: int, quantised: float | None) -> float:
    """Bytes of one file's tensors: plain numbers as `size` or `quantised` bytes each, packed ones as they are."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= _HEADER_LIMIT:
            raise InputError("server.model", f"{path} is not a safetensors file", "fetch the model again")
        try:
            header = json.loads(file.read(length))
            end = max(part["data_offsets"][1] for name, part in header.items() if name != "__metadata__")
            tensors = [part for name, part in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError("server.model", f"the header of {path} is damaged", "fetch the model again") from error
    if path.stat().st_size < 8 + length + end:
        raise InputError("server.model", f"{path} is cut short", "fetch the model again")
    total = 0.0
    for tensor in tensors:
        start, stop = tensor["data_offsets"]
        if tensor["dtype"] not in _STORED:
            total += stop - start
        else:
            matrix = quantised is not None and len(tensor["shape"]) > 1
            total += prod(tensor["shape"]) * (quantised if matrix and quantised is not None else size)
    return total


def _token(config: dict[str, Any], size: int) -> float | None:
    """Bytes of a token's keys and values over all layers."""
    try:
        heads = int(config["num_attention_heads"])
        width = int(config.get("head_dim") or int(config["hidden_size"]) // heads)
        return 2.0 * int(config["num_hidden_layers"]) * int(config.get("num_key_value_heads") or heads) * width * size
    except (KeyError, TypeError, ValueError):
        return None
