"""Evolving states: records go in, versions of facts come out (EMIR2, section 3.2).

Rules first: a key without a fact gains one, the same value reinforces it, and what the wording of a claim and its
speaker settle is settled. Only a claim that contradicts a fact of its key, and says nothing of why, is a decision for a
`Decider`; where none is able or sure, it stays pending until a person or a later turn resolves it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import DecisionError, InputError, NotFoundError
from ..protocols import Decider
from ..store import Store
from ..tasks import STATE_OPERATION, Decision, Item
from ..types import Record, RecordDraft, State, Turn
from ..versions import BY_HAND, Choice, Operation, StateKey
from .claim_keys import condition_key, entity_key, property_key
from .claims import as_record, checked, read_records

_ROUNDS = 4
"""A decision can bring two claims together that had not met before."""
_CHOICES = {"accept": Operation.REPLACE, "both": Operation.ADD, "reject": Operation.REJECT}


@dataclass(frozen=True, slots=True)
class Observed:
    """What came of records: how many were new, the keys they touched, and the states of these that are pending."""

    new: int
    keys: tuple[StateKey, ...]
    pending: tuple[State, ...]


class StateReducer:
    """The one writer of records and states. Its calls hold no transaction while a decider works."""

    def __init__(self, store: Store, decider: Decider | None = None) -> None:
        self._store = store
        self._decider = decider

    def observe(
        self, namespace: int, records: Iterable[RecordDraft | Record], operation: str = "", field: str = "records"
    ) -> Observed:
        """Store records, with their states, in one transaction; again the same ones change nothing.

        A claim that rules leave pending is then put to the decider, and what it decides is stored in another one.

        Args:
            namespace: ordinal.
            records: claims; their evidence turns must be stored.
            operation: the operation that pays for decisions.
            field: what they are called in errors.

        Raises:
            InputError: an unusable record, by number and field; nothing is stored.
            IntentMemError: the decider failed; records and states are stored, the claim is pending, a retry asks again.
        """
        full = [checked(as_record(record), f"{field}[{number}]") for number, record in enumerate(records)]
        turns = self._turns(namespace, full, field)
        read = read_records(full, turns)
        keys = {record.key for record in read}
        with self._store.database.write() as connection:
            # Within the transaction: a turn may have been deleted since it was read.
            self._turns(namespace, full, field)
            with self._store.states.changing(connection, namespace, keys):
                new = self._store.records.put(connection, namespace, read)
        self._decide(namespace, keys, operation)
        ordered = tuple(sorted(keys, key=lambda key: key.text()))
        states = {state.id: state for key in ordered for state in self._store.states.of_key(namespace, key)}
        return Observed(new, ordered, tuple(state for state in states.values() if state.status == "pending"))

    def _turns(self, namespace: int, records: Sequence[Record], field: str) -> dict[str, Turn]:
        turns: dict[str, Turn] = {}
        for number, record in enumerate(records):
            for evidence in record.evidence:
                if evidence.turn not in turns:
                    try:
                        turns[evidence.turn] = self._store.turns.get(namespace, evidence.turn)
                    except NotFoundError as error:
                        raise NotFoundError(
                            f"{field}[{number}].evidence", f"{evidence.turn!r} is no turn of this namespace"
                        ) from error
        return turns

    # Decisions

    def _decide(self, namespace: int, keys: Iterable[StateKey], operation: str) -> None:
        """Put contradictions of these keys to the decider, those that it has not seen."""
        if self._decider is None:
            return
        for _ in range(_ROUNDS):
            open_pairs = [pair for key in keys for pair in self._undecided(namespace, key)]
            if not open_pairs:
                return
            started = time.perf_counter()
            try:
                decisions = self._decider.decide(STATE_OPERATION, [self._item(namespace, *pair) for pair in open_pairs])
            except DecisionError:
                # A decider that does not know the task leaves its claims pending.
                return
            self._keep(namespace, open_pairs, decisions, operation, time.perf_counter() - started)

    def _undecided(self, namespace: int, key: StateKey) -> list[tuple[State, State]]:
        states = {state.id: state for state in self._store.states.of_key(namespace, key)}
        pairs = [
            (state, states[state.rival])
            for state in states.values()
            if state.status == "pending" and state.modality == "asserted" and state.rival in states
        ]
        known = self._store.records.choices(namespace, [claim.records[0] for claim, _ in pairs])
        return [
            (claim, fact)
            for claim, fact in pairs
            if fact.status == "current" and (claim.records[0], fact.records[0]) not in known
        ]

    def _item(self, namespace: int, claim: State, fact: State) -> Item:
        turn = self._store.turns.get(namespace, claim.evidence[0])
        said = self._store.turns.get(namespace, fact.evidence[0])
        condition = f" ({claim.condition})" if claim.condition else ""
        return Item(
            {
                "claim": f"{turn.time:%Y-%m-%d} {turn.speaker or turn.role}: {claim.property}: {claim.value}",
                "fact": f"{said.time:%Y-%m-%d} {fact.property}: {fact.value}",
                "key": f"{claim.entity}, {claim.property}{condition}",
                "turn": f"{turn.speaker or turn.role}: {turn.text}",
            },
            turn=turn,
        )

    def _keep(
        self,
        namespace: int,
        pairs: Sequence[tuple[State, State]],
        decisions: Sequence[Decision],
        operation: str,
        seconds: float,
    ) -> None:
        with self._store.database.write() as connection:
            keys = [self._store.states.get(namespace, claim.id)[0] for claim, _ in pairs]
            with self._store.states.changing(connection, namespace, keys):
                for (claim, fact), decision in zip(pairs, decisions, strict=True):
                    decided = _decided(decision)
                    for record in claim.records:
                        choice = Choice(decided, decision.decided_by)
                        self._store.records.choose(connection, namespace, record, fact.records[0], choice)
            calls = sum(decision.calls for decision in decisions)
            self._store.operations.charge(
                *(connection, namespace, operation, STATE_OPERATION.name, decisions[0].decided_by),
                *(len(decisions), seconds, calls),
            )

    # By hand

    def resolve(self, namespace: int, state_id: str, choice: str) -> State:
        """Decide a pending state by hand; deciders and rules never overrule it. Returns what became of its value.

        Args:
            namespace: ordinal.
            state_id: a pending state.
            choice: "accept" (it holds, and what it contradicts no longer does), "both" (it holds beside it),
                "reject" (it does not hold), or the value that holds, of the two.

        Raises:
            NotFoundError: no such state.
            InputError: it is not pending, or another choice.
        """
        with self._store.database.write() as connection:
            key, state = self._store.states.get(namespace, state_id)
            if state.status != "pending":
                raise InputError("id", f"{state_id!r} is {state.status}, not pending", "conflicts() lists what is open")
            chosen = self._choice(namespace, state, choice)
            with self._store.states.changing(connection, namespace, [key]):
                for record in state.records:
                    self._store.records.choose(connection, namespace, record, "", Choice(chosen, BY_HAND))
        after = self._store.states.of_key(namespace, key)
        return next((s for s in after if set(s.records) & set(state.records)), state)

    def _choice(self, namespace: int, state: State, choice: str) -> Operation:
        if choice in _CHOICES:
            return _CHOICES[choice]
        if choice.casefold() == state.value.casefold():
            return Operation.REPLACE
        rival = self._store.states.get(namespace, state.rival)[1] if state.rival else None
        if rival is not None and choice.casefold() == rival.value.casefold():
            return Operation.REJECT
        known = f"{', '.join(_CHOICES)}, or one of the two values"
        raise InputError("choice", f"{choice!r} is none of the choices", known)

    def merge(self, namespace: int, sources: Sequence[str], target: str) -> str:
        """Let entities count as another one: their records keep their names, so that `unmerge` restores them.

        Returns the target's key.

        Raises:
            NotFoundError: an entity that nothing is known of.
            InputError: a merge into itself.
        """
        with self._store.database.write() as connection:
            into = self._store.records.canonical(namespace, self._entity(namespace, target, "target"))
            for name in sources:
                source = self._entity(namespace, name, "sources")
                if self._store.records.canonical(namespace, source) == into:
                    raise InputError("sources", f"{name!r} is the target itself")
                touched = self._keys_of(namespace, source, into)
                with self._store.states.changing(connection, namespace, touched):
                    self._store.records.alias(connection, namespace, source, into, BY_HAND)
        return into

    def unmerge(self, namespace: int, name: str) -> str:
        """Let a merged entity stand for itself again; returns its key.

        Raises:
            InputError: it is not merged into another.
        """
        source = self._entity(namespace, name, "name")
        with self._store.database.write() as connection:
            touched = self._keys_of(namespace, source, self._store.records.canonical(namespace, source))
            with self._store.states.changing(connection, namespace, touched):
                if not self._store.records.unalias(connection, namespace, source):
                    raise InputError("name", f"{name!r} is not merged into another entity")
        return source

    def _keys_of(self, namespace: int, *entities: str) -> set[StateKey]:
        """The keys of entities under all their names, as of each of the entities."""
        names = {name for entity in entities for name in self._store.records.names_of(namespace, entity)}
        found = {key for name in names for key in self._store.records.keys(namespace, entity=name)}
        return {StateKey(entity, key.property, key.condition) for key in found for entity in {*entities, key.entity}}

    def _entity(self, namespace: int, name: str, field: str) -> str:
        key = entity_key(name)
        if not self._store.records.keys(namespace, entity=key):
            raise NotFoundError(field, f"nothing is known of {name!r} in this namespace")
        return key

    # Reading

    def states(
        self, namespace: int, entity: str, property_name: str | None = None, condition: str | None = None
    ) -> list[State]:
        """All versions about an entity, in the order in which they were opened; narrowed where a property or condition
        is given ("" for none).
        """
        prop = None if property_name is None else property_key(property_name)
        found = self._store.states.of_entity(namespace, entity_key(entity), prop)
        if condition is None:
            return found
        wanted = condition_key(condition) if condition else ""
        return [s for s in found if (condition_key(s.condition) if s.condition else "") == wanted]

    def states_known(
        self, namespace: int, entity: str, property_name: str, known_at: float, condition: str | None = None
    ) -> list[State]:
        """As `states`, from what had been said by an instant (seconds since 1970)."""
        mine = self._store.records.canonical(namespace, entity_key(entity))
        keys = self._keys_of(namespace, mine)
        wanted = None if condition is None else condition_key(condition) if condition else ""
        found: list[State] = []
        for key in sorted(keys, key=lambda k: k.text()):
            if (key.entity, key.property) == (mine, property_key(property_name)) and wanted in (None, key.condition):
                found += self._store.states.states(namespace, key, self._store.states.reduced(namespace, key, known_at))
        return found


def _decided(decision: Decision) -> Operation:
    """The operation of a decision; one that is unsure, or outside the label space, decides nothing."""
    known = {option.name for option in STATE_OPERATION.groups[0].options}
    if decision.unsure or len(decision.labels) != 1 or decision.labels[0] not in known:
        return Operation.PENDING
    return Operation(decision.labels[0])
