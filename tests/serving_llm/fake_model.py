"""A served model in this process: it answers plausibly, counts what it is asked, and fails where told to."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import FixedClock

from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import ModelError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.memory import Memory
from intentmem.memory.protocols import Decider
from intentmem.memory.store import Store
from intentmem.memory.write.extractive import ExtractiveWriter
from intentmem.serving.llm.budget import OnUsage
from intentmem.serving.llm.requests import (
    Choice,
    ChoiceRequest,
    JsonRequest,
    LLMError,
    TextRequest,
    Usage,
    UsageEvent,
)
from intentmem.serving.llm.wiring import model_parts

Request = ChoiceRequest | JsonRequest | TextRequest


class FakeClient:
    """`answers` by task override what is made up; `fails` gives the error of a request, or None."""

    name = "llm:fake"
    context_tokens: int | None = None

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[Request] = []
        self.fails: Callable[[Request], ModelError | None] = lambda request: None
        self.pieces: Sequence[str] = ()

    @property
    def counts(self) -> Counter[str]:
        return Counter(request.task for request in self.asked)

    def prompt(self, at: int = -1) -> str:
        return str(self.asked[at].messages[-1]["content"])

    def choose(self, requests: Sequence[ChoiceRequest]) -> list[Choice | LLMError]:
        return [self._choice(request) for request in requests]

    def structured(self, requests: Sequence[JsonRequest]) -> list[dict[str, Any] | LLMError]:
        return [self._object(request) for request in requests]

    def text(self, request: TextRequest) -> str:
        self.asked.append(request)
        return "".join(self.pieces)

    def stream(self, request: TextRequest) -> Iterator[str]:
        self.asked.append(request)
        yield from self.pieces

    @contextmanager
    def charging(self, on_usage: OnUsage | None = None, background: bool = False) -> Iterator[None]:
        before = len(self.asked)
        yield
        for request in self.asked[before:] if on_usage is not None else ():
            on_usage(UsageEvent(request.task, 1, 11, 7, 0.0))

    def _choice(self, request: ChoiceRequest) -> Choice | LLMError:
        self.asked.append(request)
        if (error := self.fails(request)) is not None:
            return error
        picked = self.answers.get(request.task, 0)
        place = picked(request) if callable(picked) else picked
        rest = 0.2 / max(1, len(request.options) - 1)
        shares = tuple(0.8 if at == place % len(request.options) else rest for at in range(len(request.options)))
        return Choice(shares, Usage(calls=1))

    def _object(self, request: JsonRequest) -> dict[str, Any] | LLMError:
        self.asked.append(request)
        if (error := self.fails(request)) is not None:
            return error
        made = {name: _made_up(part, request) for name, part in request.schema["properties"].items()}
        given = self.answers.get(request.task, {})
        return {**made, **(given(request) if callable(given) else given)}


def turn_in(request: Request) -> str:
    """The text of the turn that a request is about."""
    line = str(request.messages[-1]["content"]).rsplit("The turn:\n", 1)[-1].strip().splitlines()[-1]
    return re.sub(r"^\[[^\]]*\] ", "", str(json.loads(line)))


def _made_up(part: dict[str, Any], request: JsonRequest) -> Any:
    if part["type"] == "array":
        return []
    if part["type"] == "boolean":
        return True
    if "enum" in part:
        return part["enum"][0]
    return " ".join(turn_in(request).split()[:5]) if request.task == "annotate" else ""


def model_memory(
    folder: Path, client: FakeClient, decides: bool = True, writes: bool = True, fallback: Decider | None = None
) -> Memory:
    """A memory in which the model does what it can."""
    store, baseline = Store(folder), BaselineDecider()
    parts = model_parts(client, store.calls, decides, writes, fallback, baseline)
    return Memory(
        store,
        HashEmbedder(),
        parts.decider or baseline,
        parts.writer or ExtractiveWriter(),
        FixedClock(),
        planner=parts.planner,
        foreseer=parts.foresight,
    )
