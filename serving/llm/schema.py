"""Parts of JSON schemas, as every server's grammar takes them: bounded, closed, names by enum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]
SHORT: Schema = {"type": "string", "maxLength": 120}
LONG: Schema = {"type": "string", "maxLength": 800}


def one_name(names: Sequence[str]) -> Schema:
    """One of the names. A grammar cannot hold an enum of nothing: without names it is any short text."""
    return {"type": "string", "enum": list(names)} if names else dict(SHORT)


def listing(items: Schema, most: int) -> Schema:
    """At most so many items."""
    return {"type": "array", "items": items, "maxItems": most}


def record_of(properties: Mapping[str, Schema]) -> Schema:
    """An object of exactly these properties, in this order."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def for_grammar(schema: Mapping[str, Any]) -> Schema:
    """A schema as a server compiles it: without lengths of texts.

    A bound on characters costs a grammar compiler seconds (xgrammar: 2 to 4 s of CPU against 0.01 s without), each time
    that the names in a schema change; guidance takes .3 ms a token (see `llm.grammar_lengths`). `max_tokens` bounds the
    reply as it comes, and the whole schema is checked here.
    """
    return {key: _without_lengths(value) for key, value in schema.items() if key != "maxLength"}


def _without_lengths(value: Any) -> Any:
    if isinstance(value, Mapping):
        return for_grammar(value)
    return [_without_lengths(part) for part in value] if isinstance(value, list) else value
