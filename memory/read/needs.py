"""What a question needs to know, one requirement for each thing that it names (EnSIMem, section 4; EMIR2, section 3.3).

Without a model a requirement is a thing of the question, a name or a part of a plan, with what is asked of it. A
requirement is covered where one turn, with what opened its run and was said around it, says it, or where what its
records were made from is read.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..store.lexical import query_terms
from ..write.mentions import find_mentions
from ..write.slots import find_slots
from .columns import Floats, Ints
from .threads import Threads
from .words import Pool, PostingCache, frequencies, rarity, spread

Verdict = Literal["covered", "partial", "missing"]
Span = Literal["one", "all_matching"]
COVERED, PARTIAL = 0.75, 0.35
"""Share of a requirement's words, by weight, that one turn must say."""
MOST = 4
"""Requirements of one question (EMIR2 decomposes into two to four)."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property that an entity has records of. name: as the vocabulary of the namespace calls it now. keys: those of
    its records. wordings: the stems of each name that stands for it.
    """

    name: str
    keys: tuple[str, ...]
    wordings: tuple[frozenset[str], ...] = ()

    def asked_by(self, words: AbstractSet[str]) -> frozenset[str]:
        """The longest of its wordings that is wholly among some words, empty where none is."""
        return max((one for one in self.wordings if one <= words), key=len, default=frozenset())


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement. `text` is what to look for; `terms` its words; `about` the thing of the question, "" for the whole
    question.

    entity: key of what it is about, where the namespace has records about that, else "". properties: those of that
    entity which it asks for. span: whether one passage answers it or all that match are needed. since, until: seconds
    since 1970, the time that the question names. after: the requirement, by number from 0, whose answer names what this
    one is about; None where the question does.
    """

    text: str
    terms: tuple[str, ...]
    about: str = ""
    entity: str = ""
    properties: tuple[Property, ...] = ()
    span: Span = "one"
    since: float | None = None
    until: float | None = None
    after: int | None = None

    def as_json(self) -> dict[str, object]:
        """The requirement for a person to read; empty parts are left out."""
        parts = {
            "entity": self.entity or None,
            "properties": [one.name for one in self.properties] or None,
            "since": self.since,
            "until": self.until,
            "after": None if self.after is None else self.after + 1,
        }
        return {"text": self.text, "span": self.span, **{k: part for k, part in parts.items() if part is not None}}


def needs_of(question: str) -> tuple[Need, ...]:
    """The requirements of a question, at most `MOST`; the whole question where it names fewer than two things."""
    things = things_of(question)
    if len(things) < 2:
        return (Need(question, tuple(query_terms(question))),)
    named = {term for thing in things for term in query_terms(thing)}
    asked = [term for term in query_terms(question) if term not in named]
    made = []
    for thing in things[:MOST]:
        text = question
        for other in things:
            if other != thing:
                text = text.replace(other, " ")
        made.append(Need(" ".join(text.split()), (*query_terms(thing), *asked), thing))
    return tuple(made)


def things_of(question: str) -> list[str]:
    """Names and parts of plans that a question speaks of, in its order."""
    spans = [(slot.start, slot.end) for slot in find_slots(question)]
    spans += [(mention.start, mention.end) for mention in find_mentions(question)]
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not found or start >= found[-1][1]:
            found.append((start, end))
    return list(dict.fromkeys(question[start:end] for start, end in found))


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far each turn of a pool says a requirement, (P,) in [0, 1].

    recorded: places of the turns behind the records that it asks for, best first.
    """

    need: Need
    said: Floats
    recorded: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def of(self, places: Ints) -> float:
        """The most that one of some turns says."""
        return float(self.said[places].max()) if len(places) else 0.0

    def verdict(self, places: Ints) -> Verdict:
        """Whether some turns cover it: by their words, or as sources of its records, of all where all are asked for."""
        if self._read(places):
            return "covered"
        reached = self.of(places)
        return "covered" if reached >= COVERED else "partial" if reached >= PARTIAL else "missing"

    def _read(self, places: Ints) -> bool:
        if not len(self.recorded):
            return False
        held = np.isin(self.recorded, places)
        return bool(held.all() if self.need.span == "all_matching" else held.any())


def coverage(need: Need, pool: Pool, threads: Threads, cache: PostingCache, recorded: Ints) -> Coverage:
    """How far each turn says a requirement, in its own words, those around it or those that opened its run.

    A word that nothing here says is left out: no turn could cover it.
    """
    if not need.terms or not len(pool):
        return Coverage(need, np.zeros(len(pool), np.float32), recorded)
    text, meta = frequencies(pool, list(need.terms), cache)
    said: NDArray[np.bool_] = (spread(pool, text) + meta + text[:, threads.opening][:, threads.run]) > 0
    idf = rarity(text + meta, pool.eligible)
    total = float(idf.sum())
    share = (idf @ said) / total if total else np.zeros(len(pool))
    return Coverage(need, np.asarray(np.where(pool.eligible, share, 0.0), np.float32), recorded)


def bridged(need: Need, name: str) -> Need:
    """A requirement with the thing that an earlier answer named beside how the question described it."""
    return replace(need, text=f"{name} {need.text}", terms=tuple(dict.fromkeys((*query_terms(name), *need.terms))))
