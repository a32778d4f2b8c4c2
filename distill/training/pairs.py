"""The recipe of pair heads: the first text of a pair learns to be found beside the vectors that the second ones have.

Only the first text goes through the adapter; the second keeps the base's own vector, which a memory has stored already.
Beside the cross-entropy of the labels, each first text ranks the second texts of its whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from intentmem.memory.tasks import Task

from ..evaluation.closed import grade, ndcg
from ..students.closed import PAIR, group_names, label_names, two_texts
from ..traces import Trace
from .adapting import AdaptingEncoder
from .batching import encoded_plainly
from .closed_frame import ClosedFrame
from .closed_targets import label_weights, targets

if TYPE_CHECKING:
    import torch
    from torch import nn

_BATCH_TOKENS = 480
_SLOPE, _MIDDLE = 6.0, 0.45
_LISTWISE = 0.5
_USEFUL = 0.3


class PairRecipe(ClosedFrame):
    """Labels of one group for pairs of texts; dev score is the mean NDCG over first texts."""

    kind = PAIR

    def __init__(
        self, task: Task, train: Sequence[Trace], dev: Sequence[Trace], encoder: AdaptingEncoder, seed: int
    ) -> None:
        self._gains = [grade(task, {name: 1.0}) for name in group_names(task)[0]]
        pairs = [two_texts(task, trace.item()) for trace in (*train, *dev)]
        seconds = list(dict.fromkeys(second for _, second in pairs))
        place = {text: row for row, text in enumerate(seconds)}
        self._vectors = encoded_plainly(encoder.base, seconds)
        self._train = _grouped(train, pairs[: len(train)], place)
        self._dev = _grouped(dev, pairs[len(train) :], place)
        self._targets = np.stack(targets(task, train))
        self._weights = label_weights(task, train)
        firsts = [first for first, _ in (*self._train, *self._dev)]
        self._plain = dict(zip(firsts, encoded_plainly(encoder.base, firsts), strict=True))
        self._dev_labels = np.array([group_names(task)[0].index(trace.labels[0]) for trace in dev])
        texts, others = firsts[: len(self._train)], firsts[len(self._train) :]
        super().__init__(task, encoder, seed, texts, others, _new_head(task, encoder), _BATCH_TOKENS)

    def loss(self, batch: list[int]) -> torch.Tensor:
        """Cross-entropy of the pairs, and of each first text's ranking of all second texts at hand."""
        import torch

        groups = [self._train[place] for place in batch]
        firsts, plain = self._firsts([first for first, _ in groups])
        owners = [row for row, (_, pairs) in enumerate(groups) for _ in pairs]
        rows = [pair for _, pairs in groups for pair in pairs]
        seconds = torch.from_numpy(self._vectors[[second for _, second in rows]]).to(firsts.device)
        logits = self._logits(firsts[owners], plain[owners], seconds)
        wanted = torch.from_numpy(self._targets[[trace for trace, _ in rows]]).to(firsts.device)
        weights = torch.from_numpy(self._weights).to(firsts.device)
        labelled = -(wanted * weights * logits.log_softmax(dim=-1)).sum(dim=-1).mean()
        gains = wanted @ torch.tensor(self._gains, dtype=torch.float32, device=firsts.device)
        owned = torch.tensor([[owner == row for owner in owners] for row in range(len(groups))], device=firsts.device)
        return labelled + _LISTWISE * self._listwise(firsts, plain, seconds, owned & (gains[None] > _USEFUL), gains)

    def _listwise(
        self,
        firsts: torch.Tensor,
        plain: torch.Tensor,
        seconds: torch.Tensor,
        useful: torch.Tensor,
        gains: torch.Tensor,
    ) -> torch.Tensor:
        """A softmax over all second texts of the batch, for each first text."""
        count, size = firsts.shape[0], seconds.shape[0]
        firsts, plain = (one.repeat_interleave(size, 0) for one in (firsts, plain))
        every = self._logits(firsts, plain, seconds.repeat(count, 1))
        scores = (every[:, 0] - every[:, -1]).reshape(count, size)
        # A text that two first texts share may serve both: it is no counter-example.
        shared = (seconds @ seconds.T > 0.999).float() @ useful.float().T > 0
        scores = scores.masked_fill(shared.T & ~useful, -1e4)
        shares = useful * gains[None]
        goal = shares / shares.sum(dim=1, keepdim=True).clamp(min=1e-9)
        kept = useful.any(dim=1).sum().clamp(min=1)
        return -(goal * scores.log_softmax(dim=1)).sum() / kept

    def evaluate(self) -> dict[str, float]:
        """`score`: NDCG of the dev pairs, ranked by graded probability."""
        import torch

        found = []
        for start in range(0, len(self._dev), 32):
            groups = self._dev[start : start + 32]
            firsts, plain = self._firsts([first for first, _ in groups])
            for row, (_, pairs) in enumerate(groups):
                seconds = torch.from_numpy(self._vectors[[second for _, second in pairs]]).to(firsts.device)
                first, bare = (side[row].expand(len(pairs), -1) for side in (firsts, plain))
                shares = self._logits(first, bare, seconds).softmax(dim=-1).cpu().numpy()
                gains = [self._gains[self._dev_labels[trace]] for trace, _ in pairs]
                if any(gains) and len(gains) > 1:
                    found.append(ndcg(gains, (shares @ np.array(self._gains)).tolist()))
        return {"score": float(np.mean(found)) if found else 0.0}

    def _firsts(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """First texts through the adapter and as the base encodes them, (N, D) each, of length 1."""
        import torch
        from torch.nn.functional import normalize

        adapted = normalize(self._trunk.pooled(texts), dim=-1)
        return adapted, torch.from_numpy(np.stack([self._plain[text] for text in texts])).to(adapted.device)

    def _logits(self, firsts: torch.Tensor, plain: torch.Tensor, seconds: torch.Tensor) -> torch.Tensor:
        """As `students.closed.compared`, with gradients."""
        import torch

        products = firsts * seconds
        cosines = torch.stack([products.sum(dim=-1), (plain * seconds).sum(dim=-1)], dim=-1)
        found: torch.Tensor = self._head(torch.cat([products, (firsts - seconds).abs(), cosines], dim=-1))
        return found


def _new_head(task: Task, encoder: AdaptingEncoder) -> nn.Module:
    """Rows that rank by cosine to begin with, the first label high and the last one low."""
    import torch
    from torch import nn

    labels = len(label_names(task))
    head = nn.Linear(2 * encoder.base.dimension + 2, labels)
    lean = torch.linspace(1.0, -1.0, labels)
    with torch.no_grad():
        head.weight.zero_()
        head.weight[:, -2:] = _SLOPE / 2 * lean[:, None]
        head.bias.copy_(-_SLOPE * _MIDDLE * lean)
    return head


def _grouped(
    traces: Sequence[Trace], pairs: Sequence[tuple[str, str]], place: Mapping[str, int]
) -> list[tuple[str, list[tuple[int, int]]]]:
    """First texts of a conversation, each with (place of the trace, place of the second text) of its pairs."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for number, (trace, (first, second)) in enumerate(zip(traces, pairs, strict=True)):
        found.setdefault((trace.conversation, first), []).append((number, place[second]))
    return [(first, rows) for (_, first), rows in found.items()]
