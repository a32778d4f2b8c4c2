"""Ordinary talk in the words of the seed vocabulary, as rules understand it.

Task dialogues say nothing about telling news, cheering up or giving feedback. A student that has read nothing else forces
such turns into what it knows; so of corpora without gold about events, the turns that the rules are sure of are added.
They are of teacher `rules:<corpus>`: no gold, and never evaluated on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.protocols import Embedder
from intentmem.memory.tasks import EVENT, Candidates, Item
from intentmem.memory.types import NewTurn
from intentmem.memory.write.labelling import BEFORE
from intentmem.memory.write.seeds import load_seeds
from intentmem.train_data import Corpus

from ..embedder import SentenceTransformerEmbedder
from ..splits import GIVEN, split_conversations
from ..traces import LabelSet, Trace

RULES = "rules:"
"""What the names of such teachers begin with."""
_SURE = 0.5
_LONGEST = 240
_BATCH = 256


def rule_traces(corpus: Corpus, seed: int = 0, embedder: Embedder | None = None) -> list[Trace]:
    """Short turns of the training part of a corpus that the rules give an event with a probability of one half or more.

    Args:
        corpus: one that may be trained on.
        seed: of the splits.
        embedder: what the rules measure similarity with; None takes the embedded one.

    Raises:
        InputError: the corpus may be used for evaluation only, or has fewer than three conversations.
    """
    learnt = corpus.for_training().only("train")
    splits = split_conversations((trajectory.id for trajectory in learnt.trajectories), seed)
    split_of = {name: split for split, names in splits.items() for name in names}
    options, offered = _seeds(embedder := embedder or SentenceTransformerEmbedder())
    asked = list(_asked(learnt))
    found: list[Trace] = []
    decider = BaselineDecider()
    for start in range(0, len(asked), _BATCH):
        batch = asked[start : start + _BATCH]
        vectors = np.asarray(embedder.encode([turn.text for _, _, turn, _ in batch], "passage"), np.float32)
        items = [
            Item({"turn": _rendered(turn)}, offered, vector)
            for (_, _, turn, _), vector in zip(batch, vectors, strict=True)
        ]
        for (conversation, seq, turn, before), said in zip(batch, decider.decide(EVENT, items), strict=True):
            if not said.labels or said.confidence < _SURE:
                continue
            fields: dict[str, str | tuple[str, ...]] = {"turn": _rendered(turn)}
            if before:
                fields["before"] = before
            meta = {"role": turn.role, "source": corpus.name, GIVEN: split_of[conversation]}
            found.append(
                Trace(
                    EVENT.name,
                    EVENT.hash,
                    fields,
                    said.labels[:1],
                    RULES + corpus.name,
                    conversation,
                    seq,
                    options,
                    meta=meta,
                )  # fmt: skip
            )
    return found


def _asked(corpus: Corpus) -> Iterator[tuple[str, int, NewTurn, tuple[str, ...]]]:
    """Conversation, place, turn, and the turns before it in its session, of each short turn."""
    for trajectory in corpus.trajectories:
        for seq, turn in enumerate(trajectory.turns):
            if len(turn.text) <= _LONGEST:
                near = trajectory.turns[max(0, seq - BEFORE) : seq]
                yield trajectory.id, seq, turn, tuple(_rendered(t) for t in near if t.session == turn.session)


def _seeds(embedder: Embedder) -> tuple[LabelSet, Candidates]:
    """All fine seed labels; the coarse ones lend them their evidence in the rules only."""
    seeds = [seed for seed in load_seeds() if seed.kind == "event" and seed.parent is not None]
    texts = tuple(f"{seed.name}: {seed.description}" for seed in seeds)
    names = tuple(seed.name for seed in seeds)
    return LabelSet(names, texts), Candidates(names, texts, np.asarray(embedder.encode(texts, "label"), np.float32))


def _rendered(turn: NewTurn) -> str:
    return f"{turn.speaker or turn.role}: {turn.text}"
