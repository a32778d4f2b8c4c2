"""What the facade says of records: what was read from closed episodes, and the closing of open ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Unpack

from .addressing import address
from .errors import InputError
from .states_api import StateOwner
from .store import Store
from .types import Record
from .write.claim_keys import entity_key, property_key
from .write.pipeline import Pipeline


class RecordsApi:
    """The part of the facade that reads records. `store` and `pipeline` are the facade's."""

    store: Store
    pipeline: Pipeline

    def records(
        self,
        entity: str | None = None,
        property: str | None = None,
        turn_ids: str | Sequence[str] | None = None,
        **owner: Unpack[StateOwner],
    ) -> dict[str, Any]:
        """Records, [entity][entity type][property: value] with their evidence, in the order of the turns that say them.

        An episode has records once it has closed: on a change of scope or session, after 50 turns, or by
        `close_episodes`.

        Args:
            entity: of this entity, under all names merged into it; "user" is the user without a name.
            property: of this property, under all names that its vocabulary has merged.
            turn_ids: with one of these turns among their evidence.

        Returns:
            `results`, each with its `evidence`: turns, and the characters `start` to `end` of them that are the value,
            None where its place is not known.

        Raises:
            NotFoundError: a turn that is not there.
        """
        ordinal = self.store.namespaces.ordinal(address(**owner).namespace)
        for name, text in (("entity", entity), ("property", property)):
            if text is not None and (not isinstance(text, str) or not text.strip()):
                raise InputError(name, f"{text!r} is not a name", "pass a non-empty string")
        entities = properties = turns = None
        if entity is not None:
            key = self.store.records.canonical(ordinal, entity_key(entity))
            entities = self.store.records.names_of(ordinal, key)
        if property is not None:
            properties = [property_key(name) for name in self.pipeline.recorder.properties.names(ordinal, property)]
        if turn_ids is not None:
            wanted = [turn_ids] if isinstance(turn_ids, str) else list(turn_ids)
            turns = [self.store.turns.get(ordinal, turn).id for turn in wanted]
        self.pipeline.record(ordinal)
        ids = self.store.records.find(ordinal, entities, properties, turns)
        found = self.store.records.get(ordinal, ids)
        return {"results": [record_result(identity, found[identity]) for identity in ids if identity in found]}

    def close_episodes(self, namespace: str) -> int:
        """Close the episodes of a namespace that are open, so that they have summaries and records; returns how many.

        The next turn of the same scope opens a new one.

        Raises:
            IntentMemError: a summary or records could not be written; `process` tries the records again.
        """
        return self.pipeline.close_episodes(self.store.namespaces.ordinal(namespace))


def record_result(identity: str, record: Record) -> dict[str, Any]:
    """A record as the facade gives it: times in ISO 8601, UTC."""
    plain: dict[str, Any] = {name: getattr(record, name) for name in Record.__slots__}
    for name in ("valid_from", "valid_to"):
        moment: datetime | None = plain[name]
        plain[name] = None if moment is None else moment.isoformat()
    evidence = [{"turn_id": place.turn, "start": place.start, "end": place.end} for place in record.evidence]
    return {"id": identity} | plain | {"evidence": evidence}
