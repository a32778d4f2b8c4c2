"""A served language model: choices, JSON and text, many at a time, each with bounded retries and a typed error."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from intentmem.memory.errors import InputError, ModelError, ModelRefusedError

from .budget import Budget, OnUsage, Totals
from .exchange import UNSUPPORTED, Exchange, Meter
from .parsing import Fault, NoScores, Reply, read_object, read_scores, read_text
from .probe import probe
from .requests import (
    LETTERS,
    Capabilities,
    Choice,
    ChoiceRequest,
    JsonRequest,
    LLMError,
    TextRequest,
    Usage,
    UsageEvent,
)
from .retry import Conversation, Trial, encodable
from .settings import LLMSettings
from .transport import Transport, drained

T = TypeVar("T")
_ALTERNATIVES = 20  # vLLM's own limit where it is started without another
_CHOICE_TOKENS = 32
_FALLBACK = '\nAnswer as JSON: {"choice": "<letter>"}'
_NO_CONTEXT = ("context length", "max_model_len", "too long", "maximum context")


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
    def charging(self, on_usage: OnUsage | None = None, background: bool = False) -> Iterator[None]:
        """Within it, this thread's calls are reported to `on_usage`, and count as background work where said so.

        Background work pauses (`BudgetExceededError`) when its budget is used up or `budget.stop()` was called.
        """
        token = self._payer.set((on_usage or self._payer.get()[0], background))
        try:
            yield
        finally:
            self._payer.reset(token)

    def choose(self, requests: Sequence[ChoiceRequest]) -> list[Choice | LLMError]:
        """A distribution over the options of each request, in order, or why there is none.

        One constrained token with its log-probabilities; a JSON answer where the server gives none, which is learned.
        """
        meter = self._meter()
        return self._all([partial(self._choose, request, meter) for request in requests], meter)

    def structured(self, requests: Sequence[JsonRequest]) -> list[dict[str, Any] | LLMError]:
        """A JSON object for each request, in order, or why there is none. One that is returned fits its schema."""
        meter = self._meter()
        return self._all([partial(self._object, request, self._trial(), meter) for request in requests], meter)

    def text(self, request: TextRequest) -> str:
        """A complete text, never an empty or a cut one.

        Raises:
            ModelError: there is none.
        """
        meter = self._meter()
        result: str = self._run(self._text(request, meter), meter)
        return result

    def stream(self, request: TextRequest) -> Iterator[str]:
        """A text in pieces as they come. It is retried only while nothing was shown.

        Raises:
            ModelError: there is none, or it ended early: what was shown is then not the whole.
        """
        meter = self._meter()
        on_usage, _ = self._payer.get()
        for item in self._transport.run(self._stream(request, meter), meter.emitted):
            if isinstance(item, str):
                yield item
            elif on_usage is not None:
                on_usage(item)

    def count_tokens(self, texts: Sequence[str]) -> tuple[list[int], bool]:
        """Tokens of each text, and whether they are exact: True by the server's tokenizer, False where guessed."""
        from .tokens import count_tokens

        if isinstance(texts, str):
            raise InputError("texts", "must be a list of texts", "wrap a single one: [text]")

        async def work() -> tuple[list[int], bool]:
            model = await self._exchange.model()
            return await count_tokens(self._transport, model, self.settings.seconds("tokenize"), texts)

        result: tuple[list[int], bool] = self._transport.result(work())
        return result

    def probe(self) -> Capabilities:
        """Try what the client relies on, in the combination that it uses; what is found holds for later calls.

        Raises:
            ModelError: the server cannot be reached, or refuses a plain request.
        """
        meter = self._meter()
        result: Capabilities = self._run(probe(self._exchange, meter), meter)
        return result

    def close(self) -> None:
        """Cancel what is in flight and drop the connections."""
        self._transport.close()

    def _meter(self) -> Meter:
        return Meter(self._payer.get()[1])

    def _trial(self) -> Trial:
        return Trial(1 + self.settings.max_retries)

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

    async def _choose(self, request: ChoiceRequest, meter: Meter) -> Choice:
        count = len(request.options)
        if count == 1:
            return Choice((1.0,), Usage())
        trial, learned = self._trial(), self._exchange.learned
        if learned.scores is not False:
            try:
                scores = await self._scores(request, trial, meter)
                learned.scores = True
                return Choice(scores, trial.usage)
            except NoScores as none:
                failure: ModelError = self._exchange.unusable(Fault("the choice came without log-probabilities"))
                learned.scores = False if none.lasting else learned.scores
            except ModelRefusedError as refusal:
                if any(sign in refusal.detail for sign in _NO_CONTEXT) or refusal.status not in UNSUPPORTED:
                    raise
                failure = refusal
            if trial.left <= 0:
                # Refused at the first try and none left to find out why: the next request asks in the other form.
                learned.scores = learned.scores or False
                raise failure
        chosen = await self._object(_as_json(request), trial, meter)
        learned.scores = learned.scores or False
        place = LETTERS.index(chosen["choice"])
        return Choice(tuple(float(i == place) for i in range(count)), trial.usage, measured=False)

    async def _scores(self, request: ChoiceRequest, trial: Trial, meter: Meter) -> tuple[float, ...]:
        letters = list(LETTERS[: len(request.options)])
        extra = {"logprobs": True, "top_logprobs": _ALTERNATIVES, "structured_outputs": {"choice": letters}}
        return await self._exchange.converse(
            "choice",
            request.task,
            Conversation(request.messages, 1, 1),
            extra,
            lambda reply: read_scores(reply, len(letters)),
            trial,
            meter,
        )

    async def _object(self, request: JsonRequest, trial: Trial, meter: Meter) -> dict[str, Any]:
        shape = {"name": "answer", "schema": dict(request.schema), "strict": True}

        def read(reply: Reply) -> dict[str, Any]:
            found = read_object(read_text(reply), request.schema)
            problem = request.check(found) if request.check else None
            if problem:
                raise Fault(problem, read_text(reply))
            return found

        return await self._exchange.converse(
            "structured",
            request.task,
            self._conversation(request.messages, request.max_tokens),
            {"response_format": {"type": "json_schema", "json_schema": shape}},
            read,
            trial,
            meter,
        )

    async def _text(self, request: TextRequest, meter: Meter) -> str:
        thinking = self.settings.thinking == "server"
        return await self._exchange.converse(
            "text",
            request.task,
            self._conversation(request.messages, request.max_tokens),
            {},
            lambda reply: encodable(read_text(reply, thinking)).strip(),
            self._trial(),
            meter,
        )

    async def _stream(self, request: TextRequest, meter: Meter) -> None:
        from .streaming import stream_text

        await stream_text(self._exchange, request, self._trial(), meter)

    def _conversation(self, messages: Any, max_tokens: int) -> Conversation:
        return Conversation(messages, max_tokens, max(max_tokens, self.settings.max_output_tokens))


def _as_json(request: ChoiceRequest) -> JsonRequest:
    letters = list(LETTERS[: len(request.options)])
    *before, last = request.messages
    schema = {
        "type": "object",
        "properties": {"choice": {"type": "string", "enum": letters}},
        "required": ["choice"],
        "additionalProperties": False,
    }
    asked = {**last, "content": last["content"] + _FALLBACK}
    return JsonRequest((*before, asked), schema, _CHOICE_TOKENS, task=request.task)
