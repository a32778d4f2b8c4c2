"""A text in pieces."""

from __future__ import annotations

from collections.abc import Callable

from intentmem.memory.errors import ModelError, ModelRefusedError, ModelTimeoutError, ModelUnavailableError

from .exchange import Ask, Exchange
from .parsing import Fault, LeadingThoughts, without_thoughts
from .requests import TextRequest
from .retry import Conversation, Trial, encodable


async def stream_text(
    exchange: Exchange, request: TextRequest, trial: Trial, on_token: Callable[[], None] | None = None
) -> None:
    """Emit a text on the meter piece by piece; attempts are repeated only while nothing was emitted.

    `on_token` is called at the first token of each attempt, of reasoning or of text.

    Raises:
        ModelError: no text, or not the whole of it.
    """
    ceiling = max(request.max_tokens, exchange.settings.max_output_tokens)
    ask = Ask("text", request.task, Conversation(request.messages, request.max_tokens, ceiling))
    model = await exchange.model()
    last: ModelError | None = None
    attempt = 0
    while trial.take():
        shown: list[str] = []
        try:
            await _once(exchange, ask, exchange.body(model, ask), trial, shown, on_token)
            return
        except Fault as fault:
            exchange.totals.fault(ask.task)
            last = exchange.unusable(fault)
            ask.conversation.amend(fault)
            if shown:
                raise last from None
        except ModelRefusedError as error:
            last = exchange.after_refusal(error, ask, trial)
        except (ModelTimeoutError, ModelUnavailableError) as error:
            last = error
            if shown:
                raise
            if isinstance(error, ModelUnavailableError):
                await exchange.back_off(attempt, error, trial)
        attempt += 1
    assert last is not None
    raise last


async def _once(
    exchange: Exchange,
    ask: Ask,
    body: dict[str, object],
    trial: Trial,
    shown: list[str],
    on_token: Callable[[], None] | None,
) -> None:
    thoughts, reasoned = LeadingThoughts(), ""
    ended: str | None = None

    def show(text: str) -> None:
        text = encodable(text)
        if text and (shown or text.strip()):
            shown.append(text)
            trial.meter.emitted.put(text)

    async for content, reasoning, reason in exchange.pieces(ask, body, trial):
        if on_token is not None and (content or reasoning):
            on_token()
            on_token = None
        ended = reason or ended
        reasoned += reasoning
        if content:
            show(thoughts.feed(content))
    show(thoughts.rest())
    if ended == "length":
        raise Fault("the reply was cut (finish_reason=length)", "".join(shown), cut=True, note="it was too long")
    if ended is None:
        raise Fault("the stream ended before the reply did", "".join(shown))
    if not shown and exchange.settings.thinking == "off":
        show(without_thoughts(reasoned))
    if not shown:
        raise Fault("the reply is empty", reasoned)
