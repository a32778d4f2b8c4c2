"""Vectors: the rows in SQLite, which are the truth, and the indexes over them, which are caches."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptIndexError, EmbedderError, EmbedderMismatchError, StoreError
from ..types import Fingerprint, Vector
from .database import Database
from .namespaces import Namespaces
from .vectors import VectorIndex

TURN, GROUNDED, SCOPE_SPACE = "turn", "grounded", "scope"
"""Views: raw text of a turn, its grounded text where that says more, and a turn as a decider of scopes sees it."""

_SAVE_AFTER = 2000
_BATCH = 20_000
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Cached:
    index: VectorIndex
    watermark: int
    removals: int
    saved_at: int


class Embeddings:
    """Vector rows of all views, and an index a namespace and view.

    Args:
        folder: where index generations are kept; may be deleted at any time, they are rebuilt from SQLite.
    """

    def __init__(self, database: Database, namespaces: Namespaces, folder: Path) -> None:
        self._database = database
        self._namespaces = namespaces
        self._folder = folder
        self._cache: dict[tuple[int, str], _Cached] = {}
        self._guard = threading.RLock()
        self.rebuilt = 0

    def put(
        self,
        connection: sqlite3.Connection,
        namespace: int,
        view: str,
        fingerprint: Fingerprint,
        owners: Sequence[int],
        vectors: Vector,
        claim: bool = True,
    ) -> None:
        """Store vectors (N, D) of owners (N,) within the caller's transaction, replacing earlier ones.

        `claim` makes them the namespace's own, if it has none yet; without it they wait beside those in use.

        Raises:
            EmbedderError: wrong shape or not finite; nothing is stored.
            EmbedderMismatchError: the namespace holds turns of another encoder.
        """
        if vectors.shape != (len(owners), fingerprint.dimension):
            raise EmbedderError(
                f"{fingerprint} returned shape {vectors.shape}, not {(len(owners), fingerprint.dimension)}"
            )
        if not np.isfinite(vectors).all():
            raise EmbedderError(f"{fingerprint} returned numbers that are not finite")
        if claim:
            self._claim(connection, namespace, fingerprint)
        connection.executemany(
            "INSERT OR REPLACE INTO embedding (namespace, view, fingerprint, owner, vector) VALUES (?,?,?,?,?)",
            [
                (namespace, view, str(fingerprint), int(owner), np.ascontiguousarray(v, dtype="<f4").tobytes())
                for owner, v in zip(owners, vectors, strict=True)
            ],
        )

    def _claim(self, connection: sqlite3.Connection, namespace: int, fingerprint: Fingerprint) -> None:
        active = self.active(namespace)
        if active is None:
            self._namespaces.set_progress(connection, namespace, "fingerprint", str(fingerprint))
        elif active != str(fingerprint):
            raise EmbedderMismatchError(active, str(fingerprint))

    def switch(self, connection: sqlite3.Connection, namespace: int, fingerprint: Fingerprint) -> None:
        """Search another fingerprint's vectors from now on and drop the former, within the caller's transaction."""
        self._namespaces.set_progress(connection, namespace, "fingerprint", str(fingerprint))
        connection.execute(
            "DELETE FROM embedding WHERE namespace = ? AND view IN (?, ?) AND fingerprint != ?",
            (namespace, TURN, GROUNDED, str(fingerprint)),
        )
        self._namespaces.bump(connection, namespace, removed=True)

    def rename(self, connection: sqlite3.Connection, namespace: int, fingerprint: Fingerprint) -> None:
        """Let the vectors in use count as those of another fingerprint, within the caller's transaction."""
        active = self.active(namespace)
        connection.execute(
            "DELETE FROM embedding WHERE namespace = ? AND fingerprint = ?", (namespace, str(fingerprint))
        )
        connection.execute(
            "UPDATE embedding SET fingerprint = ? WHERE namespace = ? AND fingerprint = ?",
            (str(fingerprint), namespace, active),
        )
        self._namespaces.set_progress(connection, namespace, "fingerprint", str(fingerprint))
        self._namespaces.bump(connection, namespace, removed=True)

    def active(self, namespace: int) -> str | None:
        """Fingerprint of the vectors that searches use, None while there are none."""
        found: str | None = self._namespaces.progress(namespace, "fingerprint")
        return found

    def stale(self, namespace: int, view: str, fingerprint: Fingerprint, limit: int) -> list[int]:
        """Owners that have a vector in use, but none yet of this fingerprint, ascending."""
        found = self._database.read(
            "SELECT e.owner FROM embedding e WHERE e.namespace = ? AND e.view = ? AND e.fingerprint = ? AND NOT EXISTS"
            " (SELECT 1 FROM embedding n WHERE n.namespace = e.namespace AND n.view = e.view AND n.owner = e.owner"
            " AND n.fingerprint = ?) ORDER BY e.owner LIMIT ?",
            (namespace, view, self.active(namespace), str(fingerprint), limit),
        )
        return [int(row[0]) for row in found]

    def load(
        self, namespace: int, view: str, fingerprint: Fingerprint, owners: Sequence[int] | None = None
    ) -> tuple[NDArray[np.int64], Vector]:
        """Owners (N,) ascending and their vectors (N, D), all of a view or those of given owners."""
        where, parameters = "", [namespace, view, str(fingerprint)]
        if owners is not None:
            where = f" AND owner IN ({','.join(str(int(o)) for o in owners)})"
        found = self._database.read(
            "SELECT owner, vector FROM embedding"
            f" WHERE namespace = ? AND view = ? AND fingerprint = ?{where} ORDER BY owner",
            parameters,
        )
        return _unpacked(found, fingerprint.dimension)

    def load_active(self, namespace: int, view: str, dimension: int) -> tuple[NDArray[np.int64], Vector]:
        """As `load`, of the vectors in use, whoever made them."""
        found = self._database.read(
            "SELECT owner, vector FROM embedding WHERE namespace = ? AND view = ? AND fingerprint = ? ORDER BY owner",
            (namespace, view, self.active(namespace)),
        )
        return _unpacked(found, dimension)

    def count(self, namespace: int, view: str) -> int:
        """Vectors of a view under the active fingerprint."""
        found = self._database.read(
            "SELECT count(*) FROM embedding WHERE namespace = ? AND view = ? AND fingerprint = ?",
            (namespace, view, self.active(namespace)),
        )
        return int(found[0][0])

    def index(self, namespace: int, view: str, fingerprint: Fingerprint) -> VectorIndex:
        """The index of a view, brought up to date with SQLite.

        Raises:
            EmbedderMismatchError: the namespace holds vectors of another encoder.
        """
        active = self.active(namespace)
        if active is not None and active != str(fingerprint):
            raise EmbedderMismatchError(active, str(fingerprint))
        with self._guard:
            removals = self._namespaces.removals(namespace)
            cached = self._cache.get((namespace, view))
            if cached is None or cached.removals != removals:
                cached = self._opened(namespace, view, fingerprint, removals)
                self._cache[(namespace, view)] = cached
            self._catch_up(namespace, view, fingerprint, cached)
            if cached.index.count - cached.saved_at >= _SAVE_AFTER:
                self._save(namespace, view, cached)
            return cached.index

    def _opened(self, namespace: int, view: str, fingerprint: Fingerprint, removals: int) -> _Cached:
        """The last saved generation if it is whole and agrees with SQLite, else an empty index to fill from SQLite."""
        place = self._place(namespace, view)
        if place.exists():
            try:
                index, note = VectorIndex.load(place, fingerprint)
                watermark = int(note["watermark"])
                if self._agrees(namespace, view, fingerprint, index, watermark):
                    return _Cached(index, watermark, removals, index.count)
            except CorruptIndexError:
                pass
            self.rebuilt += 1
        return _Cached(VectorIndex(fingerprint), 0, removals, 0)

    def _agrees(self, namespace: int, view: str, fingerprint: Fingerprint, index: VectorIndex, watermark: int) -> bool:
        found = self._database.read(
            "SELECT count(*), coalesce(sum(owner), 0) FROM embedding"
            " WHERE namespace = ? AND view = ? AND fingerprint = ? AND row <= ?",
            (namespace, view, str(fingerprint), watermark),
        )[0]
        return (int(found[0]), int(found[1])) == (index.count, int(index.ids().sum()))

    def _catch_up(self, namespace: int, view: str, fingerprint: Fingerprint, cached: _Cached) -> None:
        newest = int(self._database.read("SELECT coalesce(max(row), 0) FROM embedding")[0][0])
        while cached.watermark < newest:
            # By row, not by namespace: what is new is little, whoever it belongs to.
            found = self._database.read(
                "SELECT row, owner, vector FROM embedding WHERE row > ? AND row <= ?"
                " AND +namespace = ? AND +view = ? AND +fingerprint = ? ORDER BY row LIMIT ?",
                (cached.watermark, newest, namespace, view, str(fingerprint), _BATCH),
            )
            if found:
                owners, vectors = _unpacked(found, fingerprint.dimension)
                cached.index.add(owners, vectors)
            cached.watermark = int(found[-1]["row"]) if len(found) == _BATCH else newest

    def _save(self, namespace: int, view: str, cached: _Cached) -> None:
        try:
            cached.index.save(self._place(namespace, view), {"watermark": cached.watermark})
        except StoreError as error:
            # A cache that cannot be kept is filled again from SQLite: no reason to fail a search.
            _log.warning("%s", error)
        cached.saved_at = cached.index.count

    def flush(self) -> None:
        """Save every index that has changed."""
        with self._guard:
            for (namespace, view), cached in self._cache.items():
                if cached.index.count != cached.saved_at and cached.removals == self._namespaces.removals(namespace):
                    self._save(namespace, view, cached)

    def forget(self, namespace: int) -> int:
        """Drop the indexes of a namespace from memory and disk; returns the number of files removed."""
        with self._guard:
            for key in [key for key in self._cache if key[0] == namespace]:
                del self._cache[key]
            place = self._folder / str(namespace)
            files = sum(1 for p in place.rglob("*") if p.is_file())
            shutil.rmtree(place, ignore_errors=True)
            return files

    def _place(self, namespace: int, view: str) -> Path:
        return self._folder / str(namespace) / view


def _unpacked(rows: Sequence[sqlite3.Row], dimension: int) -> tuple[NDArray[np.int64], Vector]:
    owners = np.array([row["owner"] for row in rows], dtype=np.int64)
    vectors = np.frombuffer(b"".join(row["vector"] for row in rows), dtype="<f4").reshape(len(rows), dimension)
    return owners, vectors
