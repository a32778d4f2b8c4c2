"""Turns: appended once, never rewritten."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from ..errors import NotFoundError
from ..types import Attachment, NewTurn, TimeSource, Turn, with_captions
from .database import Database
from .lexical import LexicalIndex, fold, terms

_CHUNK = 500
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


class Turns:
    """The table of turns and their words."""

    def __init__(self, database: Database, lexical: LexicalIndex) -> None:
        self._database = database
        self._lexical = lexical

    def append(
        self,
        connection: sqlite3.Connection,
        namespace: int,
        trajectory: str,
        turns: Sequence[tuple[NewTurn, datetime, TimeSource]],
        operation: str,
    ) -> list[int]:
        """Store turns at the end of a trajectory, searchable by their words at once; returns their rows."""
        found = connection.execute(
            "SELECT coalesce(max(seq), -1) FROM turn WHERE namespace = ? AND trajectory = ?", (namespace, trajectory)
        ).fetchone()
        rows = []
        for seq, (turn, time, source) in enumerate(turns, start=found[0] + 1):
            words = with_captions(turn.text, turn.attachments)
            length = len(terms(words))
            # As it will be read back, so that what is indexed now is what is taken out one day.
            time = _moment(time.timestamp(), _offset(time))
            cursor = connection.execute(
                "INSERT INTO turn (id, namespace, trajectory, seq, role, speaker, time, utc_offset, time_source,"
                " session, text, terms, asks, attachments, meta, source_id, digest, operation)"
                " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                (
                    f"turn_{secrets.token_hex(8)}",
                    namespace,
                    trajectory,
                    seq,
                    turn.role,
                    turn.speaker,
                    time.timestamp(),
                    _offset(time),
                    source,
                    turn.session,
                    turn.text,
                    length,
                    share_of_questions(turn.text),
                    json.dumps([_attachment_json(a) for a in turn.attachments], ensure_ascii=False),
                    json.dumps(dict(turn.meta), ensure_ascii=False),
                    turn.source_id,
                    digest(turn.role, turn.text),
                    operation,
                ),
            )
            row = int(cursor.lastrowid or 0)
            self._lexical.add(connection, namespace, row, words, words_about(turn.speaker, time))
            rows.append(row)
        return rows

    def get(self, namespace: int, turn_id: str) -> Turn:
        """One turn.

        Raises:
            NotFoundError: no such turn in this namespace.
        """
        found = self._database.read(f"{_SELECT} WHERE t.namespace = ? AND t.id = ?", (namespace, turn_id))
        if not found:
            raise NotFoundError("id", f"{turn_id!r} is not in this namespace", "list() shows what is")
        return _turn(found[0])

    def by_rows(self, namespace: int, rows: Iterable[int]) -> dict[int, Turn]:
        """Turns by their integer keys; absent ones are left out."""
        wanted = [int(row) for row in rows]
        found: dict[int, Turn] = {}
        for start in range(0, len(wanted), _CHUNK):
            part = wanted[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            for row in self._database.read(
                f"{_SELECT} WHERE +t.namespace = ? AND t.row IN ({marks})", (namespace, *part)
            ):
                found[row["row"]] = _turn(row)
        return found

    def after(self, namespace: int, row: int, limit: int, trajectory: str | None = None) -> list[Turn]:
        """Turns with a larger row, in order of arrival."""
        where, parameters = "", [namespace, row]
        if trajectory is not None:
            where, parameters = " AND t.trajectory = ?", [namespace, row, trajectory]  # type: ignore[list-item]
        return [
            _turn(found)
            for found in self._database.read(
                f"{_SELECT} WHERE t.namespace = ? AND t.row > ?{where} ORDER BY t.row LIMIT ?", (*parameters, limit)
            )
        ]

    def of_operation(self, namespace: int, operation: str, after_row: int, limit: int) -> list[Turn]:
        """The turns of one operation that come after a row."""
        return [
            _turn(found)
            for found in self._database.read(
                f"{_SELECT} WHERE t.namespace = ? AND t.operation = ? AND t.row > ? ORDER BY t.row LIMIT ?",
                (namespace, operation, after_row, limit),
            )
        ]

    def span(self, namespace: int, trajectory: str, first_seq: int, last_seq: int) -> list[Turn]:
        """A contiguous run of a trajectory, ends included."""
        return [
            _turn(found)
            for found in self._database.read(
                f"{_SELECT} WHERE t.namespace = ? AND t.trajectory = ? AND t.seq BETWEEN ? AND ? ORDER BY t.seq",
                (namespace, trajectory, first_seq, last_seq),
            )
        ]

    def rows_by_source(self, namespace: int) -> dict[str, int]:
        """Rows of the turns that brought an id of their own, by that id (the latest where trajectories share one)."""
        found = self._database.read(
            "SELECT source_id, row FROM turn WHERE namespace = ? AND source_id IS NOT NULL ORDER BY row", (namespace,)
        )
        return {row["source_id"]: row["row"] for row in found}

    def count(self, namespace: int) -> int:
        """Number of turns."""
        return int(self._database.read("SELECT count(*) FROM turn WHERE namespace = ?", (namespace,))[0][0])

    def trajectories(self, namespace: int) -> dict[str, int]:
        """Number of turns by trajectory, in order of first arrival."""
        found = self._database.read(
            "SELECT trajectory, count(*) AS n FROM turn WHERE namespace = ? GROUP BY trajectory ORDER BY min(row)",
            (namespace,),
        )
        return {row["trajectory"]: row["n"] for row in found}

    def remove(self, connection: sqlite3.Connection, namespace: int, turn: Turn) -> None:
        """Delete a turn with its words and every row that hangs on it."""
        self._lexical.remove(
            connection, namespace, turn.row, turn.searchable_text, words_about(turn.speaker, turn.time)
        )
        connection.execute("DELETE FROM turn WHERE row = ? AND namespace = ?", (turn.row, namespace))


def digest(role: str, text: str) -> bytes:
    """Identity of what was said, blind to case, width and spacing."""
    return hashlib.blake2b(
        f"{role}\0{' '.join(fold(text).split())}".encode("utf-8", "replace"), digest_size=16
    ).digest()


def share_of_questions(text: str) -> float:
    """How much of a text, by characters, stands in sentences that ask, in [0, 1]."""
    sentences = [s for s in _SENTENCE.split(text.strip()) if s]
    asked = sum(len(s) for s in sentences if s.endswith(("?", "？")))
    return asked / max(1, sum(map(len, sentences)))


def words_about(speaker: str | None, time: datetime) -> str:
    """Speaker and date as words, so that both can be searched."""
    # Not by strftime: the words must not change with the locale of the process.
    return f"{speaker or ''} {_DAYS[time.weekday()]} {time.day} {_MONTHS[time.month - 1]} {time.year:04}"


_SELECT = "SELECT t.*, n.name AS namespace_name FROM turn t JOIN namespace n ON n.ordinal = t.namespace"


def _attachment_json(attachment: Attachment) -> dict[str, Any]:
    return {
        "kind": attachment.kind,
        "uri": attachment.uri,
        "caption": attachment.caption,
        "meta": dict(attachment.meta),
    }


def _offset(time: datetime) -> int:
    # Towards zero: an offset stays within a day.
    return int((time.utcoffset() or timedelta()).total_seconds() / 60)


def _moment(seconds: float, offset: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).astimezone(timezone(timedelta(minutes=offset)) if offset else UTC)


def _turn(row: sqlite3.Row) -> Turn:
    return Turn(
        id=row["id"],
        row=row["row"],
        namespace=row["namespace_name"],
        trajectory=row["trajectory"],
        seq=row["seq"],
        role=row["role"],
        text=row["text"],
        speaker=row["speaker"],
        time=_moment(row["time"], row["utc_offset"]),
        time_source=row["time_source"],
        session=row["session"],
        attachments=tuple(Attachment(**a) for a in json.loads(row["attachments"])),
        meta=json.loads(row["meta"]),
        source_id=row["source_id"],
    )
