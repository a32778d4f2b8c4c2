"""Requests of a subject: a decision, a turn written, a question read, an answer streamed; each counts its tokens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from intentmem.memory.errors import StoreError
from intentmem.memory.memory import Memory
from intentmem.memory.tasks import Item, Task
from intentmem.memory.types import NewTurn
from intentmem.serving.llm.answer import stream_answer
from intentmem.serving.llm.requests import TextRequest, Usage, UsageEvent

from .load import Call, Reply

if TYPE_CHECKING:
    from intentmem.serving.llm.client import LLMClient

    from .subjects import Subject

WHOLE = "whole"
"""Namespace of the memory that is read; each writing worker has one of its own."""


class Meter:
    """Counts calls of one request as the server counts their tokens."""

    def __init__(self) -> None:
        self.usage = Usage()
        self._guard = threading.Lock()

    def __call__(self, event: UsageEvent) -> None:
        """Count one call."""
        made = Usage(event.calls, event.prompt_tokens, event.completion_tokens, event.seconds, event.estimated)
        with self._guard:
            self.usage = self.usage + made


@contextmanager
def metered(client: LLMClient | None) -> Iterator[Meter]:
    """Within it, this thread's calls are counted."""
    meter = Meter()
    with nullcontext() if client is None else client.charging(meter):
        yield meter


def deciding(subject: Subject, task: Task, items: Sequence[Item], batch: int) -> Call:
    """Decide `batch` items from the place of the request on; the value is the labels of each by place."""

    def call(number: int, worker: int) -> Reply:
        places = [(number * batch + step) % len(items) for step in range(batch)]
        with metered(subject.client) as meter:
            found = subject.decider.decide(task, [items[place] for place in places])
        for place, decision in zip(places, found, strict=True):
            task.check(items[place], decision)
        return Reply({place: decision.labels for place, decision in zip(places, found, strict=True)}, meter.usage)

    return call


def writing(subject: Subject, memory: Memory, turns: Sequence[NewTurn], mark: str) -> Call:
    """Write one turn, labelled before the call returns; workers write to namespaces of their own, told by `mark`."""

    def call(number: int, worker: int) -> Reply:
        with metered(subject.client) as meter:
            done = memory.add([turns[number % len(turns)]], namespace=f"{mark}-{worker}", idempotency_key=f"{number}")
        if done["status"] not in ("done", "empty"):
            raise StoreError(str((done["warnings"] or [done["status"]])[-1]))
        return Reply(done["status"], meter.usage)

    return call


def reading(subject: Subject, memory: Memory, questions: Sequence[str], budget: int) -> Call:
    """Plan a question, search, and put the context together."""

    def call(number: int, worker: int) -> Reply:
        with metered(subject.client) as meter:
            found = memory.context(questions[number % len(questions)], budget=budget, namespace=WHOLE)
        return Reply(len(found["turns"]), meter.usage)

    return call


def answering(subject: Subject, memory: Memory, questions: Sequence[str], budget: int) -> Call:
    """Answer a question from memory as a stream, timed from the question to its first token and first output text."""

    def call(number: int, worker: int) -> Reply:
        assert subject.client is not None
        watched = Watched(subject.client)
        stream = stream_answer(memory, watched, questions[number % len(questions)], budget=budget, namespace=WHOLE)
        with metered(subject.client) as meter:
            whole = "".join(stream)
        return Reply(whole, meter.usage + watched.meter.usage, watched.first_token, watched.first_output)

    return call


class Watched:
    """A client whose stream tells when its first token came, of reasoning or text, and its first text."""

    def __init__(self, client: LLMClient) -> None:
        self._client = client
        self.first_token: float | None = None
        self.first_output: float | None = None
        self.meter = Meter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @property
    def charging(self) -> Callable[..., Any]:
        """Who asks to be charged is not: the tokens are counted here."""
        return lambda *_, **__: self._client.charging(self.meter)

    def stream(self, request: TextRequest) -> Iterator[str]:
        """As the client's."""
        for piece in self._client.stream(request, on_token=self._token):
            if self.first_output is None and piece.strip():
                self.first_output = time.perf_counter()
            yield piece

    def _token(self) -> None:
        self.first_token = time.perf_counter()
