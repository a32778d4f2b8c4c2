"""Where a confident student contradicts the teacher: often the teacher's errors, to be corrected by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intentmem.memory.errors import InputError, StoreError
from intentmem.memory.protocols import Decider
from intentmem.memory.tasks import Task

from .judging import agree
from .traces import Trace

_BATCH = 256


@dataclass(frozen=True, slots=True)
class Suspect:
    """A trace whose labels a student doubts. labels: the student's, with its confidence in them."""

    trace: Trace
    labels: tuple[str, ...]
    confidence: float

    def line(self) -> dict[str, Any]:
        """As it is written: the teacher's `labels` stand ready to be replaced by hand."""
        names = dict(zip(self.trace.options.ids, self.trace.options.texts, strict=True))
        return {
            "key": self.trace.key,
            "task": self.trace.task,
            "conversation": self.trace.conversation,
            "seq": self.trace.seq,
            "fields": {k: v if isinstance(v, str) else list(v) for k, v in self.trace.fields.items()},
            "labels": list(self.trace.labels),
            "student": list(self.labels),
            "confidence": round(self.confidence, 4),
            "texts": {label: names[label] for label in (*self.trace.labels, *self.labels) if label in names},
        }


def suspects(decider: Decider, task: Task, traces: Sequence[Trace], least: float = 0.9) -> list[Suspect]:
    """Traces that a student contradicts at a confidence of at least `least`, the surest first.

    Raises:
        InputError: a confidence outside [0, 1].
    """
    if not 0 <= least <= 1:
        raise InputError("confidence", f"is {least}", "a share between 0 and 1")
    found = []
    for start in range(0, len(traces), _BATCH):
        part = traces[start : start + _BATCH]
        for trace, decision in zip(part, decider.decide(task, [one.item() for one in part]), strict=True):
            if decision.confidence >= least and not agree(task, decision.labels, trace.labels):
                found.append(Suspect(trace, decision.labels, decision.confidence))
    return sorted(found, key=lambda one: -one.confidence)


def write_suspects(path: Path, found: Sequence[Suspect]) -> None:
    """Write JSONL, one suspect a line; a reader sees the former file or the whole new one.

    Raises:
        StoreError: the file cannot be written.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("w", encoding="utf-8", newline="\n") as file:
            for one in found:
                file.write(json.dumps(one.line(), ensure_ascii=False) + "\n")
        fresh.replace(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        fresh.unlink(missing_ok=True)


def read_corrections(path: Path) -> dict[str, tuple[str, ...]]:
    """Labels by key of the trace, from a file of suspects that was corrected by hand.

    Raises:
        InputError: it cannot be read; names the line.
    """
    found: dict[str, tuple[str, ...]] = {}
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise InputError("corrections", f"{path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            labels = row["labels"]
            if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
                raise TypeError("labels must be a list of texts")
            found[str(row["key"])] = tuple(labels)
        except (ValueError, KeyError, TypeError) as error:
            remedy = 'like {"key": "…", "labels": ["…"]}'
            raise InputError("corrections", f"{path} line {number}: {error!r}", remedy) from error
    return found
