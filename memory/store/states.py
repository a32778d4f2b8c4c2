"""States: the versions of every key, reduced from its records whenever these change, and never edited by themselves."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from ..errors import NotFoundError
from ..reduction import reduce_claims
from ..types import State
from ..versions import StateKey, Version
from .database import Database
from .records import Records

_COLUMNS = (
    "id, entity, property, condition, version, value, status, said, valid_from, valid_to, confidence, evidence,"
    " records, modality, reason, supersedes, rival, decided_by"
)


class StateTable:
    """The table of states. Every change goes through `changing`, so that it always says what the records say."""

    def __init__(self, database: Database, records: Records) -> None:
        self._database = database
        self._records = records

    @contextmanager
    def changing(self, connection: sqlite3.Connection, namespace: int, keys: Iterable[StateKey]) -> Iterator[None]:
        """Change records of some keys within the caller's transaction: their states follow."""
        touched = set(keys)
        names = {key.property for key in touched}
        before = {name: self._records.is_plural(namespace, name) for name in names}
        yield
        for name in names:
            # A property that turns out to have many values has them for everyone.
            if self._records.is_plural(namespace, name) != before[name]:
                touched |= self._records.keys(namespace, property_key=name)
        for key in {self._canonical(namespace, key) for key in touched} | touched:
            self._reduce(connection, namespace, key)

    def rebuild(self, connection: sqlite3.Connection, namespace: int) -> None:
        """Reduce every key of a namespace anew."""
        connection.execute("DELETE FROM state WHERE namespace = ?", (namespace,))
        for key in {self._canonical(namespace, key) for key in self._records.keys(namespace)}:
            self._reduce(connection, namespace, key)

    def _canonical(self, namespace: int, key: StateKey) -> StateKey:
        return StateKey(self._records.canonical(namespace, key.entity), key.property, key.condition)

    def _reduce(self, connection: sqlite3.Connection, namespace: int, key: StateKey) -> None:
        connection.execute("DELETE FROM state WHERE namespace = ? AND key = ?", (namespace, key.text()))
        if self._canonical(namespace, key) != key:
            return
        self._put(connection, namespace, key, self.reduced(namespace, key))

    def reduced(self, namespace: int, key: StateKey, known_at: float | None = None) -> list[Version]:
        """Versions of a key from its records, of those alone that were said by an instant where one is given."""
        claims = self._records.claims(namespace, key)
        if known_at is not None:
            claims = [claim for claim in claims if claim.said <= known_at]
        choices = self._records.choices(namespace, [claim.record for claim in claims])
        return reduce_claims(claims, self._records.is_plural(namespace, key.property), choices)

    def _put(self, connection: sqlite3.Connection, namespace: int, key: StateKey, versions: Sequence[Version]) -> None:
        states = self.states(namespace, key, versions)
        connection.executemany(
            f"INSERT INTO state (namespace, key, {_COLUMNS}) VALUES ({','.join('?' * 20)})",
            [
                (
                    *(namespace, key.text(), s.id, s.entity, s.property, s.condition, s.version, s.value, s.status),
                    *(s.said.timestamp(), _seconds(s.valid_from), _seconds(s.valid_to), s.confidence),
                    *(json.dumps(s.evidence), json.dumps(s.records), s.modality, s.reason, s.supersedes, s.rival),
                    s.decided_by,
                )
                for s in states
            ],
        )

    def states(self, namespace: int, key: StateKey, versions: Sequence[Version]) -> list[State]:
        """Versions as states, with the names that their records use."""
        named = self._records.names(namespace, [version.record for version in versions])
        ids = {version.record: version.identity(key.text()) for version in versions if version.status != "pending"}
        return [
            State(
                id=version.identity(key.text()),
                entity=named[version.record][0],
                property=named[version.record][1],
                condition=named[version.record][2],
                version=number,
                value=version.value,
                status=version.status,
                said=_moment(version.said),
                valid_from=None if version.since is None else _moment(version.since),
                valid_to=None if version.until is None else _moment(version.until),
                confidence=version.confidence,
                evidence=tuple(version.evidence),
                records=tuple(version.records),
                modality=version.modality,
                reason=version.reason,
                supersedes=ids.get(version.supersedes, ""),
                rival=ids.get(version.rival, ""),
                decided_by=version.decided_by,
            )
            for number, version in enumerate(versions, 1)
        ]

    def of_key(self, namespace: int, key: StateKey) -> list[State]:
        """All versions of one key, in the order in which they were opened."""
        return self._select(namespace, "AND key = ?", [self._canonical(namespace, key).text()])

    def of_entity(self, namespace: int, entity: str, property_key: str | None = None) -> list[State]:
        """All versions about an entity, of one property and all its conditions or of all of them."""
        mine = self._records.canonical(namespace, entity)
        where, parameters = "AND json_extract(key, '$[0]') = ?", [mine]
        if property_key is not None:
            where += " AND json_extract(key, '$[1]') = ?"
            parameters.append(property_key)
        return self._select(namespace, where, parameters)

    def with_status(self, namespace: int, *statuses: str) -> list[State]:
        """All versions of a namespace with some status."""
        return self._select(namespace, f"AND status IN ({','.join('?' * len(statuses))})", statuses)

    def of_turns(self, namespace: int, turns: Sequence[str]) -> list[State]:
        """All versions that some turns are evidence for."""
        keys = {self._canonical(namespace, key) for key in self._records.keys_of_turns(namespace, turns)}
        if not keys:
            return []
        found = self._select(
            namespace, "AND key IN (SELECT value FROM json_each(?))", [json.dumps([key.text() for key in keys])]
        )
        wanted = set(turns)
        return [state for state in found if wanted.intersection(state.evidence)]

    def get(self, namespace: int, state_id: str) -> tuple[StateKey, State]:
        """One version with its key.

        Raises:
            NotFoundError: no such version in this namespace.
        """
        rows = self._database.read(
            f"SELECT key, {_COLUMNS} FROM state WHERE namespace = ? AND id = ?", (namespace, state_id)
        )
        if not rows:
            raise NotFoundError("id", f"{state_id!r} is no state of this namespace", "conflicts() lists what is open")
        return StateKey.read(rows[0]["key"]), _state(rows[0])

    def _select(self, namespace: int, where: str, parameters: Sequence[str]) -> list[State]:
        rows = self._database.read(
            f"SELECT {_COLUMNS} FROM state WHERE namespace = ? {where} ORDER BY key, version", (namespace, *parameters)
        )
        return [_state(row) for row in rows]


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _state(row: sqlite3.Row) -> State:
    values = {name: row[name] for name in _COLUMNS.replace(" ", "").split(",")}
    values["said"] = _moment(values["said"])
    for name in ("valid_from", "valid_to"):
        values[name] = None if values[name] is None else _moment(values[name])
    for name in ("evidence", "records"):
        values[name] = tuple(json.loads(values[name]))
    return State(**values)
