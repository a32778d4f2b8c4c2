"""What a text says that a name is: the head of the name, or of the phrase beside it."""

from __future__ import annotations

import re

from .languages import (
    CLASS_NOUNS,
    COMMON_ADJECTIVES,
    COMMON_VERBS,
    FUNCTION_WORDS,
    PERSON_NOUNS,
    PLACE_NOUNS,
    STREET_NOUNS,
    lower_ascii,
    singular,
)

KATAKANA_NOUNS = {
    "レストラン": "restaurant", "ホテル": "hotel", "カフェ": "cafe", "ミュージアム": "museum",
    "スタジアム": "stadium", "ツアー": "tour",
}  # fmt: skip
_ADJECTIVE = re.compile(r"(?:ian|ean|ese|ish|can|ous|ful|ive|able|ible|less|ed|ing|ic|al|ern)$")
_CALLED = re.compile(
    r"([\w-]+)(?: (?:that is|that's|which is|it's))? (?:called|named|titled|entitled) (?:the )?[\"“'*]*$"
)
_NOUN_BEFORE = re.compile(
    r"\b(?:the|a|an|this|that|our|my|your|his|her|their|at|of) (?:[\w-]+ ){0,2}?([a-z][\w-]+),? [\"“'*]*$"
)
_APPOSITION = re.compile(
    r"[\"”'*]*(?:,| is| was|:| -| –| —)\s+(?:also |actually )?(?:a|an|the|my|our|one of the) ((?:[\w'-]+ ){0,5}[\w-]+)"
)
_ITEM_TEXT = re.compile(r"[\"”'*]*(?::| -| –| —| \()[* ]*((?:[\w'-]+ ){0,4}[\w-]+)")
_NOUN_AFTER = re.compile(r"[\"”'*]* ([a-z]+)\b")
_TITLE = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|Professor|Aunt|Uncle)\.? ?$")
_ADDRESSED = re.compile(r"(?:\b(?:hey|hi|hello|thanks|thank you|dear|bye|congrats|wow),? )$", re.IGNORECASE)
_IN = re.compile(r"\b(?:in|near|around|from|to) $")
_OFFERED = re.compile(
    r"\b(?:how about|what about|try|recommend|suggest|there is|there's|found|found you|book|prefer|choose|chose"
    r"|consider|is called|option is|"
    r"options are|include|includes|including) (?:the )?[\"“*]*$",
    re.IGNORECASE,
)
_AMBIGUOUS_HEADS = frozenset(["bar", "book", "game", "house", "play", "show", "song", "model", "tower", "park"])
"""Words that end the names of many other kinds of thing."""
_LEADING_NOUNS = frozenset(
    [
        "hotel",
        "hostel",
        "motel",
        "restaurant",
        "cafe",
        "café",
        "villa",
        "museum",
        "club",
        "bistro",
        "bar",
        "university",
        "castle",
    ]
)
_CLASS_IN_TEXT = re.compile(r"\b[a-z]+\b")


def entity_type(text: str, start: int, end: int, how: str) -> str | None:
    """The noun that the text says `text[start:end]` is, lower-case and singular; None if it does not say."""
    name, before, after = text[start:end], text[max(0, start - 60) : start], text[end : end + 80]
    called = _CALLED.search(lower_ascii(before))
    if called and called[1] not in FUNCTION_WORDS:
        return singular(called[1])
    head = _head_of_name(name)
    if head:
        return (offered_type(text, start) or head) if head in _AMBIGUOUS_HEADS else head
    if _TITLE.search(before) or (how == "capitalised" and _ADDRESSED.search(before) and " " not in name):
        return "person"
    noun = _NOUN_AFTER.match(after)
    if noun and singular(noun[1]) in PLACE_NOUNS and how != "katakana":
        return singular(noun[1])
    preceding = _NOUN_BEFORE.search(before)
    if preceding and _is_noun(preceding[1]):
        return singular(preceding[1])
    apposition = _APPOSITION.match(after)
    if apposition:
        return _head_of_phrase(apposition[1])
    item = _ITEM_TEXT.match(after) if how in ("item", "bold") else None
    head = _head_of_phrase(item[1]) if item else None
    return head if head in CLASS_NOUNS else None


def _head_of_name(name: str) -> str | None:
    for suffix, noun in KATAKANA_NOUNS.items():
        if name.endswith(suffix) and name != suffix:
            return noun
    words = lower_ascii(name).split()
    if words[0].isdigit() and words[-1].strip(".") in STREET_NOUNS:
        return "address"
    if len(words) > 1:
        last, first = singular(words[-1].strip(".,")), words[0]
        if last in CLASS_NOUNS:
            return last
        if first in _LEADING_NOUNS:
            return first
    return None


def _is_noun(word: str) -> bool:
    known = singular(word) in CLASS_NOUNS
    return known or not (
        word in FUNCTION_WORDS | COMMON_ADJECTIVES | COMMON_VERBS or _ADJECTIVE.search(word) or word.endswith("s")
    )


def _head_of_phrase(phrase: str) -> str | None:
    """Last word of a noun phrase: it ends before a preposition, a verb or a punctuation mark."""
    head = None
    for word in lower_ascii(phrase).split():
        if word in FUNCTION_WORDS - {
            "more",
            "most",
            "very",
            "quite",
            "good",
            "great",
            "nice",
        } or word in COMMON_VERBS - {"play", "book"}:
            break
        head = word
        if singular(word) in CLASS_NOUNS and not phrase.lower().split(word, 1)[1].lstrip().startswith(("chain", "bar")):
            break
    if (
        head is None
        or head in COMMON_ADJECTIVES | FUNCTION_WORDS
        or (_ADJECTIVE.search(head) and singular(head) not in CLASS_NOUNS)
    ):
        return None
    return singular(head)


def offered_type(text: str, start: int) -> str | None:
    """The only kind of place or thing that the text speaks of before an untyped name that it offers or chooses."""
    before = text[:start]
    tail = before[-30:]
    if not _OFFERED.search(tail):
        return None
    kinds = {singular(w) for w in _CLASS_IN_TEXT.findall(before[-300:])} & (
        CLASS_NOUNS - PERSON_NOUNS - {"book", "play", "show"}
    )
    return kinds.pop() if len(kinds) == 1 else None


def is_location(text: str, start: int) -> bool:
    """Whether the name stands after a preposition of place."""
    return bool(_IN.search(lower_ascii(text[max(0, start - 12) : start])))
