"""Values that show by their form what they are: money, times, dates, addresses, numbers to call (EnSIMem, section 3).

English and the usual international notations; a text without a digit or a word for a day or an hour is left at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from .languages import MONTHS, NUMBERS, STREET_NOUNS, WEEKDAYS, lower_ascii

ValueKind = Literal[
    "email", "website", "phone", "address", "money", "time", "date", "percent", "temperature", "duration", "rating"
]


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """`text[start:end]` is a value of this kind."""

    start: int
    end: int
    kind: ValueKind


_MONTH = "(?:" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b\.?"
_WEEKDAY = "(?:" + "|".join(WEEKDAYS) + ")"
_COUNT = r"(?:\d{1,3}|" + "|".join(word for word in NUMBERS if len(word) > 2) + ")"
_HOUR = r"(?:\d{1,2}|" + "|".join(word for word in NUMBERS if len(word) > 2 and word != "zero") + ")"
_PART = "(?:morning|afternoon|evening|night)"
_TIME = (
    rf"(?:(?:half past|quarter (?:past|to)|(?:five|ten|twenty) (?:past|to)) {_HOUR}\b(?: in the {_PART})?"
    rf"|{_HOUR}(?::\d\d)? ?(?:[ap]\.m\.|[ap]m\b|o['’\"]clock)(?: in the {_PART})?"
    rf"|(?:{_PART} (?:at )?)?\d{{1,2}}:\d\d\b(?: (?:in the|at) {_PART})?"
    rf"|{_PART} (?:at )?{_HOUR}\b(?![-/.,]?\d| (?:people|of|days))|{_HOUR} in the {_PART}|noon\b|midnight\b)"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)"
_DATE = (
    rf"(?:\d{{4}}-\d\d-\d\d\b|\d{{1,2}}/\d{{1,2}}/\d{{2,4}}\b"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}(?:,? \d{{4}}\b)?"
    rf"|{_MONTH} (?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?![\w:]|\.\d)(?:,? \d{{4}}\b)?|{_MONTH},? \d{{4}}\b"
    rf"|{_DAY} of (?:this|next|last|the) month|the {_DAY}\b(?! (?:of|floor|time|one|place|street|avenue|century|day))"
    rf"|(?:next|this|last|coming) {_WEEKDAY}\b|{_WEEKDAY},? (?:this|next|last) week|{_WEEKDAY}\b(?!s)"
    rf"|(?:later |earlier )?today\b|(?:day after )?tomorrow\b|(?:day before )?yesterday\b)"
)
_MONEY = (
    r"(?:(?:us|a|c)?[$€£¥₹] ?\d[\d,]*(?:\.\d+)?(?: ?(?:k|m|million|billion)\b)?"
    r"|\d[\d,]*(?:\.\d+)? ?(?:€|£|(?:dollars?|euros?|pounds?|rupees?|yen|usd|eur|gbp|bucks)\b))"
)
_VALUE = re.compile(
    r"(?<![\w@$€£.\-/])(?:"
    r"(?P<email>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<website>(?:https?://|www\.)[^\s<>()\"']+[\w/])"
    r"|(?P<phone>(?:\+\d{1,3}[ .-]?)?(?:\(\d{2,4}\) ?|\d{2,5}[-. ])\d{2,4}[-. ]\d{3,4}(?!\w|-\d)"
    r"|\+\d{8,14}\b)"
    rf"|(?P<money>{_MONEY})|(?P<time>{_TIME})|(?P<date>{_DATE})"
    r"|(?P<percent>\d+(?:\.\d+)? ?(?:%|percent\b|per cent\b))"
    r"|(?P<temperature>-?\d+(?:\.\d+)? ?(?:°[cf]?|degrees?\b(?: (?:celsius|fahrenheit))?))"
    rf"|(?P<duration>{_COUNT} (?:minutes?|hours?|days?|nights?|weeks?|months?|years?)\b(?! old))"
    r")"
)
_RATED = re.compile(
    r"\brat(?:ing|ed|es)\b(?: (?:is|of|at|was|it|a|score|an|average))*:? (?P<a>\d(?:\.\d+)?)\b(?![,:/]\d|%)"
    r"|(?<![\w.$])(?P<b>\d(?:\.\d+)?)(?=[ -](?:stars?\b|rat(?:ing|ed)\b)| out of (?:5|10|five|ten)\b)"
)
_STREETS = "|".join(sorted({word.capitalize() for word in STREET_NOUNS - {"way"}} | {"Way", "Broadway"}))
_ADDRESS = re.compile(
    rf"(?<![\w$.:#-])\d{{1,6}}(?:-\d+)?[A-Za-z]? (?:(?:[A-Z0-9][\w.'’-]*|de|of|the) ){{1,5}}?(?:{_STREETS})\b\.?"
    r"(?: (?:N|S|E|W|NE|NW|SE|SW|North|South|East|West|Northwest|Northeast|Southwest|Southeast)\b)?"
    r"(?:,? (?:(?:Suite|Ste|Unit|Apt|Apartment|Floor)\b\.? ?#?|#) ?[\w-]+)?"
)
_MAYBE = re.compile(
    r"\d|day\b|morrow|clock|noon|midnight|\b[ap]m\b|@|www|://|past | in the |\b(?:days|weeks|nights|hours)"
)


def find_values(text: str) -> list[ValueSpan]:
    """Values of a text in order, none overlapping. Never raises; offsets are characters of the text itself."""
    lowered = lower_ascii(text)
    if not _MAYBE.search(lowered):
        return []
    found = [_span(m.start(), m.end(), "address", text) for m in _ADDRESS.finditer(text)]
    for match in _RATED.finditer(lowered):
        group = "a" if match["a"] else "b"
        found.append(_span(match.start(group), match.end(group), "rating", text))
    for match in _VALUE.finditer(lowered):
        if not any(match.start() < other.end and other.start < match.end() for other in found):
            found.append(_span(match.start(), match.end(), match.lastgroup, text))
    return sorted(found, key=lambda span: span.start)


def _span(start: int, end: int, kind: str | None, text: str) -> ValueSpan:
    while text[end - 1] in ".,;" and not text[start:end].casefold().endswith(".m."):
        end -= 1
    return ValueSpan(start, end, kind)  # type: ignore[arg-type]  # the groups are named as the kinds
