"""How well a decider gives labels of open vocabularies, against the labels of traces.

Of a task with metric `top1`: `top1`, whether the first label given is one of the turn's own (a turn may have several);
`top5`, whether one of the five likeliest is; `accuracy_70`, `top1` among the 70% of turns it is surest of. Of every
task: `micro_f1` over all pairs of turn and label; `coarse_micro_f1`, the same after each label gave way to its family;
`exact`, whether the sets are equal; `ece` of the confidence. Groups: `all`; those that traces name (`seen` and `unseen`
services); `unseen labels`, turns none of whose labels was taught.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import InputError
from intentmem.memory.protocols import Decider, Embedder
from intentmem.memory.tasks import ENTITY_TYPES, TASKS, Candidates, Decision, Item, Task
from intentmem.memory.types import Vector

from ..calibration import ece
from ..judging import agree
from ..students.open_reading import read
from ..traces import Trace, belongs
from ..training.outcome import Measured
from .intervals import Places, interval
from .label_families import family

UNSEEN_LABELS = "unseen labels"
_BATCH = 256
_COVERAGE = 0.7
Counts = NDArray[np.int64]


def evaluate(
    decider: Decider,
    traces: Sequence[Trace],
    embedder: Embedder | None = None,
    *,
    task: Task | None = None,
    taught: Collection[str] | None = None,
) -> list[Measured]:
    """Figures of a decider on traces of open tasks, each with its 95% interval by conversation.

    Args:
        embedder: gives items and labels their vectors, for deciders that need them.
        task: the declaration of a user's own task; None takes the built-in ones of the traces.
        taught: names of the labels that training knew; None asks the decider's student, if it is one.

    Raises:
        InputError: no traces, of an unknown task, or of another version of it.
    """
    found: list[Measured] = []
    for name in sorted({trace.task for trace in traces}):
        known = task if task is not None and task.name == name else TASKS.get(name)
        if known is None:
            raise InputError("traces", f"are of {name!r}, no built-in task", "give the task")
        own = [trace for trace in traces if trace.task == name]
        if wrong := next((reason for trace in own if (reason := belongs(known, trace))), ""):
            raise InputError("traces", f"hold one that {wrong}")
        items = items_of(known, own, embedder)
        decisions: list[Decision] = []
        for start in range(0, len(items), _BATCH):
            batch = items[start : start + _BATCH]
            decisions += [known.check(i, d) for i, d in zip(batch, decider.decide(known, batch), strict=True)]
        found += measure(known, decisions, own, _taught(decider, known) if taught is None else taught)
    if not found:
        raise InputError("traces", "are none")
    return found


def items_of(task: Task, traces: Sequence[Trace], embedder: Embedder | None) -> list[Item]:
    """What was asked; items that were offered the same labels share one object of candidates."""
    offers = {trace.options.key: trace.options for trace in traces}
    made = {key: Candidates(one.ids, one.texts, _encoded(embedder, one.texts, "label")) for key, one in offers.items()}
    items = [Item(dict(trace.fields), made[trace.options.key]) for trace in traces]
    if embedder is None:
        return items
    texts = [read(task, item).text for item in items]
    kept = list(dict.fromkeys(texts))
    vectors = dict(zip(kept, embedder.encode(kept, "passage"), strict=True))
    return [replace(item, vector=vectors[text]) for item, text in zip(items, texts, strict=True)]


def measure(
    task: Task, decisions: Sequence[Decision], traces: Sequence[Trace], taught: Collection[str] = ()
) -> list[Measured]:
    """As `evaluate`, of decisions that are at hand."""
    places = np.arange(len(traces))
    groups: dict[str, Places] = {"all": places}
    for name in sorted({group for trace in traces if (group := trace.meta.get("group"))}):
        groups[name] = np.flatnonzero([trace.meta.get("group") == name for trace in traces])
    if taught:
        known = set(taught)
        fresh = [
            bool(trace.labels) and not any(label_name(trace, label) in known for label in trace.labels)
            for trace in traces
        ]
        groups[UNSEEN_LABELS] = np.flatnonzero(fresh)
    return [
        figure
        for group, inside in groups.items()
        if len(inside)
        for figure in _figures(task, [decisions[p] for p in inside], [traces[p] for p in inside], group)
    ]


def label_name(trace: Trace, label: str) -> str:
    """The name in the text of one of a trace's options."""
    return trace.options.texts[trace.options.ids.index(label)].partition(": ")[0]


def _figures(task: Task, decisions: Sequence[Decision], traces: Sequence[Trace], group: str) -> list[Measured]:
    answers = list(zip(decisions, traces, strict=True))
    right = np.array([agree(task, decision.labels, trace.labels) for decision, trace in answers], np.float64)
    confidence = np.array([decision.confidence for decision in decisions])
    figures: dict[str, Callable[[Places], float]] = {}
    if task.metric == "top1":
        first = np.array([float(bool(set(d.labels[:1]) & set(t.labels))) for d, t in answers])
        five = np.array([float(bool(set(_likeliest(d)[:5]) & set(t.labels))) for d, t in answers])
        figures |= {"top1": _mean(first), "top5": _mean(five), "accuracy_70": _surest(first, confidence)}
    figures["micro_f1"] = _micro_f1([_counts(set(d.labels), set(t.labels)) for d, t in answers])
    if task.name == ENTITY_TYPES.name:
        names = _Families(traces)
        figures["coarse_micro_f1"] = _micro_f1(
            [_counts(names.of(t, d.labels), names.of(t, t.labels)) for d, t in answers]
        )
    figures["exact"] = _mean(np.array([float(set(d.labels) == set(t.labels)) for d, t in answers]))
    conversations, source = [trace.conversation for trace in traces], _source(traces)
    everything, n = np.arange(len(traces)), len(traces)
    found = [
        Measured(task.name, name, of(everything), n, *interval(conversations, of), group, source)
        for name, of in figures.items()
    ]
    return [*found, Measured(task.name, "ece", ece(confidence, right), n, group=group, data=source)]


class _Families:
    """Families of labels, each read once."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        offers = {trace.options.key: trace.options for trace in traces}
        self._of = {
            key: {label: family(text) for label, text in zip(one.ids, one.texts, strict=True)}
            for key, one in offers.items()
        }

    def of(self, trace: Trace, labels: Sequence[str]) -> set[str]:
        """Families of labels that were offered with a trace."""
        return {self._of[trace.options.key][label] for label in labels}


def _likeliest(decision: Decision) -> list[str]:
    """The labels given, then the others by probability."""
    others = [label for label in decision.probabilities if label not in decision.labels]
    return [*decision.labels[:1], *sorted({*decision.labels[1:], *others}, key=_by_chance(decision))]


def _by_chance(decision: Decision) -> Callable[[str], Any]:
    return lambda label: (-decision.probabilities.get(label, 0.0), label)


def _mean(values: NDArray[np.float64]) -> Callable[[Places], float]:
    return lambda places: float(values[places].mean())


def _surest(right: NDArray[np.float64], confidence: NDArray[np.float64]) -> Callable[[Places], float]:
    def of(places: Places) -> float:
        order = places[np.argsort(-confidence[places], kind="stable")]
        return float(right[order[: max(1, round(_COVERAGE * len(order)))]].mean())

    return of


def _counts(given: set[str], wanted: set[str]) -> tuple[int, int]:
    """Twice the hits, and the sizes of both sets together."""
    return 2 * len(given & wanted), len(given) + len(wanted)


def _micro_f1(counts: Sequence[tuple[int, int]]) -> Callable[[Places], float]:
    table = np.array(counts, np.float64)

    def of(places: Places) -> float:
        hits, size = table[places].sum(axis=0)
        return float(hits / size) if size else 1.0

    return of


def _encoded(embedder: Embedder | None, texts: Sequence[str], kind: Any) -> Vector | None:
    return None if embedder is None or not texts else np.asarray(embedder.encode(texts, kind), np.float32)


def _taught(decider: Decider, task: Task) -> Collection[str]:
    student = getattr(decider, "students", {}).get(task.name)
    return getattr(getattr(student, "settings", None), "taught", ())


def _source(traces: Sequence[Trace]) -> str:
    return ", ".join(sorted({trace.teacher for trace in traces}))
