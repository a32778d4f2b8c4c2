"""How well a decider answers tasks of closed label spaces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import InputError
from intentmem.memory.protocols import Decider, Embedder
from intentmem.memory.tasks import TASKS, Decision, Item, Task

from ..calibration import ece
from ..students.closed import group_names
from ..traces import Trace, belongs
from ..training.outcome import Measured
from .intervals import Places, interval

_BATCH = 256
Floats = NDArray[np.float64]


def evaluate(
    decider: Decider, traces: Sequence[Trace], embedder: Embedder | None = None, *, task: Task | None = None
) -> list[Measured]:
    """Figures of a decider on traces of one closed task, with 95% intervals by conversation.

    `macro_f1`, averaged over the groups where there are several, and `macro_f1_<group>` of each; `exact`, the share of
    items with all groups right; `ece` of the confidence; `ndcg`, over the texts that were weighed for one first field,
    where the task ranks.

    Args:
        embedder: gives items the vector of their main field, for deciders that need it.
        task: the declaration; None takes the built-in one of the traces.

    Raises:
        InputError: no traces, of several tasks, or of another version of the task.
    """
    known = task_of(traces, task)
    items = items_of(known, traces, embedder)
    return measure(known, decided(decider, known, items), traces)


def task_of(traces: Sequence[Trace], task: Task | None) -> Task:
    """The task that all traces belong to.

    Raises:
        InputError: there is no such task.
    """
    names = sorted({trace.task for trace in traces})
    found = task or (TASKS.get(names[0]) if names else None)
    if found is None:
        raise InputError("traces", f"are of {names[0]!r}, no built-in task" if names else "are none", "give the task")
    if wrong := next((reason for trace in traces if (reason := belongs(found, trace))), ""):
        raise InputError("traces", f"hold one that {wrong}")
    return found


def items_of(task: Task, traces: Sequence[Trace], embedder: Embedder | None) -> list[Item]:
    """What was asked, with the vector of the main field where there is an embedder."""
    items = [trace.item() for trace in traces]
    if embedder is None:
        return items
    main = [str(item.fields[task.fields[0].name]) for item in items]
    texts = list(dict.fromkeys(main))
    vectors = dict(zip(texts, embedder.encode(texts, "query"), strict=True))
    return [Item(item.fields, item.candidates, vectors[text]) for item, text in zip(items, main, strict=True)]


def decided(decider: Decider, task: Task, items: Sequence[Item]) -> list[Decision]:
    """Decisions on all items, each checked against the label space."""
    found: list[Decision] = []
    for start in range(0, len(items), _BATCH):
        batch = items[start : start + _BATCH]
        found += [task.check(item, made) for item, made in zip(batch, decider.decide(task, batch), strict=True)]
    return found


def measure(task: Task, decisions: Sequence[Decision], traces: Sequence[Trace]) -> list[Measured]:
    """As `evaluate`, of decisions that are at hand; one set of figures for all, one for each `group` of the traces."""
    groups = sorted({group for trace in traces if (group := trace.meta.get("group"))})
    found = _figures(task, decisions, traces, "all")
    for group in groups:
        places = [place for place, trace in enumerate(traces) if trace.meta.get("group") == group]
        found += _figures(task, [decisions[p] for p in places], [traces[p] for p in places], group)
    return found


def _figures(task: Task, decisions: Sequence[Decision], traces: Sequence[Trace], group: str) -> list[Measured]:
    wanted = [trace.labels for trace in traces]
    given = [decision.labels for decision in decisions]
    right = np.array([a == b for a, b in zip(given, wanted, strict=True)], np.float64)
    coded = _Coded(task, wanted, given)
    figures: dict[str, Callable[[Places], float]] = {"macro_f1": coded.macro_f1}
    if len(task.groups) > 1:
        figures |= {f"macro_f1_{one.name}": coded.of_group(number) for number, one in enumerate(task.groups)}
    figures["exact"] = lambda places: float(right[places].mean())
    conversations = [trace.conversation for trace in traces]
    source = source_of(traces)
    found = [
        Measured(task.name, name, of(np.arange(len(traces))), len(traces), *interval(conversations, of), group, source)
        for name, of in figures.items()
    ]
    if task.metric == "ndcg":
        found.append(_ranking(task, decisions, traces, group, source))
    error = ece([decision.confidence for decision in decisions], right)
    return [*found, Measured(task.name, "ece", error, len(traces), group=group, data=source)]


class _Coded:
    """Labels as numbers, so that an interval counts them quickly."""

    def __init__(self, task: Task, wanted: Sequence[Sequence[str]], given: Sequence[Sequence[str]]) -> None:
        self._sizes = [len(names) for names in group_names(task)]
        codes = [{name: code for code, name in enumerate(names)} for names in group_names(task)]
        self._pairs = np.array(
            [
                [codes[g][right[g]] * size + codes[g][said[g]] for g, size in enumerate(self._sizes)]
                for right, said in zip(wanted, given, strict=True)
            ],
            np.int64,
        )

    def macro_f1(self, places: Places) -> float:
        """Mean over the groups."""
        return float(np.mean([self.of_group(number)(places) for number in range(len(self._sizes))]))

    def of_group(self, number: int) -> Callable[[Places], float]:
        """Macro-F1 of one group."""
        size = self._sizes[number]

        def figure(places: Places) -> float:
            counts = np.bincount(self._pairs[places, number], minlength=size * size).reshape(size, size)
            return _mean_f1(counts.astype(np.float64))

        return figure


def macro_f1(wanted: Sequence[int], given: Sequence[int]) -> float:
    """Mean F1 over the labels that occur in either."""
    size = max([*wanted, *given], default=0) + 1
    counts = np.zeros((size, size))
    np.add.at(counts, (np.asarray(wanted, int), np.asarray(given, int)), 1)
    return _mean_f1(counts)


def _mean_f1(counts: Floats) -> float:
    hits, total = np.diag(counts), counts.sum(axis=0) + counts.sum(axis=1)
    used = total > 0
    return float((2 * hits[used] / total[used]).mean()) if used.any() else 0.0


def ndcg(gains: Sequence[float], scores: Sequence[float]) -> float:
    """Normalised discounted gain of a ranking by score (Järvelin and Kekäläinen, 2002); 1 where nothing is to gain."""
    discounts = 1 / np.log2(np.arange(len(gains)) + 2)
    given = np.asarray(gains)[np.argsort(-np.asarray(scores), kind="stable")]
    best = float((np.sort(gains)[::-1] * discounts).sum())
    return float((given * discounts).sum()) / best if best else 1.0


def grade(task: Task, shares: Mapping[str, float]) -> float:
    """What a text is ranked by: its first label counts most, its last nothing; in [0, 1]."""
    names = group_names(task)[0]
    return sum(shares.get(name, 0.0) * (1 - place / (len(names) - 1)) for place, name in enumerate(names))


def _ranking(task: Task, decisions: Sequence[Decision], traces: Sequence[Trace], group: str, source: str) -> Measured:
    lists: dict[tuple[str, object], list[int]] = defaultdict(list)
    for place, trace in enumerate(traces):
        lists[trace.conversation, trace.fields[task.fields[0].name]].append(place)
    values, owners = [], []
    for (conversation, _), places in lists.items():
        gains = [grade(task, dict.fromkeys(traces[place].labels, 1.0)) for place in places]
        if len(places) > 1 and any(gains):
            values.append(ndcg(gains, [grade(task, decisions[place].probabilities) for place in places]))
            owners.append(conversation)
    scores = np.array(values)
    if not len(scores):
        return Measured(task.name, "ndcg", float("nan"), 0, group=group, data=source)

    def mean(places: Places) -> float:
        return float(scores[places].mean())

    return Measured(task.name, "ndcg", float(scores.mean()), len(scores), *interval(owners, mean), group, source)


def source_of(traces: Sequence[Trace]) -> str:
    """Names of the data that traces come from."""
    return "+".join(sorted({trace.meta.get("source") or trace.teacher.removeprefix("gold:") for trace in traces}))
