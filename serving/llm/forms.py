"""The three forms of an answer: a choice, a JSON object, a text."""

from __future__ import annotations

from typing import Any

from intentmem.memory.errors import ModelContextError, ModelError, ModelRefusedError

from .exchange import UNSUPPORTED, Ask, Exchange
from .parsing import Fault, NoScores, Reply, read_object, read_scores, read_text
from .requests import LETTERS, Choice, ChoiceRequest, JsonRequest, Messages, TextRequest, Usage
from .retry import Conversation, Trial, encodable
from .schema import for_grammar

_ALTERNATIVES = 20  # vLLM's own limit where it is started without another
_CHOICE_TOKENS = 32
_FALLBACK = '\nAnswer as JSON: {"choice": "<letter>"}'


async def choose(exchange: Exchange, request: ChoiceRequest, trial: Trial) -> Choice:
    """A distribution over the options: from one token's log-probabilities, or a JSON answer where there are none.

    Raises:
        ModelError: no choice could be had.
    """
    count = len(request.options)
    if count == 1:
        return Choice((1.0,), Usage())
    learned = exchange.learned
    if learned.scores is not False:
        try:
            scores = await _scores(exchange, request, trial)
            learned.scores = True
            return Choice(scores, trial.usage)
        except NoScores as none:
            failure: ModelError = exchange.unusable(Fault("the choice came without log-probabilities"))
            learned.scores = False if none.lasting else learned.scores
        except ModelRefusedError as refusal:
            if isinstance(refusal, ModelContextError) or refusal.status not in UNSUPPORTED:
                raise
            failure = refusal
        if trial.left <= 0:
            # No attempt is left to find out why: the next request asks in the other form.
            learned.scores = learned.scores or False
            raise failure
    chosen = await fill(exchange, _as_json(request), trial)
    learned.scores = learned.scores or False
    place = LETTERS.index(chosen["choice"])
    return Choice(tuple(float(i == place) for i in range(count)), trial.usage, measured=False)


async def fill(exchange: Exchange, request: JsonRequest, trial: Trial) -> dict[str, Any]:
    """An object that fits the request's schema and passes its check.

    Raises:
        ModelError: none could be had.
    """
    schema = request.schema if exchange.settings.grammar_lengths else for_grammar(request.schema)
    shape = {"name": "answer", "schema": schema, "strict": True}
    ask = Ask(
        "structured",
        request.task,
        _conversation(exchange, request.messages, request.max_tokens, request.spare),
        {"response_format": {"type": "json_schema", "json_schema": shape}},
    )

    def read(reply: Reply) -> dict[str, Any]:
        text = read_text(reply)
        found = read_object(text, request.schema)
        problem = request.check(found) if request.check else None
        if problem:
            raise Fault(problem, text)
        return found

    return await exchange.converse(ask, read, trial)


async def write(exchange: Exchange, request: TextRequest, trial: Trial) -> str:
    """A complete text.

    Raises:
        ModelError: none could be had.
    """
    thinking = exchange.settings.thinking == "server"
    ask = Ask("text", request.task, _conversation(exchange, request.messages, request.max_tokens))
    return await exchange.converse(ask, lambda reply: encodable(read_text(reply, thinking)).strip(), trial)


async def _scores(exchange: Exchange, request: ChoiceRequest, trial: Trial) -> tuple[float, ...]:
    letters = list(LETTERS[: len(request.options)])
    extra = {"logprobs": True, "top_logprobs": _ALTERNATIVES, "structured_outputs": {"choice": letters}}
    ask = Ask("choice", request.task, Conversation(request.messages, 1, 1, request.spare), extra)
    return await exchange.converse(ask, lambda reply: read_scores(reply, len(letters)), trial)


def _conversation(exchange: Exchange, messages: Messages, max_tokens: int, spare: tuple[str, ...] = ()) -> Conversation:
    return Conversation(messages, max_tokens, max(max_tokens, exchange.settings.max_output_tokens), spare)


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
    return JsonRequest((*before, asked), schema, _CHOICE_TOKENS, task=request.task, spare=request.spare)
