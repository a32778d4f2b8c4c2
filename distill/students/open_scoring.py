"""How well open labels fit turns: one matrix product of the turns, each mixed with what was said before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.types import Vector

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Scoring:
    """The head's arrays. A turn t, with the turns c_1..c_K before it, latest first, becomes

        q = unit(t + V sum_k a_k c_k + side),  a = softmax([Q t . M c_k + lag_k, alone])

    and a label l scores scale * q.l + token_scale * max over the turn's tokens h of h.l + bias; all vectors of unit
    length. The second term is late interaction (Khattab and Zaharia, 2020), a label being a query of one vector.

    Attributes:
        query, key: Q and M, (R, D).
        lag: (K,). alone: (1,), the weight of no context at all.
        value: V, (D, D).
        sides: (2, D), of the user's and of the assistant's turns.
        scales: (3,): scale, token_scale, bias.
    """

    query: Vector
    key: Vector
    lag: Vector
    alone: Vector
    value: Vector
    sides: Vector
    scales: Vector

    @classmethod
    def of(cls, arrays: Mapping[str, Vector]) -> Scoring:
        """From arrays by name, as `arrays` gives them."""
        return cls(**{field.name: np.asarray(arrays[field.name], np.float32) for field in fields(cls)})

    def arrays(self) -> dict[str, Vector]:
        """The arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def reach(self) -> int:
        """Turns before a turn that are read."""
        return len(self.lag)

    @property
    def reads_tokens(self) -> bool:
        """Whether the states of single tokens count."""
        return bool(self.scales[1])

    def scores(
        self,
        turns: Vector,
        before: Vector,
        known: NDArray[np.bool_],
        sides: NDArray[np.int64],
        labels: Vector,
        tokens: Sequence[Vector] | None = None,
    ) -> Floats:
        """(N, L) scores.

        Args:
            turns: (N, D) pooled.
            before: (N, K, D) pooled, latest first; `known` (N, K) tells which are there.
            sides: (N,): 0 user, 1 assistant, another number for neither.
            labels: (L, D), L2-normalised.
            tokens: (T_i, D) states of each turn's tokens, where `reads_tokens`.
        """
        queries = self._queries(unit(turns), unit(before), known, sides)
        scale, token_scale, bias = (float(value) for value in self.scales)
        found = scale * (queries @ labels.T) + bias
        if tokens is not None and self.reads_tokens:
            found += token_scale * best_tokens(tokens, labels)
        return np.asarray(found, np.float32)

    def _queries(self, turns: Vector, before: Vector, known: NDArray[np.bool_], sides: NDArray[np.int64]) -> Vector:
        mixed = turns.copy()
        if before.shape[1]:
            fit = np.einsum("nr,nkr->nk", turns @ self.query.T, before @ self.key.T) + self.lag[: before.shape[1]]
            fit = np.where(known, fit, -np.inf)
            fit = np.concatenate([fit, np.broadcast_to(self.alone, (len(turns), 1))], axis=1)
            shares = np.exp(fit - fit.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
            mixed += np.einsum("nk,nkd->nd", shares[:, :-1], before) @ self.value.T
        told = np.flatnonzero(sides < len(self.sides))
        mixed[told] += self.sides[sides[told]]
        return unit(mixed)


def best_tokens(tokens: Sequence[Vector], labels: Vector) -> Floats:
    """(N, L): the highest cosine of any token state of each text with each label."""
    starts = np.cumsum([0, *(len(one) for one in tokens[:-1])])
    cosines = unit(np.concatenate(tokens).astype(np.float32)) @ labels.T
    return np.asarray(np.maximum.reduceat(cosines, starts, axis=0), np.float32)


def unit(vectors: Vector) -> Vector:
    """Vectors (..., D) scaled to length 1; zeros stay zeros."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9), np.float32)
