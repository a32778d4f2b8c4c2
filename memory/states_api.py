"""What the facade says of evolving states: what holds, what held, what is in conflict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, TypedDict, Unpack, cast

from .addressing import address
from .errors import InputError
from .protocols import Decider
from .store import Store
from .types import Evidence, Record, RecordDraft, State
from .write.messages import parse_time
from .write.pipeline import Pipeline
from .write.states import StateReducer

_CONTRADICTIONS = ("asserted", "hearsay", "uncertain", "negated")


class StateOwner(TypedDict, total=False):
    """Whose memory: `namespace`, or `user_id` and `agent_id`."""

    namespace: str
    user_id: str
    agent_id: str


class StatesApi:
    """The part of the facade that reads and writes states. Its attributes are the facade's."""

    store: Store
    pipeline: Pipeline
    states_decider: Decider | None = None

    @cached_property
    def reducer(self) -> StateReducer:
        """The one writer of records and states."""
        return StateReducer(self.store, self.states_decider)

    def observe_records(self, namespace: str, records: Iterable[RecordDraft | Record]) -> dict[str, Any]:
        """Take records of stored turns, and reduce the states of their keys; again the same ones change nothing.

        Returns how many were new, and the states of their keys that are pending.

        Raises:
            InputError: an unusable record, by number and field; nothing is stored.
        """
        seen = self.reducer.observe(self.store.namespaces.ordinal(namespace), records)
        return {"new": seen.new, "pending": [state_result(state) for state in seen.pending]}

    def claim(
        self,
        entity: str,
        property: str,
        value: str,
        turn_ids: str | Sequence[str],
        *,
        condition: str = "",
        modality: str = "observed",
        valid_from: datetime | str | float | None = None,
        valid_to: datetime | str | float | None = None,
        **owner: Unpack[StateOwner],
    ) -> dict[str, Any]:
        """Record one claim that stored turns make: `observe_records` for a single record.

        Args:
            entity, property, value, condition: what is claimed; a person's own claims may name "I".
            turn_ids: the turns that say it.
            modality: "observed" leaves it to the wording of the turns; or "planned", "desired", "hypothetical",
                "negated", "uncertain".
            valid_from, valid_to: when it holds, where that is known.
        """
        ids = (turn_ids,) if isinstance(turn_ids, str) else tuple(turn_ids)
        record = Record(
            entity,
            property,
            value,
            tuple(Evidence(turn) for turn in ids),
            condition=condition,
            modality=modality,
            valid_from=parse_time(valid_from, "valid_from"),
            valid_to=parse_time(valid_to, "valid_to"),
        )
        return self.observe_records(address(**owner).namespace, [record])

    def state(
        self,
        entity: str,
        property: str | None = None,
        *,
        condition: str | None = None,
        as_of: datetime | str | float | None = None,
        known_at: datetime | str | float | None = None,
        **owner: Unpack[StateOwner],
    ) -> dict[str, Any]:
        """What holds of an entity: of one property or of all, under every condition or the one given ("" for none).

        Args:
            entity, property: names; spelling, number and merges do not count.
            as_of: what was true at that instant, as far as is known today.
            known_at: what had been said by that instant; later turns are left out. Needs a property.

        Returns:
            `values`, what holds; `pending`, what is not held to be true: plans, doubts and contradictions.
        """
        moment, known = parse_time(as_of, "as_of"), parse_time(known_at, "known_at")
        states = self._versions(owner, entity, property, condition, known)
        holds = [s for s in states if (s.status == "current" if moment is None else s.holds_at(moment))]
        if moment is None and known is not None:
            holds = [s for s in holds if s.holds_at(known)]
        pending = [s for s in states if s.status == "pending" and (moment is None or s.said <= moment)]
        return {
            "entity": entity,
            "property": property,
            "values": [state_result(s) for s in holds],
            "pending": [state_result(s) for s in pending],
        }

    def state_history(
        self, entity: str, property: str | None = None, *, condition: str | None = None, **owner: Unpack[StateOwner]
    ) -> dict[str, Any]:
        """All versions that were ever said of an entity, by key and in the order in which they were opened."""
        states = self._versions(owner, entity, property, condition, None)
        return {"entity": entity, "property": property, "results": [state_result(s) for s in states]}

    def conflicts(self, **owner: Unpack[StateOwner]) -> dict[str, Any]:
        """Contradictions that are open: each claim with the fact that it contradicts. `resolve` decides them."""
        ordinal = self._recorded(owner)
        pending = self.store.states.with_status(ordinal, "pending")
        found = []
        for state in pending:
            if state.rival and state.modality in _CONTRADICTIONS:
                fact = self.store.states.get(ordinal, state.rival)[1]
                found.append({**state_result(state), "fact": state_result(fact)})
        return {"results": found}

    def resolve(self, conflict_id: str, choice: str, **owner: Unpack[StateOwner]) -> dict[str, Any]:
        """Decide a pending state by hand; no rule or decider overrules it.

        Args:
            conflict_id: id of a pending state, as `conflicts` and `state` give it.
            choice: "accept", "both", "reject", or the one of the two values that holds.

        Raises:
            NotFoundError: no such state. InputError: it is not pending, or another choice.
        """
        if not isinstance(choice, str):
            raise InputError("choice", f"{choice!r} is not a text")
        return state_result(self.reducer.resolve(self._ordinal(owner), conflict_id, choice))

    def merge_entities(self, sources: str | Sequence[str], target: str, **owner: Unpack[StateOwner]) -> str:
        """Let entities count as another one. Their records stay as they are: `unmerge_entity` restores them."""
        names = [sources] if isinstance(sources, str) else sources
        return self.reducer.merge(self._ordinal(owner), names, target)

    def unmerge_entity(self, name: str, **owner: Unpack[StateOwner]) -> str:
        """Undo a merge of entities."""
        return self.reducer.unmerge(self._ordinal(owner), name)

    def _recorded(self, owner: StateOwner) -> int:
        """The namespace, once the episodes that have closed there have their records."""
        ordinal = self._ordinal(owner)
        self.pipeline.record(ordinal)
        return ordinal

    def _ordinal(self, owner: StateOwner) -> int:
        return self.store.namespaces.ordinal(address(**owner).namespace)

    def _versions(
        self, owner: StateOwner, entity: str, name: str | None, condition: str | None, known: datetime | None
    ) -> list[State]:
        for field, text in (("entity", entity), ("property", name)):
            if text is not None and (not isinstance(text, str) or not text.strip()):
                raise InputError(field, f"{text!r} is not a name", "pass a non-empty string")
        ordinal = self._recorded(owner)
        if known is None:
            return self.reducer.states(ordinal, entity, name, condition)
        if name is None:
            raise InputError("known_at", "needs a property", "name the property too")
        return self.reducer.states_known(ordinal, entity, name, known.timestamp(), condition)


def state_result(state: State) -> dict[str, Any]:
    """A version as the facade gives it: times in ISO 8601, UTC."""
    plain = {name: getattr(state, name) for name in State.__slots__}
    for name in ("said", "valid_from", "valid_to"):
        moment = cast("datetime | None", plain[name])
        plain[name] = None if moment is None else moment.isoformat()
    return plain | {"evidence": list(state.evidence), "records": list(state.records)}
