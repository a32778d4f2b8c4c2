"""The log file of a server: kept beside the one before, and read where the server died."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import IO

from intentmem.memory.errors import InputError

_TAIL = 64 * 1024
_MAX_LINE = 300
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_ADVICE = (
    (r"CUDA out of memory|OutOfMemoryError", "a GPU ran out of memory: lower server.memory_share or max_sequences"),
    (r"No available memory for the cache blocks", "no room for the KV cache: raise server.memory_share"),
    (r"KV cache is needed, which is larger than", "the context does not fit the cache: lower server.context_tokens"),
    (r"Free memory on device .* is less than", "the GPU is in use: lower server.memory_share"),
    (r"[Bb]float16 is only supported", "the device knows no bfloat16: set server.dtype = float16"),
    (r"unrecognized arguments", "this vLLM does not know a flag: check server.extra_flags and its version"),
    (r"[Aa]ddress already in use", "the port was taken meanwhile: set server.port"),
    (r"torchvision::nms", "torchvision does not fit: pip uninstall torchvision torchaudio torchcodec there"),
    (r"No module named 'ray'|import ray", "Ray is not installed in vLLM's environment: pip install ray there"),
)
"""What a line of the log means for the settings; the first that is found."""


def new_log(folder: Path, port: int) -> tuple[Path, IO[bytes]]:
    """An empty log for the server on a port, readable by its owner alone; the one before is kept as `.old`.

    Raises:
        InputError: the folder cannot be written.
    """
    path = folder / f"vllm-{port}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.replace(path.with_suffix(".log.old"))
        return path, os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
    except OSError as error:
        raise InputError("server.logs", f"{path} cannot be written: {error.strerror}") from error


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines that say anything, at most `count`, without control characters."""
    lines = [_ESCAPES.sub("", line).rstrip() for line in _tail(path).splitlines()]
    return [line[:_MAX_LINE] for line in lines if line][-count:]


def advice(path: Path, code: int) -> str:
    """What to change where the log or the exit code tells; else empty."""
    text = _tail(path)
    for pattern, meaning in _ADVICE:
        if re.search(pattern, text):
            return meaning
    return "killed from outside, most often for lack of memory: lower server.kv_cache_gib" if code == -9 else ""


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read().decode("utf-8", "replace")
