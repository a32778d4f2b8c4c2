"""The properties of a namespace: one name for what several wordings call the same (EnSIMem, section 3).

Granularity is intermediate: spellings and inflections of a name are one, and so are near-synonyms, but names that
share their head and differ in what they say of it ("departure time", "arrival time") stay apart.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import InputError
from ..store import Store
from ..types import Record
from .claim_keys import property_key
from .label_growth import EVERY
from .lexicon import Lexicon
from .vocabulary import Vocabulary, VocabularyChange, name_key

PROPERTY = "property"
SAME_PROPERTY = 0.9
"""Least cosine of two names at which they are merged."""
_PROGRESS = "growth:property"


class Properties:
    """Names the properties of records online, and merges near-synonyms after every 50 records."""

    def __init__(self, store: Store, lexicon: Lexicon) -> None:
        self._store = store
        self._lexicon = lexicon

    def normalised(self, namespace: int, records: Sequence[Record]) -> tuple[list[Record], list[VocabularyChange]]:
        """The records under the names that the namespace uses, with what that changes in its vocabulary.

        Nothing is written. A name that cannot be a label stays as it is.
        """
        if not records:
            return [], []
        vocabulary = self._lexicon.vocabulary(namespace, PROPERTY)
        changes: list[VocabularyChange] = []
        named = []
        for record in records:
            try:
                label, added = vocabulary.add(record.property, coarse=True)
            except InputError:
                named.append(record)
                continue
            changes += added
            named.append(record if record.property == label.name else replace(record, property=label.name))
        before = self._counted(namespace)
        if before // EVERY != (before + len(records)) // EVERY:
            changes += merge_near(vocabulary)
        return named, changes

    def keep(
        self, connection: sqlite3.Connection, namespace: int, changes: Sequence[VocabularyChange], records: int, by: str
    ) -> None:
        """Write changes and count the records within the caller's transaction."""
        self._lexicon.save(connection, namespace, changes, by)
        counted = self._counted(namespace) + records
        self._store.namespaces.set_progress(connection, namespace, _PROGRESS, {"records": counted})

    def names(self, namespace: int, name: str) -> set[str]:
        """All names that stand for the same property as a name, that one included."""
        labels = {label.id: label for label in self._store.labels.labels(namespace, PROPERTY)}
        merged = self._store.labels.merged(namespace)
        roots = {merged.get(i, i) for i, label in labels.items() if name_key(label.name) == name_key(name)}
        return {name} | {label.name for i, label in labels.items() if merged.get(i, i) in roots}

    def _counted(self, namespace: int) -> int:
        state = self._store.namespaces.progress(namespace, _PROGRESS)
        return 0 if state is None else int(state["records"])


def root_names(store: Store, namespace: int) -> dict[str, str]:
    """By the key of every name of a property in the vocabulary, the name that it goes by now, merges followed."""
    labels = {label.id: label for label in store.labels.labels(namespace, PROPERTY)}
    merged = store.labels.merged(namespace)
    return {property_key(label.name): labels.get(merged.get(i, i), label).name for i, label in labels.items()}


def merge_near(vocabulary: Vocabulary) -> list[VocabularyChange]:
    """Merge grown names into older ones of the same meaning; a second call changes nothing."""
    kept: list[str] = []
    changes: list[VocabularyChange] = []
    for label in vocabulary.roots():
        twin = None
        if label.origin == "grown" and kept:
            cosines = np.stack([vocabulary.vector(other) for other in kept]) @ vocabulary.vector(label.id)
            best = int(cosines.argmax())
            if cosines[best] >= SAME_PROPERTY and not _apart(label.name, vocabulary.get(kept[best]).name):
                twin = kept[best]
        if twin is None:
            kept.append(label.id)
        else:
            changes += vocabulary.merge(label.id, twin)
    return changes


def _apart(first: str, second: str) -> bool:
    """Whether two names each say something of a head that they share."""
    one, two = first.split(), second.split()
    shared = set(one) & set(two)
    return bool(shared) and bool(set(one) - shared) and bool(set(two) - shared)
