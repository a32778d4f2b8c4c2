"""Ordinary turns in the words of the seed vocabulary, written for this package.

Task dialogues say nothing about telling news, cheering up or giving feedback; a student that has read nothing else
forces such turns into what it knows.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from intentmem.memory.tasks import ENTITY_TYPES, EVENT, Task
from intentmem.memory.write.seeds import load_seeds

from ..splits import GIVEN
from ..traces import GOLD, LabelSet, Trace

TEACHER = f"{GOLD}examples"
_ASSISTANT = "> "
_KEPT_BACK = 0.08
_COPIES = 4
"""How often each turn to train on is asked: alone at first, then after others drawn at random."""
_ALONE = 2
_MOST_BEFORE = 4


class Example(NamedTuple):
    """A turn with its speaker, and its labels."""

    turn: str
    labels: tuple[str, ...]


def example_traces(seed: int = 0) -> list[Trace]:
    """All examples, each a conversation of its own; some are kept back to choose and to calibrate on."""
    return [trace for task in (EVENT, ENTITY_TYPES) for trace in _traces(task, seed)]


@cache
def examples(task: str) -> tuple[Example, ...]:
    """The examples of one task."""
    table = tomllib.loads(files(__package__).joinpath("seed_examples.toml").read_text("utf-8"))
    if task == EVENT.name:
        pairs = [(text, (label,)) for label, texts in table["event"].items() for text in texts]
    else:
        pairs = [(text, tuple(labels)) for text, labels in table["entity_type"].items()]
    return tuple(Example(_spoken(text), labels) for text, labels in pairs)


@cache
def options(task: str) -> LabelSet:
    """All fine seed labels."""
    kind = "event" if task == EVENT.name else "entity_type"
    seeds = [seed for seed in load_seeds() if seed.kind == kind and seed.parent is not None]
    return LabelSet(tuple(seed.name for seed in seeds), tuple(f"{seed.name}: {seed.description}" for seed in seeds))


def _traces(task: Task, seed: int) -> Iterator[Trace]:
    rng = random.Random(f"examples {seed} {task.name}")
    known = examples(task.name)
    turns = [one.turn for one in known]
    for number, one in enumerate(known):
        drawn = rng.random()
        split = "dev" if drawn < _KEPT_BACK else "calibration" if drawn < 2 * _KEPT_BACK else "train"
        for copy in range(_COPIES if split == "train" else 1):
            fields: dict[str, str | tuple[str, ...]] = {"turn": one.turn}
            if copy >= _ALONE:
                fields["before"] = tuple(rng.sample(turns, rng.randint(1, _MOST_BEFORE)))
            conversation = f"examples/{task.name}/{number}/{copy}"
            meta: Mapping[str, str] = {GIVEN: split, "source": "examples"}
            yield Trace(
                task.name, task.hash, fields, one.labels, TEACHER, conversation, 0, options(task.name), meta=meta
            )


def _spoken(text: str) -> str:
    return f"assistant: {text.removeprefix(_ASSISTANT)}" if text.startswith(_ASSISTANT) else f"user: {text}"
