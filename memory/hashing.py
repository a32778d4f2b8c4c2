"""An embedder with no model: hashed words and character n-grams, for the core without extras and for fast tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from .protocols import TextKind
from .stemming import stem
from .types import Fingerprint, Vector

_RECIPE = "stem+3gram/2"
_WORD = re.compile(r"\w+")
_WORD_WEIGHT, _GRAM_WEIGHT, _BIAS = 1.0, 0.35, 0.05


class HashEmbedder:
    """Texts that share stems or spellings get similar vectors. Deterministic across processes and machines.

    Each stem and each character trigram of a word falls on one of `dimension` places with a sign, both from its hash
    (feature hashing: Weinberger et al., 2009, section 2); counts are damped by their square root.
    """

    def __init__(self, dimension: int = 256) -> None:
        self._fingerprint = Fingerprint("hash", blake2b(_RECIPE.encode(), digest_size=16).hexdigest(), dimension)

    @property
    def fingerprint(self) -> Fingerprint:
        """What made the vectors."""
        return self._fingerprint

    def encode(self, texts: Sequence[str], kind: TextKind) -> Vector:
        """Encode to (N, D) float32, L2-normalised. `kind` makes no difference; no text is too long or too odd."""
        rows = np.zeros((len(texts), self._fingerprint.dimension), np.float32)
        rows[:, 0] = _BIAS  # an empty text has a direction too
        for row, text in zip(rows, texts, strict=True):
            for word, count in Counter(_WORD.findall(text.lower())).items():
                places, weights = _features(word, len(row))
                np.add.at(row, places, weights * np.float32(count**0.5))
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        rows[norms[:, 0] == 0, 0], norms[norms == 0] = 1.0, 1.0
        return np.asarray(rows / norms, np.float32)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Words and single punctuation marks of each text."""
        return [len(re.findall(r"\w+|[^\w\s]", text)) for text in texts]


@lru_cache(maxsize=65_536)
def _features(word: str, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and signed weights of a word's stem and trigrams."""
    padded = f"<{word}>"
    grams = [padded[start : start + 3] for start in range(len(padded) - 2)]
    weighted = [(f"w:{stem(word)}", _WORD_WEIGHT), *((f"g:{gram}", _GRAM_WEIGHT / len(grams) ** 0.5) for gram in grams)]
    digests = [int.from_bytes(blake2b(key.encode("utf-8", "replace"), digest_size=8).digest()) for key, _ in weighted]
    places = np.array([digest % dimension for digest in digests], np.int64)
    signs = np.array([1.0 if digest >> 63 else -1.0 for digest in digests], np.float32)
    return places, signs * np.array([weight for _, weight in weighted], np.float32)
