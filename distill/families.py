"""The families of students: what each is called in a manifest, and the code that it stands for.

A manifest names a family, never code: what is not in this table does not load.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol, cast

from intentmem.memory.errors import ArtifactError
from intentmem.memory.tasks import RECORD_SPANS, SCOPE, Space, Task
from intentmem.memory.types import Vector

from .students.base import Student


class StudentClass(Protocol):
    """How a student is made from what was stored."""

    def from_head(self, task: Task, adapter: str, head: Mapping[str, Vector], options: Mapping[str, object]) -> Student:
        """A student of a task, on an adapter by name."""
        ...


CLASSES: dict[str, str] = {
    "sequence": "intentmem.distill.students.sequence:SequenceStudent",
    "open": "intentmem.distill.students.open:OpenStudent",
    "closed": "intentmem.distill.students.closed:ClosedStudent",
    "candidates": "intentmem.distill.students.candidates:CandidatesStudent",
    "spans": "intentmem.distill.students.spans:SpansStudent",
}
"""Class of each family, as `module:name`; imported when a student of it is loaded."""

_BY_SPACE = {Space.CLOSED: "closed", Space.CANDIDATES: "candidates", Space.OPEN: "open"}
_BY_NAME = {SCOPE.name: "sequence", RECORD_SPANS.name: "spans"}


def family_for(task: Task) -> str:
    """The family that answers a task: by its label space, except for scopes, decided in sequence, and for values."""
    return _BY_NAME.get(task.name) or _BY_SPACE[task.space]


def family_of(student: Student) -> str:
    """The family of a student.

    Raises:
        ArtifactError: its class is in no family, so that it could be written but never read.
    """
    own = f"{type(student).__module__}:{type(student).__qualname__}"
    for family, reference in CLASSES.items():
        if reference == own:
            return family
    raise ArtifactError("student", f"{own} is of no known family", f"known: {', '.join(CLASSES)}")


def student_class(family: str) -> StudentClass:
    """The class of a family.

    Raises:
        ArtifactError: there is no such family.
    """
    if family not in CLASSES:
        raise ArtifactError("manifest.family", f"is {family!r}", f"known: {', '.join(CLASSES)}; upgrade intentmem")
    module, _, name = CLASSES[family].partition(":")
    return cast(StudentClass, getattr(import_module(module), name))


def part(room: str, family: str) -> ModuleType:
    """A family's module of `training`, `gold` or `evaluation`."""
    return import_module(f"intentmem.distill.{room}.{family}")


def function(module: ModuleType, name: str) -> Any:
    """A function of a family's module, None where it has none."""
    return getattr(module, name, None)
