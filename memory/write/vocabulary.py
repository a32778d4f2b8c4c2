"""The vocabulary of one namespace and kind: labels that merge, grow and nest (STITCH, section 3.1).

Nothing is ever rewritten. Merging sets a label's `canonical`, so it can be undone, and whoever reads a label id
resolves it. Two levels: a coarse label has no parent, a fine one has a coarse parent. Each operation that changes a
label returns the changes, in order, for the store to keep; a vocabulary built from the labels so kept is the same.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from ..errors import InputError, NotFoundError
from ..stemming import stem
from ..tasks import Candidates
from ..types import Label, Vector
from .seeds import SeedLabel

Encode = Callable[[Sequence[str]], Vector]
"""Texts to (N, D) float32, L2-normalised: an embedder's `encode` for labels."""

SAME_MEANING = 0.82
"""Least cosine of two label texts at which a grown label is merged into a sibling of its own accord."""

Change = Literal["added", "renamed", "merged", "unmerged", "parent", "kept"]
_ORIGIN_RANK = {"hand": 0, "seed": 1, "grown": 2}


@dataclass(frozen=True, slots=True)
class VocabularyChange:
    """One label after one change: what the store writes."""

    change: Change
    label: Label


Changes = tuple[VocabularyChange, ...]


class Vocabulary:
    """The labels of one namespace and kind, with their vectors.

    Args:
        namespace: whose vocabulary.
        kind: "event", "entity_type" or another kind of label.
        encode: encodes label texts.
        labels: the labels that the store holds, in the order they were added.
        vectors: (N, D), theirs in the same order; None to encode them now.

    Raises:
        InputError: labels of another kind, a repeated id, a canonical or parent that is not there, or a cycle.
    """

    def __init__(
        self, namespace: str, kind: str, encode: Encode, labels: Iterable[Label] = (), vectors: Vector | None = None
    ) -> None:
        self.namespace = namespace
        self.kind = kind
        self._encode = encode
        self._labels: dict[str, Label] = {}
        self._vectors: dict[str, Vector] = {}
        self._keys: dict[str, list[str]] = {}
        self._candidates: Candidates | None = None
        stored = tuple(labels)
        self._check(stored)
        if stored and vectors is None:
            vectors = encode([label_text(label) for label in stored])
        for row, label in enumerate(stored):
            assert vectors is not None
            self._keep(label, vectors[row])

    @property
    def labels(self) -> tuple[Label, ...]:
        """All labels, merged ones too, in the order they were added."""
        return tuple(self._labels.values())

    def get(self, label: str) -> Label:
        """The label of this id as it stands, merged or not.

        Raises:
            NotFoundError: no such label.
        """
        if label not in self._labels:
            raise NotFoundError("label", f"{label!r} is not in the {self.kind} vocabulary")
        return self._labels[label]

    def resolve(self, label: str) -> Label:
        """The label that this id stands for after all merges."""
        found = self.get(label)
        while found.canonical is not None:
            found = self._labels[found.canonical]
        return found

    def find(self, name: str) -> Label | None:
        """The label of this name, resolved; names that differ in case, width or inflection are one."""
        ids = self._keys.get(name_key(name))
        return self.resolve(ids[0]) if ids else None

    def parent_of(self, label: str) -> Label | None:
        """The resolved coarse label of a label, after merges of either."""
        found = self.resolve(label)
        parent = None if found.parent is None else self.resolve(found.parent)
        return None if parent is None or parent.id == found.id else parent

    def vector(self, label: str) -> Vector:
        """(D,) of the label's own text."""
        return self._vectors[self.get(label).id]

    def roots(self) -> list[Label]:
        """Labels that are not merged into another, in the order they were added."""
        return [label for label in self._labels.values() if label.canonical is None]

    def candidates(self) -> Candidates:
        """All unmerged labels as candidates: the same object until the vocabulary changes.

        Texts are `name: description`. The signal `parent` is the row of each one's coarse label, -1 for none.
        """
        if self._candidates is None:
            self._candidates = self._candidates_of(self.roots())
        return self._candidates

    def nearest(self, vector: Vector, k: int = 5) -> Candidates:
        """The k unmerged labels closest to a (D,) vector, closest first, and no parents but those among them."""
        roots = self.roots()
        if not roots:
            return Candidates()
        cosines = np.stack([self._vectors[label.id] for label in roots]) @ vector
        return self._candidates_of([roots[row] for row in np.argsort(-cosines, kind="stable")[:k]])

    def seed(self, seeds: Iterable[SeedLabel]) -> Changes:
        """Add the seeds of this kind whose name is not there yet."""
        wanted = [seed for seed in seeds if seed.kind == self.kind and self.find(seed.name) is None]
        vectors = self._encode([f"{seed.name}: {seed.description}" for seed in wanted]) if wanted else ()
        changes: list[VocabularyChange] = []
        for seed, vector in zip(wanted, vectors, strict=True):
            if self.find(seed.name) is not None:
                continue
            parent = None if seed.parent is None else self.find(seed.parent)
            coarse = None if parent is None else (parent.parent or parent.id)
            label = Label(self._new_id(seed.name), self.kind, seed.name, seed.description, coarse, None, "seed")
            changes.append(self._set("added", label, vector))
        return tuple(changes)

    def add(
        self,
        name: str,
        description: str = "",
        parent: str | None = None,
        origin: Literal["grown", "hand"] = "grown",
        coarse: bool = False,
    ) -> tuple[Label, Changes]:
        """Add a label, or find the one that has this name already (C05: one name, one label).

        Without `parent` it goes under the coarse label closest to it, unless it is `coarse` itself.

        Raises:
            InputError: the name has no letter or digit, or `parent` is not a coarse label.
        """
        name = clean_name(name)
        if (known := self.find(name)) is not None:
            return known, ()
        vector = self._encode([f"{name}: {description}" if description else name])[0]
        if parent is not None:
            parent = self._coarse(parent).id
        elif not coarse:
            parent = self._closest_coarse(vector)
        label = Label(self._new_id(name), self.kind, name, description, parent, None, origin)
        return label, (self._set("added", label, vector),)

    def rename(self, label: str, name: str, description: str | None = None) -> Changes:
        """Give a label another name by hand; its id and everything that refers to it stay.

        Raises:
            InputError: another label has this name: merge the two instead.
        """
        old, name = self.get(label), clean_name(name)
        taken = [other for other in self._keys.get(name_key(name), ()) if other != label]
        if taken:
            raise InputError("name", f"{name!r} is the name of {taken[0]!r}", "merge the two instead")
        new = replace(
            old, name=name, description=old.description if description is None else description, origin="hand"
        )
        return (self._set("renamed", new, self._encode([label_text(new)])[0]),)

    def merge(self, source: str, into: str) -> Changes:
        """Let `source` stand for `into` from now on. No change where they are one already.

        Raises:
            InputError: `source` is a coarse label that still has fine ones, and `into` is not a coarse one.
        """
        old, kept = self.resolve(source), self.resolve(into)
        if old.id == kept.id:
            return ()
        if kept.parent is not None and any(self._stands_under(child, old) for child in self.roots()):
            raise InputError("into", f"{kept.name!r} is finer than {old.name!r}", "merge the other way round")
        return (self._set("merged", replace(old, canonical=kept.id), self._vectors[old.id]),)

    def unmerge(self, label: str) -> Changes:
        """Undo the merge of a label. Both count as made by hand afterwards, so that neither is merged again unasked."""
        old = self.get(label)
        if old.canonical is None:
            return ()
        other = self._labels[old.canonical]
        changes = [self._set("unmerged", replace(old, canonical=None, origin="hand"), self._vectors[label])]
        if other.origin == "grown":
            changes.append(self._set("kept", replace(other, origin="hand"), self._vectors[other.id]))
        return tuple(changes)

    def set_parent(self, label: str, parent: str | None) -> Changes:
        """Move a label under a coarse one, or make it coarse itself with None.

        Raises:
            InputError: the label has fine labels of its own, or `parent` is not coarse.
        """
        old = self.resolve(label)
        above = None if parent is None else self._coarse(parent)
        if above is not None and (above.id == old.id or any(self._stands_under(c, old) for c in self.roots())):
            raise InputError("parent", f"{old.name!r} is a coarse label with finer ones", "move those first")
        if old.parent == (above.id if above else None):
            return ()
        return (self._set("parent", replace(old, parent=above.id if above else None), self._vectors[old.id]),)

    def split(self, label: str, parts: Sequence[tuple[str, str]]) -> tuple[tuple[Label, ...], Changes]:
        """Add finer labels (name, description) by hand for what one label held.

        The turns of that label are the caller's to decide again. The new ones go beside a fine
        label, or under a coarse one; the label itself stays.
        """
        old = self.resolve(label)
        added: list[Label] = []
        changes: list[VocabularyChange] = []
        for name, description in parts:
            part, change = self.add(name, description, old.parent or old.id, "hand")
            added.append(part)
            changes.extend(change)
        return tuple(added), tuple(changes)

    def merge_synonyms(self, threshold: float = SAME_MEANING) -> Changes:
        """Merge grown labels into labels of the same name, else into siblings of the same meaning.

        Made by hand goes before seed, seed before grown, older before newer; only grown labels are merged. A second
        call changes nothing.
        """
        order = sorted(self.roots(), key=lambda label: _ORIGIN_RANK[label.origin])  # stable: older first
        kept: list[Label] = []
        changes: list[VocabularyChange] = []
        for label in order:
            twin = self._twin(label, kept, threshold) if label.origin == "grown" else None
            merged = self.merge(label.id, twin.id) if twin is not None else ()
            changes.extend(merged)
            if not merged:
                kept.append(label)
        return tuple(changes)

    def _twin(self, label: Label, kept: Sequence[Label], threshold: float) -> Label | None:
        key = name_key(label.name)
        same_name = [other for other in kept if name_key(other.name) == key]
        if same_name:
            return same_name[0]
        parent = self.parent_of(label.id)
        siblings = [other for other in kept if parent is not None and self.parent_of(other.id) == parent]
        if not siblings:
            return None
        cosines = np.stack([self._vectors[other.id] for other in siblings]) @ self._vectors[label.id]
        best = int(cosines.argmax())
        return siblings[best] if cosines[best] >= threshold else None

    def _stands_under(self, child: Label, parent: Label) -> bool:
        above = self.parent_of(child.id)
        return above is not None and above.id == parent.id

    def _coarse(self, label: str) -> Label:
        found = self.resolve(label)
        if found.parent is not None:
            raise InputError("parent", f"{found.name!r} is a fine label", "name a coarse one: there are two levels")
        return found

    def _closest_coarse(self, vector: Vector) -> str | None:
        coarse = [label for label in self.roots() if label.parent is None]
        if not coarse:
            return None
        cosines = np.stack([self._vectors[label.id] for label in coarse]) @ vector
        return coarse[int(cosines.argmax())].id

    def _candidates_of(self, labels: Sequence[Label]) -> Candidates:
        rows = {label.id: row for row, label in enumerate(labels)}
        above = [self.parent_of(label.id) for label in labels]
        parents = np.array([-1.0 if p is None else float(rows.get(p.id, -1)) for p in above])
        vectors = np.stack([self._vectors[label.id] for label in labels]) if labels else None
        return Candidates(tuple(rows), tuple(label_text(label) for label in labels), vectors, {"parent": parents})

    def _set(self, change: Change, label: Label, vector: Vector) -> VocabularyChange:
        old = self._labels.get(label.id)
        if old is not None:
            self._keys[name_key(old.name)].remove(old.id)
        self._keep(label, vector)
        return VocabularyChange(change, label)

    def _keep(self, label: Label, vector: Vector) -> None:
        self._labels[label.id] = label
        self._vectors[label.id] = np.asarray(vector, np.float32)
        self._keys.setdefault(name_key(label.name), []).append(label.id)
        self._candidates = None

    def _new_id(self, name: str) -> str:
        for attempt in range(len(self._labels) + 1):
            identity = json.dumps([self.namespace, self.kind, name_key(name), attempt])
            label = f"lbl_{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
            if label not in self._labels:
                break
        return label

    def _check(self, labels: Sequence[Label]) -> None:
        known = {label.id: label for label in labels}
        if len(known) != len(labels):
            raise InputError("labels", "hold an id twice")
        for label in labels:
            if label.kind != self.kind:
                raise InputError("labels", f"{label.id!r} is a label of kind {label.kind!r}, not {self.kind!r}")
            if missing := {label.canonical, label.parent} - {None, *known}:
                raise InputError("labels", f"{label.id!r} refers to {missing.pop()!r}, which is not among them")
            seen, step = {label.id}, label
            while step.canonical is not None:
                step = known[step.canonical]
                if step.id in seen:
                    raise InputError("labels", f"the merges of {label.id!r} go round in a cycle")
                seen.add(step.id)


def label_text(label: Label) -> str:
    """What is encoded of a label: `name: description`."""
    return f"{label.name}: {label.description}" if label.description else label.name


def clean_name(name: str) -> str:
    """A name as it is kept: NFKC, lower-case, single spaces.

    Raises:
        InputError: it holds no letter or digit.
    """
    clean = " ".join(unicodedata.normalize("NFKC", name).replace("_", " ").casefold().split())
    if not any(character.isalnum() for character in clean):
        raise InputError("name", f"{name!r} holds no letter or digit")
    return clean


@lru_cache(maxsize=16_384)
def name_key(name: str) -> str:
    """What two spellings of one name have in common: NFKC, case, punctuation and English inflection aside."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    words = "".join(c if c.isalnum() or unicodedata.category(c).startswith("M") else " " for c in folded).split()
    return " ".join(stem(word) for word in words)
