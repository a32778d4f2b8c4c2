"""Links between closed episodes, what they can be found by, and how far linking has come."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..types import Episode, Link, Trust
from .database import Database

_OUT, _IN, _BOTH = "out", "in", "both"
_SYMMETRIC, _DIRECTED = "symmetric", "directed"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An episode as seen over a link from another one, `of`.

    direction: "out" where `of` is the link's source, "in" where it is the target, "both" where it makes no difference.
    trajectory, first_seq, last_seq: where the turns of `episode` are, ends included. evidence: ids of turns of both.
    """

    of: str
    episode: str
    type: str
    direction: Literal["out", "in", "both"]
    confidence: float
    trust: Trust
    evidence: tuple[str, ...]
    trajectory: str
    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class Near:
    """An episode that has a key in common with another: when it began, and the row of its first turn."""

    key: str
    episode: str
    time: float
    place: int


class Links:
    """The tables of links and of the keys of episodes, and the column `linked` of episodes: 1 when done, else minus
    the number of attempts that failed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    # Reading

    def neighbours(self, namespace: int, rows: Iterable[int] = (), episodes: Iterable[str] = ()) -> list[Neighbour]:
        """What the episodes of some turns, and some episodes, are linked to; the surest first. One SQL statement.

        Args:
            namespace: ordinal.
            rows: rows of turns; those in no episode count for nothing.
            episodes: ids.
        """
        found = self._database.read(
            _NEIGHBOURS,
            {"n": namespace, "rows": json.dumps([int(row) for row in rows]), "episodes": json.dumps(list(episodes))},
        )
        return [
            Neighbour(
                **{name: row[name] for name in ("of", "episode", "type", "direction", "confidence", "trust")},
                evidence=tuple(json.loads(row["evidence"])),
                trajectory=row["trajectory"],
                first_seq=row["first_seq"],
                last_seq=row["last_seq"],
            )
            for row in found
        ]

    def find(
        self, namespace: int, episodes: Iterable[str] | None = None, types: Iterable[str] | None = None
    ) -> list[Link]:
        """Links in the order of their later ends' turns, of some episodes at either end, of some types, or all."""
        where, parameters = "", dict[str, Any](n=namespace)
        if episodes is not None:
            where += " AND (l.source IN (SELECT value FROM json_each(:e)) OR l.target IN"
            where += " (SELECT value FROM json_each(:e)))"
            parameters["e"] = json.dumps(list(episodes))
        if types is not None:
            where += " AND l.type IN (SELECT value FROM json_each(:t))"
            parameters["t"] = json.dumps(list(types))
        rows = self._database.read(
            "SELECT l.* FROM link l JOIN episode a ON a.namespace = l.namespace AND a.id = l.source"
            " JOIN episode b ON b.namespace = l.namespace AND b.id = l.target"
            f" WHERE l.namespace = :n{where} ORDER BY max(a.row, b.row), min(a.row, b.row), l.id",
            parameters,
        )
        return [_link(row) for row in rows]

    def episodes_of(self, namespace: int, rows: Iterable[int]) -> list[str]:
        """Ids of the episodes that hold some turns."""
        found = self._database.read(
            f"SELECT DISTINCT id FROM (SELECT ({_EPISODE_OF}) AS id FROM json_each(:rows) r CROSS JOIN turn t"
            " ON t.row = r.value AND t.namespace = :n) WHERE id IS NOT NULL",
            {"n": namespace, "rows": json.dumps([int(row) for row in rows])},
        )
        return [row["id"] for row in found]

    def near(self, namespace: int, keys: Sequence[str], time: float, place: int, reach: float, most: int) -> list[Near]:
        """Linked episodes that have one of the keys, for each key the `most` nearest before and after.

        Args:
            namespace: ordinal.
            time, place: beginning of the episode that looks around, and the row of its first turn.
            reach: seconds between the two beginnings at most.
        """
        found: list[Near] = []
        for key in keys:
            bounds = {"n": namespace, "key": key, "t": time, "p": place, "m": most}
            bounds |= {"low": time - reach, "high": time + reach}
            rows = self._database.read(_NEAR, bounds)
            found += [Near(key, row["episode"], row["time"], row["place"]) for row in rows]
        return found

    def frequency(self, namespace: int, key: str, most: int) -> int:
        """How many episodes have a key, counted up to `most`."""
        rows = self._database.read(
            "SELECT count(*) FROM (SELECT 1 FROM episode_key WHERE namespace = ? AND key = ? LIMIT ?)",
            (namespace, key, most),
        )
        return int(rows[0][0])

    def unlinked(self, namespace: int, most_attempts: int) -> list[Episode]:
        """Closed episodes that are not linked yet and have attempts left, in the order in which they were opened."""
        rows = self._database.read(
            "SELECT id, trajectory, scope, first_seq, last_seq, summary FROM episode WHERE namespace = ? AND closed = 1"
            " AND linked <= 0 AND linked > ? ORDER BY row",
            (namespace, -most_attempts),
        )
        return [_episode(row, closed=True) for row in rows]

    def episodes(self, namespace: int, ids: Iterable[str]) -> dict[str, Episode]:
        """Episodes by id; absent ones are left out."""
        rows = self._database.read(
            "SELECT id, trajectory, scope, first_seq, last_seq, summary, closed FROM episode WHERE namespace = ?"
            " AND id IN (SELECT value FROM json_each(?))",
            (namespace, json.dumps(list(ids))),
        )
        return {row["id"]: _episode(row, bool(row["closed"])) for row in rows}

    # Writing

    def put(self, connection: sqlite3.Connection, namespace: int, links: Sequence[Link]) -> int:
        """Store links; one that is there is left as it is. Returns how many are new."""
        before = connection.total_changes
        connection.executemany(
            "INSERT OR IGNORE INTO link (id, namespace, source, target, type, direction, confidence, trust, evidence,"
            " decided_by) VALUES (?,?,?,?,?,?,?,?,?,?)",
            [
                (
                    *(link.id, namespace, link.source, link.target, link.type),
                    *(_SYMMETRIC if link.symmetric else _DIRECTED, link.confidence, link.trust),
                    *(json.dumps(link.evidence), link.decided_by),
                )
                for link in links
            ],
        )
        return connection.total_changes - before

    def linked(
        self, connection: sqlite3.Connection, namespace: int, episode: str, keys: Iterable[str], time: float, place: int
    ) -> None:
        """Note that the links of an episode are stored, and what later ones find it by."""
        connection.executemany(
            "INSERT OR IGNORE INTO episode_key VALUES (?,?,?,?,?)",
            [(namespace, key, time, place, episode) for key in keys],
        )
        connection.execute("UPDATE episode SET linked = 1 WHERE namespace = ? AND id = ?", (namespace, episode))

    def failed(self, connection: sqlite3.Connection, namespace: int, episode: str) -> None:
        """Count an attempt that failed."""
        connection.execute(
            "UPDATE episode SET linked = linked - 1 WHERE namespace = ? AND id = ? AND linked <= 0",
            (namespace, episode),
        )

    def unlink(self, connection: sqlite3.Connection, namespace: int, rows: Iterable[int]) -> None:
        """Remove the links of the episodes that hold some turns, which are removed or labelled anew: what is left of
        an episode is judged again.
        """
        ids = json.dumps(self.episodes_of(namespace, rows))
        for statement in _UNLINK:
            connection.execute(statement, {"n": namespace, "e": ids})


_EPISODE_OF = (
    "SELECT CASE WHEN e.last_seq >= t.seq THEN e.id END FROM episode e WHERE e.namespace = :n"
    " AND e.trajectory = t.trajectory AND e.first_seq <= t.seq ORDER BY e.first_seq DESC, e.row DESC LIMIT 1"
)
"""Episodes of one trajectory do not overlap: the one that began last may hold the turn `t`, no other."""

# CROSS JOIN keeps the order of the tables: there are few rows to look up, and many turns.
_NEIGHBOURS = f"""
WITH asked(id) AS (
  SELECT value FROM json_each(:episodes)
  UNION SELECT ({_EPISODE_OF}) FROM json_each(:rows) r CROSS JOIN turn t ON t.row = r.value AND t.namespace = :n),
seen AS (
  SELECT a.id AS "of", l.target AS episode, l.type, l.confidence, l.trust, l.evidence,
    CASE l.direction WHEN '{_SYMMETRIC}' THEN '{_BOTH}' ELSE '{_OUT}' END AS direction
  FROM asked a CROSS JOIN link l ON l.namespace = :n AND l.source = a.id
  UNION ALL
  SELECT a.id, l.source, l.type, l.confidence, l.trust, l.evidence,
    CASE l.direction WHEN '{_SYMMETRIC}' THEN '{_BOTH}' ELSE '{_IN}' END
  FROM asked a CROSS JOIN link l ON l.namespace = :n AND l.target = a.id)
SELECT s.*, e.trajectory, e.first_seq, e.last_seq
FROM seen s CROSS JOIN episode e ON e.namespace = :n AND e.id = s.episode
ORDER BY s.confidence DESC, e.row DESC
"""

_NEAR = """
SELECT * FROM (
  SELECT episode, time, place FROM episode_key WHERE namespace = :n AND key = :key AND time >= :low
  AND (time, place) < (:t, :p) ORDER BY time DESC, place DESC LIMIT :m)
UNION ALL SELECT * FROM (
  SELECT episode, time, place FROM episode_key WHERE namespace = :n AND key = :key AND time <= :high
  AND (time, place) > (:t, :p) ORDER BY time, place LIMIT :m)
"""

_UNLINK = (
    "DELETE FROM link WHERE namespace = :n AND (source IN (SELECT value FROM json_each(:e))"
    " OR target IN (SELECT value FROM json_each(:e)))",
    "DELETE FROM episode_key WHERE namespace = :n AND episode IN (SELECT value FROM json_each(:e))",
    "UPDATE episode SET linked = 0 WHERE namespace = :n AND id IN (SELECT value FROM json_each(:e))",
)


def _episode(row: sqlite3.Row, closed: bool) -> Episode:
    return Episode(
        row["id"], row["trajectory"], row["scope"], row["first_seq"], row["last_seq"], row["summary"], closed
    )


def _link(row: sqlite3.Row) -> Link:
    return Link(
        id=row["id"],
        source=row["source"],
        target=row["target"],
        type=row["type"],
        confidence=row["confidence"],
        trust=row["trust"],
        evidence=tuple(json.loads(row["evidence"])),
        decided_by=row["decided_by"],
    )
