"""Records as addresses: what there are some about, and which turns stand behind them (EnSIMem, section 3)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf

from .database import Database
from .records import CHANGES

# A cross join is made in the order written: from the records, of which a key has few.
_BEHIND = (
    " FROM record r CROSS JOIN record_evidence e CROSS JOIN turn t WHERE r.namespace = ?"
    " AND r.entity_key IN (SELECT value FROM json_each(?)) AND r.property_key IN (SELECT value FROM json_each(?))"
    " AND e.namespace = r.namespace AND e.record = r.id AND t.namespace = e.namespace AND t.id = e.turn"
)

Known = tuple[float, float]
"""Which turns a question may know of: said up to an instant, in seconds since 1970, and with a row below another."""
ALL: Known = (inf, inf)


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """A turn that is evidence for a record: its row, when it was said and for when it holds, in seconds since 1970 and
    ISO 8601; "" where that is open.
    """

    row: int
    said: float
    valid_from: str
    valid_to: str

    def falls_in(self, since: float | None, until: float | None) -> bool:
        """Whether it was said within a span of time, or holds for some of it where that is said."""
        low, high = -inf if since is None else since, inf if until is None else until
        if low <= self.said < high:
            return True
        if not self.valid_from and not self.valid_to:
            return False
        first = datetime.fromisoformat(self.valid_from).timestamp() if self.valid_from else -inf
        last = datetime.fromisoformat(self.valid_to).timestamp() if self.valid_to else inf
        return first < high and last > low


class RecordIndex:
    """Looks records up by keys, without reading them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def version(self, namespace: int) -> int:
        """Counter of changes to which records there are, imports left out: these change the epoch."""
        found = self._database.read("SELECT value FROM progress WHERE namespace = ? AND key = ?", (namespace, CHANGES))
        return int(found[0][0]) if found else 0

    def aliases(self, namespace: int) -> dict[str, str]:
        """Keys of entities that stand for another's, with that one's."""
        rows = self._database.read("SELECT alias, target FROM entity_alias WHERE namespace = ?", (namespace,))
        return {row["alias"]: row["target"] for row in rows}

    def addresses(self, namespace: int) -> list[tuple[str, str]]:
        """Each entity's key with each name of a property that it has records of, the most frequent first."""
        rows = self._database.read(
            "SELECT entity_key, property FROM record WHERE namespace = ? GROUP BY entity_key, property"
            " ORDER BY count(*) DESC, min(rowid)",
            (namespace,),
        )
        return [(row["entity_key"], row["property"]) for row in rows]

    def evidence(self, namespace: int, entities: Sequence[str], properties: Sequence[str]) -> list[EvidenceRow]:
        """The turns behind the records of some entities' and properties' keys, oldest first; one may come twice."""
        rows = self._database.read(
            "SELECT DISTINCT t.row, t.time, json_extract(r.valid_time, '$[1]') AS first,"
            " json_extract(r.valid_time, '$[2]') AS last"
            f"{_BEHIND} ORDER BY t.row",
            (namespace, json.dumps(list(entities)), json.dumps(list(properties))),
        )
        return [EvidenceRow(row["row"], row["time"], row["first"] or "", row["last"] or "") for row in rows]

    def values(self, namespace: int, entities: Sequence[str], properties: Sequence[str], known: Known) -> list[str]:
        """Values of those records in the turns that are known, the latest said first."""
        rows = self._database.read(
            f"SELECT r.value{_BEHIND} AND t.time <= ? AND t.row < ? GROUP BY r.value ORDER BY max(t.row) DESC",
            (namespace, json.dumps(list(entities)), json.dumps(list(properties)), *known),
        )
        return [row["value"] for row in rows]
