"""Identity of a model's weights, without reading them at each start."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path
from typing import cast

from platformdirs import user_cache_path

from intentmem.memory.errors import EmbedderError

_log = logging.getLogger(__name__)


def weights_digest(folder: Path) -> str:
    """SHA-256 over the safetensors files of a folder, remembered by path, size and time of change.

    Raises:
        EmbedderError: there is none. Pickled weights are not loaded.
    """
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise EmbedderError(f"{folder} holds no *.safetensors file")
    stats = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in weights]
    key = hashlib.sha256(json.dumps(stats).encode()).hexdigest()
    cache = user_cache_path("intentmem") / "weights.json"
    known = _read(cache)
    if key not in known:
        digest = hashlib.sha256()
        for path in weights:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        known[key] = digest.hexdigest()
        _write(cache, known)
    return known[key]


def _read(cache: Path) -> dict[str, str]:
    try:
        found = json.loads(cache.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    well_formed = isinstance(found, dict) and all(isinstance(v, str) and len(v) == 64 for v in found.values())
    return cast(dict[str, str], found) if well_formed else {}


def _write(cache: Path, known: dict[str, str]) -> None:
    """Best effort: an unwritable cache costs a second at each start and nothing else."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        fresh = cache.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(known), "utf-8")
        fresh.replace(cache)
    except OSError as error:
        _log.debug("weights digest not remembered: %s", error)
