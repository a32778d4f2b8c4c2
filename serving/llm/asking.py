"""Requests that belong to turns: asked many at once, each answer kept as soon as it is there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from intentmem.memory.errors import ModelError
from intentmem.memory.types import Turn

from .port import CallStore, ModelClient
from .prompts import Prompt
from .requests import Choice, ChoiceRequest, JsonRequest, LLMError, Messages

IN_FLIGHT = 64
"""Requests given to the client together: what a kill in the middle loses, at most."""

T = TypeVar("T", ChoiceRequest, JsonRequest)
Asked = tuple[Turn | None, T]


class Asker:
    """A client with a memory of what it answered for turns whose labelling is not finished.

    Args:
        client: the served model.
        calls: where answers are kept; None keeps none.
        in_flight: requests given to the client together.
    """

    def __init__(self, client: ModelClient, calls: CallStore | None = None, in_flight: int = IN_FLIGHT) -> None:
        self.client = client
        self._calls = calls
        self._in_flight = in_flight

    @property
    def name(self) -> str:
        """Who answers; just "llm" as long as the server cannot be asked for its model."""
        return name_of(self.client)

    def choose(
        self, prompt: Prompt, asked: Sequence[Asked[ChoiceRequest]]
    ) -> list[tuple[tuple[float, ...], int] | LLMError]:
        """For each request the probabilities of its options and the calls it took, 0 where the answer was kept."""

        def ask(requests: Sequence[ChoiceRequest]) -> list[tuple[list[float], int] | LLMError]:
            return [_read(found) for found in self.client.choose(requests)]

        keys = [self._key(prompt, turn, request.messages, list(request.options)) for turn, request in asked]
        found = self._through(asked, keys, ask)
        return [e if isinstance(e, LLMError) else (tuple(e[0]), e[1]) for e in found]

    def structured(
        self, prompt: Prompt, asked: Sequence[Asked[JsonRequest]]
    ) -> list[tuple[dict[str, Any], int] | LLMError]:
        """For each request its object and the calls it took, 0 where the answer was kept."""

        def ask(requests: Sequence[JsonRequest]) -> list[tuple[dict[str, Any], int] | LLMError]:
            return [found if isinstance(found, LLMError) else (found, 1) for found in self.client.structured(requests)]

        keys = [self._key(prompt, turn, request.messages, request.schema) for turn, request in asked]
        return self._through(asked, keys, ask)

    def _through(
        self,
        asked: Sequence[Asked[T]],
        keys: Sequence[str],
        ask: Callable[[Sequence[T]], list[tuple[Any, int] | LLMError]],
    ) -> list[tuple[Any, int] | LLMError]:
        wanted = [(turn, key) for (turn, _), key in zip(asked, keys, strict=True) if turn is not None]
        kept = self._calls.find(wanted) if self._calls is not None and wanted else {}
        results: dict[int, tuple[Any, int] | LLMError] = {}
        missing = []
        for at, ((turn, _), key) in enumerate(zip(asked, keys, strict=True)):
            if turn is not None and (turn.id, key) in kept:
                results[at] = (kept[turn.id, key], 0)
            else:
                missing.append(at)
        for start in range(0, len(missing), self._in_flight):
            part = missing[start : start + self._in_flight]
            fresh = dict(zip(part, ask([asked[at][1] for at in part]), strict=True))
            results |= fresh
            if self._calls is not None:
                self._calls.keep(
                    (turn, keys[at], answer[0])
                    for at, answer in fresh.items()
                    if (turn := asked[at][0]) is not None and not isinstance(answer, LLMError)
                )
        return [results[at] for at in range(len(asked))]

    def _key(self, prompt: Prompt, turn: Turn | None, messages: Messages, shape: object) -> str:
        if turn is None or self._calls is None:
            return ""
        whole = json.dumps([self.name, prompt.hash, list(messages), shape], sort_keys=True, default=dict)
        return hashlib.sha256(whole.encode()).hexdigest()[:32]


def name_of(client: ModelClient) -> str:
    """A client's name, "llm" as long as its server cannot be asked for it: naming must not fail where asking may."""
    try:
        return client.name
    except ModelError:
        return "llm"


def _read(found: Choice | LLMError) -> tuple[list[float], int] | LLMError:
    return found if isinstance(found, LLMError) else (list(found.probabilities), max(1, found.usage.calls))


def first_error(found: Sequence[object]) -> LLMError | None:
    """The first error among results."""
    return next((result for result in found if isinstance(result, LLMError)), None)
