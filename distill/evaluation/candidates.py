"""How well a decider chooses among candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.protocols import Decider, Embedder
from intentmem.memory.tasks import Candidates, Decision, Item, Task

from ..calibration import ece
from ..traces import Trace
from ..training.outcome import Measured
from .closed import decided, items_of, source_of, task_of
from .intervals import Places, interval

Floats = NDArray[np.float64]


def evaluate(
    decider: Decider, traces: Sequence[Trace], embedder: Embedder | None = None, *, task: Task | None = None
) -> list[Measured]:
    """Figures of a decider on traces of one task with candidates, with 95% intervals by conversation.

    `top1`, the share of items answered right, none among the answers; `top1_some`, of those where a candidate is right;
    `top5`, of those too, the share whose right candidate is among the five likeliest; `none_f1`, of saying none; `ece`.

    Args:
        embedder: gives items and candidates their vectors, for deciders that need them.
        task: the declaration; None takes the built-in one of the traces.

    Raises:
        InputError: no traces, of several tasks, or of another version of the task.
    """
    known = task_of(traces, task)
    items = items_of(known, traces, embedder)
    if embedder is not None:
        items = [_with_vectors(item, embedder) for item in items]
    return measure(known, decided(decider, known, items), traces)


def _with_vectors(item: Item, embedder: Embedder) -> Item:
    offered = item.candidates
    vectors = embedder.encode(offered.texts, "label") if len(offered) else None
    return Item(item.fields, Candidates(offered.ids, offered.texts, vectors), item.vector)


def measure(task: Task, decisions: Sequence[Decision], traces: Sequence[Trace]) -> list[Measured]:
    """As `evaluate`, of decisions that are at hand; one set of figures for all, one for each `group` of the traces."""
    found = _figures(task, decisions, traces, "all")
    for group in sorted({name for trace in traces if (name := trace.meta.get("group"))}):
        places = [place for place, trace in enumerate(traces) if trace.meta.get("group") == group]
        found += _figures(task, [decisions[p] for p in places], [traces[p] for p in places], group)
    return found


def _figures(task: Task, decisions: Sequence[Decision], traces: Sequence[Trace], group: str) -> list[Measured]:
    pairs = list(zip(decisions, traces, strict=True))
    right = np.array([a.labels[:1] == b.labels[:1] for a, b in pairs], np.float64)
    some = np.array([bool(b.labels) for _, b in pairs])
    near = np.array([bool(b.labels) and b.labels[0] in _likeliest(a, 5) for a, b in pairs], np.float64)
    silent = np.array([not a.labels for a, _ in pairs])

    def among(values: Floats) -> Callable[[Places], float]:
        def share(places: Places) -> float:
            kept = places[some[places]]
            return float(values[kept].mean()) if len(kept) else 0.0

        return share

    def none_f1(places: Places) -> float:
        hits = (silent & ~some)[places].sum()
        total = silent[places].sum() + (~some)[places].sum()
        return float(2 * hits / total) if total else 1.0

    figures: dict[str, tuple[int, Callable[[Places], float]]] = {
        "top1": (len(pairs), lambda places: float(right[places].mean())),
        "top1_some": (int(some.sum()), among(right)),
        "top5": (int(some.sum()), among(near)),
        "none_f1": (len(pairs), none_f1),
    }
    conversations, source, everything = [t.conversation for t in traces], source_of(traces), np.arange(len(traces))
    found = [
        Measured(task.name, name, of(everything), n, *interval(conversations, of), group, source)
        for name, (n, of) in figures.items()
    ]
    error = ece([decision.confidence for decision in decisions], right)
    return [*found, Measured(task.name, "ece", error, len(pairs), group=group, data=source)]


def _likeliest(decision: Decision, most: int) -> list[str]:
    """The best candidates, whatever the probability of none."""
    shares = {label: share for label, share in decision.probabilities.items() if label != "none"}
    return sorted(shares, key=lambda label: -shares[label])[:most] or list(decision.labels)
