"""Records: claims with the turns that say them. They are the log; states are reduced from it."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from ..types import Evidence, Record
from ..versions import Authority, Choice, Claim, Operation, ReadRecord, StateKey
from .database import Database

CHANGES = "records"
"""Name in the table of progress of the counter of changes to which records a namespace has."""
_OF_THE_ROW = ("record", "turn", "said", "order")
_CHUNK = 500


class Records:
    """The tables of records, their evidence, the aliases of entities, and what was decided between claims."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, connection: sqlite3.Connection, namespace: int, records: Sequence[ReadRecord]) -> int:
        """Store records; of one that is there only new evidence is added. Returns how many are new."""
        new = 0
        for read in records:
            record = read.record
            cursor = connection.execute(
                "INSERT OR IGNORE INTO record (id, namespace, entity, entity_type, property, value, condition,"
                " modality, valid_time, speaker, episode, evidence, confidence, decided_by, entity_key, property_key,"
                " condition_key, relation, plural) VALUES (?,?,?,?,?,?,?,?,?,?,?,'[]',1.0,?,?,?,?,?,?)",
                (
                    *(read.id, namespace, record.entity, record.entity_type, record.property, record.value),
                    *(record.condition, record.modality, _valid_time(record), record.speaker, record.episode),
                    *(record.decided_by, read.key.entity, read.key.property, read.key.condition),
                    *(record.relation, read.plural),
                ),
            )
            new += cursor.rowcount
            connection.executemany(
                "INSERT OR IGNORE INTO record_evidence VALUES (?,?,?,?,?,?,?)",
                [
                    (namespace, read.id, e.turn, e.start, e.end, said.states, _packed(said.claim))
                    for said in read.said
                    for e in (said.evidence,)
                ],
            )
        self._list_evidence(connection, namespace, [read.id for read in records])
        if new:
            self._count_change(connection, namespace)
        return new

    def _count_change(self, connection: sqlite3.Connection, namespace: int) -> None:
        connection.execute(
            "INSERT INTO progress VALUES (?, ?, '1') ON CONFLICT DO UPDATE SET value = CAST(value AS INTEGER) + 1",
            (namespace, CHANGES),
        )

    def _list_evidence(self, connection: sqlite3.Connection, namespace: int, ids: Iterable[str]) -> None:
        connection.executemany(
            "UPDATE record SET evidence = (SELECT json_group_array(turn) FROM record_evidence e"
            " WHERE e.namespace = record.namespace AND e.record = record.id) WHERE namespace = ? AND id = ?",
            [(namespace, identity) for identity in ids],
        )

    def prune(self, connection: sqlite3.Connection, namespace: int, ids: Iterable[str]) -> None:
        """Drop those of some records that no turn states any more, and aliases of entities that are gone with them."""
        touched = list(ids)
        gone = connection.executemany(
            "DELETE FROM record WHERE namespace = ? AND id = ? AND NOT EXISTS (SELECT 1 FROM record_evidence e"
            " WHERE e.namespace = record.namespace AND e.record = record.id AND e.states = 1)",
            [(namespace, identity) for identity in touched],
        )
        if gone.rowcount > 0:
            self._count_change(connection, namespace)
        self._list_evidence(connection, namespace, touched)
        connection.execute(
            "DELETE FROM entity_alias WHERE namespace = :n AND alias NOT IN (SELECT entity_key FROM record"
            " WHERE namespace = :n) AND alias NOT IN (SELECT target FROM entity_alias WHERE namespace = :n)",
            {"n": namespace},
        )

    def of_turns(self, namespace: int, turns: Sequence[str]) -> dict[str, StateKey]:
        """Records that some turns say or support, by id, with their keys."""
        found: dict[str, StateKey] = {}
        for start in range(0, len(turns), _CHUNK):
            part = turns[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            for row in self._database.read(
                "SELECT r.id, r.entity_key, r.property_key, r.condition_key FROM record_evidence e JOIN record r"
                f" ON r.namespace = e.namespace AND r.id = e.record WHERE e.namespace = ? AND e.turn IN ({marks})",
                (namespace, *part),
            ):
                found[row["id"]] = StateKey(*tuple(row)[1:])
        return found

    def get(self, namespace: int, ids: Sequence[str]) -> dict[str, Record]:
        """Records by id; absent ones are left out."""
        found: dict[str, Record] = {}
        for start in range(0, len(ids), _CHUNK):
            part = ids[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            rows = self._database.read(
                f"SELECT * FROM record WHERE namespace = ? AND id IN ({marks})", (namespace, *part)
            )
            places = self._places(namespace, part)
            found |= {row["id"]: _record(row, places[row["id"]]) for row in rows}
        return found

    def names(self, namespace: int, ids: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """Entity, property and condition of records as they were written, by id."""
        rows = self._database.read(
            "SELECT id, entity, property, condition FROM record WHERE namespace = ?"
            " AND id IN (SELECT value FROM json_each(?))",
            (namespace, json.dumps(list(ids))),
        )
        return {row["id"]: (row["entity"], row["property"], row["condition"]) for row in rows}

    def find(
        self,
        namespace: int,
        entities: Sequence[str] | None = None,
        properties: Sequence[str] | None = None,
        turns: Sequence[str] | None = None,
    ) -> list[str]:
        """Ids of records in the order of their first evidence, of some entities' and properties' keys and turns."""
        where, parameters = "", list[str]()
        for column, wanted in (("r.entity_key", entities), ("r.property_key", properties), ("e.turn", turns)):
            if wanted is not None:
                where += f" AND {column} IN (SELECT value FROM json_each(?))"
                parameters.append(json.dumps(list(wanted)))
        rows = self._database.read(
            "SELECT r.id FROM record r JOIN record_evidence e ON e.namespace = r.namespace AND e.record = r.id"
            f" JOIN turn t ON t.namespace = e.namespace AND t.id = e.turn WHERE r.namespace = ?{where}"
            " GROUP BY r.id ORDER BY min(t.row), min(e.first), r.id",
            (namespace, *parameters),
        )
        return [row["id"] for row in rows]

    def counts(self, namespace: int) -> dict[str, int]:
        """Number of records by the name of their property."""
        rows = self._database.read(
            "SELECT property, count(*) AS n FROM record WHERE namespace = ? GROUP BY property", (namespace,)
        )
        return {row["property"]: row["n"] for row in rows}

    def _places(self, namespace: int, ids: Sequence[str]) -> dict[str, list[Evidence]]:
        marks = ",".join("?" * len(ids))
        places: dict[str, list[Evidence]] = defaultdict(list)
        for row in self._database.read(
            "SELECT e.record, e.turn, e.first, e.last FROM record_evidence e JOIN turn t ON t.namespace = e.namespace"
            f" AND t.id = e.turn WHERE e.namespace = ? AND e.record IN ({marks}) ORDER BY t.row",
            (namespace, *ids),
        ):
            places[row["record"]].append(Evidence(row["turn"], row["first"], row["last"]))
        return places

    def claims(self, namespace: int, key: StateKey) -> list[Claim]:
        """All claims about a key, of the entity under all its names; what a supporting turn says of change included."""
        names = self.names_of(namespace, key.entity)
        marks = ",".join("?" * len(names))
        rows = self._database.read(
            "SELECT e.record, e.turn, e.states, e.claim, t.row, t.time FROM record r JOIN record_evidence e"
            " ON e.namespace = r.namespace AND e.record = r.id"
            " JOIN turn t ON t.namespace = e.namespace AND t.id = e.turn"
            f" WHERE r.namespace = ? AND r.property_key = ? AND r.condition_key = ? AND r.entity_key IN ({marks})",
            (namespace, key.property, key.condition, *names),
        )
        read = [(_claim(row), bool(row["states"])) for row in rows]
        support: dict[tuple[str, str], list[Claim]] = defaultdict(list)
        for claim, states in read:
            if not states and not claim.doubt:
                support[claim.record, claim.source].append(claim)
        found = []
        for claim, states in read:
            if states:
                others = support[claim.record, claim.source]
                updates = claim.updates or any(other.updates for other in others)
                corrects = claim.corrects or any(other.corrects for other in others)
                found.append(replace(claim, updates=updates, corrects=corrects))
        return found

    def is_plural(self, namespace: int, property_key: str) -> bool:
        """Whether some record of the namespace names a property in the plural."""
        found = self._database.read(
            "SELECT 1 FROM record WHERE namespace = ? AND property_key = ? AND plural = 1 LIMIT 1",
            (namespace, property_key),
        )
        return bool(found)

    def keys(self, namespace: int, property_key: str | None = None, entity: str | None = None) -> set[StateKey]:
        """Keys that have records, as they were written: aliases not followed."""
        where, parameters = "", [namespace]
        for column, value in (("property_key", property_key), ("entity_key", entity)):
            if value is not None:
                where += f" AND {column} = ?"
                parameters.append(value)  # type: ignore[arg-type]
        rows = self._database.read(
            f"SELECT DISTINCT entity_key, property_key, condition_key FROM record WHERE namespace = ?{where}",
            parameters,
        )
        return {StateKey(*row) for row in rows}

    def keys_of_turns(self, namespace: int, turns: Sequence[str]) -> set[StateKey]:
        """Keys of the records that some turns are evidence for, as they were written."""
        rows = self._database.read(
            "SELECT DISTINCT r.entity_key, r.property_key, r.condition_key FROM record_evidence e"
            " JOIN record r ON r.namespace = e.namespace AND r.id = e.record"
            " WHERE e.namespace = ? AND e.turn IN (SELECT value FROM json_each(?))",
            (namespace, json.dumps(list(turns))),
        )
        return {StateKey(*row) for row in rows}

    # Entities under several names

    def canonical(self, namespace: int, entity: str) -> str:
        """The key that an entity's key now stands for, merges followed."""
        seen = {entity}
        while True:
            found = self._database.read(
                "SELECT target FROM entity_alias WHERE namespace = ? AND alias = ?", (namespace, entity)
            )
            if not found or found[0][0] in seen:
                return entity
            entity = str(found[0][0])
            seen.add(entity)

    def names_of(self, namespace: int, entity: str) -> list[str]:
        """The keys that stand for an entity, its own first."""
        names, fresh = [entity], [entity]
        while fresh:
            marks = ",".join("?" * len(fresh))
            rows = self._database.read(
                f"SELECT alias FROM entity_alias WHERE namespace = ? AND target IN ({marks}) ORDER BY alias",
                (namespace, *fresh),
            )
            fresh = [row[0] for row in rows if row[0] not in names]
            names += fresh
        return names

    def alias(self, connection: sqlite3.Connection, namespace: int, alias: str, target: str, decided_by: str) -> None:
        """Let one entity's key stand for another's; its records stay as they are."""
        connection.execute(
            "INSERT OR REPLACE INTO entity_alias VALUES (?, ?, ?, ?)", (namespace, alias, target, decided_by)
        )

    def unalias(self, connection: sqlite3.Connection, namespace: int, alias: str) -> bool:
        """Let an entity's key stand for itself again; whether it did not."""
        cursor = connection.execute("DELETE FROM entity_alias WHERE namespace = ? AND alias = ?", (namespace, alias))
        return cursor.rowcount > 0

    # Decisions between claims

    def choose(self, connection: sqlite3.Connection, namespace: int, record: str, fact: str, choice: Choice) -> None:
        """Keep what a claim does to a fact; with "" for the fact, to whatever is there."""
        connection.execute(
            "INSERT OR REPLACE INTO state_choice VALUES (?, ?, ?, ?, ?)",
            (namespace, record, fact, choice.operation.value, choice.decided_by),
        )

    def choices(self, namespace: int, records: Iterable[str]) -> dict[tuple[str, str], Choice]:
        """What was decided for the claims of some records."""
        wanted, found = sorted(set(records)), {}
        for start in range(0, len(wanted), _CHUNK):
            part = wanted[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            for row in self._database.read(
                f"SELECT record, fact, operation, decided_by FROM state_choice WHERE namespace = ?"
                f" AND record IN ({marks})",
                (namespace, *part),
            ):
                found[row["record"], row["fact"]] = Choice(Operation(row["operation"]), row["decided_by"])
        return found


def _packed(claim: Claim) -> str:
    """What of a claim is not in its row, its record or its turn; what is as usual is left out."""
    usual = asdict(Claim("", "", "", "", 0.0))
    kept: dict[str, Any] = {
        name: value for name, value in asdict(claim).items() if name not in _OF_THE_ROW and value != usual[name]
    }
    return json.dumps({**kept, "at": claim.order[1]}, ensure_ascii=False)


def _claim(row: sqlite3.Row) -> Claim:
    stored = json.loads(row["claim"])
    at = stored.pop("at")
    authority = Authority(stored.pop("authority", Authority.OTHER))
    return Claim(
        record=row["record"], turn=row["turn"], said=row["time"], order=(row["row"], at), authority=authority, **stored
    )


def _valid_time(record: Record) -> str:
    bounds = [moment.isoformat() if moment else "" for moment in (record.valid_from, record.valid_to)]
    return json.dumps([record.valid_time, *bounds], ensure_ascii=False)


def _record(row: sqlite3.Row, evidence: Sequence[Evidence]) -> Record:
    said, first, last = json.loads(row["valid_time"])
    return Record(
        entity=row["entity"],
        property=row["property"],
        value=row["value"],
        evidence=tuple(evidence),
        entity_type=row["entity_type"],
        condition=row["condition"],
        modality=row["modality"],
        relation=bool(row["relation"]),
        valid_time=said,
        valid_from=datetime.fromisoformat(first).astimezone(UTC) if first else None,
        valid_to=datetime.fromisoformat(last).astimezone(UTC) if last else None,
        speaker=row["speaker"],
        episode=row["episode"],
        decided_by=row["decided_by"],
    )
