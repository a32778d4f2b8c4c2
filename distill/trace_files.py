"""Traces as JSONL, and as rows of a memory's store.

A file begins with a header; a line holds either a trace or options that later traces refer to by their key. It is
appended to while a teacher runs: a line that a kill cut short is dropped when the run is taken up again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from intentmem.memory.errors import InputError
from intentmem.memory.store.traces import TraceRow

from .traces import NO_LABELS, LabelSet, Trace

FORMAT, VERSION = "intentmem-traces", 1


def to_json(trace: Trace) -> dict[str, Any]:
    """A trace as plain values; its options by their key."""
    return {
        "task": trace.task,
        "task_hash": trace.task_hash,
        "fields": {name: value if isinstance(value, str) else list(value) for name, value in trace.fields.items()},
        "labels": list(trace.labels),
        "teacher": trace.teacher,
        "conversation": trace.conversation,
        "seq": trace.seq,
        "options": trace.options.key if trace.options.ids else "",
        "probabilities": dict(trace.probabilities),
        "prompt": trace.prompt,
        "turn": trace.turn,
        "time": trace.time.isoformat() if trace.time else None,
        "meta": dict(trace.meta),
    }


def from_json(values: Mapping[str, Any], options: Mapping[str, LabelSet]) -> Trace:
    """A trace from plain values.

    Raises:
        KeyError, TypeError, ValueError: something is missing or of another kind.
    """
    fields = {str(k): v if isinstance(v, str) else tuple(map(_text, v)) for k, v in values["fields"].items()}
    return Trace(
        task=_text(values["task"]),
        task_hash=_text(values["task_hash"]),
        fields=fields,
        labels=tuple(map(_text, values["labels"])),
        teacher=_text(values["teacher"]),
        conversation=_text(values["conversation"]),
        seq=int(values.get("seq", 0)),
        options=options[values["options"]] if values.get("options") else NO_LABELS,
        probabilities={str(k): float(p) for k, p in (values.get("probabilities") or {}).items()},
        prompt=str(values.get("prompt", "")),
        turn=values.get("turn"),
        time=datetime.fromisoformat(values["time"]) if values.get("time") else None,
        meta={str(k): _text(v) for k, v in (values.get("meta") or {}).items()},
    )


class TraceFile:
    """A file of traces, written line by line. Each trace is there once, whoever adds it again.

    Raises:
        InputError: the file is there and is not one of traces.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keys: set[str] = set()
        self._options: set[str] = set()
        if path.is_file() and path.stat().st_size:
            for trace in read_traces(path, cut_short=True):
                self.keys.add(trace.key)
                self._options.add(trace.options.key)
            _drop_cut_line(path)

    def append(self, traces: Iterable[Trace]) -> int:
        """Add traces that are not there yet, and bring them to the disk; returns how many.

        Raises:
            OSError: the file cannot be written; what it held is still there.
        """
        fresh = {trace.key: trace for trace in traces if trace.key not in self.keys}
        if not fresh:
            return 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8", newline="\n") as file:
            if not file.tell():
                _line(file, {"format": FORMAT, "version": VERSION})
            for trace in fresh.values():
                if trace.options.ids and trace.options.key not in self._options:
                    shared = {"options": trace.options.key, "ids": trace.options.ids, "texts": trace.options.texts}
                    _line(file, shared)
                    self._options.add(trace.options.key)
                _line(file, {"trace": to_json(trace)})
            file.flush()
            os.fsync(file.fileno())
        self.keys |= fresh.keys()
        return len(fresh)


def write_traces(path: Path, traces: Iterable[Trace]) -> int:
    """Write a new file under another name first and rename it; returns the number of traces, duplicates left out.

    Raises:
        OSError: it cannot be written; what was at `path` is untouched.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)
    try:
        file = TraceFile(partial)
        count = file.append(traces)
        if not count:
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps({"format": FORMAT, "version": VERSION}) + "\n", "utf-8")
        partial.replace(path)
        return count
    finally:
        partial.unlink(missing_ok=True)


def read_traces(path: Path, cut_short: bool = False) -> Iterator[Trace]:
    """Traces of a file, or of all `*.jsonl` files of a folder, each once.

    Args:
        cut_short: a last line that ends early is passed over; it is an error otherwise.

    Raises:
        InputError: nothing is there, or a line is no trace; names file and line.
    """
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise InputError("traces", f"no file of traces at {path}", "collect some: `intentmem distill collect`")
    seen: set[str] = set()
    for file in files:
        for trace in _read(file, cut_short):
            if trace.key not in seen:
                seen.add(trace.key)
                yield trace


def row_of(trace: Trace, reach: int = 0) -> TraceRow:
    """A trace as a row of a memory's store; `reach`: how many turns before its own it quotes.

    Raises:
        InputError: it belongs to no turn.
    """
    if trace.turn is None:
        raise InputError("trace.turn", "is missing", "only traces of stored turns are kept in a memory")
    return TraceRow(
        trace.key,
        trace.task,
        trace.task_hash,
        trace.teacher,
        trace.turn,
        reach,
        json.dumps(to_json(trace), ensure_ascii=False),
        trace.options.key,
        json.dumps([trace.options.ids, trace.options.texts], ensure_ascii=False),
    )


def trace_of(row: TraceRow) -> Trace:
    """The trace that a row holds."""
    ids, texts = json.loads(row.options)
    options = LabelSet(tuple(ids), tuple(texts))
    return from_json(json.loads(row.body), {options.key: options})


def _read(path: Path, cut_short: bool) -> Iterator[Trace]:
    options: dict[str, LabelSet] = {}
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            whole = line.endswith("\n")
            try:
                values = json.loads(line)
                if number == 1:
                    _check_header(values)
                elif "trace" in values:
                    yield from_json(values["trace"], options)
                else:
                    shared = LabelSet(tuple(map(_text, values["ids"])), tuple(map(_text, values["texts"])))
                    options[values["options"]] = shared
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                if cut_short and not whole:
                    return
                if isinstance(error, InputError):
                    raise
                raise InputError("traces", f"{path} line {number} is not a trace: {error!r}") from error


def _check_header(values: Any) -> None:
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ValueError("the first line is not a header of traces")
    if values.get("version") != VERSION:
        raise InputError("traces", f"are of version {values.get('version')}, known is {VERSION}", "upgrade intentmem")


def _drop_cut_line(path: Path) -> None:
    with path.open("rb+") as file:
        content = file.read()
        if not content.endswith(b"\n"):
            file.truncate(content.rfind(b"\n") + 1)


def _line(file: TextIO, values: Mapping[str, Any]) -> None:
    file.write(json.dumps(values, ensure_ascii=False) + "\n")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
