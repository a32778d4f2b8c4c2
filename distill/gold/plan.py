"""Questions of templates as traces of the task `plan`.

The templates of `train_data.questions` are in splits for good; those of `people.toml`, beside this file, are for
training only and bring other words into the gaps. A template is a conversation: what is measured was never seen in any
filling.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from intentmem.memory.tasks import PLAN
from intentmem.train_data import Corpus, weave
from intentmem.train_data.questions import Split, ask, plan_questions

from ..splits import GIVEN
from ..traces import Trace

TEACHER = "gold:built"
_GAP = re.compile(r"\{([a-z_]+)\}")
_PEOPLE, _HELD = 0.35, 0.15
_TRAINED = ("train",) * 4 + ("calibration",)
"""Splits of the templates to train on: one in five calibrates."""
_DIALOGUES = 8
_SHARES = {"point": 5, "temporal": 2, "compositional": 2, "aggregation": 1}
_NESTED = 3
_TRIES = 20


def plan_traces(seed: int, n: int = 6000, split: Split | None = "train") -> list[Trace]:
    """Traces of questions with their plan. Deterministic for a seed.

    Args:
        n: how many. Of "train", a third are of `people.toml`; each trace then names its split, and templates of "dev"
            stop the training and calibrate.
        split: of the templates; "train", "dev" or "test", None for all.

    Raises:
        InputError: n is below 1, or more than the templates can give.
    """
    if split != "train":
        return _built(seed, n, split)
    people, held = int(n * _PEOPLE), int(n * _HELD)
    learnt = [_placed(trace, _TRAINED) for trace in _built(seed, n - people - held, "train")]
    watched = [_placed(trace, ("dev", "calibration")) for trace in _built(seed, held, "dev")]
    return [*learnt, *watched, *(_placed(trace, ("train",)) for trace in _people(seed, people))]


def _built(seed: int, n: int, split: Split | None) -> list[Trace]:
    return [
        _trace(question.text, tuple(question.plan.labels.values()), question.template, number)
        for number, question in enumerate(plan_questions(seed, n, split))
        if question.plan is not None
    ]


def _placed(trace: Trace, splits: Sequence[str]) -> Trace:
    """In one of the splits, by digest of its template: what calibrates must be worded as what is asked in service."""
    share = int(sha256(trace.conversation.encode()).hexdigest()[:8], 16) % len(splits)
    return replace(trace, meta={**trace.meta, GIVEN: splits[share]})


def woven_plan_traces(
    corpus: Corpus, *, seed: int = 0, n: int = 1500, split: Split | None = "train", trajectories: int = 16
) -> list[Trace]:
    """Traces of the questions built over woven task dialogues, with their plan; a template is a conversation.

    Args:
        corpus: SGD.
        n: how many at most.
        split: of the wordings.
        trajectories: how many to weave; fewer where the corpus is small.

    Raises:
        InputError: the corpus may not be trained on, or has not a trajectory's worth of dialogues.
    """
    source = corpus.for_training()
    trajectories = max(1, min(trajectories, len(source.trajectories) // _DIALOGUES))
    woven = weave(source, seed=seed, dialogues=_DIALOGUES, trajectories=trajectories)
    asked = ask(woven, seed=seed, split=split, per_trajectory=-(-n // trajectories)).questions
    seen: dict[str, Trace] = {}
    for number, question in enumerate(asked):
        if question.plan is not None:
            labels = tuple(question.plan.labels.values())
            trace = _trace(question.text, labels, question.template, number)
            seen.setdefault(question.text, _placed(trace, ("train",)) if split == "train" else trace)
    return list(seen.values())[:n]


def _trace(text: str, labels: tuple[str, ...], template: str | None, number: int) -> Trace:
    return Trace(
        task=PLAN.name,
        task_hash=PLAN.hash,
        fields={"question": text},
        labels=labels,
        teacher=TEACHER,
        conversation=template or text,
        seq=number,
        meta={"template": template or ""},
    )


def _people(seed: int, n: int) -> Iterator[Trace]:
    """Questions of `people.toml`: half of them of one fact, as most questions are; wordings of a kind about even."""
    rng = random.Random(f"people {seed}")
    by_reasoning: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for form in _file()["form"]:
        wordings = [(wording, tuple(form["plan"])) for wording in form["wordings"]]
        by_reasoning.setdefault(form["plan"][0], []).extend(wordings)
    kinds, seen = [kind for kind, share in _SHARES.items() for _ in range(share)], set()
    for number in range(n):
        for _ in range(_TRIES):
            wording, labels = rng.choice(by_reasoning[kinds[number % len(kinds)]])
            text = _filled(wording, rng)
            if text not in seen:
                break
        seen.add(text)
        yield _trace(text, labels, f"people/{sha256(wording.encode()).hexdigest()[:8]}", number)


def _filled(wording: str, rng: random.Random) -> str:
    """A wording with its gaps filled, and filled again where a filler has gaps of its own."""
    table: Mapping[str, Sequence[str]] = _file()["fill"]
    for _ in range(_NESTED):
        wording = _GAP.sub(lambda match: rng.choice(table[match[1]]), wording)
    text = wording[0].upper() + wording[1:]
    if rng.random() < 0.06:
        text = text.lower()
    return text.rstrip("?") if rng.random() < 0.08 else text


@cache
def _file() -> Mapping[str, Any]:
    return tomllib.loads((files("intentmem.distill.gold") / "people.toml").read_text(encoding="utf-8"))
