"""The smallest family of students: a linear classifier on an adapter of a two-layer encoder of random weights."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from intentmem.distill.backbone import Backbone
from intentmem.distill.calibration import reliability, softmax, temperature
from intentmem.distill.judging import Judged
from intentmem.distill.profiles import EmbedderProfile
from intentmem.distill.splits import split_traces
from intentmem.distill.students.base import Encodings
from intentmem.distill.traces import Trace
from intentmem.distill.training.adapting import AdaptingEncoder, LoraShape
from intentmem.distill.training.loop import LoopConfig, fit
from intentmem.distill.training.outcome import Measured, Trained, TrainOptions
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import Decision, Field, Group, Item, Option, Space, Task
from intentmem.memory.types import Vector

WORDS = [f"w{number}" for number in range(60)]
DECLARED = """
name = "mood"
question = "How does the turn sound?"
[[fields]]
name = "turn"
description = "The turn."
[labels]
warm = "w0 w1 w2"
cold = "w20 w21 w22"
flat = "w40 w41 w42"
"""
"""A task of one's own as its file declares it."""
MOOD = Task(
    name="mood",
    question="How does the turn sound?",
    fields=(Field("turn", "The turn."),),
    space=Space.CLOSED,
    groups=(Group("mood", (Option("warm", "w0 w1 w2"), Option("cold", "w20 w21 w22"), Option("flat", "w40 w41 w42"))),),
)
_NAMES = [option.name for option in MOOD.groups[0].options]


def make_encoder(place: Path, seed: int = 0) -> Path:
    """A two-layer encoder with random weights and a tokenizer of whole words."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: at for at, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(place)
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.4,
    )
    transformers.BertModel(config).save_pretrained(place)
    return place


def backbone(folder: Path, name: str = "tiny") -> Backbone:
    return Backbone(folder, EmbedderProfile(name, str(folder), pooling="mean"), "cpu", "float32")


def mood_traces(n: int = 120, conversations: int = 24, seed: int = 0, teacher: str = "teacher") -> list[Trace]:
    """Turns whose words tell their mood, a tenth of them against the rule."""
    rng = random.Random(seed)
    found = []
    for number in range(n):
        mood = rng.randrange(3)
        words = rng.sample(WORDS[mood * 20 : mood * 20 + 6], 4)
        said = mood if rng.random() > 0.1 else rng.randrange(3)
        found.append(
            Trace(
                MOOD.name,
                MOOD.hash,
                {"turn": " ".join(words)},
                (_NAMES[said],),
                teacher,
                f"c{number % conversations}",
                number,
            )
        )
    return found


class MoodStudent:
    """weights: (L, D); bias: (L,)."""

    def __init__(self, task: Task, adapter: str, weights: Vector, bias: Vector, temperature: float) -> None:
        if len(weights) != len(task.groups[0].options) or weights.shape[:1] != bias.shape:
            raise InputError("head", f"has {len(weights)} rows for {len(task.groups[0].options)} labels")
        self.task, self.adapter = task, adapter
        self._weights, self._bias, self._temperature = weights, bias, temperature

    @classmethod
    def from_head(
        cls, task: Task, adapter: str, head: Mapping[str, Vector], options: Mapping[str, object]
    ) -> MoodStudent:
        return cls(task, adapter, head["weights"], head["bias"], float(str(options["temperature"])))

    def head(self) -> Mapping[str, Vector]:
        return {"weights": self._weights, "bias": self._bias}

    def options(self) -> Mapping[str, object]:
        return {"temperature": self._temperature}

    def logits(self, items: Sequence[Item], encodings: Encodings) -> Any:
        rows = encodings.turns([str(item.fields["turn"]) for item in items], self.adapter)
        return np.stack([one.pooled for one in rows]) @ self._weights.T + self._bias

    def decide(self, items: Sequence[Item], encodings: Encodings) -> list[Decision]:
        names = [option.name for option in self.task.groups[0].options]
        found = []
        for row in softmax(self.logits(items, encodings), self._temperature) if items else ():
            best = int(row.argmax())
            found.append(Decision((names[best],), dict(zip(names, row.tolist(), strict=True)), float(row[best]), ""))
        return found


class _Recipe:
    def __init__(self, encoder: AdaptingEncoder, parts: Mapping[str, Sequence[Trace]], seed: int) -> None:
        import torch

        torch.manual_seed(seed)
        self.encoder, self.seed = encoder, seed
        self.head = torch.nn.Linear(encoder.base.dimension, 3)
        self.rows = {
            name: (
                encoder.token_ids([str(trace.fields["turn"]) for trace in part]),
                [_NAMES.index(trace.labels[0]) for trace in part],
            )
            for name, part in parts.items()
        }
        self.steps = -(-len(parts["train"]) // 16)

    @property
    def modules(self) -> Any:
        return {"encoder": self.encoder.module, "head": self.head}

    def batches(self, epoch: int) -> Iterator[list[int]]:
        order = list(range(len(self.rows["train"][0])))
        random.Random(f"{self.seed} {epoch}").shuffle(order)
        return iter([order[start : start + 16] for start in range(0, len(order), 16)])

    def logits(self, split: str, places: Sequence[int]) -> Any:
        return self.head(self.encoder.pooled([self.rows[split][0][place] for place in places]))

    def loss(self, batch: list[int]) -> Any:
        import torch

        targets = torch.tensor([self.rows["train"][1][place] for place in batch])
        return torch.nn.functional.cross_entropy(self.logits("train", batch), targets)

    def evaluate(self) -> dict[str, float]:
        targets = np.array(self.rows["dev"][1])
        given = self.logits("dev", range(len(targets))).numpy().argmax(axis=1)
        return {"score": float((given == targets).mean())}


def train(tasks: Sequence[Task], traces: Sequence[Trace], base: Backbone, options: TrainOptions) -> list[Trained]:
    import torch

    parts, splits = split_traces(traces, options.seed)
    encoder = AdaptingEncoder(base, options.shape or LoraShape(rank=4, alpha=8, layers=1), options.seed)
    recipe = _Recipe(encoder, parts, options.seed)
    loop = options.loop_or(LoopConfig(epochs=8, rate=5e-3, head_rate=2e-2))
    curve = fit(recipe, loop, options.checkpoints, options.progress)
    with torch.inference_mode():
        logits = recipe.logits("calibration", range(len(parts["calibration"]))).numpy()
    targets = np.array(recipe.rows["calibration"][1])
    warmth = temperature(logits, targets)
    shares = softmax(logits, warmth)
    right, sure = shares.argmax(axis=1) == targets, shares.max(axis=1)
    student = MoodStudent(
        tasks[0],
        "mood",
        np.float32(recipe.head.weight.detach().numpy()),
        np.float32(recipe.head.bias.detach().numpy()),
        warmth,
    )
    judged = [
        Judged(float(c), bool(ok), trace.labels[0], _NAMES[int(row.argmax())], str(trace.fields["turn"]))
        for c, ok, row, trace in zip(sure, right, shares, parts["calibration"], strict=True)
    ]
    score = curve.epochs[curve.best]["score"]
    return [
        Trained(
            student,
            encoder.adapter("mood"),
            curve,
            (Measured("mood", "accuracy", score, len(parts["dev"])),),
            splits,
            {"traces": "0" * 16},
            {("warm", "warm"): 3, ("warm", "cold"): 1, ("cold", "cold"): 2, ("flat", "flat"): 2},
            reliability(sure, right),
            tuple(trace.item() for trace in parts["dev"][:4]),
            tuple(judged),
        )
    ]
