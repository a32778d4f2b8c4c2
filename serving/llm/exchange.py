"""One call: its body, its slot, its cost. And the loop of attempts around it."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from intentmem.memory.errors import ModelError, ModelOutputError, ModelRefusedError, ModelUnavailableError

from .budget import Budget, Totals
from .parsing import Fault, Reply, read_reply
from .requests import Usage, UsageEvent
from .retry import Conversation, Trial, pause
from .settings import LLMSettings, Operation
from .transport import Transport

T = TypeVar("T")
_CHARACTERS_PER_TOKEN = 3.5


@dataclass(frozen=True)
class Meter:
    """Who pays for the calls of one facade call, and where each is reported."""

    background: bool = False
    emitted: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)


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
        self._listing = asyncio.Lock()

    async def model(self) -> str:
        """The model's name: the configured one, else the first that the server lists.

        Raises:
            ModelError: the server cannot be asked, or serves nothing.
        """
        async with self._listing:
            if self.learned.model is None:
                listed = await self.listed()
                if not listed:
                    raise ModelUnavailableError("?", f"{self.transport.base_url} serves no model")
                self.learned.model = str(listed[0]["id"])
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

    def body(self, model: str, conversation: Conversation, extra: dict[str, Any]) -> dict[str, Any]:
        """A request's fields: what is configured or needed, nothing else."""
        body: dict[str, Any] = {
            "model": model,
            "messages": conversation.rendered(),
            "max_tokens": conversation.max_tokens,
            **extra,
        }
        if self.settings.temperature is not None:
            body["temperature"] = self.settings.temperature
        if self.settings.thinking == "off" and self.learned.switches_thinking:
            body["chat_template_kwargs"] = {"enable_thinking": False}
        return body

    async def converse(
        self,
        operation: Operation,
        task: str,
        conversation: Conversation,
        extra: dict[str, Any],
        read: Callable[[Reply], T],
        trial: Trial,
        meter: Meter,
    ) -> T:
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
                body = self.body(model, conversation, extra)
                reply = await self.complete(operation, task, body, trial, meter)
                if reply.usage and self.learned.context:
                    room = self.learned.context - reply.usage.prompt_tokens
                return read(reply)
            except Fault as fault:
                last = ModelOutputError(model, self.transport.redact(fault.problem), self.transport.redact(fault.raw))
                conversation.amend(replace_raw(fault, last.raw if not fault.cut else ""), room)
            except ModelRefusedError as error:
                if "chat_template" not in error.detail or not self.learned.switches_thinking:
                    raise
                self.learned.switches_thinking = False
                last = error
            except ModelUnavailableError as error:
                last = error
                await self._back_off(attempt, error, trial)
            except ModelError as error:  # a time-out has waited long enough
                last = error
                if not isinstance(error, _RETRIED):
                    raise
            attempt += 1
        assert last is not None
        raise last
