"""The vectors in which the scopes of a trajectory are told apart: the embedder's, or those of a decider of scopes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

import numpy as np

from ..protocols import Embedder
from ..store import Store
from ..store.embeddings import SCOPE_SPACE, TURN
from ..types import Turn, Vector
from .voices import Voices


class ScopeSpace:
    """Vectors of turns for scope trackers, stored so that a tracker is replayed without encoding anything again.

    The decider of scopes may be exchanged at any time: whoever works through several steps asks for the encoder once,
    by `now`, and gives it to each of them.

    Args:
        own: gives what encodes turns for the decider of scopes at present; None takes the embedder's vectors less the
            speakers' names.
    """

    def __init__(self, store: Store, embedder: Embedder, own: Callable[[], Embedder | None] | None = None) -> None:
        self._store = store
        self._embedder = embedder
        self._own = own
        self.voices = Voices(embedder)

    def now(self) -> Embedder | None:
        """What encodes turns for the decider of scopes at present."""
        return None if self._own is None else self._own()

    def of(self, own: Embedder | None, turns: Sequence[Turn], vectors: Vector) -> Vector:
        """(N, S) vectors of new turns; `vectors`, (N, D), are the embedder's, freed of the speakers' names."""
        if own is None or not turns:
            return vectors
        return own.encode([turn.searchable_text for turn in turns], "passage")

    def embedded(self, namespace: int, rows: Sequence[int]) -> tuple[list[Turn], Vector]:
        """Those turns of `rows` that are embedded, and the embedder's vectors of them, freed of the speakers' names."""
        turns = self._store.turns.by_rows(namespace, rows)
        owners, vectors = self._store.embeddings.load(
            namespace, TURN, self._embedder.fingerprint, [row for row in rows if row in turns]
        )
        found = [turns[row] for row in owners.tolist()]
        return found, self.voices.without(found, vectors)

    def stored(self, own: Embedder | None, namespace: int, rows: Sequence[int]) -> tuple[list[Turn], Vector]:
        """Those turns of `rows` that can be placed, and their (N, S) vectors.

        Turns labelled before the decider had this space are encoded now, and kept.
        """
        if own is None:
            return self.embedded(namespace, rows)
        turns, fingerprint = self._store.turns.by_rows(namespace, rows), own.fingerprint
        owners, vectors = self._store.embeddings.load(namespace, SCOPE_SPACE, fingerprint, sorted(turns))
        known = dict(zip(owners.tolist(), vectors, strict=True))
        if missing := [turn for row, turn in sorted(turns.items()) if row not in known]:
            made = self.of(own, missing, vectors)
            self._keep(own, namespace, missing, made)
            known |= {turn.row: vector for turn, vector in zip(missing, made, strict=True)}
        found = [turns[row] for row in sorted(turns)]
        return found, np.stack([known[turn.row] for turn in found]) if found else vectors

    def put(
        self,
        own: Embedder | None,
        connection: sqlite3.Connection,
        namespace: int,
        turns: Sequence[Turn],
        vectors: Vector,
    ) -> None:
        """Store the vectors of new turns within the caller's transaction; nothing where they are the embedder's."""
        if own is not None and turns:
            self._store.embeddings.put(
                *(connection, namespace, SCOPE_SPACE, own.fingerprint, [turn.row for turn in turns], vectors),
                claim=False,
            )

    def _keep(self, own: Embedder, namespace: int, turns: Sequence[Turn], vectors: Vector) -> None:
        with self._store.database.write() as connection:
            there = self._store.turns.by_rows(namespace, [turn.row for turn in turns])
            rows = [at for at, turn in enumerate(turns) if turn.row in there]
            self.put(own, connection, namespace, [turns[at] for at in rows], vectors[rows])
