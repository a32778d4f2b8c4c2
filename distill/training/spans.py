"""Students that read values: an adapter, tags of words, and projections in which values meet names of properties."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import RECORD_SPANS, Task
from intentmem.memory.types import Vector

from ..backbone import Backbone
from ..encoding import PLAIN, AdaptedEncoder
from ..gold.spans import spans_of, wider_properties
from ..splits import split_traces
from ..students.spans import BEGIN, INSIDE, OUTSIDE
from ..students.spans_reading import HINTS, Passage, Window, before_of, passages
from ..traces import Trace, belongs
from .adapting import AdaptingEncoder
from .batching import bucketed, shape_for
from .loop import LoopConfig, fit
from .outcome import Trained, TrainOptions
from .spans_fit import finished

if TYPE_CHECKING:
    import torch
    from torch import nn

ADAPTER = "spans"
_BATCH_TOKENS = 640
_EMPTY = 0.3
"""Share of the turns without a value that are trained on."""
_WIDTH, _SCALE = 128, 16.0
_LOOP = LoopConfig(epochs=1, rate=1e-3, head_rate=4e-3)


def train(tasks: Sequence[Task], traces: Sequence[Trace], base: Backbone, options: TrainOptions) -> list[Trained]:
    """Train the student that reads values.

    Args:
        traces: of gold with places, see `gold.spans`; split by conversation.

    Raises:
        InputError: another task; traces of another version, of too few conversations, or without any value.
        MissingExtraError: peft or accelerate is absent.
    """
    if [task.name for task in tasks] != [RECORD_SPANS.name]:
        raise InputError("task", f"{tasks[0].name!r} is not about values", f"use {RECORD_SPANS.name}")
    if wrong := next((reason for trace in traces if (reason := belongs(tasks[0], trace))), ""):
        raise InputError("traces", f"hold one that {wrong}")
    parts, splits = split_traces(traces, options.seed)
    if not any(spans_of(trace) for trace in parts["train"]):
        raise InputError(
            "traces", f"to train {RECORD_SPANS.name!r} on say the place of no value", "give --data sgd:PATH"
        )
    encoder = AdaptingEncoder(base, options.shape or shape_for(base), options.seed)
    recipe = SpansRecipe(parts["train"], parts["dev"], encoder, options.seed)
    curve = fit(recipe, options.loop_or(_LOOP), options.checkpoints, options.progress)
    head = recipe.arrays()
    plain: dict[str, object] = {
        "properties": recipe.names,
        "wider": [name for name in wider_properties() if name not in recipe.names],
        "scale": recipe.scale,
        "limit": recipe.limit,
    }
    return [finished(tasks[0], head, plain, encoder.adapter(ADAPTER), base, curve, parts, splits)]


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A window with hints (W, H) and tag of each of its words, its topic (D,), and its values that are whole.

    values: first word, last + 1, property.
    """

    window: Window
    hints: Vector
    topic: Vector
    tags: tuple[int, ...]
    values: tuple[tuple[int, int, str], ...]


def examples(passage: Passage, spans: Sequence[tuple[int, int, str]]) -> Iterator[Example]:
    """A passage's windows; of values at one place the first counts. Words that a value touches are its own."""
    placed: list[tuple[int, int, str]] = []
    for start, end, name in spans:
        inside = [number for number, (a, b) in enumerate(passage.words) if a < end and start < b]
        if inside and (not placed or inside[0] >= placed[-1][1]):
            placed.append((inside[0], inside[-1] + 1, name))
    for window in passage.windows:
        last = window.first + len(window.words)
        tags = [OUTSIDE] * len(window.words)
        for a, b, _ in placed:
            for number in range(max(a, window.first), min(b, last)):
                tags[number - window.first] = BEGIN if number == a else INSIDE
        whole = [(a - window.first, b - window.first, name) for a, b, name in placed if window.first <= a and b <= last]
        yield Example(window, passage.hints[window.first : last], passage.topic, tuple(tags), tuple(whole))


class SpansRecipe:
    """Cross-entropy over tags of words, and over names of properties for each value; dev score: micro-F1 of both."""

    def __init__(self, train: Sequence[Trace], dev: Sequence[Trace], encoder: AdaptingEncoder, seed: int) -> None:
        import torch

        rng = random.Random(f"spans {seed}")
        self._encoder, self._seed = encoder, seed
        self.limit = min(encoder.shape.max_tokens, encoder.base.window)
        kept = [trace for trace in train if spans_of(trace) or rng.random() < _EMPTY]
        self._train = [one for _, made in read_examples(encoder.base, kept, self.limit) for one in made]
        self._dev = read_examples(encoder.base, dev, self.limit)
        self.names = sorted({name for trace in train for _, _, name in spans_of(trace)})
        self._place = {name: number for number, name in enumerate(self.names)}
        topics = np.stack([one.topic for one in self._train])
        self._center = np.stack([topics.mean(axis=0), np.full(topics.shape[1], topics.std(axis=0).mean() + 1e-6)])
        self._named = torch.from_numpy(plainly_pooled(encoder.base, self.names))
        self._head = _head(encoder.base.dimension, seed)
        self._lengths = [len(one.window.ids) for one in self._train]
        self.steps = sum(1 for _ in self.batches(0))

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """The encoder, under the name by which the loop knows it, and the head."""
        return {"encoder": self._encoder.module, "head": self._head}

    def batches(self, epoch: int) -> Iterator[list[Example]]:
        """Windows of like lengths."""
        rng = random.Random(f"{self._seed} {epoch}")
        for batch in bucketed(self._lengths, _BATCH_TOKENS, rng):
            yield [self._train[place] for place in batch]

    def loss(self, batch: list[Example]) -> torch.Tensor:
        """Mean over the words, plus mean over the values."""
        import torch
        from torch.nn.functional import cross_entropy

        self._encoder.module.eval()  # over so few passes dropout only costs time, a fifth of it
        tags, values = self._scores(batch)
        wanted = torch.tensor([tag for one in batch for tag in one.tags], device=tags.device)
        total: torch.Tensor = cross_entropy(tags, wanted)
        rows = [self._place[name] for one in batch for _, _, name in one.values]
        if rows:
            total = total + cross_entropy(values, torch.tensor(rows, device=tags.device), label_smoothing=0.02)
        return total

    def evaluate(self) -> dict[str, float]:
        """`span_f1` by tags alone, `named` the share of true values named right, `score` their product."""
        hits = reported = wanted = right = values = 0
        for start in range(0, len(self._dev), 64):
            made = [one for _, windows in self._dev[start : start + 64] for one in windows]
            if not made:
                continue
            tags, scores = self._scores(made)
            best, at = tags.argmax(dim=-1).tolist(), 0
            named = scores.argmax(dim=-1).tolist()
            for one in made:
                true, found = _runs(one.tags), _runs(best[at : at + len(one.tags)])
                at += len(one.tags)
                hits, reported, wanted = hits + len(true & found), reported + len(found), wanted + len(true)
            for place, name in zip(named, (name for one in made for _, _, name in one.values), strict=True):
                right, values = right + (self.names[place] == name), values + 1
        f1, share = 2 * hits / max(1, reported + wanted), right / max(1, values)
        return {"score": f1 * share, "span_f1": f1, "named": share}

    def arrays(self) -> dict[str, Vector]:
        """The head's arrays as a student holds them."""
        head: Any = self._head
        found = {"tags": head.tags.weight, "tag_bias": head.tags.bias, "values": head.values, "names": head.names}
        arrays = {name: np.asarray(array.detach().cpu().float().numpy()) for name, array in found.items()}
        return {**arrays, "center": np.asarray(self._center, np.float32)}

    @property
    def scale(self) -> float:
        """What cosines are multiplied by."""
        head: Any = self._head
        return math.exp(head.log_scale.item())

    def _scores(self, made: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
        """(W, 3) of all words in order, and (V, N) of all values over the names."""
        import torch
        from torch.nn.functional import normalize

        head: Any = self._head
        hidden, mask = self._encoder.hidden([one.window.ids for one in made])
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        around = (hidden * weights).sum(dim=1) / weights.sum(dim=1)
        sums = torch.cat([torch.zeros_like(hidden[:, :1]), hidden.cumsum(dim=1)], dim=1)
        rows, starts, ends = _places(made, lambda one: one.window.words, hidden.device)
        words = (sums[rows, ends] - sums[rows, starts]) / (ends - starts).clamp(min=1).unsqueeze(-1)
        hints = torch.from_numpy(np.concatenate([one.hints for one in made])).to(words)
        center, spread = self._center
        topics = torch.from_numpy((np.stack([one.topic for one in made]) - center) / spread).to(words)
        scored = head.tags(torch.cat([words, hints], dim=1))
        firsts, asked = 0, []
        for row, one in enumerate(made):
            for first, last, _ in one.values:
                inside = slice(firsts + first, firsts + last)
                parts = words[inside].mean(dim=0), around[row], topics[row], hints[inside].mean(dim=0)
                asked.append(torch.cat(parts))
            firsts += len(one.tags)
        known = normalize(self._named.to(words) @ head.names.T, dim=-1)
        if not asked:
            return scored, known.new_zeros((0, len(self.names)))
        return scored, head.log_scale.exp() * normalize(torch.stack(asked) @ head.values.T, dim=-1) @ known.T


def read_examples(base: Backbone, traces: Sequence[Trace], limit: int) -> list[tuple[Trace, list[Example]]]:
    """Each trace with the windows of its text."""
    texts = [str(trace.fields["text"]) for trace in traces]
    found = passages(base, texts, [before_of(trace.fields) for trace in traces], limit)
    return [(trace, list(examples(one, spans_of(trace)))) for trace, one in zip(traces, found, strict=True)]


def plainly_pooled(base: Backbone, texts: Sequence[str]) -> Vector:
    """(N, D) of texts as the base alone pools them, as students see the names of properties."""
    return np.stack([one.pooled for one in AdaptedEncoder(base, ()).encode(texts, [PLAIN])[PLAIN]])


def _places(made: Sequence[Example], of: Any, device: Any) -> tuple[Any, Any, Any]:
    import torch

    flat = [(row, start, end) for row, one in enumerate(made) for start, end in of(one)]
    columns = torch.tensor(flat, dtype=torch.long, device=device).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def _runs(tags: Sequence[int]) -> set[tuple[int, int]]:
    found, start = set(), None
    for place, tag in enumerate([*tags, OUTSIDE]):
        if start is not None and tag != INSIDE:
            found.add((start, place))
            start = None
        if tag == BEGIN:
            start = place
    return found


def _head(dimension: int, seed: int) -> nn.Module:
    import torch
    from torch import nn

    torch.manual_seed(seed)
    head = nn.Module()
    head.tags = nn.Linear(dimension + HINTS, 3)
    near = nn.init.orthogonal_(torch.empty(min(_WIDTH, dimension), dimension))
    unknown = torch.zeros(len(near), dimension + HINTS)
    head.values = nn.Parameter(torch.cat([near, 0.1 * near, unknown], dim=1))
    head.log_scale = nn.Parameter(torch.tensor(math.log(_SCALE)))
    head.names = nn.Parameter(near.clone())
    return head
