"""Students of closed label spaces: one label of each group, from one text or from a pair of texts.

Two kinds of head. `text` reads the rendered fields as one text; its rows begin as the encoded texts of the labels, so
that a label with few examples still means what its description says. `pair` compares the vectors of its first two
fields: the first through the adapter, the second as the base encodes it, which is what a memory has stored of a turn.
So one question against many turns costs one pass, where an item brings the stored vectors: that of the first field as
`Item.vector`, that of the second as the only row of `Item.candidates.vectors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import Decision, Item, Task
from intentmem.memory.types import Vector

from ..encoding import PLAIN
from .base import Encodings

Floats = NDArray[np.float64]
TEXT, PAIR = "text", "pair"
UNSURE = 0.5
"""Confidence below which a decision is marked unsure, unless the head says otherwise."""


class ClosedStudent:
    """One label of each group of a closed task.

    Args:
        task: closed; its labels in their order are those of the rows of `weights`.
        adapter: name of its adapter.
        weights: (L, F), one row a label, over all groups; F is D for `text`, 2 D + 2 for `pair`.
        bias: (L,).
        options: `kind`; `labels`; `temperatures`, one a group; `certainty`, slope and offset that make the log-odds of
            the product of the chosen labels' probabilities a confidence; `unsure`.

    Raises:
        InputError: labels that are not those of the task in their order, or arrays of another shape.
    """

    def __init__(self, task: Task, adapter: str, weights: Vector, bias: Vector, options: Mapping[str, object]) -> None:
        self.task, self.adapter = task, adapter
        values: Mapping[str, Any] = options
        self._kind = str(values["kind"])
        self._temperatures = [float(value) for value in values["temperatures"]]
        self._certainty = (float(values["certainty"][0]), float(values["certainty"][1]))
        self._unsure = float(values["unsure"])
        self._weights, self._bias = np.asarray(weights, np.float32), np.asarray(bias, np.float32)
        if list(values["labels"]) != (known := label_names(task)):
            raise InputError("labels", f"are {values['labels']}, the task has {known}", "train the student again")
        if self._weights.shape[0] != len(known) or self._bias.shape != (len(known),):
            raise InputError("head", f"has {self._weights.shape[0]} rows for {len(known)} labels")
        if self._kind not in (TEXT, PAIR) or len(self._temperatures) != len(task.groups):
            raise InputError("options", f"kind {self._kind!r} with {len(self._temperatures)} temperatures is no head")

    @classmethod
    def from_head(
        cls, task: Task, adapter: str, head: Mapping[str, Vector], options: Mapping[str, object]
    ) -> ClosedStudent:
        """The student that `head()` and `options()` describe."""
        return cls(task, adapter, head["weights"], head["bias"], options)

    def head(self) -> Mapping[str, Vector]:
        """`weights` (L, F) and `bias` (L,)."""
        return {"weights": self._weights, "bias": self._bias}

    def options(self) -> Mapping[str, object]:
        """Plain values; see the class."""
        return {
            "kind": self._kind,
            "labels": label_names(self.task),
            "temperatures": list(self._temperatures),
            "certainty": list(self._certainty),
            "unsure": self._unsure,
        }

    def decide(self, items: Sequence[Item], encodings: Encodings) -> list[Decision]:
        """Decide items; results in order. Probabilities sum to 1 within each group.

        Raises:
            InputError: a required field is absent, or an unknown one is present.
        """
        return [self._decision(row) for row in self.logits(items, encodings)] if items else []

    def logits(self, items: Sequence[Item], encodings: Encodings) -> Floats:
        """(N, L) before temperatures."""
        if self._kind == TEXT:
            features = unit(_pooled(encodings, [one_text(self.task, item) for item in items], self.adapter))
        else:
            features = self._pairs(items, encodings)
        return np.asarray(features @ self._weights.T + self._bias, np.float64)

    def _pairs(self, items: Sequence[Item], encodings: Encodings) -> Vector:
        """(N, 2 D + 2); what an item brings as vectors of its texts is not encoded again."""
        sides = [two_texts(self.task, item) for item in items]
        first, second = ([side[place] for side in sides] for place in (0, 1))
        stored = [item.candidates.vectors for item in items]
        return compared(
            unit(_pooled(encodings, first, self.adapter)),
            _plain(encodings, first, [item.vector for item in items]),
            _plain(encodings, second, [rows[0] if rows is not None and len(rows) == 1 else None for rows in stored]),
        )

    def _decision(self, logits: Floats) -> Decision:
        shares: dict[str, float] = {}
        chosen: list[str] = []
        for names, part, temperature in zip(
            group_names(self.task), np.split(logits, group_ends(self.task)), self._temperatures, strict=True
        ):
            found = softmax(part / temperature)
            shares |= dict(zip(names, found.tolist(), strict=True))
            chosen.append(names[int(found.argmax())])
        together = float(np.prod([shares[name] for name in chosen]))
        confidence = certainty(together, *self._certainty)
        return Decision(tuple(chosen), shares, confidence, self.adapter, unsure=confidence < self._unsure)


def one_text(task: Task, item: Item) -> str:
    """What a `text` head reads: the field alone where the task has one that is required, else all as rendered."""
    rendered = task.render(item)
    given = [item.fields[spec.name] for spec in task.fields if item.fields.get(spec.name)]
    return given[0] if len(given) == 1 and isinstance(given[0], str) else rendered


def two_texts(task: Task, item: Item) -> tuple[str, str]:
    """What a `pair` head reads: the first two fields; lists as lines."""
    task.render(item)  # for its checks
    values = [item.fields[spec.name] for spec in task.fields[:2]]
    first, second = (value if isinstance(value, str) else "\n".join(value) for value in values)
    return first, second


def compared(adapted: Vector, plain: Vector, second: Vector) -> Vector:
    """Unit vectors of pairs as features, (N, 2 D + 2): products and distances a dimension, and both cosines.

    Args:
        adapted, plain: (N, D), the first texts through the adapter and as the base encodes them.
        second: (N, D), the second texts as the base encodes them.
    """
    products = adapted * second
    cosines = np.stack([products.sum(axis=1), (plain * second).sum(axis=1)], axis=1)
    return np.concatenate([products, np.abs(adapted - second), cosines], axis=1)


def unit(vectors: Vector) -> Vector:
    """(N, D) scaled to length 1."""
    found: Vector = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return found


def group_names(task: Task) -> list[list[str]]:
    """Label names by group."""
    return [[option.name for option in group.options] for group in task.groups]


def label_names(task: Task) -> list[str]:
    """Label names of all groups in their order."""
    return [name for names in group_names(task) for name in names]


def group_ends(task: Task) -> list[int]:
    """Where each group but the last ends in the row of all labels."""
    return [int(end) for end in np.cumsum([len(group.options) for group in task.groups])[:-1]]


def softmax(logits: Floats) -> Floats:
    """(K,) probabilities."""
    raised = np.exp(logits - logits.max())
    return np.asarray(raised / raised.sum(), np.float64)


def certainty(together: float, slope: float, offset: float) -> float:
    """Probability that all groups are right, from the product of their probabilities (Platt, 1999)."""
    bounded = min(max(together, 1e-6), 1 - 1e-6)
    return float(1 / (1 + np.exp(-(slope * np.log(bounded / (1 - bounded)) + offset))))


def _plain(encodings: Encodings, texts: Sequence[str], known: Sequence[Vector | None]) -> Vector:
    """(N, D) texts as the base encodes them, unit length; those whose vector is known are not encoded."""
    missing = [text for text, vector in zip(texts, known, strict=True) if vector is None]
    made = iter(_pooled(encodings, missing, PLAIN) if missing else ())
    return unit(np.stack([next(made) if vector is None else vector for vector in known]).astype(np.float32))


def _pooled(encodings: Encodings, texts: Sequence[str], adapter: str) -> Vector:
    return np.stack([encoded.pooled for encoded in encodings.turns(texts, adapter)])
