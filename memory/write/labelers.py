"""Labels beyond the built-in ones: a task of the user's own, decided for every turn."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import InputError
from ..protocols import Decider
from ..store import Store
from ..tasks import TASKS, Candidates, Item, Space, Task
from ..types import Scored, Turn

FIELDS = ("turn", "speaker", "before")
"""What a turn can be asked about: its text, who speaks, and the text of the turn before it."""
_BATCH = 256


@dataclass(frozen=True, slots=True)
class Labeler:
    """A task about single turns and who decides it.

    options: the labels of an open task, or one with candidates; a closed task has its own.

    Raises:
        InputError: the task needs a field that a turn does not have, or bears the name of a built-in one.
    """

    task: Task
    decider: Decider
    options: Candidates = field(default_factory=Candidates)

    def __post_init__(self) -> None:
        if self.task.name in TASKS:
            raise InputError("task.name", f"{self.task.name!r} is a built-in task", "choose another name")
        if unknown := [f.name for f in self.task.fields if f.required and f.name not in FIELDS]:
            raise InputError(
                f"task.fields.{unknown[0]}", "cannot be read from a turn", f"fields of a turn: {', '.join(FIELDS)}"
            )

    def label(self, turns: Sequence[Turn], before: Mapping[int, Turn]) -> dict[int, tuple[Scored, ...]]:
        """Labels of turns by row; `before` holds the turn before each, by row, where there is one."""
        items = [self._item(turn, before.get(turn.row)) for turn in turns]
        decided = self.decider.decide(self.task, items)
        found = {}
        for turn, item, decision in zip(turns, items, decided, strict=True):
            self.task.check(item, decision)
            given = () if decision.unsure and self.task.space is not Space.CLOSED else decision.labels
            found[turn.row] = tuple(Scored(name, float(decision.probabilities.get(name, 1.0))) for name in given)
        return found

    def _item(self, turn: Turn, before: Turn | None) -> Item:
        values = {
            "turn": turn.searchable_text,
            "speaker": turn.speaker or turn.role,
            "before": before.searchable_text if before else None,
        }
        wanted = {f.name for f in self.task.fields}
        fields = {name: value for name, value in values.items() if name in wanted and value}
        if "before" in {f.name for f in self.task.fields if f.required}:
            fields.setdefault("before", "")
        return Item(fields, self.options, turn=turn)


class Labelers:
    """The labelers of a memory. They may be exchanged while it runs."""

    def __init__(self, store: Store, labelers: Sequence[Labeler] = ()) -> None:
        self._store = store
        self.all = tuple(labelers)

    def label(
        self, namespace: int, turns: Sequence[Turn], seconds: dict[str, float]
    ) -> list[tuple[Labeler, dict[int, tuple[Scored, ...]]]]:
        """Each labeler's labels of turns of one namespace; `seconds` by task is added to."""
        if not self.all or not turns:
            return []
        before = self._before(namespace, turns)
        found = []
        for labeler in self.all:
            started = time.perf_counter()
            found.append((labeler, labeler.label(turns, before)))
            seconds[labeler.task.name] = seconds.get(labeler.task.name, 0.0) + time.perf_counter() - started
        return found

    def catch_up(self, namespace: int) -> int:
        """Label every turn that a labeler has not seen as it is now; returns how many labels of turns were set."""
        done = 0
        for labeler in self.all:
            name, who = labeler.task.name, labeler.decider.name
            while rows := self._store.turn_labels.unlabelled(namespace, name, who, _BATCH):
                turns = list(self._store.turns.by_rows(namespace, rows).values())
                given = labeler.label(turns, self._before(namespace, turns))
                with self._store.database.write() as connection:
                    self._store.turn_labels.put(connection, namespace, name, given, who)
                    self._store.namespaces.bump(connection, namespace)
                done += len(turns)
        return done

    def _before(self, namespace: int, turns: Sequence[Turn]) -> dict[int, Turn]:
        if not any("before" in {f.name for f in labeler.task.fields} for labeler in self.all):
            return {}
        found: dict[int, Turn] = {}
        for trajectory in {turn.trajectory for turn in turns}:
            mine = [turn for turn in turns if turn.trajectory == trajectory]
            seqs = [turn.seq for turn in mine]
            span = self._store.turns.span(namespace, trajectory, max(0, min(seqs) - 1), max(seqs))
            place = {turn.row: at for at, turn in enumerate(span)}
            found |= {turn.row: span[place[turn.row] - 1] for turn in mine if place.get(turn.row, 0) > 0}
        return found
