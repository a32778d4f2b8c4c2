"""What asking a teacher would cost, without asking: its prompts are made and counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .requests import Choice, ChoiceRequest, JsonRequest, Messages, TextRequest, Usage

_CHARACTERS = 4
"""Of a token: near the mean of English under the tokenizers of open models; an estimate is all that it serves."""
_JSON_TOKENS = 24


class CountingClient:
    """Stands in a client's place, counts what it is asked, and answers with the first option, or nothing."""

    name = "estimate"
    context_tokens = None

    def __init__(self) -> None:
        self.usage = Usage(estimated=True)

    def choose(self, requests: Sequence[ChoiceRequest]) -> Sequence[Choice]:
        """Even shares, at the price of one token each."""
        for request in requests:
            self._count(request.messages, 1)
        return [Choice(tuple(1 / len(r.options) for _ in r.options), Usage()) for r in requests]

    def structured(self, requests: Sequence[JsonRequest]) -> Sequence[dict[str, Any]]:
        """Empty objects, at the price of a short one each."""
        for request in requests:
            self._count(request.messages, min(request.max_tokens, _JSON_TOKENS))
        return [{} for _ in requests]

    def text(self, request: TextRequest) -> str:
        """Nothing, at the price of the longest text that was allowed."""
        self._count(request.messages, request.max_tokens)
        return ""

    def stream(self, request: TextRequest) -> Iterator[str]:
        """As `text`."""
        yield self.text(request)

    def charging(self, on_usage: object = None, background: bool = False) -> AbstractContextManager[None]:
        """Nobody pays."""
        return nullcontext()

    def _count(self, messages: Messages, completion: int) -> None:
        characters = sum(len(message["content"]) for message in messages)
        self.usage += Usage(1, characters // _CHARACTERS, completion, 0.0, estimated=True)
