"""Students of closed label spaces: an adapter, and a head whose rows begin as the encoded texts of the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import Space, Task
from intentmem.memory.types import Vector

from ..backbone import Backbone
from ..splits import split_traces
from ..students.closed import PAIR, TEXT, group_names, one_text
from ..traces import Trace, belongs
from .adapting import AdaptingEncoder
from .batching import encoded_plainly, epochs_for, shape_for
from .closed_fit import Learnt, finished, mean_macro_f1
from .closed_frame import ClosedFrame
from .closed_targets import check_every_label, label_weights, targets
from .loop import LoopConfig, fit
from .outcome import Trained, TrainOptions
from .pairs import PairRecipe

if TYPE_CHECKING:
    import torch
    from torch import nn

_BATCH_TOKENS = 640
_SCALE = 12.0


def train(tasks: Sequence[Task], traces: Sequence[Trace], base: Backbone, options: TrainOptions) -> list[Trained]:
    """Train a student for each closed task, each with an adapter of its own.

    Teacher probabilities become soft targets; rare labels weigh more, by the root of their share.

    Args:
        traces: of these tasks and perhaps of others; split by conversation.

    Raises:
        InputError: a task that is not closed; traces of another version, with unknown labels, of too few
            conversations, or with none of some label.
        MissingExtraError: peft, accelerate or scikit-learn is absent.
    """
    return [_train(task, [trace for trace in traces if trace.task == task.name], base, options) for task in tasks]


def head_kind(task: Task) -> str:
    """A task that ranks many texts for one is answered by a pair of vectors; every other reads its fields as one."""
    return PAIR if task.metric == "ndcg" else TEXT


def _train(task: Task, traces: list[Trace], base: Backbone, options: TrainOptions) -> Trained:
    if task.space is not Space.CLOSED:
        raise InputError("task", f"{task.name!r} is not a closed task")
    if wrong := next((reason for trace in traces if (reason := belongs(task, trace))), ""):
        raise InputError("traces", f"hold one that {wrong}")
    parts, splits = split_traces(traces, options.seed)
    check_every_label(task, parts["train"])
    encoder = AdaptingEncoder(base, options.shape or shape_for(base), options.seed)
    made = PairRecipe if head_kind(task) == PAIR else TextRecipe
    recipe = made(task, parts["train"], parts["dev"], encoder, options.seed)
    loop = options.loop_or(LoopConfig(epochs=epochs_for(recipe.steps)))
    folder = options.checkpoints / task.name if options.checkpoints is not None else None
    curve = fit(recipe, loop, folder, options.progress)
    weights, bias = recipe.rows()
    learnt = Learnt(task, recipe.kind, weights, bias, encoder.adapter(task.name), curve)
    return finished(learnt, base, parts["dev"], parts["calibration"], splits)


class TextRecipe(ClosedFrame):
    """The loss over all groups of a task, and the mean of their macro-F1 on the development split."""

    kind = TEXT

    def __init__(
        self, task: Task, train: Sequence[Trace], dev: Sequence[Trace], encoder: AdaptingEncoder, seed: int
    ) -> None:
        self._train, self._dev = _read(task, train), _read(task, dev)
        self._weights = label_weights(task, train)
        texts, others = ([text for text, _ in part] for part in (self._train, self._dev))
        super().__init__(task, encoder, seed, texts, others, _new_head(task, encoder), _BATCH_TOKENS)

    def loss(self, batch: list[int]) -> torch.Tensor:
        """Cross-entropy of each group, summed over groups and averaged over traces."""
        import torch

        rows = [self._train[place] for place in batch]
        logits = self._logits([text for text, _ in rows])
        wanted = torch.tensor(np.stack([row for _, row in rows]), dtype=torch.float32, device=logits.device)
        weights = torch.tensor(self._weights, dtype=torch.float32, device=logits.device)
        sizes = [len(names) for names in group_names(self.task)]
        parts = zip(*(torch.split(part, sizes, dim=-1) for part in (logits, wanted, weights)), strict=True)
        total = torch.zeros((), device=logits.device)
        for part, target, weight in parts:
            total = total - (target * weight * part.log_softmax(dim=-1)).sum(dim=-1).mean()
        return total

    def evaluate(self) -> dict[str, float]:
        """`score`: macro-F1, averaged over the groups."""
        order = sorted(range(len(self._dev)), key=lambda place: len(self._dev[place][0]))
        given, wanted = [], []
        for start in range(0, len(order), 64):
            rows = [self._dev[place] for place in order[start : start + 64]]
            given.append(self._logits([text for text, _ in rows]).float().cpu().numpy())
            wanted.append(np.stack([row for _, row in rows]))
        score, by_group = mean_macro_f1(self.task, np.concatenate(given), np.concatenate(wanted))
        return {"score": score, **by_group}

    def _logits(self, texts: Sequence[str]) -> torch.Tensor:
        from torch.nn.functional import normalize

        found: torch.Tensor = self._head(normalize(self._trunk.pooled(texts), dim=-1))
        return found


def _read(task: Task, traces: Sequence[Trace]) -> list[tuple[str, Vector]]:
    texts = [one_text(task, trace.item()) for trace in traces]
    return list(zip(texts, targets(task, traces), strict=True))


def _new_head(task: Task, encoder: AdaptingEncoder) -> nn.Module:
    import torch
    from torch import nn

    options = [option for group in task.groups for option in group.options]
    texts = [f"{option.name.replace('_', ' ')}: {option.description}" for option in options]
    head = nn.Linear(encoder.base.dimension, len(options))
    with torch.no_grad():
        head.bias.zero_()
        head.weight.copy_(_SCALE * torch.from_numpy(encoded_plainly(encoder.base, texts)))
    return head
