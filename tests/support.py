"""Seams that need no model, and the usual memory over them, for tests of the whole job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import EmbedderError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.memory import Memory
from intentmem.memory.protocols import Clock, Decider, Embedder, TextKind, Writer
from intentmem.memory.store import Store
from intentmem.memory.tasks import Decision, Item, Space, Task
from intentmem.memory.types import Fingerprint, Mention, Record, RecordDraft, Snippet, Turn, Vector
from intentmem.memory.write.extractive import ExtractiveWriter


class FixedClock:
    """A present that stands still."""

    def __init__(self, now: datetime = datetime(2026, 3, 5, 12, 0, tzinfo=UTC)) -> None:
        self.instant = now

    def now(self) -> datetime:
        return self.instant


class QuickDecider:
    """Keeps to the first scope and gives no labels: for tests with many turns."""

    name = "quick"
    reads_window = False

    def __init__(self) -> None:
        self._baseline = BaselineDecider()

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        if task.space is Space.CLOSED:
            return self._baseline.decide(task, items)
        if task.space is Space.OPEN:
            return [Decision((), {}, 1.0, self.name) for _ in items]
        return [
            Decision(item.candidates.ids[:1], dict.fromkeys(item.candidates.ids[:1], 1.0), 1.0, self.name)
            for item in items
        ]


class QuickWriter:
    """Copies instead of wording."""

    name = "quick"

    def ground(self, turn: Turn, known: Sequence[Mention]) -> Snippet:
        return Snippet(turn.id, turn.text, turn.text[:80], decided_by=self.name)

    def name_scope(self, turn: Turn, taken: Sequence[str]) -> str:
        return f"matter {len(taken) + 1}"

    def name_label(self, turn: Turn, kind: str, taken: Sequence[str]) -> tuple[str, str]:
        return "", ""

    def gist(self, previous: str, turn: Turn) -> str:
        return previous or turn.text[:40]

    def summarise(self, turns: Sequence[Turn]) -> str:
        return turns[0].text[:40]

    def records(self, turns: Sequence[Turn], snippets: Mapping[str, Snippet]) -> Sequence[RecordDraft | Record]:
        return ()

    def unsupported(self, turns: Sequence[Turn]) -> int:
        return 0


class OtherEmbedder(HashEmbedder):
    """An encoder that is not the usual one: fewer places, another fingerprint."""

    def __init__(self) -> None:
        super().__init__(64)


class WatchedEmbedder:
    """Passes on to another embedder, after telling what it was given."""

    def __init__(self, watch: Callable[[Sequence[str], TextKind], None], inner: Embedder | None = None) -> None:
        self._watch = watch
        self._inner = inner or HashEmbedder()

    @property
    def fingerprint(self) -> Fingerprint:
        return self._inner.fingerprint

    def encode(self, texts: Sequence[str], kind: TextKind) -> Vector:
        self._watch(texts, kind)
        return self._inner.encode(texts, kind)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._inner.count_tokens(texts)


class FailingEmbedder(WatchedEmbedder):
    """Raises on passages while `broken`, after `after` more calls."""

    def __init__(self, inner: Embedder | None = None, after: int = 0) -> None:
        super().__init__(self._fail, inner)
        self.broken = True
        self._left = after

    def _fail(self, texts: Sequence[str], kind: TextKind) -> None:
        if self.broken and kind == "passage":
            if self._left <= 0:
                raise EmbedderError("the encoder is out")
            self._left -= 1


class WrongShape(HashEmbedder):
    """Claims 256 dimensions and returns 100 for passages."""

    def encode(self, texts: Sequence[str], kind: TextKind) -> Vector:
        if kind == "passage":
            return np.ones((len(texts), 100), np.float32)
        return super().encode(texts, kind)


def make_memory(
    folder: Path,
    *,
    embedder: Embedder | None = None,
    decider: Decider | None = None,
    writer: Writer | None = None,
    clock: Clock | None = None,
    **options: Any,
) -> Memory:
    """A memory by rules and hashes: everything but a model."""
    return Memory(
        Store(folder, busy_seconds=options.pop("busy_seconds", 60.0)),
        embedder or HashEmbedder(),
        decider or BaselineDecider(),
        writer or ExtractiveWriter(),
        clock or FixedClock(),
        **options,
    )


def quick_memory(folder: Path, **options: Any) -> Memory:
    """A memory that labels at no cost."""
    return make_memory(folder, **{"decider": QuickDecider(), "writer": QuickWriter(), **options})


def state_of(memory: Memory, namespace: str) -> dict[str, Any]:
    """The status of one namespace."""
    found: dict[str, Any] = memory.status(namespace)["namespaces"][0]
    return found


def texts_of(memory: Memory, namespace: str) -> list[str]:
    """Every stored text, in order of arrival."""
    return [turn["memory"] for turn in memory.list(namespace=namespace, limit=100_000)["results"]]


def bytes_under(folder: Path) -> bytes:
    """Everything that lies in the files of a folder."""
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def assert_sound(memory: Memory, namespace: str) -> None:
    """Every turn embedded and labelled, no orphans, the index agrees with SQLite, the file passes its own checks."""
    ordinal = memory.store.namespaces.ordinal(namespace)
    status = state_of(memory, namespace)
    assert status["embedded"] == status["turns"] == status["labelled"], status
    assert set(memory.store.orphans(ordinal).values()) == {0}
    index = memory.store.embeddings.index(ordinal, "turn", memory.embedder.fingerprint)
    rows = [
        row[0]
        for row in memory.store.database.read("SELECT row FROM turn WHERE namespace = ? ORDER BY row", (ordinal,))
    ]
    assert index.ids().tolist() == rows
    assert memory.store.database.read("PRAGMA integrity_check")[0][0] == "ok"
    assert memory.store.database.read("PRAGMA foreign_key_check") == []
    with memory.store.database.write() as connection:
        connection.execute("INSERT INTO lexical(lexical) VALUES ('integrity-check')")
