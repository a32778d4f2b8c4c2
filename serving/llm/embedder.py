"""An encoder behind `/v1/embeddings`."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from intentmem.memory.errors import (
    EmbedderError,
    InputError,
    ModelError,
    ModelRefusedError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from intentmem.memory.protocols import TextKind
from intentmem.memory.types import Fingerprint, Vector

from .retry import encodable, pause
from .settings import RemoteEmbedderSettings
from .tokens import count_tokens
from .transport import Transport

_log = logging.getLogger(__name__)
_OVERLAP = 0.25
_TOO_MANY = (400, 413, 422)
_SPECIAL = 2  # tokens around a text


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore")

    index: int
    embedding: list[float]


class _Rows(BaseModel):
    model_config = ConfigDict(extra="ignore")

    data: list[_Row]


class RemoteEmbedder:
    """An `Embedder` over an OpenAI-compatible server. Each reply is checked for its number of vectors and their length.

    A server that refuses a batch for its size gets half as many texts, and that size is kept. Vectors come back
    L2-normalised.

    Args:
        settings: where the server is and how it is treated.
    """

    def __init__(self, settings: RemoteEmbedderSettings) -> None:
        self.settings = settings
        self._transport = Transport(settings, "embedder")
        self._batch = settings.batch_size
        self._model, self._window = settings.model, settings.window_tokens
        self._dimension = settings.dimension
        self._asking = threading.Lock()
        self.counts_exactly = True
        """Whether the last `count_tokens` was the server's own count; guessed from lengths otherwise."""

    def __repr__(self) -> str:
        return f"RemoteEmbedder({self.settings.base_url!r}, model={self.settings.model!r})"

    def __enter__(self) -> RemoteEmbedder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def batch_size(self) -> int:
        """Texts a request, as the server has been found to accept."""
        return self._batch

    @property
    def fingerprint(self) -> Fingerprint:
        """What makes the vectors; asks the server for what is not configured, once.

        The weights stand as the model's name: a server that swaps them under one name cannot be noticed.

        Raises:
            EmbedderError: the server cannot be asked.
        """
        model = self._named()
        if self._dimension is None:
            with self._asking:
                if self._dimension is None:
                    self._dimension = int(self._result(self._vectors(["dimension"])).shape[1])
        weights = hashlib.sha256(model.encode()).hexdigest()
        settings = self.settings
        return Fingerprint(f"remote:{model}", weights, self._dimension, settings.query_prefix, settings.passage_prefix)

    def encode(self, texts: Sequence[str], kind: TextKind) -> Vector:
        """Encode to (N, D) float32, one row a text, in order, L2-normalised.

        A text longer than the window is split into overlapping windows, whose vectors are averaged.

        Raises:
            EmbedderError: the server failed, refused a single text, or returned another shape.
        """
        if isinstance(texts, str):
            raise InputError("texts", "must be a list of texts", "wrap a single one: [text]")
        if not texts:
            return np.empty((0, self.fingerprint.dimension), np.float32)
        self._named()
        prefix = {"query": self.settings.query_prefix, "passage": self.settings.passage_prefix}.get(kind, "")
        windows: list[str] = []
        owners: list[int] = []
        for owner, parts in enumerate(self._result(self._split([encodable(text) for text in texts], prefix))):
            windows += [prefix + part for part in parts]
            owners += [owner] * len(parts)
        vectors: Vector = self._result(self._vectors(windows))
        if len(windows) > len(texts):
            summed = np.zeros((len(texts), vectors.shape[1]), np.float32)
            np.add.at(summed, owners, vectors)
            vectors = _normalised(summed)
        self._dimension = self._dimension or int(vectors.shape[1])
        return vectors

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text by the server's tokenizer, or a guess; `counts_exactly` says which."""
        if isinstance(texts, str):
            raise InputError("texts", "must be a list of texts", "wrap a single one: [text]")
        counts, self.counts_exactly = self._result(
            count_tokens(self._transport, self._named(), self.settings.seconds("tokenize"), texts)
        )
        return list(counts)

    def close(self) -> None:
        """Drop the connections."""
        self._transport.close()

    def _result(self, work: Any) -> Any:
        try:
            return self._transport.result(work)
        except ModelError as error:
            raise EmbedderError(str(error)) from None

    def _named(self) -> str:
        """The model's name, learned from the server where it is not configured, together with its window."""
        if self._model is None:
            data = self._result(self._retried(lambda: self._transport.get("?", "embed", self._seconds, "/models")))
            rows = data.get("data") if isinstance(data, dict) else None
            if not rows or not isinstance(rows[0], dict) or not rows[0].get("id"):
                raise EmbedderError(f"{self.settings.base_url} serves no model")
            length = rows[0].get("max_model_len")
            if self._window is None and isinstance(length, int):
                self._window = length
            self._model = str(rows[0]["id"])
        return self._model

    @property
    def _seconds(self) -> float:
        return self.settings.seconds("embed")

    async def _split(self, texts: list[str], prefix: str) -> list[list[str]]:
        """Windows of each text. A token is at least a byte, so that most texts need not be counted."""
        if self._window is None:
            return [[text] for text in texts]
        room = self._window - _SPECIAL
        long = [text for text in texts if len((prefix + text).encode()) > room]
        if not long:
            return [[text] for text in texts]
        seconds = self.settings.seconds("tokenize")
        counts, _ = await count_tokens(self._transport, self._model or "?", seconds, [prefix, *long])
        room -= counts[0]
        if room < 1:
            raise ModelRefusedError(self._model or "?", 400, f"a window of {self._window} leaves no room for a text")
        tokens = dict(zip(long, counts[1:], strict=True))
        return [_windows(text, tokens.get(text, 0), room) for text in texts]

    async def _vectors(self, texts: list[str]) -> Vector:
        """(N, D) of all texts, batches at once."""
        size = self._batch
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        found = await asyncio.gather(*(self._halving(part, start * size) for start, part in enumerate(parts)))
        return _normalised(np.concatenate(found))

    async def _halving(self, texts: list[str], at: int) -> Vector:
        size = min(len(texts), self._batch)
        if size < len(texts):  # another batch has learned that less is accepted
            pieces = [texts[start : start + size] for start in range(0, len(texts), size)]
            return np.concatenate([await self._halving(piece, at + i * size) for i, piece in enumerate(pieces)])
        try:
            found: Vector = await self._retried(lambda: self._batch_once(texts))
            return found
        except ModelRefusedError as error:
            if error.status not in _TOO_MANY:
                raise
            if len(texts) == 1:
                detail = f"text {at} ({len(texts[0])} characters): {error.detail}"
                raise ModelRefusedError(error.model, error.status, detail) from None
        half = math.ceil(len(texts) / 2)
        both = np.concatenate([await self._halving(texts[:half], at), await self._halving(texts[half:], at + half)])
        if half < self._batch:  # both were accepted: it was the size
            self._batch = half
            _log.warning("%s accepts no more than %d texts a request", self.settings.base_url, half)
        return both

    async def _batch_once(self, texts: list[str]) -> Vector:
        model = self._model or "?"
        body: dict[str, Any] = {"model": model, "input": texts, "encoding_format": "float"}
        data = await self._transport.post(model, "embed", self._seconds, "/embeddings", body)
        try:
            rows = sorted(_Rows.model_validate(data).data, key=lambda row: row.index)
        except ValidationError:
            raise EmbedderError(f"{model}: the server's reply holds no embeddings") from None
        if [row.index for row in rows] != list(range(len(texts))):
            raise EmbedderError(f"{model} returned {len(rows)} vectors for {len(texts)} texts")
        lengths = {len(row.embedding) for row in rows}
        expected = self._dimension or min(lengths)
        if lengths != {expected}:
            wrong = min(lengths - {expected})
            raise EmbedderError(f"{model} returned vectors of {wrong} dimensions, expected {expected}")
        vectors = np.array([row.embedding for row in rows], np.float32)
        if not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise EmbedderError(f"{model} returned a vector that is zero or not finite")
        return vectors

    async def _retried(self, call: Any) -> Any:
        """What a call returns, repeated as long as the server is not available and attempts are left."""
        for attempt in range(1 + self.settings.max_retries):
            try:
                return await call()
            except (ModelUnavailableError, ModelTimeoutError) as error:
                asked = error.retry_after if isinstance(error, ModelUnavailableError) else 0.0
                wait = pause(self.settings, attempt, asked)
                if wait is None or attempt == self.settings.max_retries:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError("unreachable")


def _windows(text: str, tokens: int, room: int) -> list[str]:
    """Overlapping parts of a text of so many tokens, each of about `room` at most; the last ends with it."""
    if tokens <= room:
        return [text]
    size = max(1, int(len(text) * room / tokens * 0.9))  # tokens are not spread evenly
    last = len(text) - size
    step = max(1, int(size * (1 - _OVERLAP)))
    return [text[start : start + size] for start in [*range(0, last, step), last]]


def _normalised(vectors: Vector) -> Vector:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)
