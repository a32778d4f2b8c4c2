"""What was decided about turns: scopes, labels, intents, snippets and episodes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..types import Episode, Intent, Label, Mention, Reference, Scope, ScopeMove, Scored, Snippet
from .database import Database

_CHUNK = 500


class Labels:
    """Rows that hang on turns; each says who decided it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # Scopes

    def add_scope(self, connection: sqlite3.Connection, namespace: int, scope: Scope, decided_by: str) -> None:
        """Insert a scope; of one that is there only the gist changes: its name and merges may have been set by hand."""
        connection.execute(
            "INSERT INTO scope (id, namespace, label, gist, parent, canonical, by_hand, decided_by)"
            " VALUES (?,?,?,?,?,?,?,?) ON CONFLICT (namespace, id) DO UPDATE SET gist = excluded.gist",
            (scope.id, namespace, scope.label, scope.gist, scope.parent, scope.canonical, scope.by_hand, decided_by),
        )

    def word_scope(self, connection: sqlite3.Connection, namespace: int, scope: str, label: str, gist: str) -> None:
        """Set the wording of a scope."""
        connection.execute(
            "UPDATE scope SET label = ?, gist = ? WHERE namespace = ? AND id = ?", (label, gist, namespace, scope)
        )

    def turns_of_scope(self, namespace: int, scope: str) -> list[int]:
        """Rows of the turns of one scope, ascending."""
        found = self._database.read(
            "SELECT turn FROM intent WHERE namespace = ? AND scope = ? ORDER BY turn", (namespace, scope)
        )
        return [int(row[0]) for row in found]

    def put_scope(self, connection: sqlite3.Connection, namespace: int, scope: Scope, decided_by: str) -> int:
        """Insert or update a scope; returns its row."""
        connection.execute(
            "INSERT INTO scope (id, namespace, label, gist, parent, canonical, by_hand, decided_by)"
            " VALUES (?,?,?,?,?,?,?,?) ON CONFLICT (namespace, id) DO UPDATE SET label = excluded.label,"
            " gist = excluded.gist, parent = excluded.parent, canonical = excluded.canonical,"
            " by_hand = excluded.by_hand",
            (scope.id, namespace, scope.label, scope.gist, scope.parent, scope.canonical, scope.by_hand, decided_by),
        )
        found = connection.execute("SELECT row FROM scope WHERE namespace = ? AND id = ?", (namespace, scope.id))
        return int(found.fetchone()[0])

    def scopes(self, namespace: int) -> dict[int, Scope]:
        """All scopes by row, oldest first, merged ones included."""
        found = self._database.read(
            "SELECT s.*, (SELECT count(*) FROM intent i WHERE i.namespace = s.namespace AND i.scope = s.id) AS turns"
            " FROM scope s WHERE s.namespace = ? ORDER BY s.row",
            (namespace,),
        )
        return {
            row["row"]: Scope(
                row["id"],
                row["label"],
                row["gist"],
                row["turns"],
                row["parent"],
                row["canonical"],
                bool(row["by_hand"]),
            )
            for row in found
        }

    def scope_names(self, namespace: int) -> dict[str, tuple[str, str]]:
        """For every scope id, the id and name of the scope that it stands for now."""
        found = self._database.read("SELECT id, label, canonical FROM scope WHERE namespace = ?", (namespace,))
        labels = {row["id"]: str(row["label"]) for row in found}
        ends = followed({row["id"]: row["canonical"] for row in found if row["canonical"] in labels})
        return {identity: (end := ends.get(identity, identity), labels[end]) for identity in labels}

    # Labels of the vocabularies

    def put_label(self, connection: sqlite3.Connection, namespace: int, label: Label, decided_by: str) -> None:
        """Insert or update a label of a vocabulary."""
        connection.execute(
            "INSERT INTO label (id, namespace, kind, name, description, parent, canonical, origin, decided_by)"
            " VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (namespace, id) DO UPDATE SET name = excluded.name, description ="
            " excluded.description, parent = excluded.parent, canonical = excluded.canonical, origin = excluded.origin"
            # What a person set meanwhile is not overwritten by growth.
            " WHERE label.origin != 'hand' OR excluded.origin = 'hand'",
            (
                label.id,
                namespace,
                label.kind,
                label.name,
                label.description,
                label.parent,
                label.canonical,
                label.origin,
                decided_by,
            ),
        )

    def labels(self, namespace: int, kind: str | None = None) -> list[Label]:
        """Labels that this namespace grew or changed, oldest first; the shared seeds are not stored."""
        where, parameters = ("", (namespace,)) if kind is None else (" AND kind = ?", (namespace, kind))
        found = self._database.read(f"SELECT * FROM label WHERE namespace = ?{where} ORDER BY row", parameters)
        return [
            Label(
                row["id"], row["kind"], row["name"], row["description"], row["parent"], row["canonical"], row["origin"]
            )
            for row in found
        ]

    def merged(self, namespace: int) -> dict[str, str]:
        """Ids of merged scopes and labels, with the id that each stands for now, merges of merges followed."""
        found = self._database.read(
            "SELECT id, canonical FROM scope WHERE namespace = :n AND canonical IS NOT NULL"
            " UNION ALL SELECT id, canonical FROM label WHERE namespace = :n AND canonical IS NOT NULL",
            {"n": namespace},
        )
        return followed({row["id"]: row["canonical"] for row in found})

    # Intents

    def put_intent(
        self, connection: sqlite3.Connection, namespace: int, row: int, intent: Intent, by_hand: bool
    ) -> None:
        """Write the intent of a turn; what a person set by hand is not overwritten by a decider."""
        connection.execute("DELETE FROM intent WHERE turn = ? AND (by_hand = 0 OR ?)", (row, by_hand))
        connection.execute(
            "INSERT OR IGNORE INTO intent (turn, namespace, scope, scope_probability, move, events, entity_types,"
            " near, decided_by, by_hand) VALUES (?,?,?,?,?,?,?,?,?,?)",
            (
                row,
                namespace,
                intent.scope.id,
                intent.scope.probability,
                intent.move.value,
                _scored_json(intent.events),
                _scored_json(intent.entity_types),
                _scored_json(intent.near),
                json.dumps(dict(intent.decided_by)),
                by_hand,
            ),
        )

    def intents(
        self, namespace: int, after: int = 0, turns: Sequence[int] | None = None
    ) -> list[tuple[int, int, Intent]]:
        """Intents as (row, turn row, intent): those written after a row, or those of the given turn rows."""
        if turns is None:
            found = self._database.read(
                f"{_INTENT} WHERE i.namespace = ? AND i.row > ? ORDER BY i.row", (namespace, after)
            )
            return [_intent(row) for row in found]
        result = []
        for part in _parts(turns):
            marks = ",".join("?" * len(part))
            sql = f"{_INTENT} WHERE +i.namespace = ? AND i.turn IN ({marks})"
            result += [_intent(row) for row in self._database.read(sql, (namespace, *part))]
        return result

    def last_intent(self, namespace: int) -> int:
        """Row of the intent written last, 0 where there is none."""
        found = self._database.read("SELECT max(row) FROM intent WHERE namespace = ?", (namespace,))
        return int(found[0][0] or 0)

    # Snippets

    def put_snippet(self, connection: sqlite3.Connection, namespace: int, row: int, snippet: Snippet) -> None:
        """Write the snippet of a turn."""
        connection.execute(
            "INSERT OR REPLACE INTO snippet VALUES (?,?,?,?,?,?,?)",
            (
                row,
                namespace,
                snippet.grounded,
                snippet.summary,
                json.dumps([asdict(r) for r in snippet.references], ensure_ascii=False),
                json.dumps([asdict(m) for m in snippet.mentions], ensure_ascii=False),
                snippet.decided_by,
            ),
        )

    def snippets(self, namespace: int, turns: Iterable[int]) -> dict[int, Snippet]:
        """Snippets by turn row."""
        result: dict[int, Snippet] = {}
        for part in _parts(list(turns)):
            marks = ",".join("?" * len(part))
            for row in self._database.read(
                f"SELECT s.*, t.id AS turn_id FROM snippet s JOIN turn t ON t.row = s.turn"
                f" WHERE +s.namespace = ? AND s.turn IN ({marks})",
                (namespace, *part),
            ):
                result[row["turn"]] = Snippet(
                    row["turn_id"],
                    row["grounded"],
                    row["summary"],
                    tuple(Reference(**r) for r in json.loads(row["refs"])),
                    tuple(Mention(**m) for m in json.loads(row["mentions"])),
                    row["decided_by"],
                )
        return result

    def mentions_in_scope(self, namespace: int, scope: str, limit: int) -> list[Mention]:
        """The latest mentions within a scope, oldest first."""
        found = self._database.read(
            "SELECT s.mentions FROM snippet s JOIN intent i ON i.turn = s.turn WHERE s.namespace = ? AND i.scope = ?"
            " AND s.mentions != '[]' ORDER BY s.turn DESC LIMIT ?",
            (namespace, scope, limit),
        )
        mentions = [Mention(**m) for row in reversed(found) for m in json.loads(row["mentions"])]
        return mentions[-limit:]

    # Episodes

    def put_episode(self, connection: sqlite3.Connection, namespace: int, episode: Episode, decided_by: str) -> None:
        """Insert or update an episode."""
        connection.execute(
            "INSERT INTO episode (id, namespace, trajectory, scope, first_seq, last_seq, summary, closed, decided_by)"
            " VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (namespace, id) DO UPDATE SET scope = excluded.scope, first_seq ="
            " excluded.first_seq, last_seq = excluded.last_seq, summary = excluded.summary, closed = excluded.closed,"
            " decided_by = excluded.decided_by",
            (
                episode.id,
                namespace,
                episode.trajectory,
                episode.scope,
                episode.first_seq,
                episode.last_seq,
                episode.summary,
                episode.closed,
                decided_by,
            ),
        )

    def episodes(self, namespace: int, trajectory: str | None = None, open_only: bool = False) -> list[Episode]:
        """Episodes in order of trajectory and time."""
        where, parameters = (
            ("", [namespace]) if trajectory is None else (" AND trajectory = ?", [namespace, trajectory])
        )
        where += " AND closed = 0" if open_only else ""
        found = self._database.read(
            f"SELECT * FROM episode WHERE namespace = ?{where} ORDER BY trajectory, first_seq, row", parameters
        )
        return [
            Episode(
                row["id"],
                row["trajectory"],
                row["scope"],
                row["first_seq"],
                row["last_seq"],
                row["summary"],
                bool(row["closed"]),
            )
            for row in found
        ]


def followed(pointers: Mapping[str, str]) -> dict[str, str]:
    """Where each pointer leads in the end; a circle, which no operation makes, ends where it closes."""
    ends = {}
    for start in pointers:
        end, seen = start, {start}
        while (following := pointers.get(end)) and following not in seen:
            seen.add(following)
            end = following
        ends[start] = end
    return ends


_INTENT = "SELECT i.*, t.id AS turn_id FROM intent i JOIN turn t ON t.row = i.turn"


def _intent(row: sqlite3.Row) -> tuple[int, int, Intent]:
    decided_by: Mapping[str, Any] = json.loads(row["decided_by"])
    return (
        row["row"],
        row["turn"],
        Intent(
            row["turn_id"],
            Scored(row["scope"], row["scope_probability"]),
            ScopeMove(row["move"]),
            tuple(Scored(i, p) for i, p in json.loads(row["events"])),
            tuple(Scored(i, p) for i, p in json.loads(row["entity_types"])),
            tuple(Scored(i, p) for i, p in json.loads(row["near"])),
            decided_by,
        ),
    )


def _scored_json(labels: Sequence[Scored]) -> str:
    return json.dumps([[label.id, round(label.probability, 4)] for label in labels])


def _parts(rows: Sequence[int]) -> list[list[int]]:
    return [[int(r) for r in rows[i : i + _CHUNK]] for i in range(0, len(rows), _CHUNK)]
