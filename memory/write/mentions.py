"""Named things in a text, without a model (the exact addresses that grounding needs: STITCH, section 3.2).

Reads capitalised names, quoted titles, bold names and list items of English text, and in Chinese and Japanese the
names in corner or book-title quotes and runs of katakana. Names in Han characters, kana or Hangul without quotes
are a documented limit: they need a model. Offsets are characters of the text itself, whatever its script.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..types import Mention, Turn
from .languages import Cover, lower_ascii
from .mention_rules import LONGEST_NAME, candidates
from .mention_types import entity_type, is_location, offered_type
from .slots import Slot, find_slots

LOCATION = "location"
"""`entity_type` of a name that stands after a preposition of place and of which nothing else is said."""

_CLAUSE_BREAK = re.compile(r"[.!?。！？](?=\s|$)|\n")


def find_mentions(text: str) -> list[Mention]:
    """Names of a text in order, none overlapping: `text[m.start:m.end] == m.name`. Never raises.

    `entity_type` is what the text says a thing is: the head of its name or of the phrase beside it ("the Apollo
    Hotel", "a restaurant called Nopa", "Nopa, a restaurant"), for an item of a list or an offer the one kind that
    is spoken of. `slot` is stated in its sentence, else the last one stated before it in the text (a heading, or
    "For day 1 ...").
    """
    cover = Cover(len(text))
    taken = sorted(
        (start, end, how)
        for start, end, how in candidates(text)
        if 0 < end - start <= LONGEST_NAME and cover.take(start, end)
    )
    slots = find_slots(text) if taken else []
    return _with_types(
        [_mention(text, start, end, how, slots) for start, end, how in taken if not _is_slot(start, end, slots)]
    )


def mentions_of(turn: Turn) -> list[Mention]:
    """Names of a turn, each with the turn, its place, its speaker and its role."""
    return [
        replace(mention, turn=turn.id, seq=turn.seq, speaker=turn.speaker, role=turn.role)
        for mention in find_mentions(turn.text)
    ]


def _is_slot(start: int, end: int, slots: Sequence[Slot]) -> bool:
    return any(slot.start <= start and end <= slot.end for slot in slots)


def _mention(text: str, start: int, end: int, how: str, slots: Sequence[Slot]) -> Mention:
    kind = entity_type(text, start, end, how)
    if kind is None and how == "capitalised" and is_location(text, start):
        kind = LOCATION
    if kind is None:
        kind = offered_type(text, start)
    return Mention(text[start:end], start, end, kind, _slot(text, start, end, slots))


def _slot(text: str, start: int, end: int, slots: Sequence[Slot]) -> str | None:
    """The nearest slot of the sentence, completed by the last full one before it; else that last one."""
    if not slots:
        return None
    left = 0
    for stop in _CLAUSE_BREAK.finditer(text, max(0, start - 400), start):
        left = stop.end()
    right = _CLAUSE_BREAK.search(text, end)
    stated = [s for s in slots if s.start >= left and s.end <= (right.start() if right else len(text))]
    standing: Slot | None = None
    for slot in (s for s in slots if s.end <= start):
        standing = slot.within(standing)
    if not stated:
        return standing.name if standing else None
    nearest = min(
        stated,
        key=lambda s: (
            s.start > end and len(stated) > 1,
            abs(s.start - start) if s.start > end else abs(start - s.end),
        ),
    )
    return nearest.within(standing).name


def _with_types(mentions: list[Mention]) -> list[Mention]:
    """Later mentions of a name share the type that one of them was given."""
    known = {lower_ascii(m.name): m.entity_type for m in reversed(mentions) if m.entity_type not in (None, LOCATION)}
    return [replace(m, entity_type=known.get(lower_ascii(m.name), m.entity_type)) for m in mentions]
