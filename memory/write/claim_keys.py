"""What makes two entities, properties, conditions or values the same, before any model is asked."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from functools import lru_cache

from ..stemming import stem
from .dates import find_dates
from .entities import name_key
from .languages import COMMON_VERBS, FUNCTION_WORDS, NUMBERS, WORD, singular


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FIRST_PERSON = _words("i me my myself mine self")
_USER = _words("user users speaker human customer person")
_TIME_WORDS = _words("current currently present new latest updated my the a an of is")
_UNIQUE = _words("favorite favourite best main primary only first last most least sole official current biggest top")
_TO_MANY = _words("like love enjoy hate dislike speak play know own visit visited")
_COUNTS = _words("number num count total amount sum")
_UNCOUNTED = _words("news series species means gps sms headquarters gas bus lens plus canvas atlas")
_NUMBER = re.compile(r"(?<=\d),(?=\d{3})")
_MONEY = re.compile(r"([$€£¥₹])\s*(\d+(?:\.\d+)?)")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_NUMBER_NAMES = {name: str(number) for name, number in NUMBERS.items() if name not in ("a", "an")}
_CURRENCIES = {"$": "dollar", "€": "euro", "£": "pound", "¥": "yen", "₹": "rupee"}
_BASE = datetime(2000, 1, 1, tzinfo=UTC)


def folded(text: str) -> str:
    """A text without differences of case, width, spacing and kinds of apostrophe."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().replace("’", "'").split())


def entity_key(name: str, speaker: str = "") -> str:
    """The key of an entity; "I" and its forms stand for the speaker, where there is one."""
    key = " ".join(name_key(name))
    if key in _FIRST_PERSON:
        return " ".join(name_key(speaker)) if speaker else "user"
    return key or folded(name)


def is_user(key: str) -> bool:
    """Whether an entity's key stands for the one who uses the assistant, without a name."""
    return key in _USER


@lru_cache(maxsize=4096)
def property_key(name: str) -> str:
    """The key of a property: spelling, number and what only says that it holds now do not count."""
    words = folded(_CAMEL.sub(" ", name).replace("_", " ").replace("-", " ")).split()
    kept = [word.strip(".,:;'\"()") for word in words if word not in _TIME_WORDS] or words
    return " ".join([*kept[:-1], singular(kept[-1])]) if kept else ""


@lru_cache(maxsize=4096)
def is_plural(name: str) -> bool:
    """Whether a property's name is a plural noun, or a verb of one to many: its values stand beside each other."""
    words = folded(_CAMEL.sub(" ", name).replace("_", " ").replace("-", " ")).split()
    if words and not is_unique(name) and (words[0] in _TO_MANY or singular(words[0]) in _TO_MANY):
        return True
    if not words or words[0] in _COUNTS:
        return False
    last = words[-1]
    base = singular(last)
    return base != last and last not in _UNCOUNTED and base not in COMMON_VERBS


def is_unique(name: str) -> bool:
    """Whether a property's name says that there is one at most ("favourite colour")."""
    return bool(_UNIQUE & set(WORD.findall(name.casefold().replace("_", " "))))


def condition_key(text: str) -> str:
    """The key of a condition: the stems of the words that carry it."""
    words = [word for word in WORD.findall(folded(text).replace("'", " ")) if word not in FUNCTION_WORDS]
    return " ".join(sorted({stem(word) for word in words})) or folded(text)


@lru_cache(maxsize=16_384)
def value_key(value: str) -> str:
    """The key of a value: spelling, articles, digit grouping, and the way a full date is written do not count."""
    text = folded(value)
    date = _date(text)
    if date:
        return date
    text = _MONEY.sub(lambda match: f"{match[2]} {_CURRENCIES[match[1]]}", _NUMBER.sub("", text))
    text = _ORDINAL.sub("", text).replace("&", " and ")
    words = [word.strip(".,;:!?'\"()[]“”") for word in text.split()]
    kept = [_NUMBER_NAMES.get(word, word) for word in words if word and word not in ("the", "a", "an")]
    if any(word.isdigit() for word in kept):
        kept = [singular(word) for word in kept]
    return " ".join(kept) or text


def _date(text: str) -> str:
    """A text that is a whole date and nothing else, in ISO form."""
    if not any(character.isdigit() for character in text) or len(text) > 40:
        return ""
    found = [date for date in find_dates(text, _BASE) if not date.relative and date.granularity == "day"]
    if len(found) != 1:
        return ""
    rest = text[: found[0].start].removeprefix("on ").removeprefix("the ") + text[found[0].end :]
    if rest.strip(" .,"):
        return ""
    # A day without a year, or a doubtful one, is compared as it is written.
    has_year = re.search(r"\d{4}", found[0].surface)
    return found[0].iso if has_year and found[0].confidence > 0.5 else ""
