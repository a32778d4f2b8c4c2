"""Slots: the part of a plan that a text speaks of ("day 1", "day 2 dinner", "first night", "saturday").

A slot is a unit with its number, an ordinal with its unit, or a weekday, then perhaps a part of the day. English only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .languages import NUMBERS, ORDINALS, WEEKDAYS, lower_ascii

_UNITS = "day|night|week|stop|leg|stage|phase|part|session|module|chapter|round|option set|trip|milestone|sprint"
_NUMBER_WORDS = "|".join(word for word in NUMBERS if len(word) > 2)
_ORDINAL_WORDS = "|".join([*ORDINALS, "last", "final"])
_PARTS = "breakfast|brunch|lunch|dinner|supper|morning|afternoon|evening|night"

_UNIT = re.compile(
    rf"\b(?:(?P<unit>{_UNITS})[ -]?(?P<number>\d{{1,2}}|(?:{_NUMBER_WORDS})\b)(?!\w|[.,:/]\d)"
    rf"|(?:the |our |my |your )?(?P<ordinal>{_ORDINAL_WORDS}|\d{{1,2}}(?:st|nd|rd|th)) (?P<unit2>day|night|week"
    rf"|evening|morning|leg|stop)\b(?!s)"
    rf"|(?P<weekday>{'|'.join(WEEKDAYS)})\b)"
)
_PART = re.compile(rf"\b(?P<part>{_PARTS})\b")
_JOINS_BEFORE = re.compile(r"(?:['’]s?)?,? ?(?:'s |for |at |- |– |: ?|\()?(?:the |our |my )?")
_JOINS_AFTER = re.compile(r",? (?:for|on|of|during) (?:the )?")


@dataclass(frozen=True, slots=True)
class Slot:
    """`text[start:end]` names the slot. `unit` is its main part ("day 2") and `part` the part of the day; one may
    be empty.
    """

    start: int
    end: int
    unit: str
    part: str

    @property
    def name(self) -> str:
        """Lower-case: "day 2 dinner", "day 2", or "dinner"."""
        return f"{self.unit} {self.part}".strip()

    def within(self, other: Slot | None) -> Slot:
        """This slot, made complete by the one it was said under: "dinner" under "day 2" is "day 2 dinner"."""
        return self if self.unit or other is None else Slot(self.start, self.end, other.unit, self.part)


def find_slots(text: str) -> list[Slot]:
    """Slots of a text in order. A unit and a part of the day that belong together are one ("dinner on day 2")."""
    lowered = lower_ascii(text)
    units = [Slot(m.start(), m.end(), _unit(m), "") for m in _UNIT.finditer(lowered)]
    parts = [
        Slot(m.start(), m.end(), "", m["part"])
        for m in _PART.finditer(lowered)
        if not any(unit.start <= m.start() < unit.end for unit in units)
    ]
    found: list[Slot] = []
    for unit in units:
        partner = next((part for part in parts if _together(lowered, unit, part)), None)
        if partner:
            parts.remove(partner)
            unit = Slot(min(unit.start, partner.start), max(unit.end, partner.end), unit.unit, partner.part)
        found.append(unit)
    return sorted(found + parts, key=lambda slot: slot.start)


def _unit(match: re.Match[str]) -> str:
    if match["weekday"]:
        return match["weekday"]
    if match["unit"]:
        return f"{match['unit']} {NUMBERS.get(match['number'], match['number'])}"
    digits = re.match(r"\d+", match["ordinal"])
    word = next((w for w, n in ORDINALS.items() if digits and n == int(digits[0])), match["ordinal"])
    return f"{word} {match['unit2']}"


def _together(text: str, unit: Slot, part: Slot) -> bool:
    if unit.end <= part.start:
        return part.start - unit.end < 16 and bool(_JOINS_BEFORE.fullmatch(text, unit.end, part.start))
    return unit.start - part.end < 16 and bool(_JOINS_AFTER.fullmatch(text, part.end, unit.start))


def same_slot(wanted: str, slot: str | None) -> bool:
    """Whether a slot is the wanted one or a part of it: "day 2" holds "day 2 dinner", "dinner" is that of any day.

    "day 1" and "first day" are one, and so are "day 1" and "night 1" only where they are said so.
    """
    if not slot:
        return False
    have = set(_canonical(slot).split(" / "))
    return set(_canonical(wanted).split(" / ")) <= have


def _canonical(slot: str) -> str:
    words = slot.split()
    if len(words) >= 2 and words[0] in ORDINALS:
        words[:2] = [words[1], str(ORDINALS[words[0]])]
    if len(words) >= 2 and words[0] not in WEEKDAYS:
        return " / ".join([" ".join(words[:2]), *words[2:]])
    return " / ".join(words)
