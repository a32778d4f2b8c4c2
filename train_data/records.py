"""Gold records: the value spans of a trajectory, each with the thing that it is said of."""

from __future__ import annotations

import re

from .schemas import RecordGold, Trajectory
from .sgd_labels import words

_NAMES_OF_ATTRIBUTES = re.compile(r"(origin|destination|from|to|recipient|new)_")


def gold_records(trajectory: Trajectory) -> tuple[RecordGold, ...]:
    """The records of every turn, in order. A claim is about what was last named under its goal and service."""
    focus: dict[tuple[str | None, str], str] = {}
    found = []
    for turn in trajectory.turns:
        gold = trajectory.gold.get(turn.source_id or "")
        if gold is None:
            continue
        spans = sorted(gold.spans, key=lambda span: (span.start, span.end))
        for span in reversed(spans):
            if names_a_thing(span.slot):
                focus[gold.scope, span.service] = span.value
        for span in spans:
            entity = span.value if names_a_thing(span.slot) else focus.get((gold.scope, span.service))
            place = (span.value, span.start, span.end, span.service, gold.scope)
            found.append(RecordGold(str(turn.source_id), entity, words(span.slot), *place, turn.role == "user"))
    return tuple(found)


def names_a_thing(slot: str) -> bool:
    """Whether the values of a slot are names of what is talked about, rather than attributes of it."""
    return (slot.endswith("_name") and not _NAMES_OF_ATTRIBUTES.match(slot)) or slot in ("title", "track")
