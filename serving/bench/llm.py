"""What a served model costs on the write path, and how well its scopes agree with gold.

The first turns of a trajectory are ingested, by session or in one call, with everything decided and written by the
model, then again by rule: the baseline. Scopes are compared with the corpus' own at user turns, where they are what the
corpus tells: the project of a session (RealMem).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intentmem.memory.errors import InputError, IntentMemError
from intentmem.memory.memory import Memory
from intentmem.memory.options import SearchOptions
from intentmem.memory.types import NewTurn
from intentmem.serving.compose import make_client, open_memory, open_served
from intentmem.serving.llm.answer import answer
from intentmem.serving.llm.requests import Usage
from intentmem.serving.settings import Settings, load_settings
from intentmem.train_data import Corpus, Question, Trajectory

from . import corpora
from .metrics import exact_matching, rand_index
from .progress import Progress, silent
from .report import Report, Row, header

if TYPE_CHECKING:
    from intentmem.serving.llm.client import LLMClient

WRITE_PATH, READ_PATH = "write path", "read path"
_EPISODE = "episode"
_ONE_SCOPE = "baseline: one scope"


@dataclass(frozen=True, slots=True)
class LLMPlan:
    """What to measure.

    Args:
        corpus: its name; path: its file or folder.
        trajectory: id of the one to take; None takes the first.
        turns: the first so many of it.
        questions: asked afterwards, of those whose evidence lies within these turns.
        at_once: add all turns in one call, as an import does, so that calls for several sessions are in flight
            together; else a session at a time, as they would arrive.
    """

    corpus: str
    path: Path
    trajectory: str | None = None
    turns: int = 60
    questions: int = 0
    at_once: bool = False

    def __post_init__(self) -> None:
        for name, least in (("turns", 1), ("questions", 0)):
            if getattr(self, name) < least:
                raise InputError(name, f"is {getattr(self, name)}", f"at least {least}")


@dataclass(slots=True)
class Written:
    """What an ingest came to: the scope of each labelled turn by `source_id`, episodes closed, turns that failed."""

    scopes: dict[str, str] = field(default_factory=dict)
    closed: int = 0
    failed: int = 0
    error: str = ""
    seconds: float = 0.0


def run(
    plan: LLMPlan, folder: Path, given: Mapping[str, Any], command: str = "", progress: Progress = silent
) -> Report:
    """Measure the served model of the settings, with stores made in an empty folder.

    Args:
        given: groups of settings that win over the file and the environment.

    Raises:
        InputError: the data cannot be read, no such trajectory, or no model is configured.
        ModelError: the server cannot be reached.
    """
    start = time.perf_counter()
    corpus = corpora.load(plan.corpus, plan.path)
    trajectory = chosen(corpus, plan.trajectory)
    turns = trajectory.turns[: plan.turns]
    served = {**given, "store": {"path": folder / "served"}, "decider": "llm", "writer": "llm"}
    settings = load_settings(served)
    client = make_client(settings)
    with open_served(settings, client) as memory:
        model = client.name
        written = ingest(memory, trajectory.id, turns, progress, plan.at_once)
        writing = _spent(client)
        failed = _ask(plan, corpus, trajectory, memory, client, progress)
        reading = {task: usage - writing.get(task, Tally()) for task, usage in _spent(client).items()}
    ruled = {**given, "store": {"path": folder / "ruled"}, "decider": "baseline", "writer": "extractive"}
    with open_memory(load_settings(ruled)) as memory:
        baseline = ingest(memory, trajectory.id, turns)
    rows = [*_task_rows(corpus.name, WRITE_PATH, writing), *_path_rows(corpus.name, writing, written, len(turns))]
    rows += _task_rows(corpus.name, READ_PATH, {task: tally for task, tally in reading.items() if tally.usage.calls})
    rows += scope_rows(corpus.name, trajectory, turns, {model: written.scopes, "baseline: rules": baseline.scopes})
    failures = {name: count for name, count in (("ingest", written.failed), ("questions", failed)) if count}
    more = {"errors": {"ingest": written.error} if written.error else {}, "trajectory": trajectory.id, "model": model}
    seconds = time.perf_counter() - start
    return Report(
        header("llm", _configuration(plan, settings, len(turns)), command, seconds, failures, corpus.hash, **more), rows
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """Calls with what they took, and how many replies could not be used."""

    usage: Usage = field(default_factory=Usage)
    faults: int = 0

    def __sub__(self, other: Tally) -> Tally:
        mine, its = self.usage, other.usage
        return Tally(
            Usage(
                mine.calls - its.calls,
                mine.prompt_tokens - its.prompt_tokens,
                mine.completion_tokens - its.completion_tokens,
                mine.seconds - its.seconds,
                mine.estimated,
            ),
            self.faults - other.faults,
        )


def chosen(corpus: Corpus, name: str | None) -> Trajectory:
    """The trajectory of that id, or the first.

    Raises:
        InputError: there is none.
    """
    known = {trajectory.id: trajectory for trajectory in corpus.trajectories}
    if not known or (name is not None and name not in known):
        raise InputError("trajectory", f"{name!r} is not in {corpus.name} here", f"known: {', '.join(known)}")
    return corpus.trajectories[0] if name is None else known[name]


def ingest(
    memory: Memory, namespace: str, turns: Sequence[NewTurn], progress: Progress = silent, at_once: bool = False
) -> Written:
    """Add turns a session at a time, or all in one call, and try once more what failed."""
    started, done = time.perf_counter(), 0
    for _, part in groupby(turns, key=lambda turn: None if at_once else turn.session):
        session = list(part)
        memory.add(session, namespace=namespace)
        done += len(session)
        progress("write", done, len(turns))
    memory.process(namespace, retry_failed=True)
    ordinal = memory.store.namespaces.ordinal(namespace)
    rows = {row: intent.scope.id for _, row, intent in memory.store.labels.intents(ordinal)}
    stored = memory.store.turns.by_rows(ordinal, list(rows))
    failures = memory.store.operations.failures(ordinal)
    return Written(
        {str(turn.source_id): rows[row] for row, turn in stored.items()},
        _closed(memory, ordinal),
        sum(operation.turns for operation in failures),
        str(failures[0].error) if failures else "",
        time.perf_counter() - started,
    )


def scope_rows(
    corpus: str, trajectory: Trajectory, turns: Sequence[NewTurn], found: Mapping[str, Mapping[str, str]]
) -> Iterator[Row]:
    """Agreement of scopes with gold at user turns that each subject labelled; nothing where there is no gold."""
    gold = {
        source: scope
        for turn in turns
        if turn.role == "user" and (scope := _gold(trajectory, source := str(turn.source_id))) is not None
    }
    if not gold:
        return
    everything = {_ONE_SCOPE: dict.fromkeys(gold, "one")}
    for subject, scopes in {**found, **everything}.items():
        shared = [source for source in gold if source in scopes]
        if not shared:
            continue
        mine, true = [scopes[source] for source in shared], [gold[source] for source in shared]
        figures = {
            "ARI": rand_index(mine, true),
            "exact": exact_matching(mine, true),
            "scopes": len(set(mine)),
            "gold_scopes": len(set(true)),
        }
        for metric, value in figures.items():
            yield Row(corpus, subject, "scopes at user turns", metric, float(value), None, None, len(shared))


def _gold(trajectory: Trajectory, source: str) -> str | None:
    gold = trajectory.gold.get(source)
    return gold.scope if gold is not None else None


def _closed(memory: Memory, ordinal: int) -> int:
    return sum(episode.closed for episode in memory.store.labels.episodes(ordinal))


def _ask(
    plan: LLMPlan, corpus: Corpus, trajectory: Trajectory, memory: Memory, client: LLMClient, progress: Progress
) -> int:
    """Ask and answer some questions about the turns that are there; returns how many failed."""
    asked = [question for question in corpus.questions if _within(question, trajectory, plan.turns)][: plan.questions]
    failed = 0
    for number, question in enumerate(asked, 1):
        options: SearchOptions = {"namespace": trajectory.id}
        if question.time is not None:
            options["query_time"] = question.time
        try:
            answer(memory, client, question.text, **options)
        except IntentMemError:
            failed += 1
        progress("ask", number, len(asked))
    return failed


def _within(question: Question, trajectory: Trajectory, count: int) -> bool:
    if question.trajectory != trajectory.id or not question.has_evidence:
        return False
    turns = trajectory.turns[:count]
    if question.gold_turns:
        return set(question.gold_turns) <= {turn.source_id for turn in turns}
    return set(question.gold_sessions) <= {turn.session for turn in turns}


def _spent(client: LLMClient) -> dict[str, Tally]:
    faults = client.totals.faults
    return {task: Tally(usage, faults.get(task, 0)) for task, usage in client.totals.by_task().items()}


def _task_rows(corpus: str, group: str, spent: Mapping[str, Tally]) -> Iterator[Row]:
    for task, tally in spent.items():
        usage = tally.usage
        figures = {
            "calls": usage.calls,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "seconds": round(usage.seconds, 1),
            "schema_failures": tally.faults,
        }
        for metric, value in figures.items():
            yield Row(corpus, task, group, metric, float(value), None, None, usage.calls)


def _path_rows(corpus: str, spent: Mapping[str, Tally], written: Written, turns: int) -> Iterator[Row]:
    """Calls a turn with the calls for closed episodes, and without them."""
    calls = sum(tally.usage.calls for tally in spent.values())
    episodes = spent.get(_EPISODE, Tally()).usage.calls
    figures = {
        "calls_per_turn": calls / turns,
        "calls_per_turn_without_episodes": (calls - episodes) / turns,
        "closed_episodes": written.closed,
        "wall_seconds": round(written.seconds, 1),
    }
    for metric, value in figures.items():
        yield Row(corpus, "all", "a turn", metric, float(value), None, None, turns)


def _configuration(plan: LLMPlan, settings: Settings, turns: int) -> dict[str, Any]:
    kept = settings.llm.model_dump(mode="json", exclude={"api_key", "base_url"})
    return {
        "turns": turns,
        "questions": plan.questions,
        "at_once": plan.at_once,
        "embedder": settings.embedder.profile,
        "on_bad_output": settings.decider.on_bad_output,
        **{f"llm.{name}": value for name, value in kept.items()},
    }
