"""Atomic generations of an index on disk: a kill at any moment leaves the old one or the new one, never a mixture.

::

    directory/
      CURRENT                  "<generation> <sha256 of its manifest>", replaced last
      gen-00000007-3f2a91c0/
        index.faiss
        manifest.json          what is inside, with the checksum of the index file

Nothing is pickled. Writers take turns by a lock file; readers need none.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock, Timeout

from ..errors import BusyError, CorruptIndexError, StoreError
from ..types import Fingerprint

FORMAT = 1
CURRENT = "CURRENT"
INDEX_FILE = "index.faiss"
MANIFEST_FILE = "manifest.json"
_PREFIX, _PARTIAL = "gen-", "partial-"
_LOCK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Contents:
    """What the writer knows of its index: vectors, greatest id (0 when empty), and the caller's note."""

    fingerprint: Fingerprint
    count: int
    max_id: int
    note: dict[str, int | str]
    faiss_version: str


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation whose checksums hold."""

    path: Path
    contents: Contents

    @property
    def index_file(self) -> Path:
        """The index itself."""
        return self.path / INDEX_FILE


def write_generation(directory: Path, write_index: Callable[[Path], None], contents: Contents) -> Path:
    """Write a new generation beside the current one, switch to it, then remove the older ones.

    `write_index` is given the path to write the index to. Returns the folder of the new generation.

    Raises:
        StoreError: the disk refuses (read-only, full); the current generation is untouched.
        BusyError: another process is writing here.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with FileLock(directory / ".lock", timeout=_LOCK_SECONDS):
            partial = directory / f"{_PARTIAL}{uuid4().hex[:8]}"
            partial.mkdir()
            digest = _fill(partial, write_index, contents)
            final = directory / f"{_PREFIX}{_next_number(directory):08d}-{uuid4().hex[:8]}"
            partial.rename(final)
            _sync(directory)
            _point(directory, final.name, digest)
            _sweep(directory, keep=final.name)
            return final
    except Timeout as error:
        raise BusyError(f"{directory}: another process has been writing this index for {_LOCK_SECONDS} s") from error
    except (OSError, RuntimeError) as error:  # faiss reports a failed write as RuntimeError
        raise StoreError(f"{directory}: the vector index could not be written: {error}") from error


def current_generation(directory: Path, fingerprint: Fingerprint) -> Generation:
    """The current generation, with every checksum verified.

    Raises:
        CorruptIndexError: there is none, something is missing, truncated or altered, or it holds vectors of
            another encoder. The caller rebuilds from SQLite.
    """
    pointer = _read_pointer(directory)
    while True:
        try:
            return _verified(directory, pointer, fingerprint)
        except CorruptIndexError:
            latest = _read_pointer(directory)
            if latest == pointer:
                raise
            pointer = latest  # a writer switched, and swept what was being read


def _read_pointer(directory: Path) -> tuple[str, str]:
    try:
        name, digest = (directory / CURRENT).read_text("ascii").split()
    except (OSError, ValueError) as error:
        raise CorruptIndexError(f"{directory}: no readable {CURRENT} file") from error
    if not name.startswith(_PREFIX) or Path(name).name != name:
        raise CorruptIndexError(f"{directory}: {CURRENT} names {name!r}, which is not a generation")
    return name, digest


def _verified(directory: Path, pointer: tuple[str, str], fingerprint: Fingerprint) -> Generation:
    path = directory / pointer[0]
    try:
        raw = (path / MANIFEST_FILE).read_bytes()
        if hashlib.sha256(raw).hexdigest() != pointer[1]:
            raise CorruptIndexError(f"{path}: the manifest does not match its checksum")
        manifest: dict[str, Any] = json.loads(raw)
        if manifest.pop("format") != FORMAT:
            raise CorruptIndexError(f"{path}: written in another format")
        expected = manifest.pop("sha256")
        found = Fingerprint(**manifest.pop("fingerprint"))
        contents = Contents(fingerprint=found, **manifest)
        if found != fingerprint:
            raise CorruptIndexError(f"{path}: holds vectors of {found}, expected {fingerprint}")
        if _file_digest(path / INDEX_FILE) != expected:
            raise CorruptIndexError(f"{path}: the index file does not match its checksum")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise CorruptIndexError(f"{path}: {error}") from error
    return Generation(path, contents)


def _fill(partial: Path, write_index: Callable[[Path], None], contents: Contents) -> str:
    """Write both files durably; returns the manifest's digest."""
    index_file = partial / INDEX_FILE
    write_index(index_file)
    _sync(index_file)
    manifest = {"format": FORMAT, "sha256": _file_digest(index_file), **asdict(contents)}
    raw = json.dumps(manifest, indent=1, sort_keys=True).encode()
    (partial / MANIFEST_FILE).write_bytes(raw)
    _sync(partial / MANIFEST_FILE)
    _sync(partial)
    return hashlib.sha256(raw).hexdigest()


def _point(directory: Path, name: str, digest: str) -> None:
    fresh = directory / f"{CURRENT}.new"
    fresh.write_text(f"{name} {digest}\n", "ascii")
    _sync(fresh)
    fresh.replace(directory / CURRENT)
    _sync(directory)


def _sweep(directory: Path, keep: str) -> None:
    for path in directory.iterdir():
        if path.name != keep and path.name.startswith((_PREFIX, _PARTIAL)):
            shutil.rmtree(path, ignore_errors=True)


def _next_number(directory: Path) -> int:
    numbers = [path.name.split("-")[1] for path in directory.glob(f"{_PREFIX}*-*")]
    return max((int(number) for number in numbers if number.isdigit()), default=0) + 1


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Force a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
