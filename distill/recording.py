"""Every decision of a teacher kept as a trace, whoever asked for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from intentmem.memory.errors import DecisionError
from intentmem.memory.protocols import Decider
from intentmem.memory.store import Store
from intentmem.memory.tasks import Decision, Item, Task

from .trace_files import row_of
from .traces import LabelSet, Trace

Sink = Callable[[Sequence[Trace]], object]


class RecordingDecider:
    """Passes on to a teacher and hands what it decided about stored turns to a sink.

    Questions are not recorded: they belong to no turn, with which they could be erased.

    Args:
        prompts: digests of the teacher's prompts by name; they stand on each trace together.
    """

    def __init__(self, teacher: Decider, sink: Sink, prompts: Mapping[str, str] | None = None) -> None:
        self._teacher = teacher
        self._sink = sink
        self._prompt = " ".join(f"{name}:{digest}" for name, digest in sorted((prompts or {}).items()))
        self._options: dict[int, tuple[object, LabelSet]] = {}

    @property
    def name(self) -> str:
        """The teacher's."""
        return self._teacher.name

    @property
    def reads_window(self) -> bool:
        """As the teacher does."""
        return self._teacher.reads_window

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        """As the teacher decides; what is off the list of labels, or somebody else's in its place, is not recorded."""
        decided = self._teacher.decide(task, items)
        made = [
            self.trace(task, item, decision)
            for item, decision in zip(items, decided, strict=True)
            if item.turn is not None and decision.decided_by == self._teacher.name and _offered(task, item, decision)
        ]
        if made:
            self._sink(made)
        return decided

    def trace(self, task: Task, item: Item, decision: Decision) -> Trace:
        """A decision as a trace."""
        turn = item.turn
        return Trace(
            task=task.name,
            task_hash=task.hash,
            fields={name: value if isinstance(value, str) else tuple(value) for name, value in item.fields.items()},
            labels=decision.labels,
            teacher=decision.decided_by,
            conversation=turn.trajectory if turn else "",
            seq=turn.seq if turn else 0,
            options=self._shared(item),
            probabilities=dict(decision.probabilities),
            prompt=self._prompt,
            turn=turn.id if turn else None,
            time=datetime.now(UTC),
            meta=_about(item),
        )

    def _shared(self, item: Item) -> LabelSet:
        """The item's candidates, one object for all items that share them."""
        known = self._options.get(id(item.candidates))
        if known is None or known[0] is not item.candidates:
            if len(self._options) > 64:
                self._options.clear()
            # The candidates are held beside, so that their id cannot be another's meanwhile.
            known = self._options[id(item.candidates)] = (
                item.candidates,
                LabelSet(item.candidates.ids, item.candidates.texts),
            )
        return known[1]


def into_store(store: Store) -> Sink:
    """A sink that keeps traces in a memory, each beside its turn: a decision that cannot be kept is no failure."""

    def keep(traces: Sequence[Trace]) -> None:
        for namespace, mine in _by_namespace(traces).items():
            rows = [row_of(trace, _reach(trace)) for trace in mine]
            store.traces.add(store.namespaces.ordinal(namespace), rows)

    return keep


def _offered(task: Task, item: Item, decision: Decision) -> bool:
    try:
        task.check(item, decision)
    except DecisionError:
        return False
    return True


def _by_namespace(traces: Iterable[Trace]) -> dict[str, list[Trace]]:
    found: dict[str, list[Trace]] = {}
    for trace in traces:
        found.setdefault(trace.meta["namespace"], []).append(trace)
    return found


def _about(item: Item) -> dict[str, str]:
    turn = item.turn
    if turn is None:
        return {}
    about = {"role": turn.role, "turn_time": turn.time.isoformat(), "namespace": turn.namespace}
    return about | ({"session": turn.session} if turn.session else {})


def _reach(trace: Trace) -> int:
    """How many turns before its own a trace quotes."""
    return max(len(trace.fields.get("window", ())), int(bool(trace.fields.get("before"))))
