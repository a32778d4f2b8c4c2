"""Source files: finding, reading once with their digest, and telling one corpus' format from another's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from intentmem.memory.errors import InputError

from .schemas import Card

SCHEMA_FILE = "schema.json"
LOADABLE = ("beam", "came_bench", "locomo", "longmemeval", "memconflict", "realmem", "sgd", "tiage")
"""Names of the formats that a loader reads."""


def find_files(path: str | Path, card: Card, *patterns: str) -> list[Path]:
    """The files of a corpus at a path, sorted by name: the file itself, or those of a folder.

    In a folder the first of `patterns` that matches decides.

    Raises:
        InputError: nothing is there, or nothing that matches.
    """
    root = Path(path)
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise InputError("path", f"{root} does not exist", f"{card.title} can be had from {card.home}")
    for pattern in patterns:
        if found := sorted(file for file in root.glob(pattern) if file.is_file() and file.name != SCHEMA_FILE):
            return found
    inner = sorted(child.name for child in root.iterdir() if child.is_dir())
    remedy = f"point at one of its folders: {', '.join(inner)}" if inner else f"get the files from {card.home}"
    raise InputError("path", f"{root} holds no {' or '.join(patterns)} of {card.title}", remedy)


class Reader:
    """Reads text files once, and remembers what it read."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    @property
    def hash(self) -> str:
        """Sha256 over the digests of the files read, in order of name; independent of where they lie."""
        lines = [digest for _, digest in sorted(self._digests.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def text(self, path: Path) -> str:
        """The content of a file.

        Raises:
            InputError: it cannot be read, or is not UTF-8.
        """
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise InputError(path.name, f"cannot be read: {error.strerror}") from error
        self._digests[str(path)] = hashlib.sha256(raw).hexdigest()
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(path.name, f"is not UTF-8 at byte {error.start}", "download it again") from error

    def json(self, path: Path) -> Any:
        """The content of a JSON file.

        Raises:
            InputError: as for `text`, or it is not JSON.
        """
        text = self.text(path)
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            remedy = "download it again; a file of a few lines may be a Git LFS pointer"
            raise InputError(path.name, f"is not JSON{where}", remedy) from error

    def json_lines(self, path: Path) -> list[Any]:
        """The values of a file of JSON lines; what is no JSON stands as None. One JSON value is one line.

        Raises:
            InputError: as for `text`, or no line of it is JSON.
        """
        text = self.text(path)
        try:
            return [json.loads(text)]
        except (ValueError, RecursionError):
            values = [_value(line) for line in text.split("\n") if line.strip()]
        if all(value is None for value in values):
            raise InputError(path.name, "is not JSON lines", "a file of a few lines may be a Git LFS pointer")
        return values


def recognise(data: Any) -> str | None:
    """The corpus whose format parsed JSON has; None if it is none that is known."""
    if isinstance(data, dict):
        if "dialogues" in data:
            return "realmem"
        if "conversation" in data:
            return "locomo"
        if "Full_Session_Chain" in data:
            return "memconflict"
        if {"id", "role", "content"} <= data.keys():
            return "came_bench"
        first = next(iter(data.values()), None)
        return "tiage" if isinstance(first, list) and first and isinstance(first[0], list) else None
    first = data[0] if isinstance(data, list) and data else None
    if not isinstance(first, dict):
        return None
    marks = {
        "conversation": "locomo",
        "dialogue_id": "sgd",
        "service_name": "the schema of sgd",
        "haystack_sessions": "longmemeval",
        "turns": "beam",
    }
    if found := next((name for mark, name in marks.items() if mark in first), None):
        return found
    # The longest chats of BEAM are a list of plans, each an object with a list of batches.
    return "beam" if any(mappings(inner) and "turns" in mappings(inner)[0] for inner in first.values()) else None


def expect(data: Any, card: Card, path: Path, shape: str) -> None:
    """Refuse parsed JSON of another format.

    Raises:
        InputError: names the file, what it is, and what was expected.
    """
    found = recognise(data)
    if found == card.name:
        return
    problem = f"has the format of {found}, not of {card.name}" if found else f"is not in the format of {card.name}"
    raise InputError(path.name, problem, f"load_corpus({found!r}, ...)" if found in LOADABLE else f"expected {shape}")


def need(holder: Any, key: str, kind: type, where: str) -> Any:
    """A field without which a file cannot be used.

    Raises:
        InputError: it is absent or of another type.
    """
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, kind):
        raise InputError(f"{where}.{key}", f"must be a {kind.__name__}", "compare with the published file")
    return value


def text_of(holder: Any, key: str) -> str | None:
    """A text field, None where absent or of another type."""
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, str) else None


def mappings(value: Any) -> list[dict[str, Any]]:
    """The objects of a JSON list; [] for anything else."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """The texts of a JSON list; [] for anything else."""
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def parse_instant(text: str | None) -> datetime | None:
    """Read an ISO 8601 date or time; one without a zone is UTC. None if it is none."""
    try:
        found = datetime.fromisoformat((text or "").strip())
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def distinct(wanted: str, taken: set[str]) -> str:
    """`wanted`, or `wanted#2` and so on where it is taken; the result is then taken."""
    name = next(name for name in _numbered(wanted) if name not in taken)
    taken.add(name)
    return name


def _value(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _numbered(name: str) -> Iterator[str]:
    yield name
    count = 2
    while True:
        yield f"{name}#{count}"
        count += 1
