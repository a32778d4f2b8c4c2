"""Dates in a text, against the time of the turn that says them, and the time that a question asks about.

Rules alone, no parser that guesses: a number is a date only where its form or its neighbours say so. Reads English,
and plain Chinese, Japanese and Korean; other languages only in numeric forms. What cannot be placed in the calendar
gives no span.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from .date_readings import LONE_CLOCK, Context
from .date_rules import CLOCK, ENGLISH, Rule
from .date_rules_cjk import CJK
from .languages import HAS_CJK, Cover, lower_ascii
from .spans import Direction, Granularity, Span

_FUTURE = re.compile(
    r"\b(?:will|'ll|won't|shall|should|can|could|would|want|need|plan|planning|going to|gonna|let's|let us|book"
    r"|reserve|schedule|"
    r"remind|upcoming|tomorrow|soon|looking forward|please)\b"
)
_PAST = re.compile(
    r"\b(?:was|were|did|had|went|saw|took|got|met|came|made|bought|said|told|ate|gave|found|left|won|ran|felt"
    r"|spent|began|been|"
    r"\w{2,}ed)\b"
)
_CLAUSE_END = re.compile(r"[.!?;\n](?=\s|$)")
_NEAR = 160
_LETTERS = re.compile(r"[a-z]+")
_DIGIT = re.compile(r"\d")
_BETWEEN_DAY_AND_CLOCK = re.compile(r"(?:,? (?:at |around |about |by |from )?|, ?)")
_BETWEEN_CLOCK_AND_DAY = re.compile(r"(?:,? (?:on |of )?|, ?)")

QueryKind = Literal["in", "after", "before", "since", "until", "between"]
QueryRange = tuple[datetime | None, datetime | None, QueryKind]


@dataclass(frozen=True, slots=True)
class DateSpan:
    """A date expression: `text[start:end] == surface` covers the half-open interval [first, last).

    The interval is in the time zone of the base. `relative` says that it depends on the base. `confidence` is in
    [0, 1].
    """

    start: int
    end: int
    surface: str
    first: datetime
    last: datetime
    granularity: Granularity
    relative: bool
    confidence: float

    @property
    def iso(self) -> str:
        """The interval in ISO form, as coarse as it was said: `2023`, `2023-05`, `2023-05-07` or
        `2023-05-01/2023-05-07`.
        """
        final = self.last - timedelta(microseconds=1)
        form = {"year": "%Y", "month": "%Y-%m"}.get(self.granularity, "%Y-%m-%d")
        first, last = self.first.strftime(form), final.strftime(form)
        if self.granularity in ("hour", "minute"):
            return first
        return first if first == last else f"{first}/{last}"


def find_dates(text: str, base: datetime) -> list[DateSpan]:
    """Date expressions of a text in order, none overlapping; relative ones against `base`, the time of the turn itself.

    A day and month without a year, or a weekday alone, is placed in the past or the future as the verbs of its
    clause say, else at the nearest (weekday: next) one with a lower confidence. A numeric date is read day first
    where both readings are possible, with confidence .5. Never raises: what lies outside the calendar gives no span.
    """
    return _find(text, base, None)


def query_range(question: str, now: datetime) -> QueryRange | None:
    """The interval (since, until, kind) that a question asks about, None for an open side; None if it names no time.

    `since` is inclusive and `until` exclusive, as in `Filters`. A soft signal for ranking: a turn may speak of a
    time at another one. With [first, last) the interval that X covers:

    =========  =======================  ==================================
    kind       said as                  range
    =========  =======================  ==================================
    in         in X, on X, X            [first, last)
    after      after X                  [last, open): X itself is outside
    before     before X, prior to X     (open, first): X itself is outside
    since      since X, from X on       [first, open): X itself is inside
    until      until X, by X            (open, last): X itself is inside
    between    between X and Y          [X.first, Y.last): both inside
    =========  =======================  ==================================

    Without a year the last such date before `now` is meant.
    """
    pair = _between(question, now)
    if pair:
        return pair
    spans = [span for span in _find(question, now, "past") if span.confidence > LONE_CLOCK]
    if not spans:
        return None
    for span in spans:
        kind = _operator(lower_ascii(question), span)
        if kind == "after":
            return span.last, None, "after"
        if kind == "since":
            return span.first, None, "since"
        if kind == "before":
            return None, span.first, "before"
        if kind == "until":
            return None, span.last, "until"
    return min(span.first for span in spans), max(span.last for span in spans), "in"


_BETWEEN = re.compile(r"\b(?:between|from) (.{3,40}?) (?:and|to|until|till|through) (.{3,40})")
_OPERATOR = re.compile(
    r"\b(after|since|before|prior to|until|till|by|up to|later than|earlier than|from)(?: the)?(?: (?:beginning"
    r"|start|end) of)?\s$"
)
_OPERATOR_INSIDE = re.compile(r"^(after|since|before|until|till|by)\b")
_KINDS: dict[str, QueryKind] = {
    "after": "after",
    "later than": "after",
    "since": "since",
    "before": "before",
    "prior to": "before",
    "earlier than": "before",
    "until": "until",
    "till": "until",
    "by": "until",
    "up to": "until",
}


def _between(question: str, now: datetime) -> QueryRange | None:
    match = _BETWEEN.search(lower_ascii(question))
    if not match:
        return None
    last = [span for span in _find(question[match.start(2) : match.end(2)], now, "past", bare=True) if span.start == 0]
    first = [span for span in _find(question[match.start(1) : match.end(1)], now, "past", bare=True) if span.start == 0]
    if not last or not first:
        return None
    since, until = first[0].first, last[0].last
    if since >= until and first[0].relative:
        since = _earlier_year(since, until)
    return (since, until, "between") if since < until else None


def _earlier_year(moment: datetime, limit: datetime) -> datetime:
    try:
        return moment.replace(year=limit.year - (1 if (moment.month, moment.day) >= (limit.month, limit.day) else 0))
    except ValueError:
        return moment


def _operator(question: str, span: DateSpan) -> QueryKind | None:
    inside = _OPERATOR_INSIDE.match(lower_ascii(span.surface))
    outside = _OPERATOR.search(question[max(0, span.start - 40) : span.start])
    word = inside[1] if inside else outside[1] if outside else ""
    if word == "from":
        return "since" if re.match(r" (?:on|onwards?|onward)\b", question[span.end :]) else None
    return _KINDS.get(word)


def _find(text: str, base: datetime, direction: Direction | None, bare: bool = False) -> list[DateSpan]:
    lowered = lower_ascii(text)
    has_digit, has_cjk = bool(_DIGIT.search(text)), bool(HAS_CJK.search(text))
    words = set(_LETTERS.findall(lowered))
    context = Context(text, lowered, base, lambda at: direction or _direction(lowered, at), bare)
    found: list[DateSpan] = []
    for rule in (*ENGLISH, *(CJK if has_cjk else ())):
        if (rule.needs and not rule.needs & words) or (rule.digits and not has_digit):
            continue
        found += _apply(rule, context)
    clocks = _apply(CLOCK, context) if has_digit or (CLOCK.needs and CLOCK.needs & words) else []
    return _with_clocks(text, _longest(found), clocks)


def _apply(rule: Rule, context: Context) -> list[DateSpan]:
    found = []
    for match in rule.pattern.finditer(context.lowered):
        try:
            span = rule.read(match, context)
        except (ValueError, OverflowError):
            continue
        if span is not None and span.first < span.last:
            found.append(_placed(context.text, match.start(), match.end(), span))
    return found


def _placed(text: str, start: int, end: int, span: Span) -> DateSpan:
    while end > start and text[end - 1] in " ,":
        end -= 1
    return DateSpan(
        start, end, text[start:end], span.first, span.last, span.granularity, span.relative, span.confidence
    )


def _longest(found: list[DateSpan]) -> list[DateSpan]:
    cover = Cover(max((span.end for span in found), default=0))
    kept = [span for span in sorted(found, key=lambda s: s.start - s.end) if cover.take(span.start, span.end)]
    return sorted(kept, key=lambda s: s.start)


def _with_clocks(text: str, days: list[DateSpan], clocks: list[DateSpan]) -> list[DateSpan]:
    """Join each clock time to the day beside it; one that stands alone is of the base's day, with a low confidence."""
    spans = list(days)
    for clock in clocks:
        if any(clock.start < span.end and span.start < clock.end for span in spans):
            continue
        for i, span in enumerate(spans):
            if span.granularity in ("day", "hour") and _beside(text, span, clock):
                spans[i] = _joined(text, span, clock)
                break
        else:
            spans.append(clock)
    return sorted(spans, key=lambda s: s.start)


def _beside(text: str, day: DateSpan, clock: DateSpan) -> bool:
    if day.end <= clock.start:
        return clock.start - day.end < 12 and bool(_BETWEEN_DAY_AND_CLOCK.fullmatch(text, day.end, clock.start))
    return day.start - clock.end < 8 and bool(_BETWEEN_CLOCK_AND_DAY.fullmatch(text, clock.end, day.start))


def _joined(text: str, day: DateSpan, clock: DateSpan) -> DateSpan:
    start, end = min(day.start, clock.start), max(day.end, clock.end)
    first = day.first.replace(hour=clock.first.hour, minute=clock.first.minute)
    try:
        last = first + (clock.last - clock.first)
    except OverflowError:
        return day
    return replace(
        day, start=start, end=end, surface=text[start:end], first=first, last=last, granularity=clock.granularity
    )


def _direction(lowered: str, at: int) -> Direction:
    """Which side of the base a clause speaks of, by its verbs."""
    left = lowered[max(0, at - _NEAR) : at]
    ends = list(_CLAUSE_END.finditer(left))
    clause = left[ends[-1].end() :] if ends else left
    right = lowered[at : at + _NEAR]
    stop = _CLAUSE_END.search(right)
    clause += right[: stop.start()] if stop else right
    if _FUTURE.search(clause):
        return "future"
    return "past" if _PAST.search(clause) else "unknown"
