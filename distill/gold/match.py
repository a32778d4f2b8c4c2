"""Traces of the task `property_match`: how a property is asked for, among property names of an index.

Three sources: what users of the Schema-Guided Dialogues ask for in so many words (a turn that requests one slot), what
the slots' descriptions say, and the wordings of `properties.toml`, beside this file. Candidates are near misses (other
properties of the same service or table) and far ones; in every fourth trace the right one is absent.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from intentmem.memory.tasks import PROPERTY_MATCH
from intentmem.train_data import Corpus
from intentmem.train_data.questions import Split
from intentmem.train_data.sgd_labels import words

from ..traces import LabelSet, Trace

_ABSENT = 0.25
_FEW, _MANY = (2, 8), (2, 10)
_NAMED = 0.35
_FRAMES = ("{}", "{}", "{}", "the {}", "{} of it", "their {}", "What is the {}?", "{}, again", "I need the {}")
_SENTENCE = re.compile(r"[^.?!]*[?]|[^.?!]+")
_ABROAD = ("people", "health", "things", "life", "work")


def match_traces(corpus: Corpus | None = None, *, seed: int = 0, n: int = 1200, split: Split = "train") -> list[Trace]:
    """Traces of requirements with what they ask for; a property is a conversation. Deterministic for a seed.

    Args:
        corpus: SGD, for its requests and descriptions; None takes the wordings alone.
        n: how many at most; half of them of the corpus, as far as it reaches.
        split: other than "train" leaves the wordings out, which are learnt from: then all are of the corpus.

    Raises:
        InputError: the corpus may not be trained on.
    """
    rng = random.Random(f"match {seed}")
    asked = [] if corpus is None else list(_requested(corpus.for_training(), seed))
    rng.shuffle(asked)
    if split != "train":
        return asked[:n]
    kept = asked[: n // 2]
    return [*kept, *(_worded(rng, number) for number in range(n - len(kept)))]


@dataclass(frozen=True, slots=True)
class _Slots:
    """Slots by service, in words, and their descriptions by service and slot."""

    names: Mapping[str, Sequence[str]]
    described: Mapping[str, str]


def _requested(corpus: Corpus, seed: int) -> Iterator[Trace]:
    """One trace a distinct wording of a slot of a service."""
    slots = _slots(corpus)
    seen: set[tuple[str, str, str]] = set()
    for trajectory in corpus.trajectories:
        for turn in trajectory.turns:
            gold = trajectory.gold.get(str(turn.source_id))
            events = gold.events if gold else ()
            wanted = {(event.service, words(event.slot)) for event in events if event.slot and event.act == "REQUEST"}
            if turn.role != "user" or len(wanted) != 1:
                continue
            ((service, slot),) = wanted
            text = _question_of(turn.text)
            for wording in (text, slots.described.get(slot, "")):
                key = (service, slot, wording.casefold())
                if wording and key not in seen and slot in slots.names[service]:
                    seen.add(key)
                    yield _trace_of_slot(wording, service, slot, slots, corpus.name, random.Random(f"{seed} {key}"))


def _trace_of_slot(wording: str, service: str, slot: str, slots: _Slots, source: str, rng: random.Random) -> Trace:
    near = [name for name in slots.names[service] if name != slot]
    far = [name for table in _ABROAD for names, _ in _tables()[table].values() for name in names]
    offered = [*near, *rng.sample(far, rng.randint(0, _MANY[1]))]
    return _trace(wording, slot, offered, f"{service}/{slot}", source, rng)


def _slots(corpus: Corpus) -> _Slots:
    names: dict[str, set[str]] = defaultdict(set)
    for trajectory in corpus.trajectories:
        for gold in trajectory.gold.values():
            for event in gold.events:
                if event.slot:
                    names[event.service].add(words(event.slot))
    described = {
        words(label.name): label.description.rstrip(".") for label in corpus.labels if label.kind == "entity_type"
    }
    return _Slots({service: sorted(found) for service, found in names.items()}, described)


def _question_of(text: str) -> str:
    """The last sentence of a turn that asks, else the turn."""
    sentences = [part.strip() for part in _SENTENCE.findall(text)]
    asking = [part for part in sentences if part.endswith("?")]
    return asking[-1] if asking else text


def _worded(rng: random.Random, number: int) -> Trace:
    """A wording of `properties.toml`, among names of its own table and of others."""
    tables = _tables()
    table = rng.choice(sorted(tables))
    key = rng.choice(sorted(tables[table]))
    names, questions = tables[table][key]
    name = rng.choice(names)
    others = [other for other in names if other != name]
    if others and rng.random() < _NAMED:
        wording = rng.choice(_FRAMES).format(rng.choice(others))
    else:
        wording = rng.choice(questions)
    near = [rng.choice(found) for other, (found, _) in tables[table].items() if other != key]
    far = [rng.choice(found) for other in tables if other != table for found, _ in tables[other].values()]
    offered = [*rng.sample(near, min(len(near), rng.randint(*_FEW))), *rng.sample(far, rng.randint(*_MANY))]
    return _trace(wording, name, offered, f"{table}/{key}", "built", rng, number)


def _trace(
    wording: str, name: str, others: Sequence[str], conversation: str, source: str, rng: random.Random, number: int = 0
) -> Trace:
    present = rng.random() >= _ABSENT
    offered = list(dict.fromkeys([*([name] if present else []), *(other for other in others if other != name)]))
    rng.shuffle(offered)
    return Trace(
        task=PROPERTY_MATCH.name,
        task_hash=PROPERTY_MATCH.hash,
        fields={"requirement": wording},
        labels=(_id(name),) if present else (),
        teacher=f"gold:{source}",
        conversation=conversation,
        seq=number,
        options=LabelSet(tuple(map(_id, offered)), tuple(offered)),
        meta={"source": source},
    )


def _id(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:8]


@cache
def _tables() -> Mapping[str, Mapping[str, tuple[list[str], list[str]]]]:
    text = (files("intentmem.distill.gold") / "properties.toml").read_text(encoding="utf-8")
    return {
        table: {key: (line[0].split("|"), line[1].split("|")) for key, line in lines.items()}
        for table, lines in tomllib.loads(text).items()
    }
