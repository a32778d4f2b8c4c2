"""Namespaces: the wall between tenants. Every other table is read through an ordinal that only this one gives out."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any

from ..errors import InputError, UnknownNamespaceError
from .database import Database

MAX_NAME = 512


class Namespaces:
    """Names, ordinals and epochs.

    An ordinal is never given out twice. The epoch changes with everything but an append: a cache that holds an older
    one reloads.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def names(self) -> list[str]:
        """All namespaces, in order of creation."""
        return [row["name"] for row in self._database.read("SELECT name FROM namespace ORDER BY ordinal")]

    def ordinal(self, name: str) -> int:
        """The ordinal of a namespace.

        Raises:
            UnknownNamespaceError: it does not exist.
        """
        checked_name(name)
        found = self._database.read("SELECT ordinal FROM namespace WHERE name = ?", (name,))
        if not found:
            raise UnknownNamespaceError(name)
        return int(found[0]["ordinal"])

    def create(self, name: str) -> int:
        """The ordinal of a namespace, created where it does not exist."""
        checked_name(name)
        found = self._database.read("SELECT ordinal FROM namespace WHERE name = ?", (name,))
        if found:
            return int(found[0]["ordinal"])
        with self._database.write() as connection:
            connection.execute("INSERT OR IGNORE INTO namespace (name, created) VALUES (?, ?)", (name, time.time()))
        return self.ordinal(name)

    def epoch(self, ordinal: int) -> int:
        """Counter of changes that are not appends."""
        found = self._database.read("SELECT epoch FROM namespace WHERE ordinal = ?", (ordinal,))
        return int(found[0]["epoch"]) if found else -1

    def removals(self, ordinal: int) -> int:
        """Counter of changes that removed or replaced vectors."""
        found = self._database.read("SELECT removals FROM namespace WHERE ordinal = ?", (ordinal,))
        return int(found[0]["removals"]) if found else -1

    @staticmethod
    def bump(connection: sqlite3.Connection, ordinal: int, removed: bool = False) -> None:
        """Tell every cache, in every process, that something else than an append happened.

        `removed` says that vectors are gone: their indexes reload too.
        """
        connection.execute(
            "UPDATE namespace SET epoch = epoch + 1, removals = removals + ? WHERE ordinal = ?", (removed, ordinal)
        )

    def progress(self, ordinal: int, key: str) -> Any:
        """A small JSON value that a pipeline stage keeps between runs, or None."""
        found = self._database.read("SELECT value FROM progress WHERE namespace = ? AND key = ?", (ordinal, key))
        return json.loads(found[0]["value"]) if found else None

    @staticmethod
    def set_progress(connection: sqlite3.Connection, ordinal: int, key: str, value: Any) -> None:
        """Keep a small JSON value, within the caller's transaction."""
        connection.execute(
            "INSERT INTO progress VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            (ordinal, key, json.dumps(value)),
        )


def checked_name(name: str) -> str:
    """The name, if it can be one.

    Raises:
        InputError: empty, too long, or with control characters.
    """
    if not isinstance(name, str) or not name.strip():
        raise InputError("namespace", "is required and cannot be empty", "pass namespace=, user_id= or agent_id=")
    if len(name) > MAX_NAME:
        raise InputError("namespace", f"has {len(name)} characters", f"at most {MAX_NAME}")
    if any(not c.isprintable() for c in name):
        raise InputError("namespace", "holds a control character or a lone surrogate")
    return name
