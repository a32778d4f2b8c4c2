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
