"""Vectors of a namespace in the order of its columns, for namespaces small enough to score every turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..store.vectors import VectorIndex
from ..types import Vector
from .columns import Columns, Ints
from .kept import Kept
from .signals import centroids
from .words import Pool

_KEPT = 4


@dataclass(frozen=True, slots=True)
class Matrix:
    """vectors: (N, D), zero where `embedded` (N,) is False. sittings: (S, D) centroids of all sessions, by code."""

    columns: Columns
    vectors: Vector
    embedded: NDArray[np.bool_]
    sittings: Vector


class MatrixCache:
    """Matrices of the namespaces read last."""

    def __init__(self) -> None:
        self._kept = Kept[int, Matrix](_KEPT)

    def of(self, pool: Pool, index: VectorIndex) -> tuple[Vector, NDArray[np.bool_], Vector]:
        """Vectors (P, D) of a pool, which of them there are, and the centroids (S, D) of its sessions.

        The centroids of a pool are those of its eligible turns alone.
        """
        matrix = self._current(pool.columns, index)
        whole = len(pool) == len(matrix.vectors)
        in_order = whole and bool((np.diff(pool.positions) > 0).all())
        vectors = matrix.vectors if in_order else matrix.vectors[pool.positions]
        embedded = matrix.embedded if in_order else matrix.embedded[pool.positions]
        if whole and pool.eligible.all():
            return vectors, embedded, matrix.sittings
        kept = vectors if pool.eligible.all() else np.where(pool.eligible[:, None], vectors, np.float32(0))
        return vectors, embedded, centroids(pool.session, kept, pool.sessions)

    def _current(self, columns: Columns, index: VectorIndex) -> Matrix:
        known = self._kept.get(columns.namespace)
        if known is None or known.columns.epoch != columns.epoch or len(known.columns) > len(columns):
            known = None
        elif len(known.columns) == len(columns) and known.embedded.all():
            return known
        matrix = _built(columns, index, known)
        self._kept.put(columns.namespace, matrix)
        return matrix


def _built(columns: Columns, index: VectorIndex, known: Matrix | None) -> Matrix:
    """A matrix of all columns; what an earlier one holds is taken from it."""
    vectors = np.zeros((len(columns), index.dimension), np.float32)
    embedded = np.zeros(len(columns), np.bool_)
    if known is not None:
        vectors[: len(known.vectors)], embedded[: len(known.vectors)] = known.vectors, known.embedded
    missing = np.flatnonzero(~embedded)
    vectors[missing], embedded[missing] = gathered(index, columns.rows[missing])
    return Matrix(columns, vectors, embedded, centroids(columns.session, vectors, len(columns.sessions.names)))


def gathered(index: VectorIndex, rows: Ints) -> tuple[Vector, NDArray[np.bool_]]:
    """Vectors (N, D) of rows, zero where there is none yet, and which there are."""
    embedded = np.isin(rows, index.ids())
    vectors = np.zeros((len(rows), index.dimension), np.float32)
    if embedded.any():
        vectors[embedded] = index.vectors(rows[embedded])
    return vectors, embedded
