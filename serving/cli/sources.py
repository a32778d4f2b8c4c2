"""Files to ingest: conversations in common formats become turns with ids that are the same on every run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from intentmem.memory.errors import InputError
from intentmem.memory.types import NewTurn
from intentmem.memory.write.messages import parse_message, parse_role, parse_time

from .formats import Format

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".txt", ".md")
_LINE = re.compile(r"(?:\[(?P<time>[^\]\n]{8,40})\]\s*)?(?P<who>[^\W\d_][^:\n\[\]]{0,39}):(?:\s+(?P<said>.*))?")
_CONVERSATION_KEYS = ("id", "conversation_id", "session_id", "thread_id")


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns of one trajectory, in order; every turn has a `source_id`."""

    trajectory: str
    turns: tuple[NewTurn, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a path holds. `unusable` names each message that cannot be used; `notes` say what else was met."""

    format: str
    conversations: tuple[Conversation, ...]
    unusable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def turns(self) -> int:
        """Number of usable turns."""
        return sum(len(conversation.turns) for conversation in self.conversations)


@dataclass
class _File:
    path: Path
    text: str
    unusable: list[str] = field(default_factory=list)


def read_source(path: Path, format: Format = Format.AUTO) -> Reading:
    """Read a file, or the files of a folder in order of name.

    Raises:
        InputError: nothing is there, or it is in none of the formats.
    """
    if not path.exists():
        raise InputError("PATH", f"{path} does not exist")
    files = _files(path)
    kind = _recognised(files[0]) if format is Format.AUTO else format
    if kind in (Format.LOCOMO, Format.REALMEM):
        return _corpus(path, kind)
    conversations: list[Conversation] = []
    unusable: list[str] = []
    for file in map(_read, files):
        found = list(_text(file) if kind is Format.TEXT else _openai(file))
        conversations += [replace(c, turns=tuple(_with_ids(c.turns))) for c in found]
        unusable += file.unusable
    return Reading(kind.value, tuple(c for c in conversations if c.turns), tuple(unusable))


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(file for file in path.iterdir() if file.is_file() and file.suffix.lower() in _SUFFIXES)
    if not found:
        raise InputError("PATH", f"{path} holds no file to ingest", f"looked for {', '.join(_SUFFIXES)}")
    return found


def _read(path: Path) -> _File:
    try:
        raw = path.read_bytes()
        return _File(path, raw.decode("utf-8-sig"))
    except OSError as error:
        raise InputError("PATH", f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError("PATH", f"{path} is not UTF-8 at byte {error.start}", "convert it first") from error


def _recognised(path: Path) -> Format:
    from intentmem.train_data.files import recognise

    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return Format.OPENAI
    if path.suffix.lower() != ".json":
        return Format.TEXT
    corpus = recognise(_json(_read(path)))
    return Format(corpus) if corpus in ("locomo", "realmem") else Format.OPENAI


def _corpus(path: Path, kind: Format) -> Reading:
    from intentmem.train_data import load_corpus

    corpus = load_corpus(kind.value, path)
    notes = tuple(f"{count} times {fault.value}" for fault, count in corpus.problem_counts.items())
    return Reading(kind.value, tuple(Conversation(t.id, t.turns) for t in corpus.trajectories), (), notes)


def _json(file: _File) -> Any:
    try:
        return json.loads(file.text)
    except (ValueError, RecursionError) as error:
        raise InputError("PATH", f"{file.path} is not JSON: {error}", "--format says which format it is") from error


def _openai(file: _File) -> Iterator[Conversation]:
    if file.path.suffix.lower() in (".jsonl", ".ndjson"):
        entries = [
            (f"line {n}", _line(file, n, line)) for n, line in enumerate(file.text.splitlines(), 1) if line.strip()
        ]
    else:
        data = _json(file)
        if isinstance(data, Mapping) and "messages" not in data and isinstance(data.get("conversations"), list):
            data = data["conversations"]
        entries = [(f"[{n}]", entry) for n, entry in enumerate(data if isinstance(data, list) else [data])]
    loose = [(where, entry) for where, entry in entries if not (isinstance(entry, Mapping) and "messages" in entry)]
    if loose:
        yield Conversation(file.path.stem, tuple(_usable(file, loose)))
    for number, (where, entry) in enumerate(entries):
        if isinstance(entry, Mapping) and "messages" in entry:
            yield _object(file, number, where, entry, alone=len(entries) == 1)


def _object(file: _File, number: int, where: str, entry: Mapping[str, Any], alone: bool) -> Conversation:
    named = next((str(entry[key]) for key in _CONVERSATION_KEYS if entry.get(key)), None)
    messages = entry["messages"]
    if not isinstance(messages, list):
        file.unusable.append(f"{file.path.name} {where}.messages: is not a list")
        messages = []
    name = named or (file.path.stem if alone else f"{file.path.stem}-{number + 1}")
    return Conversation(name, tuple(_usable(file, [(f"{where}.messages[{n}]", m) for n, m in enumerate(messages)])))


def _line(file: _File, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return InputError(f"line {number}", f"is not JSON: {error}")


def _usable(file: _File, entries: list[tuple[str, Any]]) -> Iterator[NewTurn]:
    for where, entry in entries:
        try:
            if isinstance(entry, InputError):
                raise entry
            yield parse_message(entry, where)
        except InputError as error:
            file.unusable.append(f"{file.path.name} {error}")


def _text(file: _File) -> Iterator[Conversation]:
    """Lines `speaker: text`, optionally `[time] speaker: text`; any other or indented line continues the one before."""
    said: list[NewTurn] = []
    for number, line in enumerate(file.text.splitlines(), 1):
        opening = None if line[:1].isspace() else _LINE.fullmatch(line)
        if opening:
            said.append(_opened(file, number, opening))
        elif said:
            said[-1] = replace(said[-1], text=f"{said[-1].text}\n{line.strip()}")
        elif line.strip():
            file.unusable.append(f"{file.path.name} line {number}: text before the first `speaker:`")
    turns = [replace(turn, text=turn.text.strip()) for turn in said]
    yield Conversation(file.path.stem, tuple(turn for turn in turns if turn.text))


def _opened(file: _File, number: int, opening: re.Match[str]) -> NewTurn:
    who, text = opening["who"].strip(), opening["said"] or ""
    try:
        time = parse_time(opening["time"], "time")
    except InputError:
        file.unusable.append(f"{file.path.name} line {number}: [{opening['time']}] is not a time")
        time = None
    try:
        return NewTurn(parse_role(who, "role"), text, time=time)
    except InputError:
        return NewTurn("user", text, speaker=who, time=time)


def _with_ids(turns: tuple[NewTurn, ...]) -> Iterator[NewTurn]:
    """Ids from everything said up to a turn: the same file gives the same ids, and so does one that has grown since."""
    said = hashlib.sha256()
    for position, turn in enumerate(turns):
        said.update(f"{turn.role}\0{turn.speaker}\0{turn.text}\1".encode("utf-8", "replace"))
        yield turn if turn.source_id else replace(turn, source_id=f"{position}:{said.hexdigest()[:16]}")
