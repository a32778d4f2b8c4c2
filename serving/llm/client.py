"""A served language model: choices, JSON and text, many at a time, each with bounded retries and a typed error."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from intentmem.memory.errors import InputError, ModelError

from .budget import Budget, OnUsage, Totals
from .exchange import Exchange
from .forms import choose, fill, write
from .probe import probe
from .requests import Capabilities, Choice, ChoiceRequest, JsonRequest, LLMError, TextRequest, UsageEvent
from .retry import Meter, Trial
from .settings import LLMSettings
from .streaming import stream_text
from .tokens import count_tokens
from .transport import Transport, drained

T = TypeVar("T")


class LLMClient:
    """A client of one server. Methods block, are safe to call from many threads, and run their requests at once.

    Args:
        settings: where the server is and how it is treated; they hold each time-out, which counts for one call.
        on_usage: called in the caller's thread for each call as soon as it has ended; see `charging` for another one.
        used: background tokens used before, counted against the budget.

    Raises:
        InputError: no base URL.
        MissingExtraError: at the first request, where the `openai` package is absent.
    """

    def __init__(self, settings: LLMSettings, on_usage: OnUsage | None = None, used: int = 0) -> None:
        self.settings = settings
        self.budget = Budget(settings.background_tokens, used)
        self.totals = Totals()
        self._transport = Transport(settings, "llm")
        self._exchange = Exchange(settings, self._transport, self.budget, self.totals)
        self._payer: contextvars.ContextVar[tuple[OnUsage | None, bool]] = contextvars.ContextVar(
            "payer", default=(on_usage, False)
        )

    def __repr__(self) -> str:
        return f"LLMClient({self.settings.base_url!r}, model={self.settings.model!r})"

    def __enter__(self) -> LLMClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def name(self) -> str:
        """``llm:<model>``; asks the server where no model is configured.

        Raises:
            ModelError: it cannot be asked.
        """
        return f"llm:{self._exchange.learned.model or self._transport.result(self._exchange.model())}"

    @property
    def context_tokens(self) -> int | None:
        """Context length: configured, else as the server lists it.

        Raises:
            ModelError: the server cannot be asked.
        """
        if self._exchange.learned.context is None:
            self._transport.result(self._exchange.listed())
        return self._exchange.learned.context

    @contextmanager
    def charging(self, on_usage: OnUsage | None = None, background: bool | None = None) -> Iterator[None]:
        """Within it, this thread's calls are reported to `on_usage`, and count as background work where said so.

        What is None stays as it was around it.
        Background work pauses (`BudgetExceededError`) when its budget is used up or `budget.stop()` was called.
        """
        before = self._payer.get()
        token = self._payer.set((on_usage or before[0], before[1] if background is None else background))
        try:
            yield
        finally:
            self._payer.reset(token)

    def choose(self, requests: Sequence[ChoiceRequest]) -> list[Choice | LLMError]:
        """A distribution over the options of each request, in order, or why there is none.

        One constrained token with its log-probabilities; a JSON answer where the server gives none, which is learned.
        """
        meter = self._meter()
        return self._all([partial(choose, self._exchange, request, self._trial(meter)) for request in requests], meter)

    def structured(self, requests: Sequence[JsonRequest]) -> list[dict[str, Any] | LLMError]:
        """A JSON object for each request, in order, or why there is none. One that is returned fits its schema."""
        meter = self._meter()
        return self._all([partial(fill, self._exchange, request, self._trial(meter)) for request in requests], meter)

    def text(self, request: TextRequest) -> str:
        """A complete text, never an empty or a cut one.

        Raises:
            ModelError: there is none.
        """
        meter = self._meter()
        result: str = self._run(write(self._exchange, request, self._trial(meter)), meter)
        return result

    def stream(self, request: TextRequest, on_token: Callable[[], None] | None = None) -> Iterator[str]:
        """A text in pieces as they come. It is retried only while nothing was shown.

        Args:
            on_token: called in the client's own thread at the first token of each attempt, of reasoning or of text.

        Raises:
            ModelError: there is none, or it ended early: what was shown is then not the whole.
        """
        on_usage, background = self._payer.get()

        def pieces() -> Iterator[str]:
            meter = Meter(background)
            work = stream_text(self._exchange, request, self._trial(meter), on_token)
            for item in self._transport.run(work, meter.emitted):
                if isinstance(item, str):
                    yield item
                elif on_usage is not None:
                    on_usage(item)

        return pieces()

    def count_tokens(self, texts: Sequence[str]) -> tuple[list[int], bool]:
        """Tokens of each text, and whether they are exact: True by the server's tokenizer, False where guessed."""
        if isinstance(texts, str):
            raise InputError("texts", "must be a list of texts", "wrap a single one: [text]")

        async def work() -> tuple[list[int], bool]:
            model = await self._exchange.model()
            return await count_tokens(self._transport, model, self.settings.seconds("tokenize"), texts)

        result: tuple[list[int], bool] = self._transport.result(work())
        return result

    def probe(self, adapters: bool = False) -> Capabilities:
        """Try what the client relies on, in the combination that it uses; what is found holds for later calls.

        Args:
            adapters: also whether adapters can be loaded, which takes a path of vLLM that nothing else here asks for.

        Raises:
            ModelError: the server cannot be reached, or refuses a plain request.
        """
        meter = self._meter()
        result: Capabilities = self._run(probe(self._exchange, meter, adapters), meter)
        return result

    def close(self) -> None:
        """Cancel what is in flight and drop the connections."""
        self._transport.close()

    def _meter(self) -> Meter:
        return Meter(self._payer.get()[1])

    def _trial(self, meter: Meter) -> Trial:
        return Trial(1 + self.settings.max_retries, meter)

    def _run(self, work: Coroutine[Any, Any, Any], meter: Meter) -> Any:
        on_usage, _ = self._payer.get()

        def report(event: UsageEvent) -> None:
            if on_usage is not None:
                on_usage(event)

        return drained(self._transport.run(work, meter.emitted), report)

    def _all(self, works: Sequence[Callable[[], Coroutine[Any, Any, T]]], meter: Meter) -> list[T | LLMError]:
        if not works:
            return []

        async def guarded(work: Callable[[], Coroutine[Any, Any, T]]) -> T | LLMError:
            try:
                return await work()
            except ModelError as error:
                return error

        async def together() -> list[T | LLMError]:
            try:
                await self._exchange.model()  # asked once, not by each
            except ModelError as error:
                return [error] * len(works)
            return list(await asyncio.gather(*map(guarded, works)))

        results: list[T | LLMError] = self._run(together(), meter)
        return results
