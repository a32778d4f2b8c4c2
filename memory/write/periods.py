"""When a claim says that it holds: from, to, or between, read from the words around its value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from .claim_clauses import clause_of
from .claim_cues import CHANGED
from .dates import DateSpan, find_dates
from .languages import MONTHS, lower_ascii

_YEARS = re.compile(
    r"(?<![\d-])((?:19|20)\d\d)\s*(?:[-–—/]|to|until|till|through|and)\s*((?:(?:19|20)\d\d)|\d\d)(?![\d-]|\s*(?:am|pm|:))"
)
_YEAR = re.compile(r"(?<![\d\-–./:])((?:19|20)\d\d)(?![\d\-–/:]|\.\d)")
_JOINS = re.compile(r"\s*(?:[-–—]|to|until|till|through|and)\s*(?:the\s)?")
_BEFORE_SINCE = re.compile(r"\b(?:since|as of|effective|starting|beginning|starting in|ever since|from)(?: the)?\s*$")
_BEFORE_UNTIL = re.compile(r"\b(?:until|till|up to|through|ending|ended in)(?: the)?\s*$")
_BEFORE_PAIR = re.compile(r"\b(?:from|between)(?: the)?\s*$")
_OPERATORS = re.compile(r"\b(?:since|until|till|from|between|as of)\b", re.IGNORECASE)
_MONTH_BEFORE = re.compile(r"\b([a-z]{3,9})\s*(?:[-–—]|to|until|till|through|and)\s*$")
_FINE = ("hour", "minute")
_STATES = re.compile(
    r"\b(?:lived|worked|resided|studied|taught|served|stayed|owned|drove|rented|dated|attended|belonged|spoke|smoked|"
    r"weighed|earned|played|managed|led|ran|used|kept|had|held|(?:was|were) (?!born|promoted|moved|changed|hired))\b"
)


@dataclass(frozen=True, slots=True)
class Period:
    """Bounds in seconds since 1970, None where open: `since` is inside, `until` outside."""

    since: float | None = None
    until: float | None = None


def read_period(text: str, start: int, end: int, base: datetime) -> Period:
    """The period that a text gives for the claim whose value is `text[start:end]`.

    "from 2019 to 2021" gives both bounds, "since 2022" the first, "until March" the second. A date alone bounds what
    began then ("moved in 2012"), and closes what was so then ("lived there in 2012"). Dates inside the value are the
    value's own. A date of `base`'s own day says no more than the time of the turn does.

    Args:
        text: a turn's text.
        start, end: offsets of the value.
        base: the time of the turn, for relative dates.
    """
    clause = clause_of(text, start, end)
    outside = [d for d in _intervals(clause.sentence, base) if d[1] <= clause.value_start or d[0] >= clause.value_end]
    # The dates of another clause are that clause's.
    for left, right in (clause.part, clause.whole):
        inside = [d for d in outside if left <= d[0] and d[1] <= right]
        if inside:
            nearest = min(inside, key=lambda d: min(abs(d[0] - clause.value_end), abs(clause.value_start - d[1])))
            return _bounded(lower_ascii(clause.sentence), nearest, base, clause.segment)
    return Period()


_Dated = tuple[int, int, datetime, datetime]


def _intervals(sentence: str, base: datetime) -> list[_Dated]:
    """Pairs of dates as one, and single ones, as (start, end, first, last)."""
    bare = _OPERATORS.sub(lambda match: " " * len(match[0]), sentence)
    dates = [_with_month_before(sentence, d) for d in find_dates(bare, base) if d.granularity not in _FINE]
    found: list[_Dated] = []
    for match in _YEARS.finditer(sentence):
        first, last = int(match[1]), int(match[2])
        last = last if last > 99 else first // 100 * 100 + last
        if first <= last:
            zone = base.tzinfo
            found.append((*match.span(), datetime(first, 1, 1, tzinfo=zone), datetime(last + 1, 1, 1, tzinfo=zone)))
    taken = [(a, b) for a, b, _, _ in found]
    for match in _YEAR.finditer(sentence):
        if not any(a < match.end() and match.start() < b for a, b in [*taken, *((d[0], d[1]) for d in dates)]):
            year = int(match[1])
            spread = (datetime(year, 1, 1, tzinfo=base.tzinfo), datetime(year + 1, 1, 1, tzinfo=base.tzinfo))
            dates.append((*match.span(), *spread))
    dates = sorted(d for d in dates if not any(a < d[1] and d[0] < b for a, b in taken))
    while dates:
        date = dates.pop(0)
        if dates and _JOINS.fullmatch(sentence[date[1] : dates[0][0]]) and date[2] <= dates[0][2]:
            other = dates.pop(0)
            date = (date[0], other[1], date[2], other[3])
            taken.append((date[0], date[1]))
        found.append(date)
    return found


def _with_month_before(sentence: str, date: DateSpan) -> _Dated:
    """A date, from the month that is named before it without a year: "January to June 2025"."""
    found = _MONTH_BEFORE.search(lower_ascii(sentence[: date.start]))
    number = MONTHS.get(found[1]) if found and date.granularity == "month" else None
    if found is None or number is None or number > date.first.month:
        return date.start, date.end, date.first, date.last
    return found.start(), date.end, date.first.replace(month=number, day=1), date.last


def _bounded(sentence: str, date: _Dated, base: datetime, segment: str) -> Period:
    start, _, first, last = date
    before = sentence[:start]
    if _is_pair(sentence, date):
        return Period(first.timestamp(), last.timestamp())
    if _BEFORE_UNTIL.search(before):
        return Period(None, first.timestamp() if last > base else last.timestamp())
    if first <= base < last:
        return Period()
    if _BEFORE_SINCE.search(before):
        return Period(first.timestamp())
    if last <= base and _STATES.search(segment) and not CHANGED.search(segment):
        return Period(first.timestamp(), last.timestamp())
    return Period(first.timestamp())


def _is_pair(sentence: str, date: _Dated) -> bool:
    inside = sentence[date[0] : date[1]]
    if _YEARS.fullmatch(inside) or re.search(r"\b(?:to|until|till|through)\b", inside):
        return True
    return bool(_BEFORE_PAIR.search(sentence[: date[0]])) and bool(re.search(r"\band\b|[-–—]", inside))
