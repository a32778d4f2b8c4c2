"""The kinds of world that are simulated: their things, attributes and wordings, from TOML files that ship."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from intentmem.memory.errors import InputError

from ..questions.templates import choose

KINDS = ("travel", "debate", "shopping", "project")
"""Kinds of simulated world."""
SetSplit = Literal["train", "test"]

_FIRST_DAY = date(2025, 3, 3)


@dataclass(frozen=True, slots=True)
class Value:
    """A value as it is said; `number` where it can be compared and added."""

    text: str
    number: float | None = None


@dataclass(frozen=True, slots=True)
class SlotKind:
    """One sort of thing to be decided. `label` has alternatives and the gaps `part` and `group`."""

    label: str
    part: str | None
    noun: str
    nouns: str
    names: str
    attributes: tuple[str, ...]
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of world.

    `several` words a slot where there is more than one group, as in a set of more than `one_group_tokens`; a group has
    all `parts` where it is the only one, else at most `most_parts`. `overview` words what an overview is of, a part or
    a group by `overview_by`: with one group, and with more.
    """

    name: str
    title: str
    several: str
    one_group_tokens: int
    overview: tuple[str, str]
    overview_by: Literal["part", "group"]
    stamps: bool
    speakers: tuple[str, ...]
    parts: tuple[str, ...]
    most_parts: int
    slots: tuple[SlotKind, ...]
    words: Mapping[str, str]
    attributes: Mapping[str, Mapping[str, Any]]
    fields: Mapping[str, Mapping[str, Any]]
    names: Mapping[str, Sequence[Sequence[str]]]
    say: Mapping[str, Sequence[str]]
    reasons: Sequence[str]
    groups: Sequence[str]
    more_groups: Sequence[str]

    def group_names(self, rng: random.Random) -> Iterator[str]:
        """Names of groups, each once, without end."""
        for pattern in ("{name}", *self.more_groups):
            for name in rng.sample(list(self.groups), len(self.groups)):
                yield pattern.format(name=name)
        number = 2
        while True:
            for name in rng.sample(list(self.groups), len(self.groups)):
                yield f"{name} no. {number}"
            number += 1


@cache
def load_kind(name: str) -> Kind:
    """A kind by name.

    Raises:
        InputError: there is no such kind.
    """
    if name not in KINDS:
        raise InputError("kind", f"{name!r} is no kind of set", f"known: {', '.join((*KINDS, 'woven'))}")
    raw = tomllib.loads((files("intentmem.train_data.synthetic") / f"{name}.toml").read_text(encoding="utf-8"))
    slots = tuple(
        SlotKind(
            entry["label"],
            entry.get("part"),
            entry["noun"],
            entry["nouns"],
            entry["names"],
            tuple(entry["attributes"]),
            tuple(entry["fields"]),
        )
        for entry in raw["slots"]
    )
    return Kind(
        name=name,
        title=raw["title"],
        several=raw["several"],
        one_group_tokens=raw["one_group_tokens"],
        overview=(raw["overview"][0], raw["overview"][1]),
        overview_by=raw["overview_by"],
        stamps=raw["stamps"],
        speakers=tuple(raw.get("speakers", ())),
        parts=tuple(raw["groups"]["parts"]),
        most_parts=raw["groups"].get("most_parts", len(raw["groups"]["parts"])),
        slots=slots,
        words=raw["words"],
        attributes=raw["attributes"],
        fields=raw["fields"],
        names=raw["names"],
        say=raw["say"],
        reasons=raw["reasons"]["pick"],
        groups=raw["groups"]["names"],
        more_groups=raw["groups"]["more"],
    )


@cache
def taking_up(fresh: bool) -> tuple[str, ...]:
    """Ways to take up a thing for the first time or again, for any kind, to train on alone."""
    raw = tomllib.loads((files("intentmem.train_data.synthetic") / "cues.toml").read_text(encoding="utf-8"))
    return (*raw["enter" if fresh else "again"], *raw["either"])


def wording(options: Sequence[str], split: SetSplit, rng: random.Random) -> str:
    """One of the wordings of a split: every second is kept for tests."""
    kept = options[1::2] if split == "test" else options[::2]
    return choose(rng.choice(kept), rng)


def make_value(spec: Mapping[str, Any], rng: random.Random) -> Value:
    """A value as its specification says: one of a list, a time, a date, a phone number or a number with its unit."""
    if "pick" in spec:
        return Value(rng.choice(spec["pick"]))
    if "clock" in spec:
        low, high = spec["clock"]
        return Value(f"{rng.randint(low, high)}:{rng.choice(('00', '10', '15', '20', '30', '40', '45', '50')):s}")
    if spec.get("date"):
        day = _FIRST_DAY + timedelta(days=rng.randrange(300))
        return Value(f"{day.day} {day:%B}")
    if spec.get("phone"):
        return Value(f"{rng.randint(200, 899)}-{rng.randint(1000, 9999)}")
    number = round(rng.uniform(spec["low"], spec["high"]), spec["decimals"])
    shown = f"{number:.{spec['decimals']}f}"
    return Value(spec.get("unit", "{}").format(shown), float(number))
