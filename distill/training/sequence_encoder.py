"""The scope encoder while it learns: in a window of turns, each user turn must find its own goal among the live ones.

Listwise softmax over the goals so far and a new one, under gold history; beside it, a turn must tell the last assistant
turn of its goal from all other turns of other goals (InfoNCE; van den Oord et al., 2018), which is what carries over
to goals never seen.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from intentmem.memory.types import Vector

from ..evaluation.scope_runs import Run
from ..students.sequence_features import MAPS
from .adapting import AdaptingEncoder
from .sequence_windows import BOOK, Window, windows
from .trunk import FrozenTrunk

if TYPE_CHECKING:
    import torch
    from torch import nn

WINDOW = 48
"""Turns a window."""
_SCALES = {"assistant": 4.0, "user": 3.0, "opening": 2.0, "topic": 6.0, "peer": 4.0}
_RANK = 32
_CONTRAST = 0.5
_LOW = -1e4


def matcher(dimension: int, seed: int) -> nn.Module:
    """The maps of `students.sequence_features.Matching`, and how a simple head adds them up."""
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(seed)

    class Matcher(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            count = len(MAPS)
            self.scale = nn.Parameter(torch.tensor([_SCALES[name] for name in MAPS]))
            self.left = nn.Parameter(torch.randn(count, dimension, _RANK, generator=generator) / dimension**0.5)
            self.right = nn.Parameter(torch.randn(count, dimension, _RANK, generator=generator) / dimension**0.5)
            self.bias = nn.Parameter(torch.zeros(count, dimension))
            self.stay = nn.Parameter(torch.zeros(dimension))
            self.opens = nn.Parameter(torch.zeros(dimension))
            self.numbers = nn.Parameter(torch.tensor([1.0, 1.0, -1.0, -0.3, 0.0]))
            self.fresh = nn.Parameter(torch.tensor([5.0, 0.0, 0.0, 0.0]))

        def keys(self, queries: torch.Tensor) -> torch.Tensor:
            """(Q, D) turns to (M, Q, D)."""
            mapped = torch.einsum("mqr,mdr->mqd", torch.einsum("qd,mdr->mqr", queries, self.left), self.right)
            return self.scale[:, None, None] * queries + mapped + self.bias[:, None, :]

    return Matcher()


class ScopeRecipe:
    """Windows of all training runs, those of each source as often as `weights` says (1 where it is silent)."""

    def __init__(
        self,
        encoder: AdaptingEncoder,
        train: Sequence[Run],
        dev: Sequence[Run],
        seed: int,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        self.encoder = encoder
        self.trunk = FrozenTrunk(encoder)
        self.matcher = matcher(encoder.base.dimension, seed)
        self._train, self._dev, self._seed = train, dev, seed
        self._weights = dict(weights or {})
        rng = random.Random(f"{seed} dev")
        self._dev_windows = [window for run in dev for window in windows(run, WINDOW, rng)]
        self._steps = len(self._epoch(0))

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """What learns."""
        return {"encoder": self.encoder.module, "matcher": self.matcher}

    @property
    def steps(self) -> int:
        """Batches an epoch."""
        return self._steps

    def batches(self, epoch: int) -> Iterator[Window]:
        """Windows in random order, cut anew each epoch."""
        yield from self._epoch(epoch)[: self._steps]

    def loss(self, batch: Window) -> torch.Tensor:
        """Mean over the decided turns of a window."""
        import torch
        from torch.nn import functional

        x = functional.normalize(self.trunk.pooled(batch.texts), dim=1)
        keys = self._keys(x, batch)
        target = torch.from_numpy(batch.target).to(x.device)
        loss = functional.cross_entropy(self._logits(x, keys, batch), target)
        contrast = self._contrast(x, keys, batch)
        return loss + _CONTRAST * contrast

    def evaluate(self) -> dict[str, float]:
        """Surprise and accuracy by source on development windows; `score` is the mean of the negative surprises."""
        import torch
        from torch.nn import functional

        losses: defaultdict[str, list[float]] = defaultdict(list)
        hits: defaultdict[str, list[float]] = defaultdict(list)
        for window in self._dev_windows:
            x = functional.normalize(self.trunk.pooled(window.texts), dim=1)
            logits = self._logits(x, self._keys(x, window), window)
            target = torch.from_numpy(window.target).to(x.device)
            losses[window.source] += functional.cross_entropy(logits, target, reduction="none").tolist()
            hits[window.source] += (logits.argmax(dim=1) == target).tolist()
        found = {f"surprise {source}": float(np.mean(values)) for source, values in losses.items()}
        found |= {f"accuracy {source}": float(np.mean(values)) for source, values in hits.items()}
        return {"score": -float(np.mean([np.mean(values) for values in losses.values()])), **found}

    def arrays(self) -> dict[str, Vector]:
        """The maps as `Matching` takes them."""
        names = ("scale", "left", "right", "bias", "stay", "opens")
        module: Any = self.matcher
        return {name: getattr(module, name).detach().cpu().numpy().astype(np.float32) for name in names}

    def _epoch(self, epoch: int) -> list[Window]:
        rng = random.Random(f"{self._seed} {epoch}")
        made: list[Window] = []
        for run in self._train:
            times = self._weights.get(run.source, 1.0)
            for _ in range(int(times) + (rng.random() < times % 1)):
                made += windows(run, WINDOW, rng)
        rng.shuffle(made)
        return made

    def _keys(self, x: torch.Tensor, window: Window) -> torch.Tensor:
        module: Any = self.matcher
        keys: torch.Tensor = module.keys(x[window.query.tolist()])
        return keys

    def _logits(self, x: torch.Tensor, keys: torch.Tensor, window: Window) -> torch.Tensor:
        """(Q, K + 1): of each goal, and of a new one."""
        import torch

        module: Any = self.matcher
        scores = keys @ x.T  # (M, Q, n)
        by_map = dict(zip(MAPS, scores, strict=True))
        centroids = torch.nn.functional.normalize(torch.from_numpy(window.centroid).to(x) @ x, dim=2)  # (Q, K, D)
        total = torch.einsum("qd,qkd->qk", keys[MAPS.index("topic")], centroids) / 2
        total = total + _at(by_map["topic"], window.recent).amax(dim=2).clamp(min=-50) / 2
        for name, places in (
            ("assistant", window.last_assistant),
            ("user", window.last_user),
            ("opening", window.opening),
        ):
            total = total + _at(by_map[name], places).clamp(min=-50) * torch.from_numpy(places >= 0).to(x.device)
        numbers, turn = (torch.from_numpy(part).to(x) for part in (window.numbers, window.turn))
        previous = numbers[:, :, BOOK.index("previous")]
        peers = 1 - turn[:, :1]
        queries = x[window.query.tolist()]
        latest = _at(by_map["peer"], window.query[:, None] - 1)
        total = total + previous * ((queries @ module.stay)[:, None] + peers * (latest + module.numbers[-1]))
        total = total + numbers @ module.numbers[: len(BOOK)]
        total = total.masked_fill(~torch.from_numpy(window.here).to(x.device), _LOW)
        fresh = queries @ module.opens + module.fresh[0] + turn @ module.fresh[1:]
        return torch.cat([total, fresh[:, None]], dim=1)

    def _contrast(self, x: torch.Tensor, keys: torch.Tensor, window: Window) -> torch.Tensor:
        """Of all assistant turns before it, a turn must find the last one of its goal; others of its goal are left out.

        Where nobody is an assistant there is nothing to find.
        """
        import torch
        from torch.nn import functional

        known = np.flatnonzero(window.target < window.here.shape[1])
        right = window.last_assistant[known, window.target[known]]
        known, right = known[right >= 0], right[right >= 0]
        if not len(known):
            return x.sum() * 0
        scores = (keys[MAPS.index("assistant")] @ x.T)[known.tolist()]  # (q, n)
        own = window.centroid[known, window.target[known]] > 0  # turns of the goal
        before = np.arange(x.shape[0])[None] < window.query[known][:, None]
        allowed = before & ~own
        allowed[np.arange(len(known)), right] = True
        others, wanted = (torch.from_numpy(part).to(x.device) for part in (~allowed, right))
        return functional.cross_entropy(scores.masked_fill(others, _LOW), wanted)


def _at(scores: torch.Tensor, places: Any) -> torch.Tensor:
    """Scores (Q, n) at places (Q, ...), very low where the place is -1."""
    import torch

    index = torch.from_numpy(np.asarray(places)).to(scores.device)
    found = torch.gather(scores, 1, index.clamp(min=0).reshape(len(scores), -1)).reshape(index.shape)
    return found.masked_fill(index < 0, _LOW)
