"""The vocabularies of a namespace: the shared seeds, and over them what it grew, renamed or merged.

Seeds have the same ids everywhere and are stored in no namespace until one changes them.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..protocols import Embedder
from ..store import Store
from ..store.labels import followed
from ..types import Label, Vector
from .label_growth import LabelGrowth
from .seeds import load_seeds
from .vocabulary import Vocabulary, VocabularyChange, label_text

KINDS = ("event", "entity_type")


@cache
def seed_labels(kind: str) -> tuple[Label, ...]:
    """The seeds of a kind as labels, parents before children."""
    blank = Vocabulary("", kind, lambda texts: np.zeros((len(texts), 1), np.float32))
    blank.seed(load_seeds())
    return blank.labels


def label_names(stored: Iterable[Label]) -> dict[str, str]:
    """Names by id, merges followed, of all seeds and of the labels that a namespace stored."""
    known = {label.id: label for kind in KINDS for label in seed_labels(kind)} | {label.id: label for label in stored}
    merged = {i: label.canonical for i, label in known.items() if label.canonical and label.canonical in known}
    ends = followed(merged)
    return {identity: known[ends.get(identity, identity)].name for identity in known}


class Lexicon:
    """Builds and keeps vocabularies.

    Args:
        store: where namespaces keep their own labels.
        embedder: encodes label texts, once each.
    """

    def __init__(self, store: Store, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder
        self._vectors: dict[str, Vector] = {}

    def vocabulary(self, namespace: int, kind: str) -> Vocabulary:
        """The vocabulary of a namespace as SQLite has it."""
        stored = {label.id: label for label in self._store.labels.labels(namespace, kind)}
        labels = [stored.pop(seed.id, seed) for seed in seed_labels(kind)] + list(stored.values())
        return Vocabulary("", kind, self._encode, labels, self._encode([label_text(label) for label in labels]))

    def _seed_vectors(self) -> dict[str, Vector]:
        """Vectors of the seeds, from the folder where this encoder has encoded them before."""
        texts = [label_text(label) for kind in KINDS for label in seed_labels(kind)]
        fingerprint = self._embedder.fingerprint
        digest = hashlib.sha256("\0".join([str(fingerprint), *texts]).encode()).hexdigest()[:16]
        path = self._store.folder / "indexes" / f"seeds-{digest}.npy"
        try:
            vectors = np.load(path, allow_pickle=False)
            if vectors.shape == (len(texts), fingerprint.dimension) and np.isfinite(vectors).all():
                return dict(zip(texts, vectors, strict=True))
        except (OSError, ValueError, EOFError):
            pass
        vectors = self._embedder.encode(texts, "label")
        # A cache: where it cannot be written, the next process encodes them again.
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".npy", delete=False) as file:
                np.save(file, vectors)
            Path(file.name).replace(path)
        return dict(zip(texts, vectors, strict=True))

    def pooled(self, namespace: int, kind: str) -> list[int]:
        """Rows of the turns that wait for a label of a kind."""
        state: dict[str, Any] | None = self._store.namespaces.progress(namespace, f"growth:{kind}")
        return [] if state is None else [int(row) for row in state["turns"]]

    def growth(self, namespace: int, vocabulary: Vocabulary, pool: Mapping[str, Vector], fit: float) -> LabelGrowth:
        """The pool of a vocabulary, with the vectors of those of its turns that are still there, by row as a text."""
        state: dict[str, Any] | None = self._store.namespaces.progress(namespace, f"growth:{vocabulary.kind}")
        if state is None:
            return LabelGrowth(vocabulary, fit)
        kept = [row for row in state["turns"] if row in pool]
        vectors = np.stack([pool[row] for row in kept]) if kept else np.zeros((0, 0), np.float32)
        return LabelGrowth.restore(vocabulary, state | {"turns": kept, "vectors": vectors}, fit)

    def save(
        self, connection: sqlite3.Connection, namespace: int, changes: Sequence[VocabularyChange], decided_by: str
    ) -> bool:
        """Write changes within the caller's transaction; returns whether any of them is more than an addition."""
        for change in changes:
            self._store.labels.put_label(connection, namespace, change.label, decided_by)
        return any(change.change != "added" for change in changes)

    def save_growth(self, connection: sqlite3.Connection, namespace: int, growth: LabelGrowth) -> None:
        """Write the counters of a pool; its vectors are those of its turns."""
        state = {key: value for key, value in growth.state().items() if key != "vectors"}
        self._store.namespaces.set_progress(connection, namespace, f"growth:{growth.vocabulary.kind}", state)

    def _encode(self, texts: Sequence[str]) -> Vector:
        if not self._vectors:
            self._vectors = self._seed_vectors()
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if missing:
            self._vectors.update(zip(missing, self._embedder.encode(missing, "label"), strict=True))
        if not texts:
            return np.zeros((0, self._embedder.fingerprint.dimension), np.float32)
        return np.stack([self._vectors[text] for text in texts])
