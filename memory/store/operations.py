"""Operations: what was acknowledged, how far it has come, and what it cost."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from typing import Literal

from ..errors import NotFoundError
from .database import Database

Status = Literal["pending", "done", "failed"]
Stage = Literal["stored", "embedded", "labelled"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One acknowledged write.

    `done_row` is the last turn row that went through every stage, `last_row` the last one that must; `seen` counts
    how often the same write arrived.
    """

    id: str
    namespace: int
    key: str
    digest: str
    trajectory: str
    status: Status
    stage: Stage
    done_row: int
    last_row: int
    turns: int
    seen: int
    attempts: int
    error: str | None
    created: float
    updated: float


class Operations:
    """The table of operations and the ledger of usage."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, connection: sqlite3.Connection, operation: Operation) -> None:
        """Record an operation within the transaction that stores its turns."""
        connection.execute(
            "INSERT INTO operation VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            tuple(getattr(operation, name) for name in Operation.__slots__),
        )

    def by_key(self, connection: sqlite3.Connection, namespace: int, key: str) -> Operation | None:
        """The operation with an idempotency key."""
        found = connection.execute(
            "SELECT * FROM operation WHERE namespace = ? AND key = ?", (namespace, key)
        ).fetchone()
        return Operation(*found) if found else None

    def latest(self, connection: sqlite3.Connection, namespace: int, trajectory: str) -> Operation | None:
        """The last operation on a trajectory."""
        found = connection.execute(
            "SELECT * FROM operation WHERE namespace = ? AND trajectory = ? ORDER BY created DESC, rowid DESC LIMIT 1",
            (namespace, trajectory),
        ).fetchone()
        return Operation(*found) if found else None

    def seen_again(self, connection: sqlite3.Connection, operation: Operation) -> None:
        """Count a repeated write instead of storing it."""
        connection.execute(
            "UPDATE operation SET seen = seen + 1, updated = ? WHERE id = ?", (time.time(), operation.id)
        )

    def get(self, namespace: int, operation_id: str) -> Operation:
        """One operation.

        Raises:
            NotFoundError: no such operation in this namespace.
        """
        found = self._database.read("SELECT * FROM operation WHERE namespace = ? AND id = ?", (namespace, operation_id))
        if not found:
            raise NotFoundError("operation", f"{operation_id!r} is not in this namespace")
        return Operation(*found[0])

    def unfinished(self, max_attempts: int, namespace: int | None = None, limit: int = 1000) -> list[Operation]:
        """Operations to work on, oldest first: pending ones, and failed ones with attempts left."""
        where = "" if namespace is None else " AND namespace = ?"
        found = self._database.read(
            "SELECT * FROM operation WHERE status IN ('pending', 'failed') AND attempts < ?"
            f"{where} ORDER BY created, rowid LIMIT ?",
            (max_attempts, *([] if namespace is None else [namespace]), limit),
        )
        return [Operation(*row) for row in found]

    def failures(self, namespace: int) -> list[Operation]:
        """Failed operations, oldest first."""
        found = self._database.read(
            "SELECT * FROM operation WHERE namespace = ? AND status = 'failed' ORDER BY created", (namespace,)
        )
        return [Operation(*row) for row in found]

    def counts(self, namespace: int) -> dict[str, int]:
        """Number of operations by status."""
        found = self._database.read(
            "SELECT status, count(*) FROM operation WHERE namespace = ? GROUP BY status", (namespace,)
        )
        return {row[0]: row[1] for row in found}

    def advance(
        self, connection: sqlite3.Connection, operation: str, stage: Stage, done_row: int | None = None
    ) -> None:
        """Move an operation on; when its last row has been labelled it is done."""
        connection.execute(
            "UPDATE operation SET stage = ?, done_row = coalesce(?, done_row), error = NULL, updated = ?,"
            " status = CASE WHEN coalesce(?, done_row) >= last_row AND ? = 'labelled' THEN 'done' ELSE 'pending' END"
            " WHERE id = ?",
            (stage, done_row, time.time(), done_row, stage, operation),
        )

    def fail(self, connection: sqlite3.Connection, operation: str, error: str) -> None:
        """Mark an operation failed with a reason; its turns stay searchable, a retry resumes at the failed stage."""
        connection.execute(
            "UPDATE operation SET status = 'failed', attempts = attempts + 1, error = ?, updated = ? WHERE id = ?",
            (error[:2000], time.time(), operation),
        )

    def reset_attempts(self, connection: sqlite3.Connection, namespace: int) -> int:
        """Give failed operations their attempts back; returns how many there are."""
        cursor = connection.execute(
            "UPDATE operation SET attempts = 0, status = 'pending' WHERE namespace = ? AND status = 'failed'",
            (namespace,),
        )
        return int(cursor.rowcount)

    def charge(
        self,
        connection: sqlite3.Connection,
        namespace: int,
        operation: str,
        task: str,
        decider: str,
        items: int,
        seconds: float,
        calls: int = 0,
        tokens: int = 0,
    ) -> None:
        """Add to the durable ledger; `calls` and `tokens` count a served model's, zero for local deciders."""
        connection.execute(
            "INSERT INTO usage VALUES (?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET calls = calls + excluded.calls,"
            " items = items + excluded.items, tokens = tokens + excluded.tokens, seconds = seconds + excluded.seconds",
            (namespace, operation, task, decider, calls, items, tokens, seconds),
        )

    def usage(self, namespace: int, operation: str | None = None) -> list[dict[str, str | int | float]]:
        """Totals by task and decider, of one operation or of all."""
        where, parameters = ("", [namespace]) if operation is None else (" AND operation = ?", [namespace, operation])
        found = self._database.read(
            "SELECT task, decider, sum(calls) AS calls, sum(items) AS items, sum(tokens) AS tokens,"
            f" round(sum(seconds), 4) AS seconds FROM usage WHERE namespace = ?{where} GROUP BY task, decider",
            parameters,
        )
        return [dict(row) for row in found]
