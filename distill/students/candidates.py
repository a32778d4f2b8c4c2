"""Students that choose one of the candidates that come with an item, or none, by the likeness of encoded texts.

Candidates are encoded by the same adapter as the item, each text once: a new candidate costs one encode, and scoring an
item against hundreds is one matrix product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import Decision, Item, Task
from intentmem.memory.types import Vector

from .base import Encodings
from .closed import UNSURE, certainty, softmax, unit

Floats = NDArray[np.float64]
NONE = "none"
"""Key of the probability that none of the candidates is right; an id that reads so takes precedence."""
_KEPT = 8


class CandidatesStudent:
    """One of the candidates, or none.

    Args:
        adapter: name of its adapter.
        scale: () what a cosine is multiplied by to become a logit.
        none: () logit of none.
        options: `certainty`, slope and offset that make the log-odds of the choice's probability a confidence;
            `unsure`, the confidence below which a decision is marked so.

    Raises:
        InputError: a scale that is not positive.
    """

    def __init__(self, task: Task, adapter: str, scale: float, none: float, options: Mapping[str, object]) -> None:
        self.task, self.adapter = task, adapter
        self._scale, self._none = float(scale), float(none)
        values: Mapping[str, Any] = options
        self._certainty = (float(values["certainty"][0]), float(values["certainty"][1]))
        self._unsure = float(values.get("unsure", UNSURE))
        self._matrices: dict[tuple[str, ...], Vector] = {}
        if not self._scale > 0:
            raise InputError("head.scale", f"is {self._scale}", "train the student again")

    @classmethod
    def from_head(
        cls, task: Task, adapter: str, head: Mapping[str, Vector], options: Mapping[str, object]
    ) -> CandidatesStudent:
        """The student that `head()` and `options()` describe."""
        return cls(task, adapter, float(head["scale"][0]), float(head["none"][0]), options)

    def head(self) -> Mapping[str, Vector]:
        """`scale` and `none`, (1,) each."""
        return {"scale": np.array([self._scale], np.float32), "none": np.array([self._none], np.float32)}

    def options(self) -> Mapping[str, object]:
        """Plain values; see the class."""
        return {"certainty": list(self._certainty), "unsure": self._unsure}

    def decide(self, items: Sequence[Item], encodings: Encodings) -> list[Decision]:
        """Decide items; results in order. Probabilities are over the candidates of an item and `none`.

        Raises:
            InputError: a required field is absent, or an unknown one is present.
        """
        return [self._decision(item, row) for item, row in zip(items, self.logits(items, encodings), strict=True)]

    def logits(self, items: Sequence[Item], encodings: Encodings) -> list[Floats]:
        """(K + 1,) an item of K candidates, none last."""
        if not items:
            return []
        pooled = encodings.turns([asked_text(self.task, item) for item in items], self.adapter)
        asked = unit(np.stack([one.pooled for one in pooled]))
        found = []
        for item, vector in zip(items, asked, strict=True):
            likeness = self._matrix(item.candidates.texts, encodings) @ vector if len(item.candidates) else ()
            found.append(np.array([*(self._scale * np.asarray(likeness, np.float64)), self._none]))
        return found

    def _matrix(self, texts: tuple[str, ...], encodings: Encodings) -> Vector:
        """(K, D) of candidates, kept while many items share them."""
        if texts not in self._matrices:
            while len(self._matrices) >= _KEPT:
                self._matrices.pop(next(iter(self._matrices)))
            self._matrices[texts] = unit(np.stack([one.pooled for one in encodings.texts(texts, self.adapter)]))
        return self._matrices[texts]

    def _decision(self, item: Item, logits: Floats) -> Decision:
        shares = softmax(logits)
        best = int(shares.argmax())
        ids = item.candidates.ids
        confidence = certainty(float(shares[best]), *self._certainty)
        probabilities = {NONE: float(shares[-1])} | dict(zip(ids, shares[:-1].tolist(), strict=True))
        labels = (ids[best],) if best < len(ids) else ()
        return Decision(labels, probabilities, confidence, self.adapter, unsure=confidence < self._unsure)


def asked_text(task: Task, item: Item) -> str:
    """What is read of an item: its required fields; alone where there is one, else by name."""
    task.render(item)  # for its checks
    parts = []
    for spec in task.fields:
        if spec.required:
            value = item.fields[spec.name]
            parts.append((spec.name, value if isinstance(value, str) else "\n".join(value)))
    return parts[0][1] if len(parts) == 1 else "\n".join(f"{name}: {value}" for name, value in parts)
