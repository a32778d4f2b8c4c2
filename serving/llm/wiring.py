"""A served model put in the seams: one asker, what is asked ahead, the decider, the writer, and who pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from intentmem.memory.protocols import Upcoming
from intentmem.memory.types import Turn

from .annotate import StepAnnotator
from .budget import durable_ledger
from .episodes import EpisodeReader

if TYPE_CHECKING:
    from intentmem.memory.store import Store

    from .client import LLMClient


class Foresight:
    """Tells annotator and reader what the pipeline will ask for; either may be absent."""

    def __init__(self, annotator: StepAnnotator, episodes: EpisodeReader | None = None) -> None:
        self._annotator = annotator
        self._episodes = episodes

    @property
    def reach(self) -> int:
        """Turns before a step that it reads."""
        return self._annotator.reach

    def steps(self, steps: Sequence[Upcoming]) -> None:
        """Annotate turns ahead."""
        self._annotator.steps(steps)

    def episodes(self, episodes: Sequence[Sequence[Turn]]) -> None:
        """Read closed episodes ahead."""
        if self._episodes is not None:
            self._episodes.read(episodes)


class LedgerPayer:
    """Charges a client's calls to the durable ledger of the memory, each as soon as it has ended."""

    def __init__(self, client: LLMClient, store: Store) -> None:
        self._client = client
        self._store = store

    @contextmanager
    def paying(self, namespace: int, operation: str) -> Iterator[None]:
        """Within it, this thread's calls are an operation's, in the background."""
        ledger = durable_ledger(self._store, namespace, operation, self._client.name)
        with self._client.charging(ledger, background=True):
            yield
