"""Students of a user's own tasks, put on every turn."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from intentmem.memory.errors import InputError
from intentmem.memory.protocols import Decider
from intentmem.memory.tasks import TASKS, Candidates, Decision, Item, Space, Task
from intentmem.memory.write.labelers import Labeler

from .artifacts import Artifact

_log = logging.getLogger(__name__)


class _Named:
    """Students, under the name of the one that answers a task: its labels are known by it."""

    reads_window = False

    def __init__(self, students: Decider, name: str) -> None:
        self._students, self.name = students, name

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        return self._students.decide(task, items)


def own_labelers(students: Decider, artifacts: Sequence[Artifact]) -> list[Labeler]:
    """Labelers of those artifacts whose tasks are the user's own and can be read from a turn.

    Args:
        students: answers the tasks of all of them.
    """
    found = []
    for artifact in artifacts:
        task = artifact.task
        if task.name in TASKS or task.space is Space.CANDIDATES:
            continue
        options = _options(artifact)
        if task.space is Space.OPEN and not len(options):
            _log.warning("the student of %r states no labels and puts none on turns: train it again", task.name)
            continue
        try:
            found.append(Labeler(task, _Named(students, artifact.manifest.decider), options))
        except InputError:
            continue  # a task about something else than single turns, to be asked through the Python API
    return found


def _options(artifact: Artifact) -> Candidates:
    """The labels that an open task's student was offered when it was taught; a closed task has its own."""
    if artifact.task.space is not Space.OPEN:
        return Candidates()
    labels = artifact.manifest.options.get("labels") or {}
    return Candidates(tuple(labels), tuple(labels.values()))
