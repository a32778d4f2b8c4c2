"""What a teacher is asked: questions of traces again, turns of a corpus, or items of a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from intentmem.memory.errors import InputError
from intentmem.memory.protocols import Embedder
from intentmem.memory.tasks import Candidates, Item, Space, Task
from intentmem.memory.types import NewTurn
from intentmem.memory.write.labelers import FIELDS
from intentmem.train_data import Trajectory

from .collect import Asked
from .traces import LabelSet, Trace


def of_traces(traces: Iterable[Trace]) -> Iterator[Asked]:
    """The questions that other teachers, or annotators, answered."""
    shared: dict[str, Candidates] = {}
    for trace in traces:
        candidates = shared.setdefault(trace.options.key, Candidates(trace.options.ids, trace.options.texts))
        item = replace(trace.item(), candidates=candidates)
        yield Asked(item, trace.conversation, trace.seq, {k: v for k, v in trace.meta.items() if k != "namespace"})


def of_turns(task: Task, trajectories: Iterable[Trajectory], labels: LabelSet) -> Iterator[Asked]:
    """Every turn of trajectories, for a task that needs no more than a turn.

    Raises:
        InputError: the task needs more.
    """
    if unknown := [f.name for f in task.fields if f.required and f.name not in FIELDS]:
        remedy = "give the items in a file: --data items:FILE"
        raise InputError(f"task.fields.{unknown[0]}", "cannot be read from the turns of a corpus", remedy)
    wanted = [f.name for f in task.fields if f.name in FIELDS]
    options = Candidates(labels.ids, labels.texts)
    for trajectory in trajectories:
        before: NewTurn | None = None
        for seq, turn in enumerate(trajectory.turns):
            values = {
                "turn": turn.text,
                "speaker": turn.speaker or turn.role,
                "before": before.text if before else "",
            }
            item = Item({name: values[name] for name in wanted}, options)
            yield Asked(item, trajectory.id, seq, {"role": turn.role})
            before = turn


def of_file(task: Task, path: Path, labels: LabelSet) -> Iterator[Asked]:
    """Items of a JSONL file: `{"fields": {...}, "conversation": "...", "candidates": {"id": "text", ...}}` a line.

    Without a conversation each line is one of its own. Candidates are for tasks that have them.

    Raises:
        InputError: a line is no item of the task; names the line and the field.
    """
    try:
        lines = path.read_text("utf-8").split("\n")
    except OSError as error:
        raise InputError("data", f"{path} cannot be read: {error.strerror}") from error
    options = Candidates(labels.ids, labels.texts)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _asked(task, line, f"{path} line {number}", number, options)


def _asked(task: Task, line: str, where: str, number: int, options: Candidates) -> Asked:
    try:
        values: dict[str, Any] = json.loads(line)
        fields = {str(k): v if isinstance(v, str) else [str(one) for one in v] for k, v in values["fields"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError("data", f"{where} is not an item: {error!r}", '{"fields": {"turn": "..."}} a line') from error
    if task.space is Space.CANDIDATES:
        given = values.get("candidates")
        if not isinstance(given, dict) or not given:
            raise InputError("data", f"{where} has no candidates", '"candidates": {"id": "text", ...}')
        options = Candidates(tuple(map(str, given)), tuple(map(str, given.values())))
    item = Item(fields, options)
    try:
        task.render(item)
    except InputError as error:
        raise InputError("data", f"{where}: {error}") from error
    return Asked(item, str(values.get("conversation") or f"{Path(where.split(' line ')[0]).stem}-{number}"), number)


def with_vectors(task: Task, asked: Sequence[Asked], embedder: Embedder) -> list[Asked]:
    """The same with vectors where a teacher is shown only the closest of many candidates."""
    if task.space is Space.CLOSED:
        return list(asked)
    main = task.fields[0].name
    vectors = embedder.encode([str(one.item.fields[main]) for one in asked], "passage")
    known: dict[int, Candidates] = {}
    found = []
    for one, vector in zip(asked, vectors, strict=True):
        candidates = one.item.candidates
        if id(candidates) not in known:
            encoded = embedder.encode(candidates.texts, "label") if len(candidates) else None
            known[id(candidates)] = replace(candidates, vectors=encoded)
        found.append(replace(one, item=replace(one.item, candidates=known[id(candidates)], vector=vector)))
    return found
