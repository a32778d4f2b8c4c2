"""The one place that talks to a server: an event loop in a thread of its own, and its errors in our terms.

Only the configured base URL is ever contacted: redirects are not followed, proxies and credentials of the environment
are not used, and nothing of another provider's settings (`OPENAI_*`) is sent.
"""

from __future__ import annotations

import asyncio
import os
import queue
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from intentmem.memory.errors import (
    InputError,
    MissingExtraError,
    ModelError,
    ModelRefusedError,
    ModelTimeoutError,
    ModelUnavailableError,
)

from .retry import retry_after
from .settings import EndpointSettings, Operation

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

_TRANSIENT = (408, 409, 425, 429)
_DETAIL = 300


@dataclass
class _Running:
    """A loop with the connections and slots that belong to it."""

    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    client: AsyncOpenAI
    slots: asyncio.Semaphore
    process: int


class Transport:
    """Requests to one server. Cheap to construct: the first request starts its thread. Close it when done.

    Args:
        settings: where the server is, and how it is treated.
        group: name of the settings, for messages.
    """

    def __init__(self, settings: EndpointSettings, group: str) -> None:
        if settings.base_url is None:
            raise InputError(f"{group}.base_url", "is not set", 'like "http://127.0.0.1:8000/v1"')
        self.base_url = settings.base_url
        self._settings, self._group = settings, group
        self._secret = settings.api_key.get_secret_value() if settings.api_key else ""
        self._guard = threading.Lock()
        self._running: _Running | None = None

    def __repr__(self) -> str:
        return f"Transport({self.base_url!r})"

    @property
    def root(self) -> str:
        """Where vLLM serves what is not part of OpenAI's interface, `/tokenize` for one."""
        return self.base_url.removesuffix("/v1")

    def run(
        self, work: Coroutine[Any, Any, Any], emitted: queue.SimpleQueue[Any] | None = None
    ) -> Generator[Any, None, Any]:
        """Run work on the loop; yields what it puts on `emitted`, in this thread, until it has ended.

        The generator's return value is the work's result. Leaving it early cancels the work.
        """
        passed: queue.SimpleQueue[Any] = queue.SimpleQueue() if emitted is None else emitted
        end = object()
        try:
            running = self._started()
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, running.loop)
        future.add_done_callback(lambda _: passed.put(end))
        try:
            while (item := passed.get()) is not end:
                yield item
            try:
                return future.result()
            except CancelledError:
                raise ModelUnavailableError(self._settings.model or "?", "the client was closed meanwhile") from None
        finally:
            future.cancel()

    def result(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run work that emits nothing; returns its result."""
        return drained(self.run(work), lambda _: None)

    async def post(self, model: str, operation: Operation, seconds: float, path: str, body: dict[str, Any]) -> object:
        """POST a body once; the decoded reply, or its text where it is not JSON.

        Raises:
            ModelError: whatever went wrong, in our terms.
        """
        async with self.translated(model, operation, seconds) as client:
            return await client.post(path, cast_to=object, body=body, options=self._options())

    async def get(self, model: str, operation: Operation, seconds: float, path: str) -> object:
        """GET once; as `post`."""
        async with self.translated(model, operation, seconds) as client:
            return await client.get(path, cast_to=object, options=self._options())

    @asynccontextmanager
    async def stream(
        self, model: str, operation: Operation, seconds: float, body: dict[str, Any]
    ) -> AsyncIterator[AsyncIterator[object]]:
        """The pieces of a streamed completion, all of them within the time-out."""
        async with self.translated(model, operation, seconds) as client:
            from openai import AsyncStream
            from openai.types.chat import ChatCompletionChunk

            opened = await client.post(
                "/chat/completions",
                cast_to=ChatCompletionChunk,
                body=body,
                options=self._options(),
                stream=True,
                stream_cls=AsyncStream[ChatCompletionChunk],
            )
            async with opened:
                yield opened

    @asynccontextmanager
    async def translated(self, model: str, operation: Operation, seconds: float) -> AsyncIterator[AsyncOpenAI]:
        """The client within a slot and a time-out, its errors in our terms. Waiting for the slot is not timed."""
        import openai

        running = self._running
        assert running is not None
        async with running.slots:
            try:
                async with asyncio.timeout(seconds):
                    yield running.client
            except (TimeoutError, openai.APITimeoutError):
                raise ModelTimeoutError(model, f"{self._group}.{operation}_seconds", seconds) from None
            except openai.APIStatusError as error:
                # The original holds the request, and that the key: it is not chained.
                raise self._as_ours(model, error) from None
            except openai.APIConnectionError as error:
                reason = self.redact(str(error.__cause__ or error))
                raise ModelUnavailableError(model, f"no connection to {self.base_url} ({reason})") from None
            except openai.OpenAIError as error:
                raise ModelUnavailableError(model, f"failed: {self.redact(str(error))[:_DETAIL]}") from None
            except ValueError as error:
                # The client decodes what says that it is JSON.
                raise ModelUnavailableError(model, f"sent what is no JSON ({type(error).__name__})") from None

    def redact(self, text: str) -> str:
        """Text without the key, should a server repeat it."""
        return text.replace(self._secret, "***") if self._secret else text

    def close(self) -> None:
        """Cancel what is in flight and end the thread. A later request starts a new one."""
        with self._guard:
            running, self._running = self._running, None
        if running is None or running.process != os.getpid():
            return
        asyncio.run_coroutine_threadsafe(_wind_up(running.client), running.loop).result()
        running.loop.call_soon_threadsafe(running.loop.stop)
        running.thread.join()
        running.loop.close()

    def _started(self) -> _Running:
        with self._guard:
            # A forked process inherits the loop without its thread.
            if self._running is None or self._running.process != os.getpid():
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=loop.run_forever, name="intentmem-llm", daemon=True)
                self._running = _Running(
                    loop, thread, self._client(), asyncio.Semaphore(self._settings.max_concurrency), os.getpid()
                )
                thread.start()
            return self._running

    def _client(self) -> AsyncOpenAI:
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError("openai", "serve") from error
        headers: dict[str, Any] = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        tls: dict[str, Any] = {}
        if self.base_url.startswith("http:"):
            # Loading the authorities takes longer than a call; this context trusts none, as none is needed.
            tls["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return openai.AsyncOpenAI(
            base_url=self.base_url,
            api_key=self._secret or "none",
            default_headers=headers,
            timeout=None,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False, follow_redirects=False, timeout=None, **tls),
        )

    def _options(self) -> Any:
        import openai

        # Without a key of ours no such header is sent, least of all one that the environment holds.
        return {} if self._secret else {"headers": {"Authorization": openai.Omit()}}

    def _as_ours(self, model: str, error: APIStatusError) -> ModelError:
        status = error.status_code
        detail = self.redact(_detail(error.body) or str(error))[:_DETAIL]
        if status >= 500 or status in _TRANSIENT:
            wait = retry_after(error.response.headers.get("retry-after"))
            return ModelUnavailableError(model, f"the server answers {status}: {detail}", wait)
        return ModelRefusedError(model, status, detail)


def drained(run: Generator[Any, None, Any], take: Callable[[Any], None]) -> Any:
    """The result of a `Transport.run`, after `take` saw all that it emitted."""
    while True:
        try:
            item = next(run)
        except StopIteration as stop:
            return stop.value
        try:
            take(item)
        except BaseException:
            run.close()
            raise


def _detail(body: object) -> str:
    if isinstance(body, dict):
        found = body.get("message") or body.get("detail") or body.get("error")
        return _detail(found) if isinstance(found, dict) else str(found or "")
    return body if isinstance(body, str) else ""


async def _wind_up(client: AsyncOpenAI) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await client.close()
