"""Texts on their way to a model and back: quoted as data going in, checked coming out."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence

from intentmem.memory.rendering import TAG, quote
from intentmem.memory.types import Turn

CUT = " […] "
_MARKS = re.compile(rf"</?\s*{TAG}\b|<\|\w+\|>|</?(?:system|assistant|user|think|tool)\b|\[/?INST\]|```", re.IGNORECASE)
_ECHO = re.compile(
    r'[{}]|"(?:type|properties|required|enum)"|^(?:string|summary|name|text|null|none|n/?a|\.\.\.|…)\W*$', re.I
)
_REFUSAL = re.compile(r"\b(?:as an ai|i(?:'m| am) (?:sorry|unable)|i cannot|i can't (?:help|assist))\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_SHORT_WORD = 3
_STEM = 4
_LEAST_SHARED = 0.2
_LEAST_LETTERS = 8
_LOOP = 6


def shown(text: str, limit: int = 2000) -> str:
    """A text as a JSON string: no line of it can pass for one of ours, no mark of it for a role."""
    return json.dumps(quote(shortened(text, limit)), ensure_ascii=False)


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, taken from the middle where it is longer."""
    if len(text) <= limit:
        return text
    half = max(1, (limit - len(CUT)) // 2)
    return f"{text[:half]}{CUT}{text[-half:]}"


def shown_turn(turn: Turn, limit: int = 2000, label: str = "") -> str:
    """A turn as one quoted line, with its date and speaker."""
    who = " ".join((turn.speaker or turn.role).split())
    head = f"{label} " if label else ""
    return shown(f"{head}[{turn.time.date().isoformat()}] {who}: {turn.searchable_text}", limit + len(head) + len(who))


def fault_of(text: str, sources: Iterable[str], limit: int, denied: Sequence[str] = ()) -> str | None:
    """What is wrong with a generated text, None where it may be used.

    Args:
        text: as generated.
        sources: what it was made from; a text in another script, or with hardly a word in common, is not about them.
        limit: characters at most.
        denied: texts of the prompt's own examples.
    """
    source = "\n".join(sources)
    stripped = text.strip()
    if not any(c.isalnum() for c in stripped):
        return "is empty"
    if len(stripped) > limit:
        return f"has {len(stripped)} characters, at most {limit}"
    if _MARKS.search(stripped) and not _MARKS.search(source):
        return "holds marks of a prompt"
    if _ECHO.search(stripped) and not _ECHO.search(source):
        return "echoes the schema"
    if _loops(stripped):
        return "repeats itself"
    if _key(stripped) in {_key(example) for example in denied} and _key(stripped) not in _key(source):
        return "is an example of the prompt"
    if _REFUSAL.search(stripped) and not _REFUSAL.search(source):
        return "is a refusal"
    return _foreign(stripped, source)


def script_of(text: str) -> str:
    """The script of most of a text's letters, like "LATIN" or "CJK"; "" where it has few."""
    counts: dict[str, int] = {}
    for character in text[:2000]:
        if character.isalpha():
            name = unicodedata.name(character, "").split(" ")[0]
            name = "CJK" if name in ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA") else name
            counts[name] = counts.get(name, 0) + 1
    if sum(counts.values()) < _LEAST_LETTERS:
        return ""
    return max(counts, key=lambda name: counts[name])


def shared(text: str, source: str) -> float:
    """The share of a text's content words that begin like words of the source, in [0, 1]; 1 where it has none."""
    mine = _stems(text)
    return len(mine & _stems(source)) / len(mine) if mine else 1.0


def _stems(text: str) -> set[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = [word for word in _WORD.findall(folded) if len(word) > _SHORT_WORD or not word.isascii()]
    # Scripts without spaces have no words to compare: their characters stand for them.
    return {
        word[:_STEM] if word.isascii() else character
        for word in words
        for character in ([word] if word.isascii() else word)
    }


def _foreign(text: str, source: str) -> str | None:
    mine, theirs = script_of(text), script_of(source)
    if mine and theirs and mine != theirs:
        return f"is in another script ({mine.lower()}) than its source ({theirs.lower()})"
    if shared(text, source) < _LEAST_SHARED:
        return "has hardly a word of its source"
    return None


def _loops(text: str) -> bool:
    words = text.split()
    for size in (1, 2, 3, 4):
        run = 0
        for at in range(size, len(words)):
            run = run + 1 if words[at] == words[at - size] else 0
            if run >= _LOOP:
                return True
    return False


def _key(text: str) -> str:
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))
