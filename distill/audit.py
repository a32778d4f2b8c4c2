"""Whether a student still agrees with its teacher in service: a sample, a window, an alarm that outlives a restart."""

from __future__ import annotations

import json
import logging
import os
import random
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from intentmem.memory.errors import InputError

from .thresholds import upper_bound

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """How a student is watched.

    rate: share of confident decisions that the teacher sees too. window: audits that count, the latest.
    target: agreement below which it is demoted, once its one-sided 95% upper bound falls short of it; at least
    `fewest` audits are awaited.
    """

    rate: float = 0.02
    window: int = 200
    target: float = 0.9
    fewest: int = 30

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise InputError("rate", f"is {self.rate}", "a share between 0 and 1")
        if not 0 < self.target < 1:
            raise InputError("target", f"is {self.target}", "a share between 0 and 1")
        if not 1 <= self.fewest <= self.window:
            raise InputError("fewest", f"is {self.fewest}", f"from 1 to the window of {self.window}")


class Audit:
    """Agreement by task over a window, kept in a file.

    Args:
        path: the file; None keeps nothing.
        plan: rate, window and alarm.
        seed: of the sample.
    """

    def __init__(self, path: Path | None, plan: AuditPlan | None = None, seed: int = 0) -> None:
        self.plan = plan or AuditPlan()
        self._path = path
        self._draw = random.Random(seed)
        self._lock = threading.Lock()
        self._recent: dict[str, deque[bool]] = {}
        self._out: set[str] = set()
        self._read()

    def draws(self, task: str) -> bool:
        """Whether the next confident decision is audited; a demoted student is asked no more."""
        with self._lock:
            return self._draw.random() < self.plan.rate and task not in self._out

    def record(self, task: str, agrees: bool) -> None:
        """Count one audit; may raise the alarm."""
        with self._lock:
            recent = self._recent.setdefault(task, deque(maxlen=self.plan.window))
            recent.append(agrees)
            if task not in self._out and self._fails(recent):
                self._out.add(task)
                _log.warning("%s: agreement is down to %.2f, its student is demoted", task, sum(recent) / len(recent))
            self._write()

    def demoted(self, task: str) -> bool:
        """Whether an alarm took its student out of service."""
        return task in self._out

    def restore(self, task: str) -> None:
        """Let a student answer again, and forget its audits: after a promotion, or by hand."""
        with self._lock:
            self._out.discard(task)
            self._recent.pop(task, None)
            self._write()

    def state(self) -> dict[str, tuple[float, int, bool]]:
        """(agreement, audits, demoted) by task."""
        with self._lock:
            return {
                task: (sum(recent) / len(recent), len(recent), task in self._out)
                for task, recent in sorted(self._recent.items())
                if recent
            }

    def _fails(self, recent: deque[bool]) -> bool:
        return len(recent) >= self.plan.fewest and upper_bound(sum(recent), len(recent)) < self.plan.target

    def _read(self) -> None:
        if self._path is None:
            return
        try:
            found = json.loads(self._path.read_text("utf-8"))
            self._out = set(map(str, found["demoted"]))
            self._recent = {
                str(task): deque(map(bool, rows), maxlen=self.plan.window) for task, rows in found["recent"].items()
            }
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError("audit", f"{self._path} cannot be read: {error}", "delete it to start anew") from error

    def _write(self) -> None:
        """Best effort: an audit that cannot be kept must not stop a decision."""
        if self._path is None:
            return
        rows = {"recent": {task: list(recent) for task, recent in self._recent.items()}, "demoted": sorted(self._out)}
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps(rows), "utf-8")
            fresh.replace(self._path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            _log.warning("audit not kept: %s", error)
