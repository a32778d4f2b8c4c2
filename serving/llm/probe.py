"""What a server can do, found by doing it: `/v1/models` says little, and versions less."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from intentmem.memory.errors import ModelError, ModelOutputError, ModelRefusedError

from .exchange import UNSUPPORTED, Ask, Exchange
from .parsing import NoScores, Reply, read_object, read_scores, read_text
from .requests import Capabilities
from .retry import Conversation, Meter, Trial
from .tokens import count_tokens

_ROOM = 64
_NO_SUCH_PATH = (404, 405)


async def probe(exchange: Exchange, meter: Meter, adapters: bool = False) -> Capabilities:
    """Try a schema together with thinking switched off, a choice with log-probabilities, the tokenizer, and, where
    `adapters` are wanted, whether they can be loaded.

    What is found holds for the exchange's later calls.

    Raises:
        ModelError: the server cannot be reached, or refuses a plain request.
    """
    listed = await exchange.listed()
    model = await exchange.model()
    learned, wanted = exchange.learned, exchange.settings.thinking == "off"
    learned.switches_thinking = True
    combined = await _schema_holds(exchange, meter) and learned.switches_thinking
    structured = combined
    if wanted and not combined:
        learned.switches_thinking = False
        structured = await _schema_holds(exchange, meter)
        # Where neither holds, the switch is not to blame.
        learned.switches_thinking = not structured
    learned.scores = await _scores_come(exchange, meter)
    _, exact = await count_tokens(exchange.transport, model, exchange.settings.seconds("tokenize"), ["one two"])
    return Capabilities(
        model=model,
        models=tuple(str(row["id"]) for row in listed if not row.get("parent")),
        max_model_len=learned.context,
        structured_output=structured,
        thinking_with_schema=combined,
        logprobs=learned.scores,
        tokenize=exact,
        lora=tuple(str(row["id"]) for row in listed if row.get("parent")),
        runtime_adapters=adapters and await _loads_adapters(exchange, model),
    )


async def _schema_holds(exchange: Exchange, meter: Meter) -> bool:
    """Ask for prose with a schema that allows one unguessable word: only a constraint can bring it out."""
    word = secrets.token_hex(3)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"word": {"type": "string", "enum": [word]}},
        "required": ["word"],
        "additionalProperties": False,
    }
    extra = {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": True},
        }
    }
    asked = Conversation([{"role": "user", "content": "Say good morning."}], _ROOM, _ROOM)
    return await _works(exchange, asked, extra, lambda reply: read_object(read_text(reply), schema), meter)


async def _scores_come(exchange: Exchange, meter: Meter) -> bool:
    asked = Conversation([{"role": "user", "content": "Which is a colour?\nA. red\nB. seven\nLetter:"}], 1, 1)
    extra = {"logprobs": True, "top_logprobs": 20, "structured_outputs": {"choice": ["A", "B"]}}
    return await _works(exchange, asked, extra, lambda reply: read_scores(reply, 2), meter)


async def _loads_adapters(exchange: Exchange, model: str) -> bool:
    """Ask for an adapter without saying which: a server that has no such path says so, any other that it lacks a name.

    vLLM has the path only where VLLM_ALLOW_RUNTIME_LORA_UPDATING was set when it was started.
    """
    try:
        await exchange.transport.post(model, "probe", exchange.settings.seconds("probe"), "/load_lora_adapter", {})
    except ModelRefusedError as error:
        return error.status not in _NO_SUCH_PATH
    except ModelError:
        return False
    return True


async def _works(
    exchange: Exchange, asked: Conversation, extra: dict[str, Any], read: Callable[[Reply], object], meter: Meter
) -> bool:
    try:
        # One attempt: a second one would tell the model what to say.
        await exchange.converse(Ask("probe", "probe", asked, extra), read, Trial(1, meter))
    except (ModelOutputError, NoScores):
        return False
    except ModelRefusedError as error:
        if error.status not in UNSUPPORTED:
            raise
        return False
    return True
