"""From messages to durable turns: what is worth keeping once, kept once, and acknowledged when it is on the disk."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ..errors import InputError
from ..protocols import Clock
from ..rendering import strip_rendered
from ..store import Store
from ..store.operations import Operation
from ..store.store import quotable
from ..store.turns import digest
from ..types import NewTurn, TimeSource, with_captions
from .messages import clean


@dataclass(frozen=True, slots=True)
class Receipt:
    """The acknowledgement of a write.

    rows: of the turns stored. duplicates: turns that were there already. suppressed: turns, or quotations within
    turns, left out because they repeat what memory itself rendered or what was deleted. repeated: the whole write had
    been acknowledged before, and `operation` is that one.
    """

    operation: Operation | None
    rows: tuple[int, ...]
    duplicates: int = 0
    suppressed: int = 0
    repeated: bool = False
    warnings: tuple[str, ...] = ()


class Intake:
    """The first stage of the write path."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def accept(self, namespace: int, trajectory: str, turns: Sequence[NewTurn], key: str | None = None) -> Receipt:
        """Store turns durably.

        Args:
            namespace: ordinal.
            trajectory: stream that the turns are appended to.
            turns: checked ones, in order.
            key: idempotency key; the same one twice is acknowledged with the first operation.

        Raises:
            InputError: the key, or a turn's id, was used for something else.
        """
        if key is not None and (not isinstance(key, str) or not key or clean(key) != key):
            raise InputError("idempotency_key", f"{key!r} is not a usable key", "pass a non-empty string")
        content = _content_digest(trajectory, turns)
        kept, suppressed = self._kept(namespace, turns)
        with self._store.database.write() as connection:
            earlier = self._earlier(connection, namespace, trajectory, key, content)
            if earlier:
                self._store.operations.seen_again(connection, earlier)
                return Receipt(earlier, (), duplicates=len(turns), repeated=True)
            fresh = [turn for turn in _distinct(kept) if not self._is_stored(connection, namespace, trajectory, turn)]
            duplicates = len(kept) - len(fresh)
            if not fresh:
                return Receipt(None, (), duplicates, suppressed)
            timed, warnings = self._timed(connection, namespace, trajectory, fresh)
            operation = _operation(namespace, trajectory, key, content)
            rows = self._store.turns.append(connection, namespace, trajectory, timed, operation.id)
            operation = replace(operation, last_row=rows[-1], turns=len(rows))
            self._store.operations.open(connection, operation)
            for turn in fresh:
                if turn.role == "user":
                    self._store.unbury(connection, namespace, turn.text)
        return Receipt(operation, tuple(rows), duplicates, suppressed, warnings=tuple(warnings))

    def _kept(self, namespace: int, turns: Sequence[NewTurn]) -> tuple[list[NewTurn], int]:
        """Turns without what memory rendered itself and without quotations of what was deleted."""
        kept, suppressed = [], 0
        buried = self._store.has_tombstones(namespace)
        for turn in turns:
            text = strip_rendered(turn.text)
            if buried and turn.role != "user":
                text = self._without_buried(namespace, text)
            suppressed += text != turn.text
            if text.strip() or (text == turn.text and turn.attachments):
                kept.append(turn if text == turn.text else replace(turn, text=text.strip()))
        return kept, suppressed

    def _without_buried(self, namespace: int, text: str) -> str:
        if self._store.is_buried(namespace, text):
            return ""
        for part in quotable(text):
            if self._store.is_buried(namespace, part):
                text = text.replace(part, "")
        return text

    def _earlier(
        self, connection: sqlite3.Connection, namespace: int, trajectory: str, key: str | None, content: str
    ) -> Operation | None:
        """The operation that this write repeats: the same key, or without one the same content directly before."""
        if key is None:
            latest = self._store.operations.latest(connection, namespace, trajectory)
            return latest if latest and latest.digest == content else None
        found = self._store.operations.by_key(connection, namespace, key)
        if found and found.digest != content:
            raise InputError("idempotency_key", f"{key!r} was used for another write", "use a new key for new content")
        return found

    def _is_stored(self, connection: sqlite3.Connection, namespace: int, trajectory: str, turn: NewTurn) -> bool:
        """Whether the turn is there already: its id is; or it is a standing instruction or tool output said before."""
        if turn.source_id is not None:
            found = connection.execute(
                "SELECT text FROM turn WHERE namespace = ? AND trajectory = ? AND source_id = ?",
                (namespace, trajectory, turn.source_id),
            ).fetchone()
            if found and found["text"] != turn.text:
                raise InputError(
                    "messages.id",
                    f"{turn.source_id!r} is stored with another text",
                    "use a new id, or delete that turn",
                )
            return found is not None
        if turn.role in ("system", "tool"):
            found = connection.execute(
                "SELECT 1 FROM turn WHERE namespace = ? AND digest = ?", (namespace, digest(turn.role, turn.text))
            ).fetchone()
            return found is not None
        return False

    def _timed(
        self, connection: sqlite3.Connection, namespace: int, trajectory: str, turns: Sequence[NewTurn]
    ) -> tuple[list[tuple[NewTurn, datetime, TimeSource]], list[str]]:
        last = connection.execute(
            "SELECT time FROM turn WHERE namespace = ? AND trajectory = ? ORDER BY seq DESC LIMIT 1",
            (namespace, trajectory),
        ).fetchone()
        previous = datetime.fromtimestamp(last["time"], UTC) if last else None
        timed: list[tuple[NewTurn, datetime, TimeSource]] = []
        inherited: datetime | None = None
        warnings: list[str] = []
        for i, turn in enumerate(turns):
            source: TimeSource = "given" if turn.time else "inherited" if inherited else "clock"
            moment = turn.time or inherited or self._clock.now()
            if turn.time is not None:
                inherited = moment
                if previous is not None and moment < previous:
                    warnings.append(f"messages[{i}].time {moment.isoformat()} is before the turn stored before it")
            previous = moment
            timed.append((turn, moment, source))
        if len(warnings) > 3:
            warnings = [*warnings[:3], f"and {len(warnings) - 3} more times out of order"]
        return timed, warnings


def _distinct(turns: Sequence[NewTurn]) -> list[NewTurn]:
    """Turns of one call without those that say again what it said before: the same id, instruction or tool output."""
    seen: set[object] = set()
    kept = []
    for turn in turns:
        if turn.source_id is not None:
            identity: object = turn.source_id
        elif turn.role in ("system", "tool"):
            identity = digest(turn.role, with_captions(turn.text, turn.attachments))
        else:
            identity = None
        if identity is None or identity not in seen:
            kept.append(turn)
        seen.add(identity)
    return kept


def _operation(namespace: int, trajectory: str, key: str | None, content: str) -> Operation:
    identity, now = f"op_{secrets.token_hex(8)}", time.time()
    return Operation(
        identity, namespace, key or identity, content, trajectory, "pending", "stored", 0, 0, 0, 1, 0, None, now, now
    )


def _content_digest(trajectory: str, turns: Sequence[NewTurn]) -> str:
    parts = [
        [
            t.role,
            with_captions(t.text, t.attachments),
            t.speaker,
            t.time.isoformat() if t.time else None,
            t.session,
            t.source_id,
        ]
        for t in turns
    ]
    return hashlib.sha256(json.dumps([trajectory, parts]).encode()).hexdigest()
