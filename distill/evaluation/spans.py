"""How well records are read from turns without a model that writes: the places of values, and their properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.protocols import Decider, Embedder, SpanReader
from intentmem.memory.tasks import RECORD_SPANS, Task
from intentmem.memory.types import Mention, Snippet, Turn
from intentmem.memory.write.claim_keys import property_key
from intentmem.memory.write.extractive import ExtractiveWriter

from ..gold.spans import spans_of
from ..traces import Trace
from ..training.outcome import Measured
from .closed import source_of, task_of
from .intervals import Places, interval

Read = set[tuple[int, int, str]]
Episode = tuple[list[Turn], Mapping[str, Snippet]]
_COLUMNS = ("wanted", "found", "placed", "named", "verbatim", "records")


def evaluate(
    decider: Decider, traces: Sequence[Trace], embedder: Embedder | None = None, *, task: Task | None = None
) -> list[Measured]:
    """Figures of records against gold values, with 95% intervals by conversation.

    Each conversation is read as one episode, by the rules and by the decider's `span_reader` where it has one.
    `property_f1` counts values whose place and property are exactly those of gold, spelling and number of the property
    aside; `span_f1`, `span_precision` and `span_recall` their places alone; `verbatim` is the share of records whose
    value stands in its turn where they say.

    Args:
        traces: all turns of their conversations, also those that give no value.
        embedder: not needed.

    Raises:
        InputError: no traces, of several tasks, or of another version of the task.
    """
    task_of(traces, task)
    reader: SpanReader | None = getattr(decider, "span_reader", None)
    return measure(traces, read_with(reader, traces, grounded(traces)))


def grounded(traces: Sequence[Trace]) -> list[Episode]:
    """Each conversation as one episode: its turns in order, with what grounding finds in them."""
    writer, found = ExtractiveWriter(), list[Episode]()
    by_conversation: dict[str, list[Trace]] = {}
    for trace in traces:
        by_conversation.setdefault(trace.conversation, []).append(trace)
    for own in by_conversation.values():
        turns, known, snippets = _turns(own), list[Mention](), dict[str, Snippet]()
        for turn in turns:
            snippets[turn.id] = writer.ground(turn, known)
            known += snippets[turn.id].mentions
        found.append((turns, snippets))
    return found


def read_with(
    reader: SpanReader | None, traces: Sequence[Trace], episodes: Sequence[Episode]
) -> list[tuple[Read, int, int]]:
    """What is read of each trace's turn: places with properties, records, and those of them that are verbatim."""
    found: dict[str, tuple[Read, int, int]] = {turn_id(trace): (set(), 0, 0) for trace in traces}
    for turns, snippets in episodes:
        texts = {turn.id: turn.text for turn in turns}
        for record in ExtractiveWriter(reader).records(turns, snippets):
            (place,) = record.evidence
            read, records, verbatim = found[place.turn]
            start, end = place.start or 0, place.end or 0
            read.add((start, end, property_key(record.property)))
            found[place.turn] = (read, records + 1, verbatim + (texts[place.turn][start:end] == record.value))
    return [found[turn_id(trace)] for trace in traces]


def turn_id(trace: Trace) -> str:
    """The id of a trace's turn in its episode."""
    return f"{trace.conversation}#{trace.seq}"


def _turns(traces: Sequence[Trace]) -> list[Turn]:
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    return [
        Turn(
            turn_id(trace), trace.seq, "evaluation", trace.conversation, trace.seq,
            "assistant" if trace.meta.get("role") == "assistant" else "user", str(trace.fields["text"]),
            None, moment, "given", None,
        )
        for trace in sorted(traces, key=lambda trace: trace.seq)
    ]  # fmt: skip


def measure(traces: Sequence[Trace], read: Sequence[tuple[Read, int, int]], intervals: bool = True) -> list[Measured]:
    """As `evaluate`, of what was read; one set of figures for all, one for each `group` of the traces."""
    counts = np.array([_counts(trace, one) for trace, one in zip(traces, read, strict=True)], np.float64)
    found = _figures(traces, counts, "all", intervals)
    for group in sorted({name for trace in traces if (name := trace.meta.get("group"))}):
        rows = [row for row, trace in enumerate(traces) if trace.meta.get("group") == group]
        found += _figures([traces[row] for row in rows], counts[rows], group, intervals)
    return found


def _counts(trace: Trace, read: tuple[Read, int, int]) -> tuple[int, ...]:
    gold = {(start, end, property_key(name)) for start, end, name in spans_of(trace)}
    found, records, verbatim = read
    places, given = {one[:2] for one in gold}, {one[:2] for one in found}
    return len(places), len(given), len(places & given), len({one[:2] for one in gold & found}), verbatim, records


def _figures(traces: Sequence[Trace], counts: NDArray[np.float64], group: str, intervals: bool) -> list[Measured]:
    at = {name: column for column, name in enumerate(_COLUMNS)}

    def ratio(above: str, *below: str) -> Callable[[Places], float]:
        def of(places: Places) -> float:
            sums = counts[places].sum(axis=0)
            total = sum(sums[at[name]] for name in below) / len(below)
            return float(sums[at[above]] / total) if total else 0.0

        return of

    wanted, found, records = (int(counts[:, at[name]].sum()) for name in ("wanted", "found", "records"))
    figures = {
        "property_f1": (wanted, ratio("named", "wanted", "found")),
        "span_f1": (wanted, ratio("placed", "wanted", "found")),
        "span_precision": (found, ratio("placed", "found")),
        "span_recall": (wanted, ratio("placed", "wanted")),
        "verbatim": (records, ratio("verbatim", "records")),
    }
    conversations, source = [trace.conversation for trace in traces], source_of(traces)
    unknown = float("nan"), float("nan")
    made = []
    for name, (n, of) in figures.items():
        low, high = interval(conversations, of) if intervals else unknown
        made.append(Measured(RECORD_SPANS.name, name, of(np.arange(len(traces))), n, low, high, group, source))
    return made
