"""Mentions of one scope grouped into the things they name, in the order in which each was first named."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ..types import Mention
from .languages import CLASS_NOUNS, NUMBERS, PERSON_NOUNS, PLACE_NOUNS, PLACE_WORDS, SELDOM_IT_NOUNS
from .mentions import LOCATION

_NOT_THINGS = frozenset(("person", "address", LOCATION))


@dataclass(slots=True)
class Entity:
    """One named thing. `name` is its fullest form; `slots` those it was named under; `mentions` oldest first."""

    name: str
    key: tuple[str, ...]
    mentions: list[Mention] = field(default_factory=list)

    @property
    def types(self) -> set[str]:
        """What it was said to be; only a location where that was said most often."""
        said = [m.entity_type for m in self.mentions if m.entity_type]
        return {LOCATION} if said.count(LOCATION) * 2 > len(said) else set(said) - {LOCATION}

    @property
    def slots(self) -> set[str]:
        """The slots it was named under."""
        return {m.slot for m in self.mentions if m.slot}

    @property
    def last_seq(self) -> int:
        """Where it was last named."""
        return self.mentions[-1].seq

    @property
    def first(self) -> Mention:
        """Where it was first named."""
        return self.mentions[0]

    def is_person(self) -> bool:
        """Whether it is said to be a person."""
        return bool(self.types & (PERSON_NOUNS | {"person"}))

    def is_thing(self) -> bool:
        """Whether it is said to be some thing or place other than a person or a bare location."""
        return bool(self.types - PERSON_NOUNS - _NOT_THINGS) and not self.is_person()

    def is_seldom_it(self) -> bool:
        """Whether it is only said to be what something else is at or by."""
        return bool(self.types) and self.types <= SELDOM_IT_NOUNS | _NOT_THINGS

    def is_place(self) -> bool:
        """Whether one can be at it."""
        return bool(self.types & (PLACE_NOUNS | PLACE_WORDS))


@lru_cache(maxsize=4096)
def name_key(name: str) -> tuple[str, ...]:
    """The words of a name by which its spellings meet: folded, without a leading article or punctuation."""
    folded = unicodedata.normalize("NFKC", name).casefold().replace("’", "'").replace("&", "and")
    words = [w.strip(".,'\"*") for w in folded.split()]
    words = [w.removesuffix("'s") for w in words if w]
    return tuple(words[1:] if len(words) > 1 and words[0] == "the" else words)


def same_name(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether one key is the other or its beginning ("Sipan", "Sipan Peruvian Restaurant"), or differs by a class
    noun.
    """
    if a == b:
        return True
    short, long = sorted((a, b), key=len)
    if short and long[: len(short)] == short and not _is_numbered(long[len(short) :]):
        return True
    return bool(short) and _bare(a) == _bare(b) != ()


def _is_numbered(rest: tuple[str, ...]) -> bool:
    return bool(rest) and all(w.isdigit() or w in NUMBERS for w in rest)


def _bare(key: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(w for w in key if w not in CLASS_NOUNS)


def entities_of(mentions: Sequence[Mention]) -> list[Entity]:
    """Distinct things in order of first mention. Mentions of the people who speak are persons."""
    speakers = {name_key(speaker) for speaker in {m.speaker for m in mentions} if speaker}
    found: list[Entity] = []
    exact: dict[tuple[str, ...], Entity] = {}
    by_word: dict[str, list[Entity]] = {}
    for mention in mentions:
        key = name_key(mention.name)
        if not key or key in speakers:
            continue
        entity = exact.get(key) or next(
            (e for w in (key[0], key[-1]) for e in by_word.get(w, ()) if same_name(e.key, key)), None
        )
        if entity is None:
            entity = Entity(mention.name, key)
            found.append(entity)
        elif len(key) > len(entity.key):
            entity.name, entity.key = mention.name, key
        for word in {key[0], key[-1]}:
            if entity not in by_word.setdefault(word, []):
                by_word[word].append(entity)
        exact[key] = entity
        entity.mentions.append(mention)
    return found
