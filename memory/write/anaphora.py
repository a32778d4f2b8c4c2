"""Where an English text refers to something named before: pronouns, definite phrases and ordinals.

Other languages are left alone. What only looks like a reference ("it is raining", "the hotel where I stayed") is
passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .languages import CLASS_NOUNS, OPTION_WORDS, ORDINALS, PERSON_NOUNS, PLACE_WORDS, Cover, lower_ascii, singular
from .slots import find_slots

Kind = Literal["pronoun", "definite", "ordinal"]

LAST = -1


@dataclass(frozen=True, slots=True)
class Anaphor:
    """A phrase that stands for something named before.

    `noun` is what it says the thing is, "" if nothing. `place` asks for a place. `rank` counts from 1, `LAST` is
    the last, 0 none. `by` is who named it, as the phrase says. `slot` is the part of the plan it asks for. `recent`
    limits it to what was just listed ("the former").
    """

    start: int
    end: int
    kind: Kind
    noun: str = ""
    place: bool = False
    rank: int = 0
    by: Literal["speaker", "other", ""] = ""
    slot: str = ""
    recent: bool = False


_RANKS = "|".join([*ORDINALS, "last", "latest", r"\d{1,2}(?:st|nd|rd|th)"])
_SAID = (
    r"(?:raised|mentioned|suggested|proposed|recommended|listed|named|brought up|gave|picked|chose|asked"
    r" about|talked about|offered|found|booked|selected)"
)
_ORDINAL = re.compile(
    rf"\bthe (?:very )?(?P<rank>{_RANKS}) (?P<noun>[a-z]+)\b(?P<by> (?:that |which )?(?P<who>i|you|we)(?:'ve|'d|"
    rf" have| had)? (?:just |first |previously |originally )?{_SAID}\b)?"
)
_FORMER = re.compile(r"\bthe (?P<which>former|latter)(?: (?:one|option|choice))?\b(?! [a-z]+(?:s|er|or|ist)\b)")
_DEFINITE = re.compile(
    rf"\b(?P<article>the|that|this) (?:same )?(?P<noun>[a-z]+)\b(?P<by> (?:that |which )?(?P<who>i|you|we)(?:'ve"
    rf"|'d| have| had)? (?:just |first |previously |originally )?{_SAID}\b)?"
)
_SLOT_DEFINITE = re.compile(r"(?P<noun>[a-z]+)$")
_IT = re.compile(r"\b(?:its?|that one|this one)\b(?!['’](?:ll|d)\b)")
_THERE = re.compile(
    r"\bthere\b(?!['’ ]*(?:is|are|was|were|s|re|will|would|has|have|had|may|might|must|should|could|can|seems?"
    r"|any|a|an|no|other)\b)(?! (?:be|exist))"
)
_NOT_A_PLACE = re.compile(
    r"(?:\b(?:hi|hey|hello|is|are|was|were|out|over|up|in|be|get|got|from|almost|hang|do|you|been|will|isn't"
    r"|aren't|so)|^|[.!?,]) $"
)
_RESTRICTED = re.compile(
    r" (?:where|which|who|whose|that|with|called|named|near|in|on|at|by|from|of|next|closest|and|or|we|i|you"
    r"|they|he|she)\b"
)

_PLEONASTIC_AFTER = re.compile(
    r"(?:['’]s| is| was| will be| would be| might be| may be| has been|['’]s been)? ?(?:not |so |really |very "
    r"|too |such |just |also |all |probably |"
    r"definitely |always |still |absolutely |truly |about )*(?:"
    r"(?:rain|snow|get|sound|look|go)ing|raining|sunny|windy|hot|warm|late|early|dark|time|true|ok|okay|fine"
    r"|great|nice|good|best|better|important|possible|"
    r"impossible|easy|hard|difficult|clear|amazing|wonderful|awesome|lovely|fun|cool|weird|funny|sad|tough|worth"
    r"|necessary|likely|unlikely|"
    r"correct|right|wrong|okay|a pleasure|been|up to|me|you|us|him|her|them|because|like|that|when|how|why|what"
    r"|who|where|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tomorrow|"
    r"seems?|appears?|turns? out|looks? like|sounds?|feels?|makes? sense|takes?|took|depends?|matters?|happens?"
    r"|hurts?|helps?|means?|reminds?|made me|makes me)\b"
)
_PLEONASTIC_BEFORE = re.compile(
    r"\b(?:make|makes|made|that's|that is|this is|got|get|do|did|done|doing|call|believe|take|took|let|keep|is"
    r" that|mean|worth|about that|"
    r"does|as|so be|hit|find|found|like|love|hate|appreciate|say|said|guess|admit|have|be|think|thought) $"
)
_IS_IT = re.compile(r"\b(?:is|was|will|would|does|did|could|can) $")
_PLEONASTIC_IS_IT = re.compile(
    r" (?:possible|ok|okay|fine|true|raining|going|time|worth|be possible|matter|mean|make|take|work for)\b"
)


def find_anaphors(text: str) -> list[Anaphor]:
    """References of a text in order, none overlapping: ordinals before definites before pronouns."""
    lowered = lower_ascii(text)
    cover = Cover(len(text))
    found = [
        anaphor
        for anaphor in (*_ordinals(lowered), *_formers(lowered), *_definites(lowered), *_pronouns(text, lowered))
        if cover.take(anaphor.start, anaphor.end)
    ]
    return sorted(found, key=lambda a: a.start)


def _who(match: re.Match[str]) -> Literal["speaker", "other", ""]:
    who: Literal["speaker", "other", ""] = ""
    if match["who"] == "i":
        who = "speaker"
    elif match["who"] == "you":
        who = "other"
    return who


def _slot_after(text: str, end: int) -> tuple[str, int]:
    """The slot that a phrase is completed by ("for day 1's breakfast"), and where it ends."""
    lead = re.match(r" (?:for|on|of|under|in) ", text[end : end + 30])
    if not lead:
        return "", end
    for slot in find_slots(text[end : end + 60]):
        if slot.start <= lead.end() + 4:
            return slot.name, end + slot.end
        break
    return "", end


def _ordinals(text: str) -> Iterator[Anaphor]:
    for match in _ORDINAL.finditer(text):
        noun = singular(match["noun"])
        named = noun in CLASS_NOUNS or noun in PLACE_WORDS
        if noun not in OPTION_WORDS and not named and not match["by"]:
            continue
        word = match["rank"]
        digits = re.match(r"\d+", word)
        rank = LAST if word in ("last", "latest") else int(digits[0]) if digits else ORDINALS[word]
        slot, end = _slot_after(text, match.end())
        if word in ("last", "latest") and named and not (match["by"] or slot):
            continue  # "the last movie" is the latest one seen
        generic = noun in OPTION_WORDS or noun in PLACE_WORDS
        if rank != 0:
            yield Anaphor(
                match.start(), end, "ordinal", "" if generic else noun, noun in PLACE_WORDS, rank, _who(match), slot
            )


def _formers(text: str) -> Iterator[Anaphor]:
    for match in _FORMER.finditer(text):
        yield Anaphor(match.start(), match.end(), "ordinal", rank=1 if match["which"] == "former" else 2, recent=True)


def _definites(text: str) -> Iterator[Anaphor]:
    for match in _DEFINITE.finditer(text):
        noun = match["noun"]
        if noun in PERSON_NOUNS or not (noun in CLASS_NOUNS or noun in PLACE_WORDS):
            continue
        slot, end = _slot_after(text, match.end())
        if not (match["by"] or slot) and (_RESTRICTED.match(text, end) or _is_compound(text, end)):
            continue
        generic = noun in PLACE_WORDS
        yield Anaphor(match.start(), end, "definite", "" if generic else noun, generic, 0, _who(match), slot)


def _is_compound(text: str, end: int) -> bool:
    """Whether the noun only qualifies the next one ("the hotel lobby", "the movie theater")."""
    follows = re.match(r"[ -]([a-z]+)", text[end : end + 30])
    return follows is not None and (text[end] == "-" or singular(follows[1]) in CLASS_NOUNS | _PARTS_OF_THINGS)


_PARTS_OF_THINGS = frozenset(
    [
        "name",
        "address",
        "number",
        "price",
        "lobby",
        "room",
        "staff",
        "manager",
        "ticket",
        "ticket",
        "reservation",
        "booking",
        "date",
        "time",
        "district",
        "chain",
        "industry",
        "group",
        "season",
    ]
)


def _pronouns(written: str, text: str) -> Iterator[Anaphor]:
    for match in _IT.finditer(text):
        word = match[0]
        if written.startswith("IT", match.start()):  # the abbreviation
            continue
        if word == "it" and _is_pleonastic(text, match.start(), match.end()):
            continue
        yield Anaphor(match.start(), match.end(), "pronoun")
    for match in _THERE.finditer(text):
        if not _NOT_A_PLACE.search(text[max(0, match.start() - 8) : match.start()]):
            yield Anaphor(match.start(), match.end(), "pronoun", place=True)


def _is_pleonastic(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - 12) : start]
    if _IS_IT.search(before):
        return bool(_PLEONASTIC_IS_IT.match(text, end))
    return bool(_PLEONASTIC_AFTER.match(text, end) or _PLEONASTIC_BEFORE.search(before))
