"""What served models cost: a budget for background work with a switch, totals, and the durable ledger."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from intentmem.memory.errors import BudgetExceededError

from .requests import Usage, UsageEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from intentmem.memory.store import Store

_log = logging.getLogger(__name__)

OnUsage = Callable[[UsageEvent], None]


class Budget:
    """Tokens that background work may use. Foreground work never asks it.

    Args:
        limit: tokens; None for no limit.
        used: tokens used before, for example by an earlier process.
    """

    def __init__(self, limit: int | None, used: int = 0) -> None:
        self.limit = limit
        self._used, self._reserved = used, 0
        self._stopped = self._told = False
        self._guard = threading.Lock()

    @property
    def used(self) -> int:
        """Tokens used so far."""
        return self._used

    @property
    def open(self) -> bool:
        """Whether background work may make a call now."""
        within = self.limit is None or self._used + self._reserved < self.limit
        return within and not self._stopped

    def stop(self) -> None:
        """Refuse every background call from now on; those in flight finish."""
        self._stopped = True
        _log.warning("background work was stopped")

    def resume(self, limit: int | None = None) -> None:
        """Allow background calls again, with a new limit if one is given."""
        with self._guard:
            self._stopped = self._told = False
            self.limit = self.limit if limit is None else limit

    @contextmanager
    def admitted(self, model: str, expected: int) -> Iterator[Callable[[int], None]]:
        """Reserve a call's expected tokens while it runs; it yields what takes the tokens really used.

        As calls in flight count with what they are expected to use, at most the last one goes past the limit.

        Raises:
            BudgetExceededError: used up, or stopped; logged once.
        """
        with self._guard:
            if not self.open:
                raise self._refusal(model)
            self._reserved += expected
        try:
            yield self._settle
        finally:
            with self._guard:
                self._reserved -= expected

    def _settle(self, tokens: int) -> None:
        with self._guard:
            self._used += tokens

    def _refusal(self, model: str) -> BudgetExceededError:
        reason = "was stopped" if self._stopped else f"has used {self._used} of its {self.limit} tokens"
        error = BudgetExceededError(model, f"background work {reason}; raise llm.background_tokens to go on")
        if not self._told:
            self._told = True
            _log.warning("background work pauses: %s", error)
        return error


class Totals:
    """Usage since the client was made, by task."""

    def __init__(self) -> None:
        self._by_task: dict[tuple[str, bool], Usage] = {}
        self._faults: Counter[str] = Counter()
        self._guard = threading.Lock()

    @property
    def faults(self) -> dict[str, int]:
        """Replies of each task that could not be used: cut, empty, prose, or not of the schema."""
        with self._guard:
            return dict(self._faults)

    def fault(self, task: str) -> None:
        """Count a reply that could not be used."""
        with self._guard:
            self._faults[task] += 1

    def add(self, event: UsageEvent) -> None:
        """Count one event."""
        key = (event.task, event.background)
        usage = Usage(event.calls, event.prompt_tokens, event.completion_tokens, event.seconds, event.estimated)
        with self._guard:
            self._by_task[key] = self._by_task.get(key, Usage()) + usage

    def by_task(self, background: bool | None = None) -> dict[str, Usage]:
        """Usage of each task; of background or foreground calls alone where that is given."""
        found: dict[str, Usage] = {}
        with self._guard:
            for (task, behind), usage in self._by_task.items():
                if background in (None, behind):
                    found[task] = found.get(task, Usage()) + usage
        return found

    def total(self, background: bool | None = None) -> Usage:
        """Usage of all tasks together."""
        return sum(self.by_task(background).values(), Usage())


def durable_ledger(store: Store, namespace: int, operation: str, decider: str) -> OnUsage:
    """A hook that writes each call to the memory's ledger at once, so that a kill loses none that was answered.

    Args:
        store: the memory's store.
        namespace: ordinal of the namespace that pays.
        operation: id of the operation that the calls belong to, "" for none.
        decider: name of who decides or writes; background calls stand apart under "<decider>/background".
    """

    def charge(event: UsageEvent) -> None:
        name = f"{decider}/background" if event.background else decider
        tokens = event.prompt_tokens + event.completion_tokens
        with store.database.write() as connection:
            store.operations.charge(
                connection, namespace, operation, event.task, name, 0, event.seconds, event.calls, tokens
            )

    return charge
