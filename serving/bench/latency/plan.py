"""What to measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import TASKS, Candidates, Task

WRITE, READ = "write", "read"
PATHS = (WRITE, READ)
"""Groups beside the tasks: the whole write path and the whole read path."""


@dataclass(frozen=True, slots=True)
class LatencyPlan:
    """What to measure.

    Args:
        subjects: who decides, by the names of `subjects.SUBJECTS`.
        path: the published file or folder of a corpus; None takes the sample that ships.
        corpus: its name, or "auto".
        groups: names of tasks, `write` and `read`; None takes all.
        requests: of each load, each about something else: caches of texts and prompts would flatter repeated ones.
        concurrencies: of the closed loop; rates: requests a second of the open loop; seed: of its arrivals.
        warmup: requests after the first one that are left out of every figure but their own.
        limit_ms: a request within it counts as goodput.
        teacher: the subject whose answers the others are compared with; None compares with traces where given.
        traces: JSON lines of a teacher's traces; their tasks take items and expected answers from there.
        batch: items of one request.
        budget: tokens of a context.
        check: time the stream with a second client.
        tasks: declarations of the user's own beside the built-in ones; labels: what those of them that are open offer.
        overrides: groups of settings that win over file and environment.
        options: what subjects need beyond the settings: `api_url`, `api_model`, `api_key`, `server_flags`,
            `cascade_teacher`, and of the stand-in `delay_ms`, `token_delay_ms`, `thinking`, `fail_every`.
    """

    subjects: Sequence[str]
    path: Path | None = None
    corpus: str = "auto"
    groups: Sequence[str] | None = None
    requests: int = 48
    concurrencies: Sequence[int] = (1, 4)
    rates: Sequence[float] = ()
    seed: int = 0
    warmup: int = 3
    limit_ms: float = 1000.0
    teacher: str | None = None
    traces: Path | None = None
    batch: int = 1
    budget: int = 1024
    check: bool = False
    prices: Path | None = None
    samples: int = 1000
    tasks: Mapping[str, Task] = field(default_factory=dict)
    labels: Mapping[str, Candidates] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("subjects", "concurrencies"):
            if not getattr(self, name):
                raise InputError(name, "is empty", "name at least one")
        for name, least in (("requests", 1), ("warmup", 0), ("batch", 1), ("budget", 1), ("samples", 1)):
            number = getattr(self, name)
            if number is not None and number < least:
                raise InputError(name, f"is {number}", f"at least {least}")
        if self.limit_ms <= 0:
            raise InputError("limit_ms", f"is {self.limit_ms}", "a time above 0, in milliseconds")
        if any(number < 1 for number in self.concurrencies):
            raise InputError("concurrencies", f"hold a number below 1: {list(self.concurrencies)}")
        if any(not rate > 0 for rate in self.rates):
            raise InputError("rates", f"hold a rate that is not above 0: {list(self.rates)}")
        if len(set(self.subjects)) != len(self.subjects):
            raise InputError("subjects", "name one twice")
        known = (*self.known, *PATHS)
        if unknown := [name for name in self.groups or () if name not in known]:
            raise InputError("groups", f"{unknown[0]!r} is unknown", f"known: {', '.join(known)}")
        if self.teacher is not None and self.teacher not in self.subjects:
            raise InputError("teacher", f"{self.teacher!r} is not among the subjects", "measure it in the same run")

    @property
    def known(self) -> dict[str, Task]:
        """Tasks by name, the user's own after the built-in ones."""
        return {**TASKS, **self.tasks}

    @property
    def wanted(self) -> tuple[str, ...]:
        """The groups to measure, in order."""
        return tuple(self.groups) if self.groups else (*self.known, *PATHS)

    @property
    def different(self) -> int:
        """Requests of one subject and group in all, from the first one on."""
        return 1 + self.warmup + self.requests * (len(self.concurrencies) + len(self.rates))

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON values for a report, without any secret."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("path", "traces", "prices"):
            plain[name] = str(plain[name]) if plain[name] else None
        return {
            **plain,
            "requests_in_all": self.different,
            "groups": self.wanted,
            "tasks": {name: task.hash for name, task in self.tasks.items()},
            "labels": {name: list(offered.ids) for name, offered in self.labels.items()},
            "overrides": {group: _without_secrets(values) for group, values in self.overrides.items()},
            "options": _without_secrets(self.options),
        }


def _without_secrets(values: Any) -> Any:
    if not isinstance(values, Mapping):
        return values
    shown = {name: "***" if "key" in name else value for name, value in values.items() if value is not None}
    return {name: str(value) if isinstance(value, Path) else value for name, value in shown.items()}
