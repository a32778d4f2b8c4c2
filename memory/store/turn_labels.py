"""Labels that a user's own labelers put on turns."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence

from ..types import Scored
from .database import Database

_CHUNK = 500


class TurnLabels:
    """The table of labels by turn and task; they go with their turn."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(
        self,
        connection: sqlite3.Connection,
        namespace: int,
        task: str,
        labels: Mapping[int, Sequence[Scored]],
        decided_by: str,
    ) -> None:
        """Set a task's labels of turns, by row, in place of earlier ones, within the caller's transaction.

        A turn without any is noted as such, so that it is not asked about again.
        """
        connection.executemany(
            "DELETE FROM turn_label WHERE namespace = ? AND task = ? AND turn = ?",
            [(namespace, task, row) for row in labels],
        )
        connection.executemany(
            "INSERT INTO turn_label SELECT row, namespace, ?, ?, ?, ? FROM turn WHERE namespace = ? AND row = ?",
            [
                (task, one.id, one.probability, decided_by, namespace, row)
                for row, scored in labels.items()
                for one in (scored or [Scored("", 1.0)])
            ],
        )

    def of(self, namespace: int, rows: Sequence[int]) -> dict[int, dict[str, tuple[Scored, ...]]]:
        """Labels by row and task, best first; tasks that gave a turn none are left out."""
        found: defaultdict[int, defaultdict[str, list[Scored]]] = defaultdict(lambda: defaultdict(list))
        for start in range(0, len(rows), _CHUNK):
            part = [int(row) for row in rows[start : start + _CHUNK]]
            for row in self._database.read(
                "SELECT turn, task, label, probability FROM turn_label WHERE namespace = ? AND label != ''"
                f" AND turn IN ({','.join('?' * len(part))}) ORDER BY turn, task, probability DESC, label",
                [namespace, *part],
            ):
                found[row["turn"]][row["task"]].append(Scored(row["label"], row["probability"]))
        return {row: {task: tuple(given) for task, given in tasks.items()} for row, tasks in found.items()}

    def unlabelled(self, namespace: int, task: str, decided_by: str, limit: int) -> list[int]:
        """Rows of labelled turns that this decider has not labelled for a task, ascending."""
        found = self._database.read(
            "SELECT t.row FROM turn t JOIN intent i ON i.turn = t.row WHERE t.namespace = ? AND NOT EXISTS"
            " (SELECT 1 FROM turn_label l WHERE l.turn = t.row AND l.task = ? AND l.decided_by = ?)"
            " ORDER BY t.row LIMIT ?",
            (namespace, task, decided_by, limit),
        )
        return [int(row["row"]) for row in found]

    def rows_with(self, namespace: int, task: str, labels: Sequence[str]) -> set[int]:
        """Rows of the turns that carry any of the labels of a task."""
        marks = ",".join("?" * len(labels))
        found = self._database.read(
            f"SELECT turn FROM turn_label WHERE namespace = ? AND task = ? AND label IN ({marks})",
            [namespace, task, *labels],
        )
        return {int(row["turn"]) for row in found}

    def known(self, namespace: int) -> dict[str, tuple[str, ...]]:
        """Labels in use by task."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for row in self._database.read(
            "SELECT DISTINCT task, label FROM turn_label WHERE namespace = ? ORDER BY task, label", (namespace,)
        ):
            found[row["task"]] += [row["label"]] if row["label"] else []
        return {task: tuple(labels) for task, labels in found.items()}
