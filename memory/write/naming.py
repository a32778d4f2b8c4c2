"""Short names for new scopes and labels, from the turn that opens them; no model."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..types import Turn
from .languages import (
    COMMON_ADJECTIVES,
    COMMON_VERBS,
    FUNCTION_WORDS,
    HAS_CJK,
    MONTHS,
    NUMBERS,
    WEEKDAYS,
    WORD,
    lower_ascii,
    singular,
)
from .mentions import find_mentions
from .sentences import key_phrases
from .slots import find_slots

LONGEST_WORDS = 5
_BLANK = "untitled"

_ASKED = (
    ("price", re.compile(r"\bhow (?:much|expensive|costly|cheap)\b|\bwhat (?:does|do|would|will) .{1,40} cost\b")),
    ("duration", re.compile(r"\bhow long\b")),
    ("distance", re.compile(r"\bhow far\b")),
    ("count", re.compile(r"\bhow many\b")),
    ("time", re.compile(r"\bwhat time\b|\bwhen\b")),
    ("location", re.compile(r"^where\b|\bwhere (?:is|are|can|do|does)\b")),
)
_ATTRIBUTE = re.compile(
    r"\b(?:what(?:'s| is| are| was)|tell me|give me|know|provide|share|get|check|confirm) (?:\w+ )?(?:the|its"
    r"|their|his|her|your) (?P<noun>[a-z]+(?: [a-z]+)?)"
)
_STATED = re.compile(
    r"\b(?:the|its|their|his|her|my|your) (?P<noun>[a-z]+(?: [a-z]+)?) (?:is|are|was|were|costs?|will be)\b"
)
_REQUEST = re.compile(
    r"(?:^|\b(?:please|i want to|i'd like to|i would like to|i need to|can you|could you|would you|let's|we"
    r" should|help me|want you to|"
    r"(?:i|we) (?:will|have|just|already)|i'll|i've)) ?(?:please |also |now |just |me"
    r" )?(?P<verb>[a-z]+)\b(?P<rest>[^.!?\n]*)"
)
_HELPERS = frozenset(
    [
        "be",
        "do",
        "does",
        "have",
        "has",
        "had",
        "is",
        "are",
        "was",
        "were",
        "go",
        "get",
        "let",
        "help",
        "know",
        "see",
        "think",
        "want",
        "need",
        "like",
        "make",
        "thank",
        "thanks",
        "tell",
        "say",
        "said",
        "look",
    ]
)


def scope_name(turn: Turn, taken: Sequence[str]) -> str:
    """A label of two to five words: the slot, then the phrases that the turn is about; unlike any in `taken`. Never
    empty.
    """
    text = turn.text.strip()
    slots = find_slots(text)
    slot = next((s.name for s in slots if s.unit), slots[0].name if slots else "")
    names = [m.name for m in find_mentions(text)]
    phrases = [p for p in key_phrases(text, names) if lower_ascii(p) not in slot]
    words = slot.split()
    used: list[str] = [slot.capitalize()] if slot else []
    used_up = {_key(name) for name in taken}
    for phrase in phrases:
        if words and len(words) + len(phrase.split()) > LONGEST_WORDS:
            continue
        if len(words) >= 3 and _key(" ".join(used)) not in used_up:
            break
        used.append(phrase)
        words += phrase.split()
    name = " ".join(used) or " ".join(text.split()[:LONGEST_WORDS])[:40] or _BLANK
    name = " ".join(name.split()[:LONGEST_WORDS])[:60].strip() or _BLANK
    return _unlike(name, used_up)


def _key(name: str) -> str:
    return " ".join(name.casefold().split())


def _unlike(name: str, taken: set[str]) -> str:
    unique, number = name, 2
    while _key(unique) in taken:
        unique, number = f"{name} ({number})", number + 1
    return unique


def label_name(turn: Turn, kind: str, taken: Sequence[str]) -> tuple[str, str]:
    """A generic name and a description for an event or an entity type; ("", "") where nothing generic can be said.

    An event is a verb with its object ("book hotel") or a question about an attribute ("price inquiry"); an entity
    type is the attribute that is asked for or stated ("phone number"). Names, numbers and dates never enter.
    English only.
    """
    text = turn.text
    if HAS_CJK.search(text):
        return "", ""
    generic = lower_ascii(_without_instances(text))
    attribute = _attribute(generic)
    if kind == "event":
        name, description = _event(generic, attribute, "?" in text)
    elif attribute:
        name, description = attribute, f"The {attribute} of something, asked for or given."
    else:
        return "", ""
    if not name or _key(name) in {_key(other) for other in taken}:
        return "", ""
    return name, description


def _without_instances(text: str) -> str:
    """The text with its names blanked: what is left is general."""
    parts, last = [], 0
    for mention in find_mentions(text):
        parts += [text[last : mention.start], mention.entity_type or ""]
        last = mention.end
    return "".join([*parts, text[last:]])


def _attribute(generic: str) -> str:
    for name, pattern in _ASKED:
        if pattern.search(generic):
            return name
    match = _ATTRIBUTE.search(generic) or _STATED.search(generic)
    return _noun_phrase(match["noun"]) if match else ""


def _is_general(word: str) -> bool:
    return (
        word.isalpha()
        and len(word) > 2
        and word not in FUNCTION_WORDS
        and word not in MONTHS
        and word not in WEEKDAYS
        and word not in NUMBERS
    )


def _noun_phrase(text: str) -> str:
    words: list[str] = []
    for word in text.split():
        if not _is_general(word):
            break
        words.append(word)
    words = [w for w in words if w not in COMMON_ADJECTIVES]
    return " ".join([*words[:-1], singular(words[-1])]) if words else ""


def _event(generic: str, attribute: str, asks: bool) -> tuple[str, str]:
    if asks and attribute:
        return f"{attribute} inquiry", f"Asks about the {attribute} of something."
    for match in _REQUEST.finditer(generic):
        verb = match["verb"]
        if verb not in COMMON_VERBS or verb in _HELPERS:
            continue
        noun = _object(match["rest"])
        if noun:
            return (
                f"{verb} {noun}",
                f"Speaks of a wish or an action to {verb} {'an' if noun[0] in 'aeiou' else 'a'} {noun}.",
            )
    if attribute:
        return f"{attribute} statement", f"States the {attribute} of something."
    return "", ""


def _object(rest: str) -> str:
    """The first noun-like word after a verb, before the next clause."""
    for i, word in enumerate(m[0] for m in WORD.finditer(rest[:80])):
        if i and word in {"for", "at", "in", "on", "from", "of"}:
            return ""
        if word in {"to", "that", "if", "when", "because", "and", "but", "so", "with", "about"}:
            return ""
        if (
            _is_general(word)
            and word not in COMMON_ADJECTIVES | COMMON_VERBS
            and not word.endswith(("ly", "ing", "ed"))
        ):
            return singular(word)
    return ""
