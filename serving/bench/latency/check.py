"""A second client for the same stream: two tools that disagree about one server measure different things.

It speaks HTTP by the standard library, shares no code with the client of this package, and stops its clock at the first
event that carries a token (of reasoning or of text), and at the first that carries text.
"""

from __future__ import annotations

import http.client
import json
import platform
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from intentmem.memory.errors import ModelUnavailableError
from intentmem.serving.llm.requests import TextRequest

from .calls import Watched
from .load import Call, Reply

if TYPE_CHECKING:
    from .subjects import Subject

GROUP = "check"
_ROOM = 64
_SECONDS = 300.0
_REASONING = ("reasoning_content", "reasoning")


def plain_tool() -> str:
    """The second client and its version."""
    return f"http.client of Python {platform.python_version()}"


def product_calls(subject: Subject, prompts: Sequence[str]) -> Call:
    """Streams by the client of this package."""

    def call(number: int, worker: int) -> Reply:
        assert subject.client is not None
        watched = Watched(subject.client)
        with watched.charging():
            whole = "".join(watched.stream(TextRequest(_messages(prompts[number % len(prompts)]), _ROOM, "check")))
        return Reply(whole, watched.meter.usage, watched.first_token, watched.first_output)

    return call


def plain_calls(subject: Subject, prompts: Sequence[str]) -> Call:
    """The same streams by the second client, which opens a connection for each, within its time."""
    client = subject.client
    assert client is not None
    settings, model = client.settings, client.name.removeprefix("llm:")
    key = settings.api_key.get_secret_value() if settings.api_key else ""

    def call(number: int, worker: int) -> Reply:
        body = {
            "model": model,
            "messages": _messages(prompts[number % len(prompts)]),
            "max_tokens": _ROOM,
            "stream": True,
        }
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        return _streamed(str(settings.base_url), key, body)

    return call


def _streamed(base_url: str, key: str, body: Mapping[str, Any]) -> Reply:
    parts = urlsplit(base_url)
    made: http.client.HTTPConnection
    if parts.scheme == "https":
        made = http.client.HTTPSConnection(parts.netloc, timeout=_SECONDS, context=ssl.create_default_context())
    else:
        made = http.client.HTTPConnection(parts.netloc, timeout=_SECONDS)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    first: dict[str, float] = {}
    try:
        made.request("POST", f"{parts.path}/chat/completions", json.dumps(body).encode(), headers)
        reply = made.getresponse()
        if reply.status != 200:
            raise ModelUnavailableError(str(body["model"]), f"the server answers {reply.status}")
        for line in reply:
            if line.startswith(b"data:") and b"[DONE]" not in line:
                _note(json.loads(line[5:]), first)
    finally:
        made.close()
    if "output" not in first:
        raise ModelUnavailableError(str(body["model"]), "the stream held no text")
    return Reply(first_token=first["token"], first_output=first["output"])


def _note(event: Mapping[str, Any], first: dict[str, float]) -> None:
    now = time.perf_counter()
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or {}
        if delta.get("content"):
            first.setdefault("output", now)
        if delta.get("content") or any(delta.get(name) for name in _REASONING):
            first.setdefault("token", now)


def _messages(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"Answer in one short sentence: {prompt}"}]
