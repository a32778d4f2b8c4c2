"""Texts to vectors with a pretrained encoder, as fast as the machine allows and without cutting any text."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from intentmem.memory.errors import EmbedderError, InputError
from intentmem.memory.protocols import TextKind
from intentmem.memory.types import Fingerprint, Vector

from .backbone import Backbone, declared_dimension, readable
from .profiles import PROFILES, EmbedderProfile
from .weights import weights_digest

# Padded tokens a forward pass. On two AVX2 cores and turns of 35 tokens, 512 to 2048 did the same within noise, 4096 up
# to a quarter less: beyond 1024 the activations leave the caches. A GPU wants far more (chosen, not measured).
_CPU_TOKENS, _GPU_TOKENS = 1024, 65_536
_CHUNK_TEXTS = 8192  # tokenised at a time, so that a corpus does not have to fit in memory as token ids
_OVERLAP = 0.25
_MIN_BODY = 8

_log = logging.getLogger(__name__)


class SentenceTransformerEmbedder:
    """An `Embedder` over a local sentence-transformers model. Cheap to construct: the first use loads the weights.

    Args:
        profile: which encoder, with its prefixes and window.
        device: "auto" (a GPU where there is one), "cpu", "cuda", "cuda:1", ...
        dtype: "auto" takes the profile's; that being "auto" too, the fastest that agrees with float32.
        batch_size: texts a forward pass at most.
    """

    def __init__(
        self,
        profile: EmbedderProfile = PROFILES["embedded"],
        device: str = "auto",
        dtype: str = "auto",
        batch_size: int = 512,
    ) -> None:
        if batch_size < 1:
            raise InputError("batch_size", f"must be at least 1, is {batch_size}")
        self.profile = profile
        self.windowed_texts = 0
        self._device, self._dtype = device, profile.dtype if dtype == "auto" else dtype
        self._rows = batch_size
        self._tokens: int | None = None
        self._loaded: Backbone | None = None
        self._loading, self._counting = threading.Lock(), threading.Lock()

    @cached_property
    def _folder(self) -> Path:
        return self.profile.folder()

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What made the vectors. Known without loading the encoder; its dimension is checked when it loads."""
        return Fingerprint(
            self.profile.name,
            weights_digest(self._folder),
            declared_dimension(self._folder),
            self.profile.query_prefix,
            self.profile.passage_prefix,
            self.profile.normalise,
        )

    @property
    def backbone(self) -> Backbone:
        """The encoder itself, loaded on first use.

        Raises:
            MissingExtraError: torch or transformers is not installed.
            EmbedderError: the model cannot be found or loaded.
        """
        if self._loaded is None:
            with self._loading:
                if self._loaded is None:
                    loaded = Backbone(self._folder, self.profile, self._device, self._dtype)
                    if loaded.dimension != self.fingerprint.dimension:
                        raise EmbedderError(f"{self.profile.name} has {loaded.dimension} dimensions, not as declared")
                    self._loaded = loaded
        return self._loaded

    def encode(self, texts: Sequence[str], kind: TextKind) -> Vector:
        """Encode to (N, D) float32, one row a text, in order, L2-normalised if the profile says so.

        A text longer than the window is split into overlapping windows, each with the prefix, whose normalised
        vectors are averaged; `windowed_texts` counts them.

        Raises:
            EmbedderError: the encoder failed, or returned another shape or a value that is not finite.
        """
        if isinstance(texts, str):
            raise InputError("texts", "must be a list of texts", "wrap a single one: [text]")
        prefix = self.profile.prefix(kind)
        parts = [
            self._encode_chunk([readable(text) for text in texts[start : start + _CHUNK_TEXTS]], prefix)
            for start in range(0, len(texts), _CHUNK_TEXTS)
        ]
        if not parts:
            return np.empty((0, self.fingerprint.dimension), np.float32)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text by the encoder's own tokenizer, prefix and special tokens left out."""
        return [len(ids) for ids in self.backbone.bodies(texts)]

    def _encode_chunk(self, texts: list[str], prefix: str) -> Vector:
        sequences, owners = self._sequences(texts, prefix)
        vectors = self._forward(sequences)
        expected = (len(sequences), self.backbone.dimension)
        if vectors.shape != expected or not np.isfinite(vectors).all():
            problem = f"shape {vectors.shape}, not {expected}" if vectors.shape != expected else "values not finite"
            raise EmbedderError(f"{self.profile.name} returned {problem}")
        if len(sequences) > len(texts):
            summed = np.zeros((len(texts), vectors.shape[1]), np.float32)
            np.add.at(summed, owners, _normalised(vectors))
            vectors = summed / np.bincount(owners, minlength=len(texts)).astype(np.float32)[:, None]
        return _normalised(vectors) if self.profile.normalise else vectors

    def _sequences(self, texts: list[str], prefix: str) -> tuple[list[list[int]], list[int]]:
        """Token ids of each window of each text, and the text that each window belongs to."""
        backbone = self.backbone
        encoded = backbone.tokenizer.encode_batch_fast([prefix + text for text in texts], add_special_tokens=True)
        sequences: list[list[int]] = []
        owners: list[int] = []
        windowed = 0
        for owner, (text, one) in enumerate(zip(texts, encoded, strict=True)):
            windows = [one.ids or [backbone.padding]]
            if len(windows[0]) > backbone.window:
                windows = self._windows(text, prefix)
                windowed += 1
            sequences += windows
            owners += [owner] * len(windows)
        if windowed:
            with self._counting:
                self.windowed_texts += windowed
        return sequences, owners

    def _windows(self, text: str, prefix: str) -> list[list[int]]:
        """Overlapping windows over a long text; the last ends with it, so that all are full."""
        backbone = self.backbone
        head = [*backbone.opening, *(backbone.tokenizer.encode(prefix, add_special_tokens=False).ids if prefix else ())]
        body = backbone.tokenizer.encode(text, add_special_tokens=False).ids
        size = backbone.window - len(head) - len(backbone.closing)
        if size < _MIN_BODY:
            raise EmbedderError(f"{self.profile.name}: a window of {backbone.window} tokens leaves no room for a text")
        last = max(len(body) - size, 0)
        starts = [*range(0, last, max(1, int(size * (1 - _OVERLAP)))), last]
        return [[*head, *body[start : start + size], *backbone.closing] for start in starts]

    def _forward(self, sequences: list[list[int]]) -> Vector:
        """Pooled vectors of all sequences in order, computed in batches of similar length."""
        backbone = self.backbone
        if self._tokens is None:
            self._tokens = _GPU_TOKENS if backbone.device.type == "cuda" else _CPU_TOKENS
        if len(sequences) == 1:
            return self._pooled_within_memory(sequences)
        order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]), reverse=True)
        out = np.empty((len(sequences), backbone.dimension), np.float32)
        for places in self._batches(sequences, order):
            out[places] = self._pooled_within_memory([sequences[i] for i in places])
        return out

    def _batches(self, sequences: list[list[int]], order: list[int]) -> Iterator[list[int]]:
        """Longest first, so that what does not fit in memory shows at once."""
        start = 0
        while start < len(order):
            assert self._tokens is not None
            rows = max(1, min(self._rows, self._tokens // len(sequences[order[start]])))
            yield order[start : start + rows]
            start += rows

    def _pooled_within_memory(self, sequences: list[list[int]]) -> Vector:
        """Pooled vectors; halves the batch when memory runs out, and remembers."""
        try:
            return self.backbone.pooled(sequences)
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            if not _is_out_of_memory(error):
                raise EmbedderError(f"{self.profile.name} failed: {error}") from error
            if len(sequences) == 1:
                raise EmbedderError(f"{self.profile.name}: not enough memory for one text") from error
        half = len(sequences) // 2
        self._rows = min(self._rows, half)
        self._tokens = max(1, (self._tokens or _CPU_TOKENS) // 2)
        _log.warning("%s: out of memory, going on with %d texts a batch", self.profile.name, self._rows)
        return np.concatenate(
            [self._pooled_within_memory(sequences[:half]), self._pooled_within_memory(sequences[half:])]
        )


def _normalised(vectors: Vector) -> Vector:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, 1e-12), np.float32)


def _is_out_of_memory(error: RuntimeError) -> bool:
    message = str(error).lower()
    return "out of memory" in message or "not enough memory" in message or "can't allocate memory" in message
