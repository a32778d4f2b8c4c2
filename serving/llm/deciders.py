"""Decisions by a served model: a choice is one constrained token, a distribution over the options."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from intentmem.memory.errors import DecisionError, ModelError, ModelOutputError
from intentmem.memory.protocols import Decider
from intentmem.memory.tasks import ENTITY_TYPES, EVENT, SCOPE, Decision, Group, Item, Space, Task

from .annotate import EVENTS, TYPES, Annotation, StepAnnotator
from .asking import Asker
from .options import NONE, any_of, closest
from .prompts import load_prompt
from .requests import ChoiceRequest, JsonRequest, lettered
from .schema import listing, one_name, record_of
from .texts import shown

SCOPES = 19
"""Scopes that a turn is shown: with "a new goal" they are as many as a server gives log-probabilities for."""
_CANDIDATES = 19
_MOST_LABELS = 5
_UNSURE = 0.5
_WINDOW_CHARACTERS, _LINE = 6000, 240
_ANCHORS = 10
_NEW_GOAL, _NO_CANDIDATE = "a new goal", "none of these"


class LLMDecider:
    """Answers every task with a served model.

    A turn's event and entity types come from the annotator, where it was asked ahead. All else is asked here: a closed
    task as one token a group, one of several candidates as one token, an open task other than `event` as JSON.

    Args:
        asker: the served model.
        annotator: what was asked about turns ahead.
        fallback: answers what the model could not; None raises instead.
        failures: the errors after which it does.
    """

    reads_window = True

    def __init__(
        self,
        asker: Asker,
        annotator: StepAnnotator | None = None,
        fallback: Decider | None = None,
        failures: type[ModelError] | tuple[type[ModelError], ...] = ModelOutputError,
    ) -> None:
        self._asker = asker
        self._annotator = annotator
        self._fallback = fallback
        self._failures = failures
        self._choose = load_prompt("choose")
        self._labels = load_prompt("labels")

    @property
    def name(self) -> str:
        """Who decides."""
        return self._asker.name

    @property
    def prompts(self) -> Mapping[str, str]:
        """Hashes of the prompts in use by name: part of the identity of every trace."""
        return {name: load_prompt(name).hash for name in ("annotate", "choose", "labels")}

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        """Decide each item; results in order, requests of one call concurrent.

        Raises:
            ModelError: the model failed on an item, and there is no fallback for it. Answers on others are kept.
            InputError: an item lacks a field of the task.
        """
        started = time.perf_counter()
        if task.space is Space.CLOSED:
            found = self._closed(task, items)
        elif task.space is Space.CANDIDATES or task.name == EVENT.name:
            found = self._candidates(task, items)
        else:
            found = self._open(task, items)
        seconds = (time.perf_counter() - started) / max(1, len(items))
        return [replace(self._sure(task, item, one), seconds=seconds) for item, one in zip(items, found, strict=True)]

    def _sure(self, task: Task, item: Item, found: Decision | ModelError) -> Decision:
        if isinstance(found, Decision):
            return found
        if self._fallback is None or not isinstance(found, self._failures):
            raise found
        try:
            decision = self._fallback.decide(task, [item])[0]
        except DecisionError:
            raise found from None
        return replace(decision, decided_by=f"{decision.decided_by} (model failed)", unsure=True)

    def _closed(self, task: Task, items: Sequence[Item]) -> list[Decision | ModelError]:
        asked = []
        for item in items:
            fields = shown_fields(task, item)
            for group in task.groups:
                options = [f"{option.name}: {option.description}" for option in group.options]
                question = f"{task.question} ({group.name})" if len(task.groups) > 1 else task.question
                asked.append((item.turn, self._request(task, item, question, fields, options)))
        answers = self._asker.choose(self._choose, asked)
        size = len(task.groups)
        return [_joined(task.groups, answers[at * size : (at + 1) * size], self.name) for at in range(len(items))]

    def _candidates(self, task: Task, items: Sequence[Item]) -> list[Decision | ModelError]:
        found: dict[int, Decision | ModelError] = {}
        asked, places, offered = [], [], []
        for at, item in enumerate(items):
            annotation = self._annotated(item) if task.name == EVENT.name else None
            if annotation is not None:
                found[at] = annotation.event(self.name)
                continue
            if not len(item.candidates):
                found[at] = Decision((), {NONE: 1.0}, 1.0, self.name)
                continue
            rows = _scope_rows(item) if task.name == SCOPE.name else _closest_rows(item, task)
            other = _NEW_GOAL if task.name == SCOPE.name else _NO_CANDIDATE
            options = [shown(" ".join(item.candidates.texts[row].split()), _LINE) for row in rows]
            asked.append(
                (item.turn, self._request(task, item, task.question, shown_fields(task, item), [*options, other]))
            )
            places.append(at)
            offered.append([item.candidates.ids[row] for row in rows])
        for at, ids, answer in zip(places, offered, self._asker.choose(self._choose, asked), strict=True):
            found[at] = answer if isinstance(answer, ModelError) else _chosen(ids, *answer, self.name)
        decisions = [found[at] for at in range(len(items))]
        if task.space is Space.OPEN:
            # Of an open task only labels have a probability: "none" is no label.
            decisions = [d if isinstance(d, ModelError) else _without_none(d) for d in decisions]
        return decisions

    def _open(self, task: Task, items: Sequence[Item]) -> list[Decision | ModelError]:
        found: dict[int, Decision | ModelError] = {}
        asked, places, offered = [], [], []
        for at, item in enumerate(items):
            annotation = self._annotated(item) if task.name == ENTITY_TYPES.name else None
            if annotation is not None:
                found[at] = annotation.types(self.name)
                continue
            options = closest(item.candidates, item.vector, TYPES)
            if not options.ids:
                found[at] = Decision((), {}, 1.0, self.name)
                continue
            messages = self._labels.messages(
                question=task.question, most=str(_MOST_LABELS), options=options.lines(), fields=shown_fields(task, item)
            )
            schema = record_of({"labels": listing(one_name(options.names), _MOST_LABELS)})
            name, spare = _task_name(task, item), spare_lines(task, item)
            asked.append((item.turn, JsonRequest(messages, schema, 128, task=name, spare=spare)))
            places.append(at)
            offered.append(options)
        for at, options, answer in zip(places, offered, self._asker.structured(self._labels, asked), strict=True):
            if isinstance(answer, ModelError):
                found[at] = answer
                continue
            named = [options.id_of(str(name)) for name in answer[0].get("labels") or ()]
            labels = tuple(dict.fromkeys(identity for identity in named if identity is not None))
            shares = any_of(options, labels)
            found[at] = Decision(labels, shares, max(shares.values(), default=1.0), self.name, calls=answer[1])
        return [found[at] for at in range(len(items))]

    def _annotated(self, item: Item) -> Annotation | None:
        if self._annotator is None or not self._annotator.labels:
            return None
        return self._annotator.of(item.turn)

    def _request(self, task: Task, item: Item, question: str, fields: str, options: Sequence[str]) -> ChoiceRequest:
        messages = self._choose.messages(
            question=question, advice=self._choose.tasks.get(task.name, ""), fields=fields, options=lettered(options)
        )
        return ChoiceRequest(messages, tuple(options), _task_name(task, item), spare_lines(task, item))


def shown_fields(task: Task, item: Item) -> str:
    """The fields of an item as quoted lines, the ones that change least first and the main one last.

    Raises:
        InputError: a required field is absent, or an unknown one is present.
    """
    task.render(item)
    lines = []
    for spec in [*task.fields[1:], task.fields[0]]:
        value = item.fields.get(spec.name)
        if value is None or value == "":
            continue
        if isinstance(value, str):
            lines.append(f"{spec.name}: {shown(value, 3000)}")
        else:
            lines.append(f"{spec.name}: {spec.description}")
            lines += _listed(value)
    return "\n".join(lines)


def spare_lines(task: Task, item: Item) -> tuple[str, ...]:
    """The lines of `shown_fields` that a prompt can do without, the oldest first: those of fields that hold many."""
    fields = [item.fields.get(spec.name) for spec in task.fields if spec.many and not spec.required]
    return tuple(
        line for value in fields if value is not None and not isinstance(value, str) for line in _listed(value)
    )


def _listed(texts: Sequence[str]) -> list[str]:
    return [f"- {line}" for line in recent([shown(text, _LINE) for text in texts], _WINDOW_CHARACTERS)]


def recent(lines: Sequence[str], characters: int) -> Sequence[str]:
    """The last lines, as many as fit.

    Where some are left out, the first one kept is the one of the smallest hash among a few: it stays the same for
    several turns, and what follows it is then found in a server's prefix cache.
    """
    room, first = characters, len(lines)
    while first > 0 and room >= len(lines[first - 1]):
        first -= 1
        room -= len(lines[first])
    if not first and len(lines) < 50:
        return lines
    anchors = range(first, min(first + _ANCHORS, len(lines)))
    start = min(anchors, key=lambda at: hashlib.sha256(lines[at].encode()).digest(), default=first)
    return lines[start:]


def _task_name(task: Task, item: Item) -> str:
    """What the ledger calls it: questions apart from turns."""
    return task.name if item.turn is not None else f"read.{task.name}"


def _closest_rows(item: Item, task: Task) -> list[int]:
    most = EVENTS if task.name == EVENT.name else _CANDIDATES
    if item.vector is None or item.candidates.vectors is None:
        return list(range(min(most, len(item.candidates))))
    order: list[int] = np.argsort(-(item.candidates.vectors @ item.vector), kind="stable")[:most].tolist()
    return order


def _scope_rows(item: Item) -> list[int]:
    """The previous scope, the closest and the latest ones, in the order they were opened."""
    count = len(item.candidates)
    if count <= SCOPES:
        return list(range(count))
    signals = item.candidates.signals
    previous = np.asarray(signals.get("is_previous", np.zeros(count)))
    latest = np.argsort(np.asarray(signals.get("age", np.arange(count)[::-1])), kind="stable").tolist()
    rows = dict.fromkeys(np.flatnonzero(previous).tolist())
    close = latest
    if item.vector is not None and item.candidates.vectors is not None:
        close = np.argsort(-(item.candidates.vectors @ item.vector), kind="stable").tolist()
    for pair in zip(close, latest, strict=True):
        for row in pair:
            if len(rows) < SCOPES:
                rows[row] = None
    return sorted(rows)


def _chosen(ids: Sequence[str], probabilities: Sequence[float], calls: int, name: str) -> Decision:
    best = int(np.argmax(probabilities))
    shares = dict(zip([*ids, NONE], map(float, probabilities), strict=True))
    labels = (ids[best],) if best < len(ids) else ()
    sure = float(probabilities[best])
    return Decision(labels, shares, sure, name, unsure=sure < _UNSURE, calls=calls)


def _without_none(decision: Decision) -> Decision:
    return replace(decision, probabilities={k: p for k, p in decision.probabilities.items() if k != NONE})


def _joined(
    groups: Sequence[Group], answers: Sequence[tuple[tuple[float, ...], int] | ModelError], name: str
) -> Decision | ModelError:
    labels: list[str] = []
    shares: dict[str, float] = {}
    sure, calls = 1.0, 0
    for group, answer in zip(groups, answers, strict=True):
        if isinstance(answer, ModelError):
            return answer
        probabilities, made = answer
        best = int(np.argmax(probabilities))
        labels.append(group.options[best].name)
        shares |= {option.name: float(p) for option, p in zip(group.options, probabilities, strict=True)}
        sure *= float(probabilities[best])
        calls += made
    return Decision(tuple(labels), shares, sure, name, unsure=sure < _UNSURE, calls=calls)
