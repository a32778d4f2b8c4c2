"""Rules that read plain Chinese, Japanese and Korean dates.

Numbers are Arabic (full width too) or the numerals up to ten, 十 included; larger ones in words are a documented limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .date_readings import Context, part_of_day
from .date_rules import Rule
from .spans import Granularity, Span, day, on_date, unit_span, week, without_year

_NUMERALS = {c: i for i, c in enumerate("〇一二三四五六七八九十")} | {"两": 2, "兩": 2}
_KOREAN = {"하루": 1, "이틀": 2, "사흘": 3, "나흘": 4}
_GRANULARITY: dict[str, Granularity] = {
    "year": "year", "month": "month", "week": "week", "day": "day", "hour": "hour", "minute": "minute",
}  # fmt: skip
_NUMBER = r"(?:\d{1,4}|[一二三四五六七八九十两兩])"
_WEEKDAYS = {c: i for i, c in enumerate("一二三四五六日")} | {"天": 6}
_WEEKDAYS |= {c: i for i, c in enumerate("月火水木金土")} | {c: i for i, c in enumerate("월화수목금토일")}


def _table(rows: str) -> dict[str, tuple[str, int]]:
    """Rows of `what offset words`: each word -> (what, offset). An underscore in a word stands for a space."""
    table = {}
    for row in rows.strip().splitlines():
        what, offset, *words = row.split()
        table.update({word.replace("_", " "): (what, int(offset)) for word in words})
    return table


_DAYS = _table("""
    day -3 大前天
    day -2 前天 一昨日 おととい 그저께 그제
    day -1 昨天 昨日 きのう 어제
    day 0 今天 今日 きょう 오늘
    day 1 明天 明日 あした 내일
    day 2 后天 後天 明後日 あさって 모레
""")
_PARTS = _table("""
    night -1 昨晚 昨夜 어젯밤
    night 0 今晚 今夜
    night 1 明晚
    morning 0 今早 今朝
    morning 1 明早
""")
_PERIODS = _table("""
    week -2 上上周 先々週
    week -1 上周 上週 上星期 上个星期 上礼拜 先週 지난주 지난_주
    week 0 这周 這週 本周 本週 这个星期 今週 이번_주 이번주
    week 1 下周 下週 下星期 下个星期 来週 다음_주 다음주
    week 2 再来週
    month -1 上个月 上個月 上月 先月 지난달 지난_달
    month 0 这个月 本月 今月 이번_달 이번달
    month 1 下个月 下個月 下月 来月 다음_달 다음달
    year -2 前年 재작년
    year -1 去年 昨年 작년 지난해
    year 0 今年 올해
    year 1 明年 来年 내년
    year 2 后年
""")
_UNITS = _table("""
    day 1 天 日 일
    week 1 周 週 星期 个星期 週間 주
    month 1 个月 個月 か月 ヶ月 カ月 개월 달
    year 1 年 년
    hour 1 小时 小時 時間 시간
    minute 1 分钟 分 분
""")


def _any(words: dict[str, tuple[str, int]]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else _NUMERALS[text]


def _full(match: re.Match[str], context: Context) -> Span:
    m, d = match["month"], match["day"]
    return on_date(context.base, int(match["year"]), _number(m) if m else 0, _number(d) if d else 0)


def _month_day(match: re.Match[str], context: Context) -> Span:
    return without_year(context.base, _number(match["month"]), _number(match["day"]), context.direction(match.start()))


def _near_day(match: re.Match[str], context: Context) -> Span:
    return day(context.base, _DAYS[match[0]][1])


def _part(match: re.Match[str], context: Context) -> Span:
    part, offset = _PARTS[match[0]]
    return part_of_day(day(context.base, offset), part)


def _period(match: re.Match[str], context: Context) -> Span:
    unit, offset = _PERIODS[match["period"]]
    if unit == "week" and match["weekday"]:
        return day(week(context.base, offset).first, _WEEKDAYS[match["weekday"]], 0.9)
    return unit_span(context.base, _GRANULARITY[unit], offset)


def _shifted(match: re.Match[str], context: Context) -> Span:
    sign = -1 if match["tail"] in ("前", "之前", "以前", "전") else 1
    number = _KOREAN[match["native"]] if match["native"] else _number(match["count"])
    unit = _UNITS[match["unit"]][0] if match["unit"] else "day"
    return unit_span(context.base, _GRANULARITY[unit], sign * number)


def _rule(pattern: str, read: Callable[[re.Match[str], Context], Span]) -> Rule:
    return Rule(re.compile(pattern), read)


CJK: tuple[Rule, ...] = (
    _rule(
        r"(?<!\d)(?P<year>\d{4})\s?[年년](?:\s?(?P<month>\d{1,2}"
        r"|[一二三四五六七八九十])\s?[月월](?:\s?(?P<day>\d{1,2})\s?[日号號일])?)?(?![间間前後后])",
        _full,
    ),
    _rule(
        r"(?<![\d年])(?P<month>\d{1,2}|[一二三四五六七八九十])\s?[月월]\s?(?P<day>\d{1,2}"
        r"|[一二三四五六七八九十])\s?[日号號일]",
        _month_day,
    ),
    _rule(r"(?<!以)(?:" + _any(_DAYS) + ")", _near_day),
    _rule(_any(_PARTS), _part),
    _rule(
        r"(?P<period>" + _any(_PERIODS) + r")(?:\s?の?\s?(?P<weekday>[一二三四五六日天](?!前)|[月火水木金土日](?=曜)"
        r"|[월화수목금토일](?=요일))(?:曜日?|요일)?)?",
        _period,
    ),
    _rule(
        r"(?:(?P<count>(?<!\d)"
        + _NUMBER
        + r")\s?(?P<unit>"
        + _any(_UNITS)
        + r")|(?P<native>하루|이틀|사흘|나흘))\s?(?P<tail>之前|以前|之后|之後|以后|以後|前|后|後|전|후|뒤)",
        _shifted,
    ),
)
"""Tried in this order, on texts with at least one character of these scripts."""
