"""Patterns of English dates. Each is matched against lower-cased text and handed to its reading."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from . import date_readings as read
from .date_readings import Context
from .languages import MONTHS, NUMBERS, WEEKDAYS
from .spans import Span


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, its reading, and the words of which one must occur for it to be tried (None: always tried)."""

    pattern: re.Pattern[str]
    read: Callable[[re.Match[str], Context], Span | None]
    needs: frozenset[str] | None = None
    digits: bool = False


_MONTH = r"(?P<month>" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b\.?"
_WEEKDAY = "|".join(WEEKDAYS)
_DAY = r"(?P<day>\d{1,2})(?P<suffix>st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})(?![\d:/-]|[.,]\d)"
_COUNT = r"(?P<count>\d{1,4}|(?:a )?(?:few|couple(?: of)?)|several|" + "|".join(NUMBERS) + ")"
_UNIT = r"(?P<unit>year|yr|month|week|day|hour|hr|minute|min)s?\b"
_LEFT = r"(?<![\w.,:/$€£#-])"
_PART = r"(?P<part>early morning|morning|afternoon|evening|night)\b"
_NOT_A_DATE_AFTER = (
    r"(?!\s?(?:%|°|(?:people|persons|guests|miles?|km|m|kg|steps?|points?|units?|words?|dollars"
    r"|euros|usd|pieces|items)\b))"
)
_DAY_BEFORE_TEXT = r"(?:(?:" + _WEEKDAY + r"),? (?:the )?)?"


def _rule(
    pattern: str, read: Callable[[re.Match[str], Context], Span | None], needs: str = "", digits: bool = False
) -> Rule:
    return Rule(re.compile(pattern), read, frozenset(needs.split()) or None, digits)


_MONTH_WORDS = " ".join(MONTHS)
_LEAD = r"in|by|since|during|until|till|before|after|of|throughout|early|late|mid|from"

CLOCK = _rule(
    r"(?<![\w.,:/$€£-])(?:(?P<hour>\d{1,2})(?::(?P<minute>[0-5]\d))? ?(?P<half>am|pm|a\.m\.|p\.m\.)(?!\w)"
    r"|(?P<hour24>[01]?\d|2[0-3]):"
    r"(?P<minute24>[0-5]\d)(?![\w:]|\.\d)|(?P<word>noon|midday|midnight)\b)",
    read.read_clock,
    needs="noon midday midnight",
    digits=True,
)

ENGLISH: tuple[Rule, ...] = (
    _rule(
        r"(?<![\w.,:/-])(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})"
        r"(?:[t ](?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)(?::[0-5]\d(?:\.\d+)?)?(?:z"
        r"|[+-]\d\d:?\d\d)?)?(?![\w/-]|\.\d)",
        read.read_iso,
        digits=True,
    ),
    _rule(r"(?<![\w.,:/-])(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})(?![\w/-])", read.read_slashed, digits=True),
    _rule(r"(?<![\w.,:/-])(\d{1,2})\.(\d{1,2})\.(\d{4})(?![\w/-]|\.\d)", read.read_slashed, digits=True),
    _rule(
        _LEFT + _DAY_BEFORE_TEXT + _DAY + r" (?:of )?" + _MONTH + r"(?:,? " + _YEAR + ")?" + _NOT_A_DATE_AFTER,
        read.read_day_month,
        _MONTH_WORDS,
    ),
    _rule(
        r"\b"
        + _DAY_BEFORE_TEXT
        + _MONTH
        + r" (?:the )?"
        + _DAY
        + r"(?![\w:/-]|[.,]\d)"
        + r"(?:,? "
        + _YEAR
        + ")?"
        + _NOT_A_DATE_AFTER,
        read.read_day_month,
        _MONTH_WORDS,
    ),
    _rule(r"\b" + _MONTH + r",? (?:of )?" + _YEAR, read.read_month_year, _MONTH_WORDS),
    _rule(
        r"(?<!\w)(?P<lead>(?:last|next|this coming|this|in|during|since|until|till|by|before|after|around"
        r"|throughout|early|late|mid)[ -])?" + _MONTH + r"(?![\w'’-])",
        read.read_month_alone,
        _MONTH_WORDS,
    ),
    _rule(
        _LEFT + r"(?:(?P<lead>" + _LEAD + r"|year)[ -])?" + _YEAR + r"(?!\w)" + _NOT_A_DATE_AFTER,
        read.read_year,
        digits=True,
    ),
    _rule(_LEFT + r"(1[89]\d|20\d)0s\b", read.read_decade, digits=True),
    _rule(
        r"\b(?P<name>(?:the )?day before yesterday|(?:the )?day after tomorrow|yesterday|tomorrow|today|tonight"
        r"|last night)\b(?! show)(?:'s\b)?"
        r"(?: " + _PART + ")?",
        read.read_near_day,
        "yesterday tomorrow today tonight night",
    ),
    _rule(r"\b(?P<name>this) " + _PART, read.read_near_day, "morning afternoon evening"),
    _rule(
        r"\b(?P<before>every |each |most |happy )?(?P<lead>(?:last|this past|past|previous|this coming|coming"
        r"|this|next|following) )?(?:on )?"
        r"(?P<weekday>" + _WEEKDAY + r")(?P<plural>s)?\b(?: " + _PART + ")?",
        read.read_weekday,
        " ".join([*WEEKDAYS, *(f"{name}s" for name in WEEKDAYS)]),
    ),
    _rule(
        r"\b(?P<lead>last|past|previous|this|current|next|coming|following) (?P<unit>weekend|week|month|year"
        r"|spring|summer|autumn|fall|winter)\b",
        read.read_period,
        "last past previous this current next coming following",
    ),
    _rule(
        r"\b(?P<unit>spring|summer|autumn|fall|winter)(?: of|,)? " + _YEAR,
        read.read_season_of,
        "spring summer autumn fall winter",
    ),
    _rule(r"\b(?:over |at |on |for )?the weekend\b", read.read_the_weekend, "weekend"),
    _rule(
        r"\bthe (?P<unit>week|month|year) (?P<side>before|after)(?: (?P<more>last|next))?(?=\s*(?:[.,;!?)]|$))",
        read.read_week_before,
        "before after",
    ),
    _rule(
        _LEFT + _COUNT + r" " + _UNIT + r" (?P<tail>ago|earlier|back|from now|from today)\b",
        read.read_ago,
        "ago earlier back from",
    ),
    _rule(r"\bin (?:about |around )?" + _COUNT + r" " + _UNIT + r"(?! of\b|['’])", read.read_in_units, "in"),
    _rule(
        r"\b(?:over |in |for |during |within )?(?:the )?(?P<lead>last|past|next|previous) " + _COUNT + r" " + _UNIT,
        read.read_last_units,
        "last past next previous",
    ),
    _rule(
        r"\bon the (?P<day>[12]?\d|3[01])(?:st|nd|rd|th)(?P<of> of (?:this|next|last|the)"
        r" month)?(?=\s*(?:[.,;!?)]|$)| (?:at|for|and|from|in|with|of)\b)",
        read.read_day_of_month,
        digits=True,
    ),
)
"""Tried in this order; of overlapping spans the longest wins, then the earlier rule."""
