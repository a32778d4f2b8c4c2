"""A stand-in for a model server: the chat completions interface with a set delay, and answers that mean nothing.

It is there to try the benchmark without a model. Whatever was measured on it is named as a stand-in's.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

MODEL = "stand-in"
_TEXT = ("The ", "memory ", "says ", "so ", "[T1].")
_THOUGHTS = ("Let ", "me ", "see.")
_CHARACTERS_PER_TOKEN = 4


class StandInServer:
    """Listens on the loopback, at a port of its own.

    Args:
        delay: seconds before a reply, or before the first token of a stream.
        token_delay: seconds between the tokens of a stream.
        thinking: streams begin with reasoning.
        fail_every: each so many-th completion is refused with status 500; 0 for none.
    """

    def __init__(
        self, delay: float = 0.02, token_delay: float = 0.0, thinking: bool = False, fail_every: int = 0
    ) -> None:
        self.delay, self.token_delay, self.thinking, self.fail_every = delay, token_delay, thinking, fail_every
        self.completions = 0
        self._guard = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refuses(self) -> bool:
        """Whether the completion that has just come is to fail."""
        with self._guard:
            self.completions += 1
            return bool(self.fail_every) and self.completions % self.fail_every == 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def _handler(owner: StandInServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: two wait 40 ms for an acknowledgement
        disable_nagle_algorithm = True

        def do_GET(self) -> None:  # the name that http.server calls
            self._send(200, {"data": [{"id": MODEL, "max_model_len": 32768}], "version": "stand-in"})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
            if not self.path.endswith("/chat/completions"):
                self._send(404, {"error": {"message": "no such path"}})
            elif owner.refuses():
                time.sleep(owner.delay)
                self._send(500, {"error": {"message": "the stand-in was told to fail"}})
            elif body.get("stream"):
                self._stream(body)
            else:
                time.sleep(owner.delay)
                self._send(200, _completion(body))

        def _send(self, status: int, value: Any) -> None:
            raw = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def _stream(self, body: Any) -> None:
            self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            time.sleep(owner.delay)
            for event in _events(body, owner.thinking):
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()
                time.sleep(owner.token_delay)
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler


def _completion(body: Any) -> dict[str, Any]:
    letters = (body.get("structured_outputs") or {}).get("choice")
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    if letters:
        picked = letters[_number(body) % len(letters)]
        top = [{"token": letter, "logprob": -0.1 if letter == picked else -4.0, "bytes": None} for letter in letters]
        token = {"token": picked, "logprob": -0.1, "bytes": None, "top_logprobs": top[:20]}
        choice |= {"message": {"role": "assistant", "content": picked}, "logprobs": {"content": [token]}}
        said = picked
    else:
        said = json.dumps(_of_schema(schema)) if schema else "".join(_TEXT)
        choice |= {"message": {"role": "assistant", "content": said}}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [choice],
        "usage": _usage(body, max(1, len(said) // _CHARACTERS_PER_TOKEN)),
    }


def _events(body: Any, thinking: bool) -> Iterator[dict[str, Any]]:
    base = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    thoughts = _THOUGHTS if thinking else ()
    for name, pieces in (("reasoning_content", thoughts), ("content", _TEXT)):
        for piece in pieces:
            yield {**base, "choices": [{"index": 0, "delta": {name: piece}, "finish_reason": None}]}
    yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    yield {**base, "choices": [], "usage": _usage(body, len(_TEXT) + len(thoughts))}


def _usage(body: Any, completion: int) -> dict[str, int]:
    prompt = sum(len(str(message.get("content", ""))) for message in body["messages"]) // _CHARACTERS_PER_TOKEN
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _number(body: Any) -> int:
    """The same for the same messages."""
    return int(hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()[:8], 16)


def _of_schema(schema: Any) -> Any:
    """The smallest value of a schema, of the kinds that this package uses."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: _of_schema(inner) for name, inner in schema.get("properties", {}).items()}
    return {"array": [], "boolean": True, "number": 0, "integer": 0}.get(kind, "the memory says so")
