"""What a reader of values and the rules say of a turn, put together."""

from __future__ import annotations

import re

from .languages import CLASS_NOUNS, PLACE_NOUNS

NOTHING_NAMED = "request"
"""The entity of a value that an assistant repeats before anything was named: what was asked for."""
_OF_ATTRIBUTES = re.compile(r"(?:origin|destination|from|to|recipient|new|account|sender|user|first|last|full) ")
_TITLES = frozenset({"title", "track"})


def names_a_thing(name: str) -> bool:
    """Whether the values of a property are names of what is talked about, rather than attributes of it."""
    return (name.endswith(" name") and not _OF_ATTRIBUTES.match(name)) or name in _TITLES


def thing_kind(name: str) -> str | None:
    """What kind of thing a property names: "restaurant" of "restaurant name"; None where it does not say."""
    kind = name.removesuffix(" name").split()[-1]
    return kind if kind in CLASS_NOUNS or kind in PLACE_NOUNS else None
