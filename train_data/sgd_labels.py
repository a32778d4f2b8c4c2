"""The label vocabulary that follows from an SGD schema: events, entity types and scopes with names and descriptions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from intentmem.memory.errors import InputError
from intentmem.memory.types import Label

from .files import SCHEMA_FILE, Reader, mappings, need, text_of
from .schemas import EventGold

ACTS: Mapping[tuple[str, str], str] = {
    ("USER", "INFORM"): "give",
    ("USER", "REQUEST"): "ask for",
    ("USER", "INFORM_INTENT"): "want to",
    ("USER", "AFFIRM_INTENT"): "agree to",
    ("USER", "NEGATE_INTENT"): "decline further help",
    ("USER", "AFFIRM"): "accept what was proposed",
    ("USER", "NEGATE"): "reject what was proposed",
    ("USER", "SELECT"): "choose",
    ("USER", "REQUEST_ALTS"): "ask for alternatives",
    ("USER", "THANK_YOU"): "give thanks",
    ("USER", "GOODBYE"): "say goodbye",
    ("SYSTEM", "INFORM"): "answer with",
    ("SYSTEM", "REQUEST"): "prompt for",
    ("SYSTEM", "CONFIRM"): "check",
    ("SYSTEM", "OFFER"): "offer",
    ("SYSTEM", "OFFER_INTENT"): "offer to",
    ("SYSTEM", "INFORM_COUNT"): "tell how many were found",
    ("SYSTEM", "NOTIFY_SUCCESS"): "report success",
    ("SYSTEM", "NOTIFY_FAILURE"): "report failure",
    ("SYSTEM", "REQ_MORE"): "ask whether more is wanted",
    ("SYSTEM", "GOODBYE"): "say goodbye",
}
"""How each dialogue act of a speaker is named."""

_INTENT_ACTS = {"INFORM_INTENT": "state a goal", "AFFIRM_INTENT": "agree to a goal", "OFFER_INTENT": "offer a goal"}
_SOCIAL_ACTS = frozenset({"THANK_YOU", "GOODBYE", "REQ_MORE", "NEGATE_INTENT"})
NO_INTENT = "NONE"


@cache
def words(identifier: str) -> str:
    """`number_of_beds` and `FindHomeByArea` as lower-case words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", identifier).replace("_", " ").lower().strip()


@dataclass(frozen=True, slots=True)
class Schema:
    """Descriptions of services, of their slots and of their intents, the latter two keyed by (service, name)."""

    services: Mapping[str, str]
    slots: Mapping[tuple[str, str], str]
    intents: Mapping[tuple[str, str], str]
    _events: dict[tuple[str, str, str, str | None, str | None], EventGold] = field(
        default_factory=dict, repr=False, compare=False
    )

    def event(self, speaker: str, act: str, service: str, intent: str | None, slot: str | None) -> EventGold:
        """The event of one dialogue act; equal acts share one object."""
        key = (speaker, act, service, intent, slot)
        if key not in self._events:
            self._events[key] = _event(*key)
        return self._events[key]

    def labels(self) -> tuple[Label, ...]:
        """The vocabulary of entity types, scopes and of the events named so far, sorted by id; ids are `kind:name`."""
        found: dict[str, Label] = {}
        for label in (*self._entity_types(), *self._scopes(), *self._event_labels()):
            found.setdefault(label.id, label)
        return tuple(found[id] for id in sorted(found))

    def _entity_types(self) -> Iterable[Label]:
        for (_, slot), description in self.slots.items():
            yield _label("entity_type", words(slot), description)

    def _scopes(self) -> Iterable[Label]:
        for service, description in self.services.items():
            yield _label("scope", service, description)
        for (service, intent), description in self.intents.items():
            yield _label("scope", scope_name(service, intent), description, service)

    def _event_labels(self) -> Iterable[Label]:
        for event in self._events.values():
            what = self.slots.get((event.service, event.slot or ""), "")
            goal = self.intents.get((event.service, event.intent or ""), "")
            phrase = event.parent[0].upper() + event.parent[1:]
            yield _label("event", event.parent, f"{phrase}: {what}" if what else phrase)
            if event.name != event.parent:
                parts = [phrase, *([what] if what else []), *([f"goal: {goal}"] if goal else [])]
                yield _label("event", event.name, "; ".join(parts), event.parent)


@cache
def scope_name(service: str, intent: str) -> str:
    """Name of the scope that an intent of a service is."""
    return f"{service}: {words(intent)}"


def load_schema(folder: str | Path, reader: Reader | None = None) -> Schema:
    """Read the `schema.json` of a split.

    Raises:
        InputError: it is absent or not a schema.
    """
    file = Path(folder) / SCHEMA_FILE
    if not file.is_file():
        raise InputError("path", f"{folder} has no {SCHEMA_FILE}", "keep each split's schema beside its dialogues")
    data = (reader or Reader()).json(file)
    if not isinstance(data, list) or not data:
        raise InputError(file.name, "is not a list of services", "compare with the published file")
    services: dict[str, str] = {}
    slots: dict[tuple[str, str], str] = {}
    intents: dict[tuple[str, str], str] = {}
    for index, entry in enumerate(data):
        name = need(entry, "service_name", str, f"{file.name}[{index}]")
        services[name] = text_of(entry, "description") or ""
        for target, key in ((slots, "slots"), (intents, "intents")):
            target.update(_described(name, entry.get(key)))
    return Schema(services, slots, intents)


def unseen_services(seen: Schema, other: Schema) -> frozenset[str]:
    """Services of `other` that `seen` has not: where a labeler meets labels it was not trained on."""
    return frozenset(other.services) - frozenset(seen.services)


def _described(service: str, entries: Any) -> Iterable[tuple[tuple[str, str], str]]:
    for entry in mappings(entries):
        if (name := text_of(entry, "name")) is not None:
            yield (service, name), text_of(entry, "description") or ""


def _event(speaker: str, act: str, service: str, intent: str | None, slot: str | None) -> EventGold:
    phrase = ACTS.get((speaker, act), words(act))
    if act in _INTENT_ACTS:
        name = f"{phrase} {words(intent)}" if intent else _INTENT_ACTS[act]
        return EventGold(name, _INTENT_ACTS[act], act, service, intent)
    coarse = f"{phrase} {words(slot)}" if slot else phrase
    fine = coarse if intent is None or act in _SOCIAL_ACTS else f"{coarse} ({words(intent)})"
    return EventGold(fine, coarse, act, service, intent, slot)


def _label(kind: str, name: str, description: str, parent: str | None = None) -> Label:
    return Label(f"{kind}:{name}", kind, name, description, f"{kind}:{parent}" if parent else None, origin="seed")
