"""What is asked of a served model, and what comes back."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intentmem.memory.errors import InputError, ModelError

LLMError = ModelError
"""What stands in the place of a result that could not be had."""

Messages = Sequence[Mapping[str, str]]
"""Chat messages, each with "role" and "content"."""

LETTERS = string.ascii_uppercase


@dataclass(frozen=True, slots=True)
class ChoiceRequest:
    """One of up to 26 options, answered with its letter: A is the first.

    The messages show the options lettered and ask for the letter alone; see `lettered`.
    spare: as for `JsonRequest`.
    """

    messages: Messages
    options: tuple[str, ...]
    task: str = ""
    spare: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.options, str) or not 1 <= len(self.options) <= len(LETTERS):
            raise InputError("options", f"must be 1 to {len(LETTERS)} texts", "ask in two steps")


@dataclass(frozen=True, slots=True)
class JsonRequest:
    """A JSON object that satisfies `schema` (its type must be "object").

    check: called with the object after the schema held; returns what is wrong with it, or None.
    max_tokens: room of the first reply.
    spare: lines of the last message that are left out where the prompt is too long for the model, the first ones first.
    """

    messages: Messages
    schema: Mapping[str, Any]
    max_tokens: int = 512
    check: Callable[[object], str | None] | None = None
    task: str = ""
    spare: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.schema.get("type") != "object":
            raise InputError("schema", 'must be of type "object"', "wrap a list: {items: [...]}")
        _positive(self.max_tokens)


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A free text of at most `max_tokens` at first."""

    messages: Messages
    max_tokens: int = 1024
    task: str = ""

    def __post_init__(self) -> None:
        _positive(self.max_tokens)


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls and tokens. `seconds` are those of the calls, waiting for a free slot and pauses left out.

    `estimated`: a reply came without its token counts, so that they are guessed from lengths.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    estimated: bool = False

    @property
    def tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.seconds + other.seconds,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class UsageEvent:
    """One call, failed ones included. `task` is the request's."""

    task: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    background: bool = False
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """probabilities: one an option, in order; they sum to 1.

    `measured`: they are the model's own; otherwise the server gave none, and 1 stands on the option chosen.
    """

    probabilities: tuple[float, ...]
    usage: Usage
    measured: bool = True


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a server was seen to do.

    models: as listed, adapters left out; lora: adapters. max_model_len: tokens of context, None where it is not told.
    structured_output: a schema held against a prompt that asks for prose. thinking_with_schema: it held together with
    thinking switched off, which is the combination that every call uses. logprobs: a choice came with probabilities.
    runtime_adapters: it loads adapters while it runs.
    """

    model: str
    models: tuple[str, ...]
    max_model_len: int | None
    structured_output: bool
    thinking_with_schema: bool
    logprobs: bool
    tokenize: bool
    lora: tuple[str, ...]
    runtime_adapters: bool = False


def lettered(options: Sequence[str]) -> str:
    """The options as lines, `A. first`."""
    return "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))


def _positive(max_tokens: int) -> None:
    if max_tokens < 1:
        raise InputError("max_tokens", f"must be at least 1, is {max_tokens}")
