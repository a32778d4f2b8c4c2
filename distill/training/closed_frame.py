"""What the recipes of closed tasks have in common: an encoder, one linear head, and batches of like length."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from intentmem.memory.tasks import Task
from intentmem.memory.types import Vector

from .adapting import AdaptingEncoder
from .batching import bucketed
from .trunk import FrozenTrunk

if TYPE_CHECKING:
    from torch import nn


class ClosedFrame:
    """A recipe without its loss and its score.

    Args:
        task, encoder, seed: as of every recipe.
        texts: of the training examples that are batched, in their order; others: what goes through the frozen layers
            beside them.
        head: its rows are the labels of all groups.
        batch_tokens: of one batch, at most.
    """

    def __init__(
        self,
        task: Task,
        encoder: AdaptingEncoder,
        seed: int,
        texts: Sequence[str],
        others: Sequence[str],
        head: nn.Module,
        batch_tokens: int,
    ) -> None:
        self.task, self._encoder, self._seed = task, encoder, seed
        self._batch_tokens = batch_tokens
        self._trunk = FrozenTrunk(encoder)
        self._trunk.prepare([*texts, *others])
        self._head = head
        self._lengths = [len(ids) for ids in encoder.token_ids(texts)]
        self.steps = sum(1 for _ in self.batches(0))

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """The encoder, under the name by which the loop knows it, and the head."""
        return {"encoder": self._encoder.module, "head": self._head}

    def batches(self, epoch: int) -> Iterator[list[int]]:
        """Places of training texts of like length."""
        return bucketed(self._lengths, self._batch_tokens, random.Random(f"{self._seed} {epoch}"))

    def rows(self) -> tuple[Vector, Vector]:
        """Weights (L, F) and bias (L,) of the head as they are now."""
        head: Any = self._head
        return head.weight.detach().cpu().numpy(), head.bias.detach().cpu().numpy()
