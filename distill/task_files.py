"""A task of the user's own, declared in a TOML file and nowhere else.

    name = "tone"
    question = "How does the speaker feel?"          # what a teacher is told
    space = "closed"                                 # one label; "open": any number, also none
    [[fields]]
    name = "turn"
    description = "What was said."
    [labels]
    angry = "upset, or complaining"
    calm = "anything else"

A closed task of several groups has `[groups.NAME]` tables of labels in the place of `[labels]`. A task with candidates
(`space = "candidates"`) has none: they come with each item.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import TASKS, Field, Group, Option, Space, Task

from .traces import NO_LABELS, LabelSet

_KEYS = {"name", "question", "space", "fields", "labels", "groups", "metric", "unsure"}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_METRICS = {Space.CLOSED: "macro_f1", Space.OPEN: "micro_f1", Space.CANDIDATES: "top1"}
_TURN = {"name": "turn", "description": "What was said."}


@dataclass(frozen=True, slots=True)
class DeclaredTask:
    """A task and, where it is open, the labels that it starts with (`name: description` as their texts)."""

    task: Task
    labels: LabelSet = NO_LABELS


def find_task(name_or_file: str) -> DeclaredTask:
    """A built-in task by name, or one that a TOML file declares.

    Raises:
        InputError: neither; or the file is not a task.
    """
    if name_or_file in TASKS:
        return DeclaredTask(TASKS[name_or_file])
    path = Path(name_or_file).expanduser()
    if path.suffix != ".toml" and not path.is_file():
        known = ", ".join(TASKS)
        raise InputError(
            "task", f"{name_or_file!r} is no built-in task and no file", f"known: {known}; or a .toml file"
        )
    return read_task(path)


def read_task(path: Path) -> DeclaredTask:
    """The task that a file declares.

    Raises:
        InputError: names the key and what to put there.
    """
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError("task", f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError("task", f"{path} is not TOML: {error}") from error
    if unknown := sorted(set(values) - _KEYS):
        raise InputError(f"task.{unknown[0]}", "is not a key of a task", f"known: {', '.join(sorted(_KEYS))}")
    name, space = _required(values, "name"), _space(values)
    if not _NAME.fullmatch(name) or name in TASKS:
        raise InputError("task.name", f"{name!r} cannot be used", "lower-case letters, digits, _; no built-in name")
    labels, groups = _labels(values, name, space)
    task = Task(
        name=name,
        question=_required(values, "question"),
        fields=tuple(_field(entry) for entry in values.get("fields") or [_TURN]),
        space=space,
        groups=groups,
        metric=str(values.get("metric", _METRICS[space])),
        unsure=str(values.get("unsure", "")),
    )
    _check_fields(task)
    return DeclaredTask(task, labels)


def _required(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"task.{key}", "is missing or empty")
    return value.strip()


def _space(values: Mapping[str, Any]) -> Space:
    try:
        return Space(values.get("space", "closed"))
    except ValueError:
        raise InputError("task.space", f"is {values['space']!r}", "closed, open or candidates") from None


def _labels(values: Mapping[str, Any], name: str, space: Space) -> tuple[LabelSet, tuple[Group, ...]]:
    if space is Space.CANDIDATES:
        if "labels" in values or "groups" in values:
            raise InputError("task.labels", "have no place here", "the candidates of this task come with each item")
        return NO_LABELS, ()
    if space is Space.OPEN:
        options = _options("labels", values.get("labels"))
        return LabelSet(tuple(o.name for o in options), tuple(f"{o.name}: {o.description}" for o in options)), ()
    if "groups" in values:
        if "labels" in values or not isinstance(values["groups"], dict):
            raise InputError("task.groups", "must be tables of labels, without `labels` beside them")
        groups = tuple(Group(key, _options(f"groups.{key}", given)) for key, given in values["groups"].items())
    else:
        groups = (Group(name, _options("labels", values.get("labels"))),)
    names = [option.name for group in groups for option in group.options]
    if len(set(names)) < len(names):
        raise InputError("task.groups", "share a label", "give each label of a task a name of its own")
    return NO_LABELS, groups


def _options(key: str, given: Any) -> tuple[Option, ...]:
    if not isinstance(given, dict) or len(given) < 2 or not all(isinstance(text, str) for text in given.values()):
        raise InputError(
            f"task.{key}", "must be a table of at least two labels", 'like angry = "upset, or complaining"'
        )
    if empty := [label for label, text in given.items() if not text.strip() or not label.strip()]:
        raise InputError(f"task.{key}.{empty[0]}", "has no description", "say what it means: students read it")
    return tuple(Option(label, text.strip()) for label, text in given.items())


def _field(entry: Any) -> Field:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"].isidentifier():
        raise InputError("task.fields", f"{entry!r} has no usable name", 'like name = "turn"')
    if unknown := sorted(set(entry) - {"name", "description", "many", "required"}):
        raise InputError(f"task.fields.{entry['name']}.{unknown[0]}", "is not a key of a field")
    return Field(
        entry["name"],
        str(entry.get("description", "")),
        bool(entry.get("many", False)),
        bool(entry.get("required", True)),
    )


def _check_fields(task: Task) -> None:
    names = [field.name for field in task.fields]
    if len(set(names)) < len(names):
        raise InputError("task.fields", "has a name twice")
    if not task.fields[0].required or task.fields[0].many:
        raise InputError(f"task.fields.{names[0]}", "is the main field", "it must be one required text")
