"""Batches of like lengths in a random order, and texts through the base as it is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np

from intentmem.memory.types import Vector

from ..backbone import Backbone
from ..encoding import PLAIN, AdaptedEncoder, batches
from ..layers import layer_stack
from .adapting import LoraShape
from .loop import LoopConfig

_BUCKET, _MOST = 512, 32
_LEAST_STEPS, _MOST_EPOCHS = 120, 12


def bucketed(lengths: Sequence[int], tokens: int, rng: random.Random, most: int = _MOST) -> Iterator[list[int]]:
    """All places once, at most `most` and `tokens` padded tokens a batch, alike in length within random buckets."""
    order = list(range(len(lengths)))
    rng.shuffle(order)
    found: list[list[int]] = []
    for start in range(0, len(order), _BUCKET):
        bucket = order[start : start + _BUCKET]
        for batch in batches([lengths[place] for place in bucket], tokens):
            places = [bucket[row] for row in batch]
            found += [places[first : first + most] for first in range(0, len(places), most)]
    rng.shuffle(found)
    return iter(found)


def encoded_plainly(base: Backbone, texts: Sequence[str]) -> Vector:
    """Texts through the base, cut as adapters cut them, mean-pooled and L2-normalised: (N, D)."""
    encoder = AdaptedEncoder(base, ())
    pooled = np.stack([one.pooled for one in encoder.encode(texts, [PLAIN])[PLAIN]])
    found: Vector = pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-9)
    return found


def epochs_for(steps: int) -> int:
    """A few passes over many traces, more over few. steps: batches an epoch."""
    return int(min(_MOST_EPOCHS, max(LoopConfig().epochs, -(-_LEAST_STEPS // max(1, steps)))))


def shape_for(base: Backbone) -> LoraShape:
    """The top four layers, or all of a base that has fewer."""
    return LoraShape(layers=min(LoraShape().layers, len(layer_stack(base.module))))
