"""What a person sets right by hand: relabel, merge and split, delete and erase."""

from __future__ import annotations

import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from .errors import InputError, NotFoundError
from .store import Store
from .types import Intent, Label, Scope, ScopeMove, Scored, Turn
from .write.lexicon import seed_labels
from .write.messages import clean

T = TypeVar("T")

BY_HAND = "hand"
_KINDS = ("scope", "event", "entity_type")


class Curation:
    """Changes that no decider overwrites."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def relabel(
        self,
        namespace: int,
        turns: Sequence[Turn],
        scope: str | None,
        events: Sequence[str] | None,
        entity_types: Sequence[str] | None,
    ) -> int:
        """Set the scope, the event types or the entity types of turns by hand; None leaves a facet as it is.

        Names or ids are accepted; a name that does not exist yet makes a new scope or label.

        Raises:
            InputError: nothing to set, or a turn that has not been labelled yet.
        """
        if scope is None and events is None and entity_types is None:
            raise InputError("scope", "nothing to set", "pass scope=, events= or entity_types=")
        scope = None if scope is None else _name(scope, "scope")
        events, entity_types = _names(events, "events"), _names(entity_types, "entity_types")
        known = {
            turn: intent for _, turn, intent in self._store.labels.intents(namespace, turns=[t.row for t in turns])
        }
        with self._store.database.write() as connection:
            scope_id = None if scope is None else self._scope_id(namespace, scope)
            event_ids = None if events is None else [self._label_id(namespace, "event", e) for e in events]
            type_ids = (
                None if entity_types is None else [self._label_id(namespace, "entity_type", e) for e in entity_types]
            )
            for turn in turns:
                before = known.get(turn.row)
                if before is None and scope_id is None:
                    raise InputError(
                        "turns", f"{turn.id!r} is not labelled yet", "set its scope too, or process() first"
                    )
                after = _edited(before, turn, scope_id, event_ids, type_ids)
                self._store.labels.put_intent(connection, namespace, turn.row, after, by_hand=True)
            self._store.links.unlink(connection, namespace, [turn.row for turn in turns])
            self._store.namespaces.bump(connection, namespace)
        return len(turns)

    def rename(self, namespace: int, kind: str, old: str, new: str) -> str:
        """Rename a scope or label; returns its id.

        Raises:
            InputError: an unknown kind or an empty name.
            NotFoundError: no such scope or label.
        """
        new = _name(new, "new").strip()
        with self._store.database.write() as connection:
            if kind == "scope":
                found: Scope | Label = replace(self._scope(namespace, old), label=new, by_hand=True)
            else:
                found = replace(self._label(namespace, kind, old), name=new.lower(), origin="hand")
            self._put(connection, namespace, found)
            self._store.namespaces.bump(connection, namespace)
        return found.id

    def merge(self, namespace: int, kind: str, sources: Sequence[str], target: str) -> str:
        """Merge scopes or labels into one: they keep their rows and point to it, so that `unmerge` restores them.

        Raises:
            InputError: an unknown kind, or a merge into itself.
            NotFoundError: no such scope or label.
        """
        with self._store.database.write() as connection:
            find = self._scope if kind == "scope" else lambda n, name: self._label(n, kind, name)
            into: Scope | Label = find(namespace, target)
            for name in sources:
                source: Scope | Label = find(namespace, name)
                if source.id == into.id:
                    raise InputError("sources", f"{name!r} is the target itself")
                self._put(connection, namespace, replace(source, canonical=into.id))
                self._unlink(connection, namespace, source)
            self._put(connection, namespace, replace(into, canonical=None))
            self._store.namespaces.bump(connection, namespace)
        return into.id

    def unmerge(self, namespace: int, kind: str, name: str) -> str:
        """Restore a merged scope or label."""
        with self._store.database.write() as connection:
            found: Scope | Label
            found = self._scope(namespace, name) if kind == "scope" else self._label(namespace, kind, name)
            self._put(connection, namespace, replace(found, canonical=None))
            self._unlink(connection, namespace, found)
            self._store.namespaces.bump(connection, namespace)
        return found.id

    def split(self, namespace: int, scope: str, turns: Sequence[Turn], new_name: str) -> str:
        """Move turns out of a scope into a new one; returns the new scope's id.

        Raises:
            InputError: a turn is not in the scope, or the name is taken.
        """
        new_name = _name(new_name, "new_name")
        old = self._scope(namespace, scope)
        intents = self._store.labels.intents(namespace, turns=[turn.row for turn in turns])
        if not turns or len(intents) != len(turns) or any(intent.scope.id != old.id for _, _, intent in intents):
            raise InputError("turns", f"not all of them are in the scope {scope!r}", "list(scope=...) shows which are")
        if any(_key(found.label) == _key(new_name) for found in self._store.labels.scopes(namespace).values()):
            raise InputError("new_name", f"{new_name!r} exists", "use relabel to move turns to an existing scope")
        self.relabel(namespace, turns, new_name, None, None)
        return self._scope(namespace, new_name).id

    def _put(self, connection: Any, namespace: int, found: Scope | Label) -> None:
        if isinstance(found, Scope):
            self._store.labels.put_scope(connection, namespace, found, BY_HAND)
        else:
            self._store.labels.put_label(connection, namespace, found, BY_HAND)

    def _unlink(self, connection: Any, namespace: int, found: Scope | Label) -> None:
        """Have the episodes of a scope linked anew: they now stand beside others."""
        if isinstance(found, Scope):
            rows = self._store.labels.turns_of_scope(namespace, found.id)
            self._store.links.unlink(connection, namespace, rows)

    def _scope_id(self, namespace: int, name: str) -> str:
        try:
            return self._scope(namespace, name).id
        except NotFoundError:
            made = Scope(f"scope_{secrets.token_hex(8)}", name, name, 0, by_hand=True)
            with self._store.database.write() as connection:
                self._store.labels.put_scope(connection, namespace, made, BY_HAND)
            return made.id

    def _scope(self, namespace: int, name: str) -> Scope:
        scopes = list(self._store.labels.scopes(namespace).values())
        return _found("scope", name, [(s, s.id, s.label) for s in scopes])

    def _label_id(self, namespace: int, kind: str, name: str) -> str:
        try:
            return self._label(namespace, kind, name).id
        except NotFoundError:
            made = Label(f"label_{secrets.token_hex(8)}", kind, name.strip().lower(), origin="hand")
            with self._store.database.write() as connection:
                self._store.labels.put_label(connection, namespace, made, BY_HAND)
            return made.id

    def _label(self, namespace: int, kind: str, name: str) -> Label:
        if kind not in _KINDS:
            raise InputError("kind", f"{kind!r} is not a kind of label", f"one of {', '.join(_KINDS)}")
        stored = {label.id: label for label in self._store.labels.labels(namespace, kind)}
        known = {label.id: label for label in seed_labels(kind)} | stored
        return _found(kind, name, [(label, label.id, label.name) for label in known.values()])


def _found(kind: str, name: str, known: Sequence[tuple[T, str, str]]) -> T:
    by_id = [item for item, identity, _ in known if identity == name]
    by_name = [item for item, _, label in known if _key(label) == _key(name)]
    if not by_id and not by_name:
        raise NotFoundError(kind, f"{name!r} is neither an id nor a name in this namespace")
    return (by_id or by_name)[0]


def _edited(
    before: Intent | None, turn: Turn, scope: str | None, events: Sequence[str] | None, types: Sequence[str] | None
) -> Intent:
    start = before or Intent(turn.id, Scored(scope or "", 1.0), ScopeMove.NEW, (), ())
    decided = dict(start.decided_by)
    decided |= {
        name: BY_HAND
        for name, value in (("scope", scope), ("event", events), ("entity_types", types))
        if value is not None
    }
    return replace(
        start,
        scope=start.scope if scope is None else Scored(scope, 1.0),
        events=start.events if events is None else tuple(Scored(e, 1.0) for e in events),
        entity_types=start.entity_types if types is None else tuple(Scored(t, 1.0) for t in types),
        decided_by=decided,
    )


def _key(name: str) -> str:
    """What makes two names the same: case, width and spacing do not count."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _name(name: object, field: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise InputError(field, f"{name!r} is not a name", "pass a non-empty string")
    return clean(name).strip()


def _names(names: Sequence[str] | None, field: str) -> list[str] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(field, "must be a list of names", f'for example {field}=["..."]')
    return [_name(name, f"{field}[{i}]") for i, name in enumerate(names)]
