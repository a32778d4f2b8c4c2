"""What a woven trajectory holds, goal by goal: what was wanted, offered, told and chosen, each with its turns."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from ..records import gold_records, names_a_thing
from ..schemas import RecordGold, Trajectory
from ..sgd_labels import words

_PLACES = re.compile(r"\b(city|location|destination|area|to)\b")
_NOT_PLACES = re.compile(r"\b(origin|from|pickup|time|date|name)\b")
_STYLES = ("category", "cuisine", "genre", "event type", "subcategory", "type", "car type", "new alarm name")


@dataclass(slots=True)
class Said:
    """A value and the turns that state it, in order."""

    value: str
    turns: list[str]


@dataclass(slots=True)
class Thread:
    """One service under one goal. Values are in the order in which they were first said.

    kind: what sort of thing is named in it. wanted: by property, what the user asked for. offered: names that the
    assistant gave, with the turns. told: by name and property, what the assistant said of it. chosen: a name and the
    turn in which the user took it. goal: the thread in a few words, "" where they would fit another one as well.
    properties: what is said of anything of its service.
    """

    scope: str
    service: str
    first_turn: str
    kind: str = ""
    wanted: dict[str, list[Said]] = field(default_factory=lambda: defaultdict(list))
    offered: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    told: dict[str, dict[str, list[Said]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    in_hand: str | None = None
    chosen: tuple[str, str] | None = None
    goal: str = ""
    properties: frozenset[str] = frozenset()

    @property
    def place(self) -> Said | None:
        """The place that the user named, if it never changed."""
        for name, said in self.wanted.items():
            if _PLACES.search(name) and not _NOT_PLACES.search(name):
                return said[0] if len(said) == 1 else None
        return None

    @property
    def style(self) -> str | None:
        """A word of the user for what sort of thing is wanted, if it never changed."""
        found = (self.wanted[name] for name in _STYLES if name in self.wanted)
        return next((said[0].value for said in found if len(said) == 1), None)


def read_threads(trajectory: Trajectory) -> list[Thread]:
    """The threads in which something is named, in order."""
    threads: dict[tuple[str, str], Thread] = {}
    slots: dict[tuple[str, str], str] = {}
    by_turn: dict[str, list[RecordGold]] = defaultdict(list)
    for record in gold_records(trajectory):
        by_turn[record.turn].append(record)
    for turn in trajectory.turns:
        id = str(turn.source_id)
        gold = trajectory.gold[id]
        for service in dict.fromkeys(event.service for event in gold.events):
            threads.setdefault((str(gold.scope), service), Thread(str(gold.scope), service, id))
        for span in gold.spans:
            if names_a_thing(span.slot):
                slots.setdefault((str(gold.scope), span.service), span.slot)
        for record in by_turn[id]:
            if (thread := threads.get((str(gold.scope), record.service))) is not None:
                _note(thread, record)
        for event in gold.events:
            thread = threads[str(gold.scope), event.service]
            if event.act == "SELECT" and turn.role == "user" and thread.in_hand:
                thread.chosen = (thread.in_hand, id)
    properties: dict[str, set[str]] = defaultdict(set)
    for thread in threads.values():
        properties[thread.service] |= {*thread.wanted, *(name for told in thread.told.values() for name in told)}
    for key, thread in threads.items():
        thread.properties = frozenset(properties[thread.service])
        thread.kind = _kind(slots.get(key), thread.service)
    return _described([thread for thread in threads.values() if thread.kind])


def _note(thread: Thread, record: RecordGold) -> None:
    if record.by_user:
        _say(thread.wanted[record.property], record)
    elif record.entity == record.value:
        known = {_bare(name): name for name in thread.offered}
        thread.in_hand = known.get(_bare(record.value), record.value)
        thread.offered[thread.in_hand].append(record.turn)
    elif record.entity is not None:
        _say(thread.told[record.entity][record.property], record)


def _say(said: list[Said], record: RecordGold) -> None:
    for one in said:
        if one.value.casefold() == record.value.casefold():
            one.turns.append(record.turn)
            return
    said.append(Said(record.value, [record.turn]))


def _bare(name: str) -> str:
    return name.casefold().removeprefix("the ")


def _kind(slot: str | None, service: str) -> str:
    if slot is None:
        return ""
    name = words(slot).removesuffix(" name")
    return name if name != words(slot) else re.sub(r"s?_\d+$", "", service).lower()


def _described(threads: list[Thread]) -> list[Thread]:
    by_goal: dict[str, list[Thread]] = defaultdict(list)
    for thread in threads:
        style = f"{thread.style} {thread.kind}" if thread.style else thread.kind
        thread.goal = f"{style} in {thread.place.value}" if thread.place else style
        by_goal[thread.goal.casefold()].append(thread)
    for group in by_goal.values():
        for thread in group:
            if len(group) > 1 or thread.goal == thread.kind:
                thread.goal = ""
    return threads
