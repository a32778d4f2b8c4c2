"""SGD in the words of the seed vocabulary: what its acts and slots are called among the labels a memory starts from.

Only the seed labels that some act or slot stands for are offered: of the others the corpus says nothing, and a student
must not learn that they never apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from intentmem.memory.tasks import ENTITY_TYPES, EVENT
from intentmem.memory.write.seeds import load_seeds
from intentmem.train_data.schemas import EventGold, TurnGold
from intentmem.train_data.sgd_labels import words

from ..traces import LabelSet

_BY_ACT: Mapping[tuple[str, str], str] = {
    ("user", "AFFIRM_INTENT"): "accept offer",
    ("user", "NEGATE_INTENT"): "decline offer",
    ("user", "AFFIRM"): "confirm details",
    ("user", "NEGATE"): "deny details",
    ("user", "SELECT"): "select option",
    ("user", "REQUEST_ALTS"): "request alternatives",
    ("user", "THANK_YOU"): "thank",
    ("user", "GOODBYE"): "say goodbye",
    ("assistant", "INFORM"): "state fact",
    ("assistant", "REQUEST"): "ask clarification",
    ("assistant", "CONFIRM"): "ask confirmation",
    ("assistant", "OFFER"): "offer option",
    ("assistant", "OFFER_INTENT"): "offer help",
    ("assistant", "INFORM_COUNT"): "report result",
    ("assistant", "NOTIFY_SUCCESS"): "confirm completion",
    ("assistant", "NOTIFY_FAILURE"): "report failure",
    ("assistant", "REQ_MORE"): "ask if anything else",
    ("assistant", "GOODBYE"): "say goodbye",
}
_TIME, _PLACE = r"\b(date|time)\b", r"\b(city|location|area|address|station|airport|destination|origin|venue|where)\b"
_GIVEN = (
    (_TIME, "give time or date"),
    (_PLACE, "give location"),
    (r"\b(number|size|travelers|passengers|amount)\b", "give quantity"),
    ("", "give constraint"),
)
_ASKED = (
    (r"\b(price|fare|cost|rent|balance)\b", "ask price"),
    (_TIME, "ask time or date"),
    (_PLACE, "ask location"),
    (r"\bphone\b", "ask contact details"),
    (r"\brating\b", "ask rating or quality"),
    ("", "ask details"),
)
_WISHES = ("request search", "request action")
_SEARCHES = r"^(find|search|look ?up|get|check)\b"
_TYPES = (
    (r"^(has|is|offers|serves|pets|good for|smoking|furnished|free entry|in unit|subtitles)\b", "amenity"),
    (r"\bprice range\b", "price range"),
    (r"\bbalance\b", "account balance"),
    (r"\b(price|fare|rent|amount)\b", "price"),
    (r"\bdate\b", "date"),
    (r"\b(wait time|duration|stay length)\b", "duration"),
    (r"\btime\b", "time of day"),
    (r"\bphone number\b", "phone number"),
    (r"\brating\b", "rating"),
    (r"\b(adults|riders|passengers|party size|travelers|group size)\b", "number of people"),
    (r"\baddress\b", "address"),
    (r"\b(destination|where to)\b", "destination"),
    (r"\b(city|area|origin|location)\b", "city"),
    (r"\bvenue\b", "venue"),
    (r"\b(artist|actors|starring|directed by|director)\b", "artist"),
    (r"\b(movie|song) name\b|\b(album|title)\b", "title of work"),
    (r"\bevent name\b", "event name"),
    (r"\battraction name\b", "tourist attraction"),
    (
        r"\b(dentist|doctor|stylist|therapist|restaurant|hotel|place|property|theater) name\b|^airlines$",
        "business name",
    ),
    (r"\btemperature\b", "temperature"),
    (r"\b(precipitation|humidity|wind)\b", "weather"),
    (r"\bcuisine\b", "cuisine"),
    (r"\bgenre\b", "genre"),
    (r"\b(type|category|subcategory|class)\b", "category"),
)
"""Slots, as words, with the seed label that says the same; the first that fits counts."""


@cache
def seed_options(task: str) -> LabelSet:
    """The seed labels that the corpus has something to say about."""
    if task == EVENT.name:
        kind = "event"
        used = {*_BY_ACT.values(), *(name for _, name in (*_GIVEN, *_ASKED)), *_WISHES}
    else:
        kind, used = "entity_type", {name for _, name in _TYPES}
    labels = [seed for seed in load_seeds() if seed.kind == kind and seed.name in used]
    return LabelSet(tuple(seed.name for seed in labels), tuple(f"{seed.name}: {seed.description}" for seed in labels))


def seed_names(gold: TurnGold, role: str, task: str) -> tuple[str, ...]:
    """The seed labels of a turn."""
    if task == ENTITY_TYPES.name:
        found = [_first(_TYPES, slot) for slot in gold.entity_types]
    else:
        found = [_event(event, role) for event in gold.events]
    return tuple(dict.fromkeys(name for name in found if name))


def _event(event: EventGold, role: str) -> str:
    by_slot: Mapping[str, Callable[[], str]] = {
        "INFORM": lambda: _first(_GIVEN, words(event.slot or "")),
        "REQUEST": lambda: _first(_ASKED, words(event.slot or "")),
        "INFORM_INTENT": lambda: _wish(words(event.intent or "")),
    }
    if role == "user" and event.act in by_slot:
        return by_slot[event.act]()
    return _BY_ACT.get((role, event.act), "")


def _wish(intent: str) -> str:
    return _WISHES[0] if re.search(_SEARCHES, intent) else _WISHES[1]


def _first(table: tuple[tuple[str, str], ...], text: str) -> str:
    return next((name for pattern, name in table if re.search(pattern, text)), "")
