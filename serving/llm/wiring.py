"""A served model put in the seams: one asker, what is asked ahead, the decider, the writer, and who pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from intentmem.memory.errors import ModelError
from intentmem.memory.protocols import Decider, Upcoming
from intentmem.memory.types import Turn

from .annotate import StepAnnotator
from .asking import Asker, name_of
from .budget import durable_ledger
from .deciders import LLMDecider
from .episodes import EpisodeReader
from .port import CallStore, ModelClient
from .requests import UsageEvent
from .writers import LLMWriter

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
    def paying(self, namespace: int, operation: str = "", background: bool = False) -> Iterator[None]:
        """Within it, this thread's calls are charged to a namespace."""

        def charge(event: UsageEvent) -> None:
            durable_ledger(self._store, namespace, operation, name_of(self._client))(event)

        with self._client.charging(charge, background=background):
            yield


@dataclass(frozen=True, slots=True)
class ModelParts:
    """What stands in the seams of a memory; None where something else stands there.

    decider: for turns. planner: for questions, by rule where the model fails, so that a search never depends on it.
    """

    decider: LLMDecider | None
    planner: LLMDecider | None
    writer: LLMWriter | None
    foresight: Foresight


def model_parts(
    client: ModelClient,
    calls: CallStore | None,
    decides: bool = True,
    writes: bool = True,
    fallback: Decider | None = None,
    planning_fallback: Decider | None = None,
) -> ModelParts:
    """Decider, planner and writer over one client, sharing what is asked ahead.

    Args:
        client: the served model.
        calls: where answers are kept until what they are for is written.
        decides, writes: what the model does.
        fallback: decides about turns what the model gave no usable answer on; None fails the operation.
        planning_fallback: decides about questions whatever the model fails on.
    """
    asker = Asker(client, calls)
    annotator = StepAnnotator(asker, labels=decides, texts=writes)
    reader = EpisodeReader(asker) if writes else None
    # Of a question nothing is asked ahead, and nothing kept.
    planner = LLMDecider(Asker(client), fallback=planning_fallback, failures=ModelError) if decides else None
    return ModelParts(
        LLMDecider(asker, annotator, fallback) if decides else None,
        planner,
        LLMWriter(asker, annotator, reader) if reader is not None else None,
        Foresight(annotator, reader),
    )
