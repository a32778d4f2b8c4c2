"""Students that choose among candidates: an adapter, a scale, and the logit of none."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import Space, Task

from ..backbone import Backbone
from ..splits import split_traces
from ..students.candidates import asked_text
from ..traces import Trace, belongs
from .adapting import AdaptingEncoder
from .batching import bucketed, epochs_for, shape_for
from .candidates_fit import finished
from .loop import LoopConfig, fit
from .outcome import Trained, TrainOptions
from .trunk import FrozenTrunk

if TYPE_CHECKING:
    import torch
    from torch import nn

_BATCH_TEXTS = 400
_MOST_OFFERED = 12
_SCALE, _NONE = 14.0, 7.0
_SMOOTHING = 0.05


def train(tasks: Sequence[Task], traces: Sequence[Trace], base: Backbone, options: TrainOptions) -> list[Trained]:
    """Train a student for each task with candidates, each with an adapter of its own.

    Teacher probabilities over the candidates become soft targets. Of many candidates, a random part with the right one
    is shown at each epoch.

    Args:
        traces: of these tasks and perhaps of others; split by conversation.

    Raises:
        InputError: a task without candidates; traces of another version, with labels that were not offered, of too few
            conversations, or of which none chooses a candidate.
        MissingExtraError: peft, accelerate or scikit-learn is absent.
    """
    return [_train(task, [trace for trace in traces if trace.task == task.name], base, options) for task in tasks]


def _train(task: Task, traces: list[Trace], base: Backbone, options: TrainOptions) -> Trained:
    if task.space is not Space.CANDIDATES:
        raise InputError("task", f"{task.name!r} has no candidates")
    if wrong := next((reason for trace in traces if (reason := belongs(task, trace))), ""):
        raise InputError("traces", f"hold one that {wrong}")
    parts, splits = split_traces(traces, options.seed)
    if not any(trace.labels for trace in parts["train"]):
        raise InputError("traces", f"to train {task.name!r} on never choose a candidate", "collect some that do")
    encoder = AdaptingEncoder(base, options.shape or shape_for(base), options.seed)
    recipe = CandidatesRecipe(task, parts["train"], parts["dev"], encoder, options.seed)
    loop = options.loop_or(LoopConfig(epochs=epochs_for(recipe.steps)))
    folder = options.checkpoints / task.name if options.checkpoints is not None else None
    curve = fit(recipe, loop, folder, options.progress)
    scale, none = recipe.numbers()
    return finished(
        task, scale, none, encoder.adapter(task.name), base, curve, parts["dev"], parts["calibration"], splits
    )


class CandidatesRecipe:
    """Cross-entropy over an item's candidates and none; dev score is top-1."""

    def __init__(
        self, task: Task, train: Sequence[Trace], dev: Sequence[Trace], encoder: AdaptingEncoder, seed: int
    ) -> None:
        self.task, self._encoder, self._seed = task, encoder, seed
        self._train, self._dev = list(train), list(dev)
        self._trunk = FrozenTrunk(encoder)
        self._trunk.prepare([text for trace in (*train, *dev) for text in self._texts(trace)])
        self._head = _head()
        self._lengths = [1 + min(len(trace.options.ids), _MOST_OFFERED) for trace in self._train]
        self.steps = sum(1 for _ in self.batches(0))

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """The encoder, under the name by which the loop knows it, and the head."""
        return {"encoder": self._encoder.module, "head": self._head}

    def batches(self, epoch: int) -> Iterator[list[tuple[Trace, list[int]]]]:
        """Traces, each with the places of the candidates that are shown."""
        rng = random.Random(f"{self._seed} {epoch}")
        for batch in bucketed(self._lengths, _BATCH_TEXTS, rng):
            yield [(self._train[place], shown(self._train[place], rng)) for place in batch]

    def loss(self, batch: list[tuple[Trace, list[int]]]) -> torch.Tensor:
        """Mean over the traces."""
        import torch

        total: Any = 0.0
        for row, (trace, places) in zip(self._rows(batch), batch, strict=True):
            wanted = torch.tensor(target(trace, places), dtype=torch.float32, device=row.device)
            total = total - (wanted * row.log_softmax(dim=-1)).sum()
        mean: torch.Tensor = total / len(batch)
        return mean

    def evaluate(self) -> dict[str, float]:
        """`score`: the share of dev traces answered right."""
        right = 0
        for start in range(0, len(self._dev), 32):
            batch = [(trace, list(range(len(trace.options.ids)))) for trace in self._dev[start : start + 32]]
            for row, (trace, _) in zip(self._rows(batch), batch, strict=True):
                best = int(row.argmax())
                given = (trace.options.ids[best],) if best < len(trace.options.ids) else ()
                right += given == trace.labels
        return {"score": right / max(1, len(self._dev))}

    def numbers(self) -> tuple[float, float]:
        """Scale, and logit of none."""
        head: Any = self._head
        return math.exp(head.log_scale.item()), head.none.item()

    def _texts(self, trace: Trace) -> list[str]:
        return [asked_text(self.task, trace.item()), *trace.options.texts]

    def _rows(self, batch: Sequence[tuple[Trace, list[int]]]) -> list[torch.Tensor]:
        """(K + 1,) logits of each, none last."""
        import torch
        from torch.nn.functional import normalize

        asked = [asked_text(self.task, trace.item()) for trace, _ in batch]
        offered = [[trace.options.texts[place] for place in places] for trace, places in batch]
        distinct = list(dict.fromkeys([*asked, *(text for texts in offered for text in texts)]))
        place = {text: number for number, text in enumerate(distinct)}
        vectors = normalize(self._trunk.pooled(distinct), dim=-1)
        head: Any = self._head
        rows = []
        for text, texts in zip(asked, offered, strict=True):
            likeness = vectors[[place[one] for one in texts]] @ vectors[place[text]]
            rows.append(torch.cat([head.log_scale.exp() * likeness, head.none.reshape(1)]))
        return rows


def shown(trace: Trace, rng: random.Random) -> list[int]:
    """Places of the candidates that a trace is trained on: all, or a random part with those chosen, in order."""
    places = list(range(len(trace.options.ids)))
    if len(places) <= _MOST_OFFERED:
        return places
    kept = [place for place in places if trace.options.ids[place] in trace.labels]
    rest = [place for place in places if place not in kept]
    return sorted([*kept, *rng.sample(rest, _MOST_OFFERED - len(kept))])


def target(trace: Trace, places: Sequence[int]) -> NDArray[np.float64]:
    """(K + 1,): the teacher's probabilities where it gives them, else its choice, smoothed; none last."""
    ids = [trace.options.ids[place] for place in places]
    given = np.array([*(trace.probabilities.get(id, 0.0) for id in ids), 0.0])
    if given.sum() > 0:
        given[-1] = max(0.0, 1 - sum(trace.probabilities.get(id, 0.0) for id in trace.options.ids))
        return np.asarray(given / given.sum(), np.float64)
    hard = np.array([*(float(id in trace.labels) for id in ids), float(not trace.labels)])
    return np.asarray((1 - _SMOOTHING) * hard + _SMOOTHING / len(hard), np.float64)


def _head() -> nn.Module:
    import torch
    from torch import nn

    head = nn.Module()
    head.log_scale = nn.Parameter(torch.tensor(math.log(_SCALE)))
    head.none = nn.Parameter(torch.tensor(_NONE))
    return head
