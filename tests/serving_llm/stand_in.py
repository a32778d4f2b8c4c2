"""An OpenAI-compatible server on the loopback that says what it is told to, right or wrong."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "stand-in-1b"
DONE = ["data: [DONE]\n\n"]


@dataclass(frozen=True)
class Raw:
    """A reply as it goes over the wire."""

    body: bytes
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False


@dataclass(frozen=True)
class Request:
    """What arrived; names of headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


def said(
    content: str | None, finish: str | None = "stop", delay: float = 0.0, usage: bool = True, **message: Any
) -> Raw:
    """A completion with this content."""
    body: dict[str, Any] = {
        "id": "1",
        "object": "chat.completion",
        "model": MODEL,
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
    }
    if usage:
        body["usage"] = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return Raw(json.dumps(body).encode(), delay=delay)


def as_json(value: object, **more: Any) -> Raw:
    """A completion whose content is this value."""
    return said(json.dumps(value), **more)


def scored(token: str, top: Mapping[str, float]) -> Raw:
    """A completion of one token with log-probabilities."""
    listed = [{"token": name, "logprob": logprob, "bytes": None} for name, logprob in top.items()]
    body = json.loads(said(token).body)
    body["choices"][0]["logprobs"] = {
        "content": [{"token": token, "logprob": top.get(token, -1.0), "bytes": None, "top_logprobs": listed}]
    }
    return Raw(json.dumps(body).encode())


def failure(status: int, message: str = "no", **headers: str) -> Raw:
    """An error in OpenAI's form."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(json.dumps({"error": {"message": message}}).encode(), status, headers=named)


def streamed(pieces: Iterable[str], finish: str | None = "stop", into: str = "content", usage: bool = True) -> Raw:
    """A streamed completion; no finish reason means that it breaks off."""
    events: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {into: piece}, "finish_reason": None}]} for piece in pieces
    ]
    if finish:
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage:
        events.append({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}})
    base = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    lines = [f"data: {json.dumps({**base, **event})}\n\n" for event in events] + DONE[: bool(finish)]
    return Raw("".join(lines).encode(), kind="text/event-stream")


class StandIn:
    """The server. `script` holds the replies to completions in order; the last one is repeated.

    `on`: replies to other paths; a callable is given the decoded body.
    """

    def __init__(self) -> None:
        self.script: list[Any] = []
        self.on: dict[str, Any] = {
            "/v1/models": Raw(json.dumps({"data": [{"id": MODEL, "max_model_len": 4096}]}).encode()),
            "/tokenize": lambda body: Raw(json.dumps({"count": len(body["prompt"].split())}).encode()),
        }
        self.requests: list[Request] = []
        self.in_flight = self.peak = 0
        self._guard = threading.Lock()
        self._turn = 0
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet: two wait 40 ms for an acknowledgement
            disable_nagle_algorithm = True

            def do_GET(self) -> None:  # the name that http.server calls
                stand_in.serve(self)

            def do_POST(self) -> None:
                stand_in.serve(self)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that went away is part of the tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def bodies(self) -> list[Any]:
        """Bodies of the completions asked for."""
        return [request.body for request in self.requests if request.path == "/v1/chat/completions"]

    @property
    def paths(self) -> set[str]:
        return {request.path for request in self.requests}

    def says(self, *script: Any) -> None:
        """Take these replies from now on."""
        self.script, self._turn = list(script), 0

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("content-length") or 0)
        body = json.loads(handler.rfile.read(length)) if length else None
        with self._guard:
            self.requests.append(
                Request(
                    handler.command,
                    handler.path,
                    {name.lower(): value for name, value in handler.headers.items()},
                    body,
                )
            )
            self.in_flight += 1
            self.peak = max(self.peak, self.in_flight)
            action = self._next(handler.path)
        try:
            reply: Raw = action(body) if callable(action) else action
            time.sleep(reply.delay)
        finally:
            with self._guard:
                self.in_flight -= 1
        if reply.drop:
            handler.close_connection = True
            return
        handler.send_response(reply.status)
        for name, value in {"Content-Type": reply.kind, **reply.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(reply.body)))
        handler.end_headers()
        handler.wfile.write(reply.body)

    def _next(self, path: str) -> Any:
        if path == "/v1/chat/completions":
            self._turn += 1
            return self.script[min(self._turn, len(self.script)) - 1]
        return self.on.get(path, failure(404, "no such path"))
