"""One call: its body, its slot, its cost. And the loop of attempts around it."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

from intentmem.memory.errors import (
    ModelContextError,
    ModelError,
    ModelOutputError,
    ModelRefusedError,
    ModelTimeoutError,
    ModelUnavailableError,
)

from .budget import Budget, Totals
from .parsing import Fault, Reply, read_reply
from .requests import Usage, UsageEvent
from .retry import Conversation, Meter, Trial, pause
from .settings import LLMSettings, Operation
from .transport import Transport

T = TypeVar("T")
_CHARACTERS_PER_TOKEN = 3.5

_log = logging.getLogger(__name__)
_FOR_LENGTH = (400, 413, 422)
_NO_CONTEXT = ("context length", "context window", "max_model_len", "maximum model length", "too long")
UNSUPPORTED = (400, 422, 501)
"""How servers refuse a field that they do not know."""


@dataclass(frozen=True)
class Ask:
    """What is asked, and how. `extra`: fields of the body that belong to the form of the answer."""

    operation: Operation
    task: str
    conversation: Conversation
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Learned:
    """What the server was found to do; None: not tried yet."""

    model: str | None = None
    context: int | None = None
    scores: bool | None = None
    switches_thinking: bool = True


class Exchange:
    """Calls to `/chat/completions`, counted and bounded."""

    def __init__(self, settings: LLMSettings, transport: Transport, budget: Budget, totals: Totals) -> None:
        self.settings, self.transport, self.budget, self.totals = settings, transport, budget, totals
        self.learned = Learned(settings.model, settings.context_tokens)

    async def model(self) -> str:
        """The model's name: the configured one, else the first that the server lists.

        Raises:
            ModelError: the server cannot be asked, or serves nothing.
        """
        trial, attempt = Trial(1 + self.settings.max_retries, Meter()), 0
        while self.learned.model is None:
            trial.take()
            try:
                listed = await self.listed()
                if not listed:
                    raise ModelUnavailableError("?", f"{self.transport.base_url} serves no model")
                self.learned.model = str(listed[0]["id"])
            except ModelUnavailableError as error:
                await self.back_off(attempt, error, trial)
            attempt += 1
        return self.learned.model

    async def listed(self) -> list[dict[str, Any]]:
        """What `/v1/models` lists. The context length is learned on the way."""
        seconds = self.settings.seconds("probe")
        data = await self.transport.get(self.learned.model or "?", "probe", seconds, "/models")
        rows = data.get("data") if isinstance(data, dict) else None
        found = [row for row in rows or () if isinstance(row, dict) and row.get("id")]
        wanted = self.learned.model or (found[0]["id"] if found else None)
        length = next((row.get("max_model_len") for row in found if row["id"] == wanted), None)
        if self.learned.context is None and isinstance(length, int):
            self.learned.context = length
        return found

    def body(self, model: str, ask: Ask) -> dict[str, Any]:
        """A request's fields: what is configured or needed, nothing else."""
        body: dict[str, Any] = {
            "model": model,
            "messages": ask.conversation.rendered(),
            "max_tokens": ask.conversation.max_tokens,
            **ask.extra,
        }
        if self.settings.temperature is not None:
            body["temperature"] = self.settings.temperature
        if self.settings.thinking == "off" and self.learned.switches_thinking:
            body["chat_template_kwargs"] = {"enable_thinking": False}
        return body

    async def converse(self, ask: Ask, read: Callable[[Reply], T], trial: Trial) -> T:
        """Ask until `read` accepts the reply, each fault fed back, while the trial has attempts left.

        Raises:
            ModelError: the last failure.
        """
        model = await self.model()
        last: ModelError | None = None
        attempt = 0
        while trial.take():
            room: int | None = None
            try:
                reply = await self.complete(ask, self.body(model, ask), trial)
                if reply.usage and self.learned.context:
                    room = self.learned.context - reply.usage.prompt_tokens
                return read(reply)
            except Fault as fault:
                self.totals.fault(ask.task)
                last = self.unusable(fault)
                ask.conversation.amend(fault, room)
            except ModelRefusedError as error:
                last = self.after_refusal(error, ask, trial)
            except ModelTimeoutError as error:
                last = error
            except ModelUnavailableError as error:
                last = error
                await self.back_off(attempt, error, trial)
            attempt += 1
        assert last is not None
        raise last

    async def complete(self, ask: Ask, body: dict[str, Any], trial: Trial) -> Reply:
        """One call.

        Raises:
            ModelError: it failed, or the budget of background work does not allow it.
            Fault: what came back is no completion.
        """
        seconds = self.settings.seconds(ask.operation)
        with self.counted(ask.task, body, trial) as used:
            data = await self.transport.post(body["model"], ask.operation, seconds, "/chat/completions", body)
            reply = read_reply(data)
            counts = reply.usage
            answered = "".join(reply.texts)
            used(counts.prompt_tokens if counts else None, counts.completion_tokens if counts else None, answered)
        return reply

    async def pieces(self, ask: Ask, body: dict[str, Any], trial: Trial) -> AsyncIterator[tuple[str, str, str | None]]:
        """One streamed call: content, reasoning and finish reason of each piece; errors as for `complete`."""
        seconds = self.settings.seconds(ask.operation)
        streamed: dict[str, Any] = {**body, "stream": True, "stream_options": {"include_usage": True}}
        with self.counted(ask.task, body, trial) as used:
            answered: list[str] = []
            used(None, None, "")
            async with self.transport.stream(body["model"], ask.operation, seconds, streamed) as chunks:
                async for chunk in chunks:
                    content, reasoning, reason, counts = chunk_parts(chunk)
                    answered += (content, reasoning)
                    prompt, completion = counts or (None, None)
                    used(prompt, completion, "".join(answered) if counts or reason else "")
                    if content or reasoning or reason:
                        yield content, reasoning, reason

    @contextmanager
    def counted(
        self, task: str, body: dict[str, Any], trial: Trial
    ) -> Iterator[Callable[[int | None, int | None, str], None]]:
        """Count a call with what it is told to have used; one that fails counts as a call of no tokens."""
        expected = _estimate(body["messages"])
        admitted = self.budget.admitted(body["model"], expected + body["max_tokens"])
        usage = Usage(1)
        started = time.perf_counter()

        def used(prompt: int | None, completion: int | None, answered: str) -> None:
            nonlocal usage
            guessed = prompt is None
            usage = Usage(
                1,
                expected if prompt is None else prompt,
                _tokens(answered) if prompt is None else completion or 0,
                estimated=guessed,
            )

        with admitted if trial.meter.background else nullcontext() as settle:
            try:
                yield used
            finally:
                usage = usage + Usage(seconds=time.perf_counter() - started)
                trial.usage = trial.usage + usage
                if settle is not None:
                    settle(usage.tokens)
                event = UsageEvent(
                    task,
                    1,
                    usage.prompt_tokens,
                    usage.completion_tokens,
                    usage.seconds,
                    trial.meter.background,
                    usage.estimated,
                )
                self.totals.add(event)
                trial.meter.emitted.put(event)

    def unusable(self, fault: Fault) -> ModelOutputError:
        """A fault as the error that ends a request."""
        redact = self.transport.redact
        return ModelOutputError(self.learned.model or "?", redact(fault.problem), redact(fault.raw))

    def after_refusal(self, error: ModelRefusedError, ask: Ask, trial: Trial) -> ModelRefusedError:
        """Shorten a prompt that is too long, at no attempt's cost; do without a field that the server does not know.

        Raises:
            ModelContextError: there is nothing left to shorten.
            ModelRefusedError: any other refusal.
        """
        if is_too_long(error):
            if not ask.conversation.shorten():
                raise ModelContextError(error.model, error.status, error.detail) from None
            _log.info("%s: a prompt for %s is too long: shortened", error.model, ask.task or "the model")
            trial.left += 1
            return error
        if not self.learned.switches_thinking or "chat_template" not in error.detail:
            raise error
        self.learned.switches_thinking = False
        return error

    async def back_off(self, attempt: int, error: ModelUnavailableError, trial: Trial) -> None:
        """Wait before the next attempt, outside any slot; raises the error where no attempt is left to wait for."""
        wait = pause(self.settings, attempt, error.retry_after)
        if wait is None or trial.left <= 0:
            raise error
        await asyncio.sleep(wait)


def is_too_long(error: ModelRefusedError) -> bool:
    """Whether a prompt was refused for its length."""
    detail = error.detail.casefold()
    return error.status in _FOR_LENGTH and any(sign in detail for sign in _NO_CONTEXT)


def chunk_parts(chunk: object) -> tuple[str, str, str | None, tuple[int, int] | None]:
    """Content, reasoning, finish reason and token counts of a piece of a stream."""
    choices = getattr(chunk, "choices", None) or ()
    usage = getattr(chunk, "usage", None)
    counts = (int(usage.prompt_tokens or 0), int(usage.completion_tokens or 0)) if usage else None
    if not choices:
        return "", "", None, counts
    delta = choices[0].delta
    reasoning = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None) or ""
    return getattr(delta, "content", None) or "", reasoning, choices[0].finish_reason, counts


def _tokens(text: str) -> int:
    return math.ceil(len(text) / _CHARACTERS_PER_TOKEN)


def _estimate(messages: list[dict[str, str]]) -> int:
    return sum(_tokens(message.get("content", "")) for message in messages)
