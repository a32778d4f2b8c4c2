"""Where a text names something: capitals, quotation marks, bold, list items and katakana."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .languages import (
    CLASS_NOUNS,
    COMMON_ADJECTIVES,
    COMMON_VERBS,
    FUNCTION_WORDS,
    MONTHS,
    NAME_JOINERS,
    WEEKDAYS,
    lower_ascii,
    singular,
)
from .mention_types import KATAKANA_NOUNS

LONGEST_NAME = 80
"""Characters."""

_UPPER = r"[^\W\d_a-zß-öø-ÿ\u0250-\uffff]"
_TOKEN = rf"(?:{_UPPER}[\w&]*(?:['’.\-][\w&]+)*|{_UPPER}\.(?= ?{_UPPER})|\d{{1,4}}(?=\s{_UPPER}[a-z]))"
_JOINER = "(?:" + "|".join(sorted(NAME_JOINERS - {"and", "the"})) + "|&|(?:of|de) (?:the|la))"
_CAPITALISED = re.compile(rf"(?<![\w@#/.'’-]){_TOKEN}(?: (?:{_JOINER} )?{_TOKEN}){{0,7}}(?: \d{{1,2}}(?![\w:.,/-]))?")
_QUOTED = re.compile(r"[\"“«](?P<a>[^\"“”«»\n]{2,80})[\"”»]|[「『《〈](?P<b>[^「」『』《》〈〉\n]{1,60})[」』》〉]")
_BOLD = re.compile(r"(?<!\*)\*\*(?P<name>[^*\n]{2,80})\*\*(?!\*)(?P<after>:?)")
_ITEM = re.compile(
    r"^[ \t]*(?:(?P<number>\d{1,2})[.)]|[-*•])[ \t]+(?P<name>[^\n:(–—]{2,80}?)(?=[ \t]+[-–—(][ \t]?|[ \t]*:|["
    r" \t]*\(|[ \t]*$|, (?:a|an|the) )",
    re.MULTILINE,
)
_KATAKANA = re.compile(r"[ァ-ヺー][ァ-ヺー・]{2,}[ァ-ヺー]")
_COMMON_KATAKANA = frozenset(
    [
        "メール",
        "メッセージ",
        "スケジュール",
        "プロジェクト",
        "データ",
        "ファイル",
        "テスト",
        "チーム",
        "ミーティング",
        "インターネット",
        "コンピューター",
        "アプリ",
        "サービス",
        "パソコン",
        "スマホ",
        "コーヒー",
        "メニュー",
        "チケット",
        "フライト",
        "バージョン",
        "ポート",
        "サーバー",
        "ユーザー",
        "システム",
        "ニュース",
        "ビデオ",
        "カメラ",
    ]
)
_CALENDAR = frozenset(MONTHS) | frozenset(WEEKDAYS)
_NEVER = FUNCTION_WORDS | _CALENDAR | COMMON_ADJECTIVES
_OPENERS = FUNCTION_WORDS | COMMON_VERBS | COMMON_ADJECTIVES
_DEMONYM = re.compile(r"(?:ian|ean|ese|ish|can|French|Greek|Thai|Dutch)$")
_AT_START = re.compile(r"(?:^|[.!?。！？:;\n\"“(\[*•>-])[\s\"“(*_-]*$")
_SENTENCE_PUNCTUATION = re.compile(r"[.!?。！？][\"”]?\s|[,;]\s.*[,;]\s")

_INSIDE = re.compile(r"(?<=[a-z,] )[^\W\d_][\w&'’.-]*\w")
_LOWER = re.compile(r"\b[a-z]+\b")

Found = tuple[int, int, str]
"""Start, end and how it was found: quoted, bold, item, capitalised, katakana."""


@dataclass(frozen=True, slots=True)
class _Words:
    """Words that the text has inside its sentences as they are written, and those that it has in lower case."""

    inside: frozenset[str]
    lower: frozenset[str]


def candidates(text: str) -> Iterator[Found]:
    """Names by their form, the surest form first; they may overlap."""
    for match in _QUOTED.finditer(text):
        group = "a" if match["a"] is not None else "b"
        name = match[group]
        if group == "b" or (_looks_like_title(name) and not _SENTENCE_PUNCTUATION.search(name)):
            yield _trimmed(text, match.start(group), match.end(group), "quoted")
    bold = list(_BOLD.finditer(text))
    for match in bold:
        if _is_bold_name(match, text):
            yield _trimmed(text, match.start("name"), match.end("name"), "bold")
    for match in _ITEM.finditer(text):
        words = match["name"].strip("*_ ").split()
        if words and len(words) <= 8 and _is_item_name(words, match["number"] is not None):
            yield _trimmed(text, match.start("name"), match.end("name"), "item")
    words = _Words(frozenset(_INSIDE.findall(text)), frozenset(_LOWER.findall(text)))
    for match in _CAPITALISED.finditer(text):
        yield from _capitalised(text, match, words)
    for match in _KATAKANA.finditer(text):
        if match[0] not in _COMMON_KATAKANA and match[0] not in KATAKANA_NOUNS:
            yield match.start(), match.end(), "katakana"


def _trimmed(text: str, start: int, end: int, how: str) -> Found:
    while start < end and text[start] in " \t*_\"'“":
        start += 1
    while end > start and text[end - 1] in " \t*_:,;\"'”":
        end -= 1
    return start, end, how


def _looks_like_title(name: str) -> bool:
    words = name.split()
    return (
        bool(words) and len(words) <= 8 and (name[0].isupper() or name[0].isdigit()) and any(c.isalpha() for c in name)
    )


def _content(words: list[str]) -> list[str]:
    return [w for w in words if lower_ascii(w).strip(".,'’") not in FUNCTION_WORDS]


def _is_item_name(words: list[str], numbered: bool) -> bool:
    """An item's head is a name if its content words are all capitalised and it is more than one common word."""
    content = _content(words)
    if not content or not all(w[0].isupper() or w[0].isdigit() for w in content):
        return False
    if all(singular(w) in CLASS_NOUNS or lower_ascii(w) in _OPENERS | _CALENDAR or w.isdigit() for w in content):
        return False
    return numbered or len(content) > 1


def _is_bold_name(match: re.Match[str], text: str) -> bool:
    """Bold text is a name unless it is a label: "**Location:**", or one that recurs in the text."""
    name = match["name"].strip()
    words = name.rstrip(":").split()
    if not words or not _looks_like_title(name) or text.count(match[0]) > 1 or name.endswith((".", "!", "?")):
        return False
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    numbered = bool(re.fullmatch(r"\s*\d{1,2}[.)]\s*", line))
    if (match["after"] or name.endswith(":")) and not numbered:
        return False
    return _is_item_name(words, True)


def _capitalised(text: str, match: re.Match[str], seen: _Words) -> Iterator[Found]:
    """The capitalised run without the common words at its head that only the start of a sentence capitalises."""
    start, end = match.span()
    words = match[0].split(" ")
    at_start = bool(_AT_START.search(text, max(0, start - 12), start))
    dropped = 0
    while words and (
        _bare(words[0]) in (_OPENERS if at_start else FUNCTION_WORDS - {"the"}) | _CALENDAR
        or (words[0].isdigit() and len(words) == 1)
    ):
        start += len(words.pop(0)) + 1
        dropped += 1
    while words and (words[-1] in NAME_JOINERS or _bare(words[-1]) in _CALENDAR or _bare(words[-1]) in FUNCTION_WORDS):
        end -= len(words.pop()) + 1
    while words and words[0] in NAME_JOINERS:
        start += len(words.pop(0)) + 1
    if not words or (words[0][:1].isdigit() and len(words) == 1):
        return
    if len(words) == 2 and words[1].isdigit() and at_start and not dropped:
        words.pop()
    end = start + len(" ".join(words))
    if text[:end].endswith(("'s", "’s")) and not _apostrophe_is_of_the_name(text, words, end):
        end -= 2
    if len(words) == 1 and not _single_is_name(text, words[0], end, at_start and not dropped, seen):
        return
    yield start, end, "capitalised"


def _bare(word: str) -> str:
    return re.split(r"['’]", lower_ascii(word).strip(".,"), maxsplit=1)[0]


def _apostrophe_is_of_the_name(text: str, words: list[str], end: int) -> bool:
    """ "at Rosie's for two" keeps it, "the Apollo Hotel's price" does not."""
    follows = re.match(r" ([a-z]+)", text[end : end + 40])
    return singular(_bare(words[-1])) not in CLASS_NOUNS and (follows is None or follows[1] in FUNCTION_WORDS)


def _single_is_name(text: str, word: str, end: int, at_start: bool, seen: _Words) -> bool:
    """A single capitalised word is a name inside a sentence; at its start only where the text says so elsewhere."""
    bare = _bare(word)
    if bare in _NEVER or len(bare) < 2 or singular(bare) in CLASS_NOUNS or (word.isupper() and len(word) < 4):
        return False
    follows = re.match(r"[ -]([a-z]+)", text[end : end + 40])
    if follows and _DEMONYM.search(word) and follows[1] not in FUNCTION_WORDS:
        return False
    if not at_start:
        return True
    if bare in COMMON_VERBS or bare.endswith(("ing", "ed", "ly")):
        return False
    said_of_it = re.match(
        r"(?:['’]s [a-z]| (?:is|was|has|had|said|told|and I)\b|, (?:a|an|the|my) )", text[end : end + 40]
    )
    return word in seen.inside or bool(said_of_it and lower_ascii(word) not in seen.lower)
