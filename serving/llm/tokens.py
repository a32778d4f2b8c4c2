"""Counting tokens on the server."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from intentmem.memory.errors import ModelError

from .retry import encodable
from .transport import Transport

_BYTES_PER_TOKEN = 3.0


async def count_tokens(
    transport: Transport, model: str, seconds: float, texts: Sequence[str]
) -> tuple[list[int], bool]:
    """Tokens of each text by vLLM's `/tokenize`, special tokens left out, and True; or guesses, and False."""

    async def one(text: str) -> int:
        body = {"model": model, "prompt": encodable(text), "add_special_tokens": False}
        data = await transport.post(model, "tokenize", seconds, f"{transport.root}/tokenize", body)
        count = data.get("count") if isinstance(data, dict) else None
        if not isinstance(count, int) or count < 0:
            raise ValueError("no count")
        return count

    try:
        return list(await asyncio.gather(*map(one, texts))), True
    except (ModelError, ValueError):
        return [estimated_tokens(text) for text in texts], False


def estimated_tokens(text: str) -> int:
    """A guess from the length in UTF-8: a token every three bytes, which is rather too many than too few."""
    return math.ceil(len(encodable(text).encode()) / _BYTES_PER_TOKEN)
