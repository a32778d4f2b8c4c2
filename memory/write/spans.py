"""Calendar spans: the half-open interval that a day, a week, a month or a year covers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from dateutil.relativedelta import relativedelta

Granularity = Literal["year", "month", "week", "day", "hour", "minute"]
Direction = Literal["past", "future", "unknown"]

FIRST_YEAR, LAST_YEAR = 1000, 2999
"""Years outside are taken for other numbers."""


@dataclass(frozen=True, slots=True)
class Span:
    """[first, last) in the time zone of the base it was resolved against.

    `relative` says that it depends on that base. `confidence` in [0, 1] falls with each guess: which year, which
    order of day and month, which side of the base.
    """

    first: datetime
    last: datetime
    granularity: Granularity
    relative: bool = True
    confidence: float = 0.95


def midnight(moment: datetime) -> datetime:
    """Start of the day."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def day(base: datetime, offset: int = 0, confidence: float = 0.95) -> Span:
    """The day `offset` days from the base's."""
    first = midnight(base) + timedelta(days=offset)
    return Span(first, first + timedelta(days=1), "day", True, confidence)


def week(base: datetime, offset: int = 0, confidence: float = 0.9) -> Span:
    """The week, Monday to Sunday, `offset` weeks from the base's."""
    first = midnight(base) + timedelta(days=7 * offset - base.weekday())
    return Span(first, first + timedelta(days=7), "week", True, confidence)


def weekend(base: datetime, offset: int = 0, confidence: float = 0.85) -> Span:
    """Saturday and Sunday of the week `offset` weeks from the base's."""
    last = week(base, offset).last
    return Span(last - timedelta(days=2), last, "day", True, confidence)


def month(base: datetime, offset: int = 0, confidence: float = 0.95) -> Span:
    """The calendar month `offset` months from the base's."""
    first = midnight(base).replace(day=1) + relativedelta(months=offset)
    return Span(first, first + relativedelta(months=1), "month", True, confidence)


def year(base: datetime, offset: int = 0, confidence: float = 0.95) -> Span:
    """The calendar year `offset` years from the base's."""
    first = midnight(base).replace(month=1, day=1) + relativedelta(years=offset)
    return Span(first, first + relativedelta(years=1), "year", True, confidence)


def hour(base: datetime, offset: int = 0) -> Span:
    """The clock hour `offset` hours from the base's."""
    first = base.replace(minute=0, second=0, microsecond=0) + timedelta(hours=offset)
    return Span(first, first + timedelta(hours=1), "hour")


def minute(base: datetime, offset: int = 0) -> Span:
    """The minute `offset` minutes from the base's."""
    first = base.replace(second=0, microsecond=0) + timedelta(minutes=offset)
    return Span(first, first + timedelta(minutes=1), "minute")


def unit_span(base: datetime, unit: Granularity, offset: int) -> Span:
    """The span of that unit, `offset` units from the base's.

    Raises:
        OverflowError, ValueError: it lies outside the calendar.
    """
    return {"year": year, "month": month, "week": week, "day": day, "hour": hour, "minute": minute}[unit](base, offset)


def on_date(base: datetime, y: int, m: int = 0, d: int = 0, confidence: float = 0.99) -> Span:
    """The day, the month (`d` 0) or the year (`m` 0) of a date that names its year.

    Raises:
        ValueError: there is no such date, or the year is not one that people talk about.
    """
    if not FIRST_YEAR <= y <= LAST_YEAR:
        raise ValueError("year out of range")
    first = midnight(base).replace(year=y, month=m or 1, day=d or 1)
    if d:
        return Span(first, first + timedelta(days=1), "day", False, confidence)
    step = relativedelta(months=1) if m else relativedelta(years=1)
    return Span(first, first + step, "month" if m else "year", False, confidence)


def without_year(base: datetime, m: int, d: int, direction: Direction) -> Span:
    """The day (month where `d` is 0) of a date that leaves its year open: the last, the next, or the nearest one."""
    found = []
    for y in (base.year - 1, base.year, base.year + 1, base.year + 2, base.year - 2):
        try:
            found.append(on_date(base, y, m, d))
        except (ValueError, OverflowError):
            continue
    today = midnight(base)
    if direction == "past":
        found = [span for span in found if span.first <= base] or found
    elif direction == "future":
        found = [span for span in found if span.last > today] or found
    if not found:
        raise ValueError("no such date")
    best = min(found, key=lambda span: abs(span.first - today))
    confidence = 0.7 if direction == "unknown" else 0.8
    return Span(best.first, best.last, best.granularity, True, confidence)


def weekday_span(base: datetime, number: int, direction: Direction) -> Span:
    """The closest such weekday before the base's day, or from that day on; the nearest where the side is unknown."""
    ahead = (number - base.weekday()) % 7
    if direction == "past":
        return day(base, ahead - 7, 0.8)
    if direction == "future":
        return day(base, ahead, 0.8)
    return day(base, ahead, 0.5)
