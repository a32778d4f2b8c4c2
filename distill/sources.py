"""Where examples come from: corpora with gold, questions that are built, and files of traces."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import Task
from intentmem.train_data import CARDS, Corpus, load_corpus
from intentmem.train_data.written import WRITTEN

from .traces import Trace, belongs

TRACES, BUILT = "traces", "built"
NEEDED = ("sgd", "realmem", "tiage")
"""Corpora that the students which ship learn from."""
_MEASURED = (*NEEDED, "came_bench")
"""Corpora that say which goal a turn serves; some may only be measured on."""
_WITH_GOLD = ("scope", "event", "entity_types", "plan", "property_match", "support", "coverage", "record_spans")
_BUILT_TEST, _FEWER = 2000, 3000


@dataclass(frozen=True, slots=True)
class Source:
    """One source as it was named: a corpus, `traces` or `built`, and where it lies (nowhere for `built`)."""

    kind: str
    path: Path | None

    @property
    def name(self) -> str:
        """As it stands in reports and manifests."""
        if self.path is None or self.kind == TRACES:
            return self.kind
        return f"{self.kind}:{self.path.stem if self.path.is_file() else self.path.name}"


@dataclass(frozen=True, slots=True)
class Examples:
    """Traces of some tasks, and the hash of each source that they come from."""

    traces: tuple[Trace, ...]
    hashes: Mapping[str, str]

    def of(self, task: Task) -> list[Trace]:
        """Those of one task.

        Raises:
            InputError: one is of another version of it, or has unknown labels.
        """
        kept = [trace for trace in self.traces if trace.task == task.name]
        for trace in kept:
            if wrong := belongs(task, trace):
                raise InputError(
                    "traces",
                    f"{trace.conversation}, item {trace.seq}, {wrong}",
                    "collect again for the task as it is declared now, or leave such traces out",
                )
        return kept

    def corrected(self, labels: Mapping[str, Sequence[str]]) -> Examples:
        """With other labels for some of the traces, by key, as they were corrected by hand.

        Raises:
            InputError: a key that no trace has.
        """
        if unknown := set(labels) - {trace.key for trace in self.traces}:
            raise InputError(
                "corrections", f"name {len(unknown)} traces that are not among the examples", "give the same sources"
            )
        made = tuple(replace(t, labels=tuple(labels[t.key])) if t.key in labels else t for t in self.traces)
        digest = hashlib.sha256(repr(sorted((key, tuple(value)) for key, value in labels.items())).encode())
        return Examples(made, {**self.hashes, "corrections": digest.hexdigest()})


def parse_source(text: str) -> Source:
    """A source from `CORPUS:PATH`, `traces:PATH` or `built`.

    Raises:
        InputError: another kind, or no path.
    """
    kind, _, path = text.partition(":")
    kinds = (*sorted(CARDS), TRACES, BUILT)
    if kind not in kinds:
        raise InputError("data", f"{text!r} names no known source", f"known: {', '.join(kinds)}; like sgd:PATH")
    if kind == BUILT:
        return Source(kind, None)
    if not path:
        raise InputError("data", f"{text!r} says no path", f"like {kind}:PATH")
    return Source(kind, Path(path).expanduser())


def load_examples(
    tasks: Sequence[Task], sources: Sequence[Source], seed: int = 0, evaluation: bool = False
) -> Examples:
    """Traces of tasks from sources, in the order of both.

    A dialogue that stands in several of the corpora is taken once, from the last of them.

    Args:
        seed: of what is drawn: weaving, building.
        evaluation: to measure on, not to train on; corpora for evaluation only are then taken too.

    Raises:
        InputError: a source cannot be read or may not be trained on, or no source says anything about a task.
    """
    hashes: dict[str, str] = {}
    found: list[Trace] = []
    for source in sources:
        if source.kind == TRACES and source.path is not None:
            from .trace_files import read_traces

            read = list(read_traces(source.path))
            found += read
            hashes[_free(source.name, hashes)] = _digest(trace.key for trace in read)
    corpora = _corpora(sources, hashes, evaluation)
    built = not evaluation or any(source.kind == BUILT for source in sources)
    found += _gold([task.name for task in tasks], corpora, seed, evaluation, built)
    for task in tasks:
        if not any(trace.task == task.name for trace in found):
            names = ", ".join(source.name for source in sources) or "none were given"
            raise InputError("data", f"says nothing about the task {task.name!r} ({names})", _remedy(task))
    for own in (BUILT, WRITTEN):
        if drawn := [trace.key for trace in found if trace.teacher == f"gold:{own}"]:
            hashes[_free(own, hashes)] = _digest(iter(drawn))
    return Examples(tuple(found), hashes)


def _corpora(sources: Sequence[Source], hashes: dict[str, str], evaluation: bool) -> list[Corpus]:
    loaded: list[Corpus] = []
    for source in sources:
        if source.kind in CARDS and source.path is not None:
            corpus = load_corpus(source.kind, source.path)
            loaded.append(corpus if evaluation else corpus.for_training())
            hashes[_free(source.name, hashes)] = corpus.hash
    for place, corpus in enumerate(loaded):
        for later in loaded[place + 1 :]:
            if later.name == corpus.name:
                loaded[place] = loaded[place].without(later)
    return loaded


def _gold(names: Sequence[str], corpora: Sequence[Corpus], seed: int, evaluation: bool, built: bool) -> Iterator[Trace]:
    """What gold says about tasks; corpora that say nothing about one are passed over."""
    if "scope" in names:
        for corpus in corpora:
            if corpus.name in (_MEASURED if evaluation else NEEDED):
                yield from _function("scope", "scope_traces")(corpus, seed, evaluation)
        if built:
            yield from _function("scope", "built_scope_traces")(seed, evaluation)
        if not evaluation:
            yield from _function("scope", "written_scope_traces")(seed)
    if labelled := {"event", "entity_types"} & set(names):
        for corpus in corpora:
            if corpus.name == "sgd":
                yield from _function("labels", "label_traces")(corpus, seed, evaluation, labelled)
    if "record_spans" in names:
        for corpus in corpora:
            if corpus.name == "sgd":
                yield from _function("spans", "span_traces")(corpus, seed, evaluation)
    makers: dict[str, Callable[[Sequence[Corpus], int, bool, bool], Iterator[Trace]]] = {
        "plan": partial(_built_and_woven, "plan", "plan_traces", "woven_plan_traces"),
        "property_match": _property_match,
        "support": _support,
        "coverage": partial(_built_and_woven, "coverage", "built_coverage_traces", "coverage_traces"),
    }
    for name, make in makers.items():
        if name in names:
            yield from make(corpora, seed, evaluation, built)


def _built_and_woven(
    module: str, made: str, woven: str, corpora: Sequence[Corpus], seed: int, evaluation: bool, built: bool
) -> Iterator[Trace]:
    """Questions that are made, by one function of a module, and those about woven dialogues, by another."""
    if built:
        make = _function(module, made)
        yield from make(seed, _BUILT_TEST, "test") if evaluation else make(seed)
    weave = _function(module, woven)
    for corpus in _parts(corpora, ("sgd",), evaluation):
        yield from weave(corpus, seed=seed, split="test") if evaluation else weave(corpus, seed=seed)


def _property_match(corpora: Sequence[Corpus], seed: int, evaluation: bool, built: bool) -> Iterator[Trace]:
    make = _function("match", "match_traces")
    for corpus in _parts(corpora, ("sgd",), evaluation):
        yield from make(corpus, seed=seed, split="test") if evaluation else make(corpus, seed=seed)


def _support(corpora: Sequence[Corpus], seed: int, evaluation: bool, built: bool) -> Iterator[Trace]:
    make = _function("support", "support_traces")
    for corpus in _parts(corpora, ("sgd", "realmem"), evaluation):
        yield from make(corpus, seed=seed, n=_FEWER, split="test") if evaluation else make(corpus, seed=seed)


def _parts(corpora: Sequence[Corpus], names: Sequence[str], evaluation: bool) -> Iterator[Corpus]:
    """Corpora of these names; to train on, their training part alone, where they have one."""
    for corpus in corpora:
        if corpus.name in names and evaluation:
            yield corpus
        elif corpus.name in names and any(trajectory.split == "train" for trajectory in corpus.trajectories):
            yield corpus.only("train")


def _function(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module(f"intentmem.distill.gold.{module}"), name)
    return found


def _remedy(task: Task) -> str:
    if task.name not in _WITH_GOLD:
        return f"give --traces PATH; `intentmem distill collect --task {task.name}` makes some"
    return "give --data sgd:PATH, or another corpus with gold about it, or --traces PATH"


def _free(name: str, taken: Mapping[str, str]) -> str:
    number, found = 2, name
    while found in taken:
        found, number = f"{name} ({number})", number + 1
    return found


def _digest(keys: Iterator[str]) -> str:
    return hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()
