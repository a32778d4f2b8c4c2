"""What a turn is about, apart from who speaks.

A turn is embedded with the name of its speaker, because questions name people. For labelling, the name is noise: it
makes all turns of one person alike, and hides what tells goals apart. Its direction is taken out of the vector instead
of encoding the turn a second time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..protocols import Embedder
from ..types import Turn, Vector

_KEPT = 4096


class Voices:
    """Directions of speakers' names, each encoded once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._directions: dict[str, Vector] = {}

    def without(self, turns: Sequence[Turn], vectors: Vector) -> Vector:
        """Vectors (N, D) of turns with the direction of the speaker's name taken out, L2-normalised again."""
        spoken = [turn.named_speaker for turn in turns]
        self._learn([name for name in dict.fromkeys(spoken) if name])
        named = [at for at, name in enumerate(spoken) if name]
        if not named:
            return vectors
        names = np.stack([self._directions[spoken[at] or ""] for at in named])
        freed = vectors.copy()
        own = freed[named]
        own = own - (own * names).sum(axis=1, keepdims=True) * names
        # A turn that says nothing but the name keeps the vector it has.
        length = np.linalg.norm(own, axis=1, keepdims=True)
        freed[named] = np.where(length > 1e-3, own / np.maximum(length, 1e-3), freed[named])
        return freed

    def _learn(self, names: Sequence[str]) -> None:
        missing = [name for name in names if name not in self._directions]
        if missing:
            if len(self._directions) + len(missing) > _KEPT:
                self._directions.clear()
                missing = list(names)
            vectors = self._embedder.encode([f"{name}:" for name in missing], "passage")
            self._directions.update(zip(missing, vectors, strict=True))
