"""Ingesting files: what it will take, and doing it so that a killed run continues where it stopped."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intentmem.memory.types import NewTurn, with_captions

from .session import Session
from .sources import Reading

if TYPE_CHECKING:
    from intentmem.memory.memory import Memory
    from intentmem.memory.options import Owner

_BLOCK = 256
_SAMPLE = 48
Advance = Callable[[int], None]


def preview(session: Session, reading: Reading) -> dict[str, Any]:
    """What an ingest will take: turns, tokens, model calls, and seconds as measured on the first turns just now."""
    from ..compose import make_embedder, open_memory

    turns = [turn for conversation in reading.conversations for turn in conversation.turns]
    tokens = make_embedder(session.settings.embedder).count_tokens(
        [with_captions(t.text, t.attachments) for t in turns]
    )
    sample = turns[:_SAMPLE]
    seconds, calls, llm_tokens = 0.0, 0, 0
    if sample:
        with tempfile.TemporaryDirectory() as folder:
            scratch = session.settings.model_copy(
                update={"store": session.settings.store.model_copy(update={"path": Path(folder)})}
            )
            with open_memory(scratch) as memory:
                memory.add("warm-up", namespace="warm-up")
                started = time.perf_counter()
                memory.add(sample, namespace="sample")
                seconds = time.perf_counter() - started
                usage = memory.status("sample")["namespaces"][0]["usage"]
                calls = sum(int(row["calls"]) for row in usage)
                llm_tokens = sum(int(row["tokens"]) for row in usage)
    share = sum(tokens) / max(1, sum(tokens[: len(sample)]))
    dated = [turn.time for turn in turns if turn.time]
    return {
        "format": reading.format,
        "conversations": len(reading.conversations),
        "turns": len(turns),
        "tokens": sum(tokens),
        "llm_calls": round(calls * share),
        "llm_tokens": round(llm_tokens * share),
        "estimated_seconds": round(seconds * share, 1),
        "measured_on_turns": len(sample),
        "first": min(dated).isoformat() if dated else None,
        "last": max(dated).isoformat() if dated else None,
        "without_time": len(turns) - len(dated),
        "unusable": list(reading.unusable),
        "notes": list(reading.notes),
    }


def ingest(session: Session, memory: Memory, reading: Reading) -> dict[str, Any]:
    """Store every turn, then embed and label what is pending.

    Turns carry ids of their own, so that those of an earlier, interrupted run are recognised; what that run had
    stored but not labelled is labelled now.
    """
    counts = {"added": 0, "already_there": 0, "suppressed": 0}
    warnings: list[str] = []
    started = time.perf_counter()
    with progress(session, "storing", reading.turns) as advance:
        for trajectory, block in _blocks(reading):
            owner: Owner = {**session.owner}
            owner.setdefault("trajectory", trajectory)
            result = memory.add(block, wait=False, **owner)
            counts["added"] += len(result["results"])
            counts["already_there"] += result["duplicates"]
            counts["suppressed"] += result["suppressed"]
            warnings += result["warnings"]
            advance(len(block))
    labelled = process(session, memory, session.namespace)
    seconds = time.perf_counter() - started
    status = memory.status(session.namespace)["namespaces"][0]
    return {
        "namespace": session.namespace,
        **counts,
        "labelled": labelled,
        "seconds": round(seconds, 2),
        "turns_per_second": round(labelled / seconds, 1) if labelled else None,
        "llm_calls": sum(int(row["calls"]) for row in status["usage"]),
        "pending": status["operations"].get("pending", 0),
        "failed": status["operations"].get("failed", 0),
        "warnings": warnings,
        "unusable": list(reading.unusable),
        "path": str(memory.store.folder),
    }


def process(session: Session, memory: Memory, namespace: str | None, retry_failed: bool = False) -> int:
    """Embed and label what is pending, with a progress bar; returns the number of turns done."""
    names = memory.namespaces() if namespace is None else [namespace]
    states = [memory.status(name)["namespaces"][0] for name in names]
    with progress(session, "labelling", sum(state["turns"] - state["labelled"] for state in states)) as advance:
        return memory.process(namespace, on_progress=following(advance), retry_failed=retry_failed)


def following(advance: Advance) -> Callable[[Any], None]:
    """A listener that turns the pipeline's running totals into steps."""
    last = 0

    def listen(state: Any) -> None:
        nonlocal last
        # The totals start again with each namespace.
        advance(state.done - last if state.done >= last else state.done)
        last = state.done

    return listen


def _blocks(reading: Reading) -> Iterator[tuple[str, list[NewTurn]]]:
    for conversation in reading.conversations:
        rest = iter(conversation.turns)
        while block := list(islice(rest, _BLOCK)):
            yield conversation.trajectory, block


@contextmanager
def progress(session: Session, what: str, total: int, unit: str = "turns") -> Iterator[Advance]:
    """A progress bar with its rate on stderr; silent where that is no terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class _Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed or task.finished_speed or 0:,.0f} {unit}/s")

    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=session.err, disable=not session.err.is_terminal or total == 0) as bar:
        task = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(task, steps)
