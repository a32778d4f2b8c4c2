"""How each form of English date is read: from the match of its pattern to a `Span`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dateutil.relativedelta import relativedelta

from .languages import MONTHS, NUMBERS, WEEKDAYS
from .spans import (
    Direction,
    Granularity,
    Span,
    day,
    midnight,
    month,
    on_date,
    unit_span,
    week,
    weekday_span,
    weekend,
    without_year,
)

LONE_CLOCK = 0.4
"""Confidence that a time of day without a date is of the day of the base."""

_ALSO_VERBS = ("may", "march", "mar")
_PARTS = {"morning": (5, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_UNITS: dict[str, Granularity] = {
    "year": "year", "yr": "year", "month": "month", "week": "week", "day": "day", "hour": "hour", "hr": "hour",
    "minute": "minute", "min": "minute",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Context:
    """What a rule may look at: the text, its lower-cased twin, the base, and which side of it the clause speaks of.

    `bare` admits months and years without a preposition: the text is known to be nothing but a date.
    """

    text: str
    lowered: str
    base: datetime
    direction: Callable[[int], Direction]
    bare: bool = False


def part_of_day(span: Span, name: str) -> Span:
    """The named part of a day, with the granularity of hours."""
    start, end = _PARTS[name.removeprefix("early ")]
    first = midnight(span.first)
    return Span(
        first + timedelta(hours=start), first + timedelta(hours=end), "hour", span.relative, min(span.confidence, 0.9)
    )


def _count(text: str) -> tuple[int, bool]:
    """Value of a count, and whether it is only roughly known."""
    word = text.removeprefix("a ") if text not in ("a",) else text
    if word.startswith("couple"):
        return 2, True
    if word in ("few", "several"):
        return (3 if word == "few" else 4), True
    return (int(word) if word.isdigit() else NUMBERS[word]), False


def _is_word_not_month(match: re.Match[str], context: Context) -> bool:
    """Whether `may` or `march` is a verb: lower-case, with no ordinal, year or preposition to say otherwise."""
    name = match["month"]
    groups = match.groupdict()
    written = context.text[match.start("month") : match.end("month")]
    if name not in _ALSO_VERBS or not written.islower() or groups.get("suffix") or groups.get("year"):
        return False
    return (groups.get("lead") or "").strip(" -") not in ("in", "since", "until", "till", "during", "last", "next")


def read_day_month(match: re.Match[str], context: Context) -> Span | None:
    """A day and a month, with or without a year."""
    number = int(match["day"])
    if not 1 <= number <= 31 or _is_word_not_month(match, context):
        return None
    m = MONTHS[match["month"]]
    if match["year"]:
        return on_date(context.base, int(match["year"]), m, number)
    return without_year(context.base, m, number, context.direction(match.start()))


def read_month_year(match: re.Match[str], context: Context) -> Span:
    """A month of a year."""
    return on_date(context.base, int(match["year"]), MONTHS[match["month"]])


def read_month_alone(match: re.Match[str], context: Context) -> Span | None:
    """A month whose preposition says that it is one."""
    lead = match["lead"] or ""
    if not context.bare and (not lead or _is_word_not_month(match, context)):
        return None
    if lead.startswith("last"):
        return replace(
            without_year(context.base + relativedelta(months=-1), MONTHS[match["month"]], 0, "past"), confidence=0.85
        )
    direction: Direction = "future" if lead.startswith(("next", "this coming")) else context.direction(match.start())
    return without_year(context.base, MONTHS[match["month"]], 0, direction)


def read_iso(match: re.Match[str], context: Context) -> Span:
    """Year, month and day in this order, perhaps with a time."""
    span = on_date(context.base, int(match["year"]), int(match["month"]), int(match["day"]))
    if not match["hour"]:
        return span
    first = span.first.replace(hour=int(match["hour"]), minute=int(match["minute"]))
    return Span(first, first + timedelta(minutes=1), "minute", False, 0.99)


def read_slashed(match: re.Match[str], context: Context) -> Span:
    """Day first, as most of the world writes it, unless impossible; unsure where both orders are possible."""
    a, b, y = int(match[1]), int(match[2]), int(match[3])
    y += 2000 if y < 100 else 0
    confidence = 0.95 if a == b or max(a, b) > 12 else 0.5
    d, m = (a, b) if b <= 12 else (b, a)
    return on_date(context.base, y, m, d, confidence)


def read_year(match: re.Match[str], context: Context) -> Span | None:
    """A year whose preposition says that it is one."""
    if not (match["lead"] or context.bare):
        return None
    number = int(match["year"])
    return on_date(context.base, number, confidence=0.9) if 1900 <= number <= 2100 else None


def read_decade(match: re.Match[str], context: Context) -> Span:
    """Ten years from the first."""
    span = on_date(context.base, int(match[1]) * 10, confidence=0.9)
    return replace(span, last=span.first + relativedelta(years=10))


def read_near_day(match: re.Match[str], context: Context) -> Span:
    """Yesterday, today and tomorrow, and parts of them."""
    offsets = {"day before yesterday": -2, "day after tomorrow": 2, "yesterday": -1, "tomorrow": 1, "last night": -1}
    name, part = match["name"].removeprefix("the "), match["part"]
    span = day(context.base, offsets.get(name, 0))
    if name in ("last night", "tonight"):
        return part_of_day(span, "night")
    if name == "this":
        return part_of_day(span, part)
    return part_of_day(span, part) if part else span


def read_weekday(match: re.Match[str], context: Context) -> Span | None:
    """A weekday; none where it recurs."""
    number, lead = WEEKDAYS[match["weekday"]], (match["lead"] or "").strip()
    if match["before"] or match["plural"]:
        return None
    if lead in ("last", "past", "this past", "previous"):
        span = weekday_span(context.base, number, "past")
    elif lead in ("this", "this coming", "coming"):
        span = replace(weekday_span(context.base, number, "future"), confidence=0.75)
    elif lead in ("next", "following"):
        span = day(week(context.base, 1).first, number, 0.7)
    else:
        span = weekday_span(context.base, number, context.direction(match.start()))
    return part_of_day(span, match["part"]) if match["part"] else span


def read_period(match: re.Match[str], context: Context) -> Span | None:
    """Last, this or next week, month, year, weekend or season."""
    lead, unit, base = match["lead"], match["unit"], context.base
    offset = {"last": -1, "past": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1, "following": 1}[
        lead
    ]
    if lead in ("previous", "following"):
        return (
            None
            if unit not in ("week", "month", "year")
            else replace(unit_span(base, _UNITS[unit], offset), confidence=0.7)
        )
    if unit in _SEASONS:
        return _season(base, unit, offset)
    if unit == "weekend":
        return weekend(base, offset)
    if lead == "past":
        step = {"week": relativedelta(weeks=1), "month": relativedelta(months=1), "year": relativedelta(years=1)}[unit]
        return Span(midnight(base) - step, midnight(base) + timedelta(days=1), _UNITS[unit], True, 0.75)
    return unit_span(base, _UNITS[unit], offset)


def _season(base: datetime, name: str, offset: int) -> Span:
    """Seasons of three whole months, of the northern half of the Earth: hence the confidence."""
    spans = []
    for y in range(base.year - 2, base.year + 3):
        first = midnight(base).replace(year=y, month=_SEASONS[name], day=1)
        spans.append(Span(first, first + relativedelta(months=3), "month", True, 0.6))
    if offset < 0:
        return [span for span in spans if span.last <= base][-1]
    ahead = [span for span in spans if (span.last > base if offset == 0 else span.first > base)]
    return ahead[0]


def read_season_of(match: re.Match[str], context: Context) -> Span:
    """A season of a year."""
    first = on_date(context.base, int(match["year"]), _SEASONS[match["unit"]]).first
    return Span(first, first + relativedelta(months=3), "month", False, 0.7)


def read_the_weekend(match: re.Match[str], context: Context) -> Span:
    """The last or the coming weekend."""
    past = context.direction(match.start()) == "past"
    return weekend(context.base, -1 if past and context.base.weekday() < 5 else 0, 0.7)


def read_week_before(match: re.Match[str], context: Context) -> Span:
    """The week, month or year before or after; `before last` is two back."""
    offset = -1 if match["side"] == "before" else 1
    further = bool(match["more"])
    span = unit_span(context.base, _UNITS[match["unit"]], offset * (2 if further else 1))
    return replace(span, confidence=0.8 if further else 0.55)


def read_ago(match: re.Match[str], context: Context) -> Span:
    """So many units before or after."""
    number, rough = _count(match["count"])
    sign = -1 if match["tail"] in ("ago", "earlier", "back") else 1
    return _shifted(context.base, _UNITS[match["unit"]], sign * number, rough)


def _shifted(base: datetime, unit: Granularity, offset: int, rough: bool) -> Span:
    """A span of that unit; a rough count covers its neighbours as well."""
    if not rough:
        return unit_span(base, unit, offset)
    wide = 1 if abs(offset) <= 2 else 2
    return Span(
        unit_span(base, unit, offset - wide).first,
        unit_span(base, unit, offset + min(wide, abs(offset) - 1)).last,
        unit,
        True,
        0.6,
    )


def read_in_units(match: re.Match[str], context: Context) -> Span:
    """So many units ahead; less sure, as it may be a duration."""
    number, rough = _count(match["count"])
    span = _shifted(context.base, _UNITS[match["unit"]], number, rough)
    return replace(span, confidence=min(span.confidence, 0.7))


def read_last_units(match: re.Match[str], context: Context) -> Span:
    """The last or next so many units, the base included."""
    number, rough = _count(match["count"])
    base, unit = context.base, _UNITS[match["unit"]]
    step = relativedelta(
        years=number if unit == "year" else 0,
        months=number if unit == "month" else 0,
        days={"week": 7 * number, "day": number}.get(unit, 0),
        hours=number if unit == "hour" else 0,
        minutes=number if unit == "minute" else 0,
    )
    confidence = 0.6 if rough else 0.85
    if match["lead"] == "next":
        return Span(midnight(base), midnight(base + step) + timedelta(days=1), unit, True, confidence)
    return Span(midnight(base - step), midnight(base) + timedelta(days=1), unit, True, confidence)


def read_day_of_month(match: re.Match[str], context: Context) -> Span:
    """A day of this or another month."""
    of = match["of"] or ""
    direction = context.direction(match.start())
    offset = 1 if "next" in of else -1 if "last" in of else 0
    number = int(match["day"])
    if not of and direction == "past" and number > context.base.day:
        offset = -1
    elif not of and direction != "past" and number < context.base.day:
        offset = 1
    first = month(context.base, offset).first.replace(day=number)
    return Span(first, first + timedelta(days=1), "day", True, 0.9 if of else 0.6)


def read_clock(match: re.Match[str], context: Context) -> Span | None:
    """A time of the base's day."""
    hours = {"noon": 12, "midday": 12, "midnight": 0}.get(
        match["word"] or "", int(match["hour"] or match["hour24"] or 0)
    )
    minutes, half = int(match["minute"] or match["minute24"] or 0), match["half"]
    if half:
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + (12 if half.startswith("p") else 0)
    first = midnight(context.base).replace(hour=hours, minute=minutes)
    fine = bool(match["minute"] or match["minute24"])
    step, granularity = (timedelta(minutes=1), "minute") if fine else (timedelta(hours=1), "hour")
    return Span(first, first + step, granularity, True, LONE_CLOCK)  # type: ignore[arg-type]
