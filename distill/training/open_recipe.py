"""How open students learn: turns of whole conversations against all labels at once, several tasks on one adapter.

Each batch encodes a few conversations, whose turns are each other's context, and some of the labels that apply in
them; all other labels stand in the loss as they were when they were last encoded (a memory bank; Wu et al., 2018).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..students.open import ONE, SEVERAL
from ..students.open_reading import Reading
from .adapting import AdaptingEncoder
from .open_examples import Example, Lesson
from .open_head import Side, new_head, queries, scored
from .open_wording import reworded
from .trunk import FrozenTrunk

if TYPE_CHECKING:
    import torch
    from torch import nn

REACH = 6
"""Texts before a turn that are read."""
_FEWEST_TURNS, _MOST_TURNS, _STEPS = 12, 56, 20
_LABELS_A_BATCH = {ONE: 18, SEVERAL: 8}
_EACH = 0.3
"""Weight of the decisions about single labels beside the softmax of `one`: they make scores comparable over turns."""
_NO_CONTEXT, _FORGOTTEN, _FOREIGN = 0.08, 0.08, 0.08
_KEPT_TEXTS = 20_000

Batch = list[tuple[str, Example]]


class _Encoded(NamedTuple):
    """Unit vectors (N, D) of texts, the states of their tokens, and the row of each text."""

    vectors: torch.Tensor
    tokens: list[torch.Tensor]
    rows: dict[str, int]


class OpenRecipe:
    """What open tasks add to the training loop.

    Args:
        encoder: the adapter that all tasks share.
        lessons: by task.
        train, dev: conversations.
        seed: of order, wording and what is left out.
        slices: an epoch takes every so many-th conversation, so that there are several looks at the development split
            in one pass over many.
    """

    def __init__(
        self,
        encoder: AdaptingEncoder,
        lessons: Mapping[str, Lesson],
        train: Sequence[str],
        dev: Sequence[str],
        seed: int,
        slices: int = 1,
    ) -> None:
        import torch

        self.trunk = FrozenTrunk(encoder)
        self.lessons = dict(lessons)
        self._encoder, self._seed, self._slices = encoder, seed, slices
        self._train, self._dev = list(train), list(dev)
        self.heads = {
            name: new_head(encoder.base.dimension, REACH, one.kind, seed) for name, one in self.lessons.items()
        }
        for module in encoder.module.modules():
            # Hardly any text is seen twice: there is nothing to regularise, and dropout costs a third of the time.
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        self._banks: dict[str, torch.Tensor] = {}
        self._offers = {name: torch.from_numpy(one.offers) for name, one in self.lessons.items()}
        self._rng = random.Random(seed)
        turns = len({e.reading.text for name in self._train for _, e in self._of(name)}) // slices
        self._turns_a_batch = min(_MOST_TURNS, max(_FEWEST_TURNS, turns // _STEPS))
        self._order = self._batched(0)

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """The adapter and one head a task."""
        return {"encoder": self._encoder.module, **{f"head {name}": head for name, head in self.heads.items()}}

    @property
    def steps(self) -> int:
        """Batches an epoch, about."""
        return len(self._order)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Whole conversations in a random order."""
        self._rng = random.Random(f"{self._seed} {epoch}")
        self._banks = {name: self._label_vectors(one.texts).clone() for name, one in self.lessons.items()}
        yield from self._batched(epoch)

    def _batched(self, epoch: int) -> list[Batch]:
        order = list(self._train)
        random.Random(f"{self._seed} {epoch // self._slices}").shuffle(order)
        found: list[Batch] = []
        batch: Batch = []
        for conversation in order[epoch % self._slices :: self._slices]:
            batch += self._of(conversation)
            if len({example.reading.text for _, example in batch}) >= self._turns_a_batch:
                found.append(batch)
                batch = []
        return [*found, batch] if batch else found

    def _of(self, conversation: str) -> Batch:
        return [(name, one) for name, lesson in self.lessons.items() for one in lesson.examples.get(conversation, ())]

    def loss(self, batch: Batch) -> torch.Tensor:
        """The sum over tasks: a decision about each label, and for `one` a softmax over all labels before that."""
        import torch

        if len(self.trunk) > _KEPT_TEXTS:
            self.trunk.forget()
        by_task = {name: [example for task, example in batch if task == name] for name in self.lessons}
        chosen = {name: self._chosen(name, examples) for name, examples in by_task.items() if examples}
        wordings = {
            name: [reworded(self.lessons[name].texts[row], self._rng) for row in rows] for name, rows in chosen.items()
        }
        readings = [example.reading for examples in by_task.values() for example in examples]
        encoded = self._encode([*_texts(readings), *(text for texts in wordings.values() for text in texts)])
        total = torch.zeros(())
        for name, rows in chosen.items():
            fresh = encoded.vectors[[encoded.rows[text] for text in wordings[name]]]
            self._banks[name][rows] = fresh.detach()
            labels = self._banks[name].clone().index_copy(0, torch.tensor(rows, device=fresh.device), fresh)
            total = total + self._loss_of(name, by_task[name], encoded, labels)
        return total

    def _loss_of(self, name: str, examples: Sequence[Example], encoded: _Encoded, labels: torch.Tensor) -> torch.Tensor:
        import torch

        one = self.lessons[name]
        found = self._scores(name, [example.reading for example in examples], encoded, labels, noise=True)
        wanted = torch.zeros_like(found)
        for row, example in zip(wanted, examples, strict=True):
            row[list(example.positives)] = 1.0
        offered = self._offers[name][[example.offered for example in examples]].to(found.device)
        losses = torch.nn.functional.binary_cross_entropy_with_logits(found, wanted, reduction="none")
        each = (losses * offered).sum() / len(examples)
        if one.kind == SEVERAL:
            return each
        shares = found.masked_fill(~offered, -1e9).log_softmax(dim=1)
        counts = wanted.sum(dim=1)
        told = (counts > 0).sum().clamp(min=1)
        best = -((shares * wanted).sum(dim=1) / counts.clamp(min=1)).sum() / told
        return best + _EACH * each

    def _chosen(self, name: str, examples: Sequence[Example]) -> list[int]:
        """Rows of the labels to encode anew: some that apply here, then others, up to a limit."""
        limit = _LABELS_A_BATCH[self.lessons[name].kind]
        apply = sorted({row for example in examples for row in example.positives})
        self._rng.shuffle(apply)
        rows = apply[:limit]
        others = [row for row in range(len(self.lessons[name].texts)) if row not in set(apply)]
        return [*rows, *self._rng.sample(others, min(len(others), limit - len(rows)))]

    def _scores(
        self, name: str, readings: Sequence[Reading], encoded: _Encoded, labels: torch.Tensor, noise: bool = False
    ) -> torch.Tensor:
        head = self.heads[name]
        rows = [encoded.rows[reading.text] for reading in readings]
        mixed = queries(head, self._side(readings, rows, encoded, noise))
        return scored(head, mixed, labels, [encoded.tokens[row] for row in rows])

    def _side(self, readings: Sequence[Reading], rows: Sequence[int], encoded: _Encoded, noise: bool) -> Side:
        import torch

        before = np.zeros((len(readings), REACH), np.int64)
        known = np.zeros((len(readings), REACH), bool)
        for row, reading in enumerate(readings):
            if noise and self._rng.random() < _NO_CONTEXT:
                continue
            for lag, text in enumerate(reading.before[:REACH]):
                if noise and self._rng.random() < _FORGOTTEN:
                    continue
                foreign = noise and self._rng.random() < _FOREIGN
                before[row, lag] = self._rng.choice(rows) if foreign else encoded.rows[text]
                known[row, lag] = True
        device = encoded.vectors.device
        sides = torch.tensor([reading.side for reading in readings], device=device)
        return Side(encoded.vectors[list(rows)], encoded.vectors[before], torch.from_numpy(known).to(device), sides)

    def _encode(self, texts: Sequence[str]) -> _Encoded:
        import torch

        kept = list(dict.fromkeys(texts))
        tokens = self.trunk.states(kept)
        vectors = torch.nn.functional.normalize(torch.stack([one.mean(dim=0) for one in tokens]), dim=1)
        return _Encoded(vectors, tokens, {text: row for row, text in enumerate(kept)})

    def _label_vectors(self, texts: Sequence[str]) -> torch.Tensor:
        import torch

        with torch.no_grad():
            return self._encode(texts).vectors

    def evaluate(self) -> dict[str, float]:
        """Of each task its metric on the development conversations; `score` is their mean."""
        found: dict[str, float] = {}
        for name, one in self.lessons.items():
            examples = [example for conversation in self._dev for example in one.examples.get(conversation, ())]
            if examples:
                found[name] = self._metric(name, examples, self._label_vectors(one.texts))
        return {**found, "score": float(np.mean(list(found.values()))) if found else 0.0}

    def _metric(self, name: str, examples: Sequence[Example], labels: torch.Tensor) -> float:
        encoded = self._encode(_texts([example.reading for example in examples]))
        found = self._scores(name, [example.reading for example in examples], encoded, labels)
        offered = self._offers[name][[example.offered for example in examples]].to(found.device)
        scores = found.masked_fill(~offered, -1e9).detach().cpu().numpy()
        if self.lessons[name].kind == ONE:
            hits = [bool(int(row.argmax()) in e.positives) for row, e in zip(scores, examples, strict=True)]
            return float(np.mean(hits))
        given = [set(np.flatnonzero(row > 0).tolist()) for row in scores]
        right = sum(len(said & set(example.positives)) for said, example in zip(given, examples, strict=True))
        size = sum(len(said) + len(example.positives) for said, example in zip(given, examples, strict=True))
        return 2 * right / max(1, size)


def _texts(readings: Sequence[Reading]) -> list[str]:
    return [text for reading in readings for text in (reading.text, *reading.before[:REACH])]
