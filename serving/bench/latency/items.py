"""What is asked: decisions of every task made from the turns and questions of a corpus, or from a teacher's traces.

Scope items follow one path of scopes, the corpus' own where it tells them, else the baseline's, so that every subject
weighs the same candidates whatever it answers. A decider of scopes that has vectors of its own gets the same items with
those vectors. Tasks about pairs are asked of turns that stand close together: real texts, arbitrary pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import InputError
from intentmem.memory.memory import Memory
from intentmem.memory.protocols import Embedder
from intentmem.memory.tasks import SCOPE, Candidates, Item, Space, Task
from intentmem.memory.types import NewTurn, Vector
from intentmem.memory.write.labelers import FIELDS
from intentmem.memory.write.scopes import ScopeTracker, Step
from intentmem.train_data import Corpus, Question, Trajectory

from ..corpora import passage_of, text_of

_START = datetime(2024, 1, 1, tzinfo=UTC)
_NAMESPACE = "items"
_VOCABULARIES = {"event": "event", "entity_types": "entity_type"}
_BEFORE = 3


@dataclass(frozen=True, slots=True)
class Material:
    """Turns in order with their scopes where the corpus tells them, questions, and answers of a teacher by task."""

    name: str
    hash: str
    turns: tuple[NewTurn, ...]
    scopes: tuple[str | None, ...]
    questions: tuple[Question, ...]
    expected: Mapping[str, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    given: Mapping[str, Sequence[Item]] = field(default_factory=dict)


def material(corpus: Corpus, turns: int) -> Material:
    """The first `turns` of the corpus' longest trajectory, of several where one is too short."""
    found: list[NewTurn] = []
    scopes: list[str | None] = []
    chosen: list[Trajectory] = []
    for trajectory in sorted(corpus.trajectories, key=lambda one: -len(one.turns)):
        chosen.append(trajectory)
        for turn in trajectory.turns[: turns - len(found)]:
            found.append(replace(turn, source_id=None))
            gold = trajectory.gold.get(turn.source_id or "")
            scopes.append(gold.scope if gold is not None else None)
        if len(found) >= turns:
            break
    ids = {trajectory.id for trajectory in chosen}
    questions = tuple(q for q in corpus.questions if q.trajectory in ids)
    return Material(corpus.name, corpus.hash, tuple(found), tuple(scopes), questions)


class ItemMaker:
    """Makes items over one memory, which holds the turns and the vocabularies that grew from them.

    Args:
        own: by name, what the tasks of the user's own offer; nothing where they have labels of their own.
    """

    def __init__(
        self, source: Material, memory: Memory, count: int, own: Mapping[str, Candidates] | None = None
    ) -> None:
        self.source, self._memory, self._count, self._own = source, memory, count, own or {}
        memory.add(list(source.turns), namespace=_NAMESPACE)
        self._ordinal = memory.store.namespaces.ordinal(_NAMESPACE)
        self._vectors = memory.embedder.encode([passage_of(turn) for turn in source.turns], "passage")
        self._vocabularies: dict[str, Candidates] = {}

    @property
    def questions(self) -> list[str]:
        """Texts of questions: the corpus' own, else what its users say."""
        asked = [q.text for q in self.source.questions]
        said = [turn.text for turn in self.source.turns if turn.role == "user"]
        return list(islice(cycle(asked or said or [t.text for t in self.source.turns]), self._count))

    def of(self, task: Task, space: Embedder | None = None) -> list[Item]:
        """Items of a task, `count` of them where there are so many turns.

        Args:
            space: makes the vectors of a decider of scopes that has its own.
        """
        if task.name in self.source.given:
            return list(self.source.given[task.name])[: self._count]
        if task.name == SCOPE.name:
            return self._scopes(space)
        if task.name in _VOCABULARIES:
            return self._labels(task)
        if task.name in self._own and all(spec.name in FIELDS for spec in task.fields if spec.required):
            return self._turns(task)
        return self._pairs(task)

    def _scopes(self, space: Embedder | None) -> list[Item]:
        turns = self.source.turns
        vectors = self._vectors if space is None else space.encode([text_of(turn) for turn in turns], "passage")
        return list(islice(_walk(turns, vectors, self._path()), self._count))

    def _path(self) -> list[str]:
        """The scope of each turn."""
        if self.source.scopes and all(self.source.scopes):
            return [str(scope) for scope in self.source.scopes]
        path: list[str] = []
        tracker, decider = ScopeTracker(_NAMESPACE, "path"), BaselineDecider()
        for place, turn in enumerate(self.source.turns):
            step = _step(turn, self._vectors[place], place)
            scope, _ = tracker.apply(step, decider.decide(SCOPE, [tracker.propose(step)])[0])
            if scope is None:
                scope = f"scope {place}"
                tracker.open(step, scope, turn.text[:60] or scope)
            path.append(scope)
        return path

    def _labels(self, task: Task) -> list[Item]:
        candidates = self._vocabulary(_VOCABULARIES[task.name])
        return [
            Item({"turn": _rendered(turn)}, candidates, self._vectors[place])
            for place, turn in enumerate(self.source.turns[: self._count])
        ]

    def _turns(self, task: Task) -> list[Item]:
        """Items of a labeler of the user's own, as it would be asked about each turn."""
        from intentmem.distill.questions import of_turns, with_vectors
        from intentmem.distill.traces import LabelSet

        offered = self._own[task.name]
        trajectory = Trajectory(_NAMESPACE, self.source.turns[: self._count])
        asked = list(of_turns(task, [trajectory], LabelSet(offered.ids, offered.texts)))
        return [one.item for one in with_vectors(task, asked, self._memory.embedder)]

    def _vocabulary(self, kind: str) -> Candidates:
        if kind not in self._vocabularies:
            found = self._memory.pipeline.lexicon.vocabulary(self._ordinal, kind)
            self._vocabularies[kind] = found.candidates()
        return self._vocabularies[kind]

    def _pairs(self, task: Task) -> list[Item]:
        """Items of any other task: its fields filled with a question, a turn and those before it."""
        texts = [_rendered(turn) for turn in self.source.turns][: self._count]
        asked = [self._fields(task, place, texts) for place in range(len(texts))]
        mains = [str(fields[task.fields[0].name]) for fields in asked]
        vectors = self._memory.embedder.encode(mains, "query")
        candidates = self._own.get(task.name, Candidates())
        if task.space is not Space.CLOSED and not len(candidates):
            candidates = self._vocabulary("entity_type")
        return [Item(fields, candidates, vector) for fields, vector in zip(asked, vectors, strict=True)]

    def _fields(self, task: Task, place: int, texts: Sequence[str]) -> dict[str, str | Sequence[str]]:
        text, questions = texts[place], self.questions
        question = questions[place % len(questions)]
        values = {"question": question, "requirement": question, "turn": text, "evidence": text}
        fields: dict[str, str | Sequence[str]] = {}
        for number, spec in enumerate(task.fields):
            if spec.many:
                fields[spec.name] = texts[max(0, place - _BEFORE) : place] or [text]
            elif spec.name in values or spec.required:
                fields[spec.name] = values.get(spec.name, texts[max(0, place - number)])
        return fields


def _walk(turns: Sequence[NewTurn], vectors: Vector, path: Sequence[str]) -> Iterator[Item]:
    """Scope items along a path, from the second turn on: the first one has nothing to weigh."""
    tracker = ScopeTracker(_NAMESPACE, "walk")
    for place, turn in enumerate(turns):
        step, scope = _step(turn, vectors[place], place), path[place]
        if place:
            yield _frozen(tracker.propose(step, with_window=True))
        if scope in tracker.scopes:
            tracker.place(step, scope)
        else:
            tracker.open(step, scope, turn.text[:60] or scope)


def _frozen(item: Item) -> Item:
    """The item with arrays of its own: a tracker's hold until it next changes."""
    offered = item.candidates
    return replace(
        item,
        candidates=Candidates(
            offered.ids,
            offered.texts,
            None if offered.vectors is None else np.array(offered.vectors),
            {name: np.array(values) for name, values in offered.signals.items()},
            {name: np.array(values) for name, values in offered.views.items()},
        ),
    )


def _step(turn: NewTurn, vector: Vector, place: int) -> Step:
    time = turn.time or _START + timedelta(minutes=place)
    return Step(np.asarray(vector, np.float32), turn.role, time, turn.session, _rendered(turn))


def _rendered(turn: NewTurn) -> str:
    return f"{turn.speaker or turn.role}: {text_of(turn)}"


def with_traces(source: Material, path: Path | None, tasks: Mapping[str, Task], embedder: Embedder) -> Material:
    """The material with a teacher's decisions for the tasks that a file of traces holds.

    Scope is left out: its items need the turns before them, which single traces do not hold.

    Raises:
        InputError: no file is there, it holds no trace, or one of another version of its task.
    """
    if path is None:
        return source
    from intentmem.distill.trace_files import read_traces
    from intentmem.distill.traces import belongs

    given: dict[str, list[Item]] = {}
    expected: dict[str, list[tuple[str, ...]]] = {}
    for trace in read_traces(path):
        task = tasks.get(trace.task)
        if task is None or task.name == SCOPE.name:
            continue
        if problem := belongs(task, trace):
            raise InputError("traces", f"hold one that {problem}", "collect them anew")
        given.setdefault(task.name, []).append(trace.item())
        expected.setdefault(task.name, []).append(tuple(trace.labels))
    if not given:
        raise InputError("traces", f"{path} holds none of a task that is measured from traces")
    vectors = {name: _encoded(items, tasks[name], embedder) for name, items in given.items()}
    return replace(source, given=vectors, expected=expected)


def _encoded(items: Sequence[Item], task: Task, embedder: Embedder) -> list[Item]:
    """Items with the vectors of their main field and of their candidates, those of equal candidates shared."""
    mains = embedder.encode([str(item.fields[task.fields[0].name]) for item in items], "passage")
    offered: dict[tuple[str, ...], Candidates] = {}
    for item in items:
        key = (*item.candidates.ids, *item.candidates.texts)
        if key not in offered:
            texts = item.candidates.texts
            offered[key] = replace(item.candidates, vectors=embedder.encode(texts, "label") if texts else None)
    return [
        Item(item.fields, offered[(*item.candidates.ids, *item.candidates.texts)], mains[at])
        for at, item in enumerate(items)
    ]
