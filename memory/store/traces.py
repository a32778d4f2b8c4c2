"""What a teacher decided about stored turns, kept as examples to learn from. Their form belongs to `distill`."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..types import Turn
from .database import Database

_PAGE = 500


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A trace as it is stored.

    key: its identity; the same one twice is kept once. turn: id of the turn that was decided for. reach: how many turns
    before that one it quotes. body, options: JSON; options are stored once for all traces that share `options_key`.
    """

    key: str
    task: str
    task_hash: str
    teacher: str
    turn: str
    reach: int
    body: str
    options_key: str
    options: str


class TraceRows:
    """The table of traces. A trace goes with its turn, and with every turn that it quotes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, namespace: int, rows: Iterable[TraceRow]) -> int:
        """Store traces in one transaction; returns how many were new. That of a turn removed meanwhile is dropped."""
        rows, now = list(rows), time.time()
        if not rows:
            return 0
        with self._database.write() as connection:
            before = connection.total_changes
            connection.executemany(
                "INSERT OR IGNORE INTO trace"
                " (namespace, key, task, task_hash, teacher, turn, reach, body, options, created)"
                " SELECT t.namespace, ?, ?, ?, ?, t.row, ?, ?, ?, ? FROM turn t WHERE t.namespace = ? AND t.id = ?",
                [
                    (*(r.key, r.task, r.task_hash, r.teacher, r.reach, r.body, r.options_key), now, namespace, r.turn)
                    for r in rows
                ],
            )
            added = connection.total_changes - before
            if added:
                options = {r.options_key: r.options for r in rows}
                connection.executemany("INSERT OR IGNORE INTO trace_options VALUES (?, ?)", options.items())
        return added

    def read(self, namespace: int, task: str | None = None) -> Iterator[TraceRow]:
        """Traces in the order in which they were stored, a page at a time; all tasks where None."""
        last = 0
        while True:
            found = self._database.read(
                "SELECT r.row, r.key, r.task, r.task_hash, r.teacher, t.id, r.reach, r.body, r.options, o.body"
                " FROM trace r JOIN turn t ON t.row = r.turn JOIN trace_options o ON o.key = r.options"
                " WHERE r.namespace = ? AND r.row > ? AND (? IS NULL OR r.task = ?) ORDER BY r.row LIMIT ?",
                (namespace, last, task, task, _PAGE),
            )
            for row in found:
                yield TraceRow(*tuple(row)[1:])
            if len(found) < _PAGE:
                return
            last = found[-1]["row"]

    def count(self, namespace: int, task: str | None = None) -> int:
        """Number of traces."""
        found = self._database.read(
            "SELECT count(*) FROM trace WHERE namespace = ? AND (? IS NULL OR task = ?)", (namespace, task, task)
        )
        return int(found[0][0])

    def remove_quoting(self, connection: sqlite3.Connection, namespace: int, turn: Turn) -> None:
        """Remove the traces that quote a turn which is about to be removed, within the caller's transaction."""
        connection.execute(
            "DELETE FROM trace WHERE namespace = ? AND reach > 0 AND turn IN (SELECT t.row FROM turn t"
            " WHERE t.namespace = ? AND t.trajectory = ? AND t.seq > ? AND t.seq <= ? + trace.reach)",
            (namespace, namespace, turn.trajectory, turn.seq, turn.seq),
        )

    def remove_orphans(self, connection: sqlite3.Connection) -> None:
        """Remove options that no trace refers to any more, within the caller's transaction."""
        connection.execute("DELETE FROM trace_options WHERE key NOT IN (SELECT options FROM trace)")
