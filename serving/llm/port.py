"""What deciders, writers and answers need of a client, and nothing more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from intentmem.memory.types import Turn

from .budget import OnUsage
from .requests import Choice, ChoiceRequest, JsonRequest, LLMError, TextRequest


class ModelClient(Protocol):
    """A served model. Calls of one batch run concurrently; a result that could not be had is an error in its place."""

    @property
    def name(self) -> str:
        """Who answers; it stands on every decision and text."""
        ...

    @property
    def context_tokens(self) -> int | None:
        """Context length, None where it is not known.

        Raises:
            ModelError: the server cannot be asked.
        """
        ...

    def choose(self, requests: Sequence[ChoiceRequest]) -> Sequence[Choice | LLMError]:
        """One constrained token each: a distribution over the options."""
        ...

    def structured(self, requests: Sequence[JsonRequest]) -> Sequence[dict[str, Any] | LLMError]:
        """A JSON object each, of the schema asked for."""
        ...

    def text(self, request: TextRequest) -> str:
        """A free text.

        Raises:
            ModelError: none could be had.
        """
        ...

    def stream(self, request: TextRequest) -> Iterator[str]:
        """A free text, piece by piece.

        Raises:
            ModelError: none could be had, or it broke off.
        """
        ...

    def charging(self, on_usage: OnUsage | None = None, background: bool = False) -> AbstractContextManager[None]:
        """Within it, this thread's calls are reported to `on_usage`."""
        ...


class CallStore(Protocol):
    """Where answers lie until what they are for is written, so that a retry does not ask again."""

    def find(self, wanted: Sequence[tuple[Turn, str]]) -> dict[tuple[str, str], Any]:
        """Answers by (id of the turn, key)."""
        ...

    def keep(self, answers: Iterable[tuple[Turn, str, Any]]) -> None:
        """Keep answers, JSON values."""
        ...
