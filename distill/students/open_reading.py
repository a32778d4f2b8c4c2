"""What a student of open labels reads of an item: a text, the texts before it, and who speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from intentmem.memory.deciders.cues import strip_speaker
from intentmem.memory.tasks import TASKS, Item, Task

BEFORE = "before"
"""Name of the field whose texts are read as context: each by itself, never joined to the main text."""
USER, ASSISTANT, UNKNOWN = range(3)
_SIDES = {"user": USER, "assistant": ASSISTANT, "tool": ASSISTANT}

Fields = Mapping[str, str | Sequence[str]]


class Reading(NamedTuple):
    """What is encoded of an item. `before` holds the latest text first."""

    text: str
    before: tuple[str, ...]
    side: int


def read(task: Task, item: Item) -> Reading:
    """Read an item.

    Of the built-in tasks the bare turn is read, without its speaker; of others the main field, or all fields but
    `before` as rendered where several are given.

    Raises:
        InputError: the item lacks a required field or has an unknown one.
    """
    task.render(item)  # for its checks
    main = _joined(item.fields[task.fields[0].name])
    before = item.fields.get(BEFORE, ())
    earlier = [before] if isinstance(before, str) else list(reversed(before))
    if task.name in TASKS:
        text = item.turn.searchable_text if item.turn is not None else strip_speaker(main)
        return Reading(text, tuple(strip_speaker(one) for one in earlier if one), _side(item, main))
    others = {name: value for name, value in item.fields.items() if name != BEFORE and value}
    text = main if len(others) <= 1 else task.render(Item(others))
    return Reading(text, tuple(one for one in earlier if one), _side(item, main))


def _side(item: Item, main: str) -> int:
    if item.turn is not None:
        return _SIDES.get(item.turn.role, UNKNOWN)
    speaker = item.fields.get("speaker") or main.partition(":")[0]
    return _SIDES.get(speaker.strip().lower(), UNKNOWN) if isinstance(speaker, str) else UNKNOWN


def _joined(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else "\n".join(value)
