"""Things told apart by a number ("day 3", "round 2", "room 204"): as words apart, all of a kind look alike."""

from __future__ import annotations

import re

from ..store.lexical import STOP_WORDS, fold, query_terms
from .languages import NUMBERS

_WORDS = "|".join(word for word, number in NUMBERS.items() if number > 1 and word.isalpha())
_NUMBERED = re.compile(
    rf"\b(?P<kind>[^\W\d_]{{2,}})[ #-]{{1,2}}(?P<number>\d{{1,3}}|(?:{_WORDS}))(?!\w|[.,:/-]\d| ?[%€$£])(?:['’]s\b)?"
)


def numbered_terms(text: str) -> list[str]:
    """Distinct terms as `query_terms` makes them, where a number after its word is one term with it: "day 3".

    The word stands by itself as well, the number does not.
    """
    joined: list[str] = []

    def taken(match: re.Match[str]) -> str:
        kind, number = match["kind"], match["number"]
        if kind in STOP_WORDS or kind in NUMBERS:
            return match.group()
        joined.append(f"{query_terms(kind)[0]} {NUMBERS.get(number, number)}")
        return f"{kind} "

    rest = _NUMBERED.sub(taken, fold(text))
    return list(dict.fromkeys([*query_terms(rest), *joined] if joined else query_terms(rest)))


def number_of(term: str) -> tuple[str, str] | None:
    """The kind and the number of a term that `numbered_terms` joined; None for any other."""
    kind, _, number = term.partition(" ")
    return (kind, number) if number else None
