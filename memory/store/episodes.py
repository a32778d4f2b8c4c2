"""How far the records of closed episodes have come."""

from __future__ import annotations

import sqlite3

from ..types import Episode
from .database import Database


class Episodes:
    """The column `recorded` of the table of episodes: 1 when done, else minus the number of attempts that failed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def unrecorded(self, namespace: int, most_attempts: int) -> list[Episode]:
        """Closed episodes that have no records yet and attempts left, in the order in which they were opened."""
        found = self._database.read(
            "SELECT id, trajectory, scope, first_seq, last_seq, summary FROM episode WHERE namespace = ? AND closed = 1"
            " AND recorded <= 0 AND recorded > ? ORDER BY row",
            (namespace, -most_attempts),
        )
        return [
            Episode(
                id=row["id"],
                trajectory=row["trajectory"],
                scope=row["scope"],
                first_seq=row["first_seq"],
                last_seq=row["last_seq"],
                summary=row["summary"],
                closed=True,
            )
            for row in found
        ]

    def recorded(self, connection: sqlite3.Connection, namespace: int, episode: str) -> None:
        """Note that the records of an episode are stored."""
        connection.execute("UPDATE episode SET recorded = 1 WHERE namespace = ? AND id = ?", (namespace, episode))

    def failed(self, connection: sqlite3.Connection, namespace: int, episode: str) -> None:
        """Count an attempt that failed."""
        connection.execute(
            "UPDATE episode SET recorded = recorded - 1 WHERE namespace = ? AND id = ? AND recorded <= 0",
            (namespace, episode),
        )

    def reset_attempts(self, connection: sqlite3.Connection, namespace: int) -> None:
        """Give episodes without records, or without links, their attempts back."""
        connection.execute(
            "UPDATE episode SET recorded = max(recorded, 0), linked = max(linked, 0) WHERE namespace = ?"
            " AND (recorded < 0 OR linked < 0)",
            (namespace,),
        )
