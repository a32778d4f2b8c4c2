"""What a served model answered for turns whose labelling is not finished: a retry finds it here, and asks no more."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ..types import Episode, Turn
from .database import Database

_CHUNK = 500


class ModelCalls:
    """The table of answers, by the turn they belong to and a key that holds all that was asked.

    An answer goes when its turn does, and when what it was for is written: it holds words of the turns around it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, wanted: Sequence[tuple[Turn, str]]) -> dict[tuple[str, str], Any]:
        """Answers by (id of the turn, key); what was never answered is left out.

        Turns and keys that are not of the turn's own namespace are never found.
        """
        keys = {(turn.row, key): turn for turn, key in wanted}
        rows = sorted({turn.row for turn, _ in wanted})
        found: dict[tuple[str, str], Any] = {}
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            for row in self._database.read(
                "SELECT c.turn, c.key, c.result, n.name FROM model_call c JOIN namespace n ON n.ordinal = c.namespace"
                f" WHERE c.turn IN ({marks})",
                part,
            ):
                turn = keys.get((row["turn"], row["key"]))
                if turn is not None and turn.namespace == row["name"]:
                    found[turn.id, row["key"]] = json.loads(row["result"])
        return found

    def keep(self, answers: Iterable[tuple[Turn, str, Any]]) -> None:
        """Write answers, JSON values, in one transaction; that of a turn removed meanwhile is dropped."""
        rows = [
            (key, json.dumps(result, ensure_ascii=False), time.time(), turn.row, turn.id, turn.namespace)
            for turn, key, result in answers
        ]
        if not rows:
            return
        with self._database.write() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO model_call (turn, namespace, key, result, created)"
                " SELECT t.row, t.namespace, ?, ?, ? FROM turn t JOIN namespace n ON n.ordinal = t.namespace"
                " WHERE t.row = ? AND t.id = ? AND n.name = ?",
                rows,
            )

    def drop(
        self, connection: sqlite3.Connection, namespace: int, turns: Iterable[Turn], episodes: Iterable[Episode] = ()
    ) -> None:
        """Forget what is written now, within the transaction that writes it."""
        connection.executemany(
            "DELETE FROM model_call WHERE namespace = ? AND turn = ?", [(namespace, turn.row) for turn in turns]
        )
        connection.executemany(
            "DELETE FROM model_call WHERE namespace = ? AND turn IN (SELECT row FROM turn WHERE namespace = ?"
            " AND trajectory = ? AND seq BETWEEN ? AND ?)",
            [(namespace, namespace, e.trajectory, e.first_seq, e.last_seq) for e in episodes],
        )

    def count(self, namespace: int) -> int:
        """Number of answers kept."""
        return int(self._database.read("SELECT count(*) FROM model_call WHERE namespace = ?", (namespace,))[0][0])
