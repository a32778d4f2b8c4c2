"""The command that runs a teacher over data and writes down what it decides."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .session import Session, command

if TYPE_CHECKING:
    from intentmem.distill.collect import Asked, Collected
    from intentmem.distill.task_files import DeclaredTask
    from intentmem.distill.traces import Trace

    from ..llm.client import LLMClient

_ITEMS, _MEMORY = "items", "memory"
_SAMPLE = 20


def register(group: typer.Typer) -> None:
    """Put this command into a group."""
    command(group, "collect")(collect)


def collect(
    session: Session,
    task: Annotated[str, typer.Option("--task", help="A built-in task, or a TOML file that declares one.")],
    data: Annotated[
        list[str],
        typer.Option("--data", help="CORPUS:PATH, items:FILE, traces:PATH, or memory:NAMESPACE; repeatable."),
    ],
    out: Annotated[Path, typer.Option("--out", help="File of traces; a run that was interrupted goes on.")],
    gold: Annotated[bool, typer.Option("--gold", help="Keep the corpus' own annotations; ask nobody.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Items at most.", show_default=False)] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of what is woven or built from a corpus.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate tokens and cost, ask nobody.")] = False,
) -> None:
    """Ask a teacher, the served model, about data, and keep each decision as a trace to train on."""
    from intentmem.distill.task_files import find_task
    from intentmem.distill.trace_files import TraceFile

    declared = find_task(task)
    if gold or all(one.startswith(f"{_MEMORY}:") for one in data):
        file = TraceFile(out)
        _done(session, {"kept": file.append(_there(session, declared, data, seed)[:limit]), "file": str(out)})
        return
    asked = _asked(session, declared, data, seed)[:limit]
    if dry_run:
        _estimate(session, declared, asked)
        return
    found, usage = _ask(session, declared, asked, TraceFile(out))
    _done(session, {**dataclasses.asdict(found), **usage, "file": str(out)})
    if found.failures or found.rejected:
        raise typer.Exit(1)


def _there(session: Session, declared: DeclaredTask, data: list[str], seed: int) -> list[Trace]:
    """Traces that need no teacher: annotations of corpora, and what a memory has recorded."""
    from intentmem.distill.sources import load_examples, parse_source
    from intentmem.distill.trace_files import trace_of

    found: list[Trace] = []
    for one in data:
        kind, _, name = one.partition(":")
        if kind == _MEMORY:
            with session.memory() as memory:
                rows = memory.store.traces.read(memory.store.namespaces.ordinal(name), declared.task.name)
                found += [_nameless(trace_of(row)) for row in rows]
        else:
            found += load_examples([declared.task], [parse_source(one)], seed).of(declared.task)
    return found


def _nameless(trace: Trace) -> Trace:
    """Without the namespace: a file of traces leaves the memory that it came from."""
    return dataclasses.replace(trace, meta={k: v for k, v in trace.meta.items() if k != "namespace"})


def _asked(session: Session, declared: DeclaredTask, data: list[str], seed: int) -> list[Asked]:
    from intentmem.distill.questions import of_file, of_traces, of_turns
    from intentmem.distill.sources import load_examples, parse_source
    from intentmem.memory.tasks import TASKS
    from intentmem.train_data import load_corpus

    def questions() -> Iterator[Asked]:
        for one in data:
            kind, _, path = one.partition(":")
            if kind == _ITEMS:
                yield from of_file(declared.task, Path(path).expanduser(), declared.labels)
            elif kind == "traces" or declared.task.name in TASKS:
                yield from of_traces(load_examples([declared.task], [parse_source(one)], seed).of(declared.task))
            else:
                source = parse_source(one)
                trajectories = load_corpus(source.kind, source.path or "").for_training().trajectories
                yield from of_turns(declared.task, trajectories, declared.labels)

    return list(questions())


def _ask(
    session: Session, declared: DeclaredTask, asked: list[Asked], file: Any
) -> tuple[Collected, dict[str, int | float]]:
    from intentmem.distill.collect import collect as run
    from intentmem.distill.questions import with_vectors
    from intentmem.distill.recording import RecordingDecider

    from ..compose import make_client, make_embedder
    from ..llm.asking import Asker
    from ..llm.deciders import LLMDecider
    from .ingest import progress

    with make_client(session.settings) as client:
        decider = LLMDecider(Asker(client))
        teacher = RecordingDecider(decider, len, decider.prompts)
        ready = with_vectors(declared.task, asked, make_embedder(session.settings.embedder))
        with progress(session, "asking", len(ready), "items") as advance:
            found = run(declared.task, ready, teacher, file, advance)
        return found, _spent(client)


def _estimate(session: Session, declared: DeclaredTask, asked: list[Asked]) -> None:
    """Calls, tokens and money of a run, from the prompts of a few of its items."""
    from intentmem.distill.questions import with_vectors

    from ..bench.latency.prices import read_prices
    from ..compose import make_embedder
    from ..llm.asking import Asker
    from ..llm.deciders import LLMDecider
    from ..llm.estimate import CountingClient
    from ..llm.requests import Usage

    sample = asked[:: max(1, len(asked) // _SAMPLE)]
    client = CountingClient()
    ready = with_vectors(declared.task, sample, make_embedder(session.settings.embedder))
    LLMDecider(Asker(client)).decide(declared.task, [one.item for one in ready])
    share = len(asked) / max(1, len(sample))
    usage = Usage(
        round(client.usage.calls * share),
        round(client.usage.prompt_tokens * share),
        round(client.usage.completion_tokens * share),
    )
    prices = read_prices()
    money = prices.of_tokens(session.settings.llm.model or "", usage)
    _done(
        session,
        {
            "items": len(asked),
            "calls": usage.calls,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cost": None if money is None else round(money, 4),
            "prices": f"{prices.file.currency}, {prices.file.date}",
        },
        title=f"Estimate from {len(sample)} items; nobody was asked",
    )


def _spent(client: LLMClient) -> dict[str, int | float]:
    usage = client.totals.total()
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "seconds": round(usage.seconds, 1),
    }


def _done(session: Session, values: dict[str, Any], title: str = "Traces") -> None:
    from . import tables

    shown = {name.replace("_", " "): _word(value) for name, value in values.items()}
    session.show(values, tables.pairs(shown, title=title))


def _word(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "none"
    return "not known" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
