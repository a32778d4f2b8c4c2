"""Learn the weights of the fused recipe.

    python -m intentmem.distill.learn_fusion --sgd DIR --realmem DIR [--out FILE]

Three vectors of weights, one for short look-ups, one for long messages and one for sittings of many goals, fitted
together by a listwise softmax on look-up questions over interleaved task dialogues (SGD), on look-ups of the annotated
memories of three RealMem personas, on the queries of these, and on questions about simulated conversations; a fourth
persona, and others of these conversations, choose the strength of the prior. Labels are those of the students that
ship. Weights are not negative and are drawn
to a prior that gives each family of signals (words, meaning, sittings, recency, labels) one unit, so that what the
training corpora do not show is not unlearned. Deterministic.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.clock import SystemClock
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.memory import Memory
from intentmem.memory.protocols import Embedder
from intentmem.memory.read.columns import session_name
from intentmem.memory.read.rank import length_share
from intentmem.memory.read.request import Recipe, SearchRequest
from intentmem.memory.read.signals import SIGNALS
from intentmem.memory.store import Store
from intentmem.memory.tasks import TASKS
from intentmem.memory.types import Filters
from intentmem.memory.write.extractive import ExtractiveWriter
from intentmem.train_data import Corpus, Question, Trajectory, load_corpus
from intentmem.train_data.lookups import build_lookups, memory_lookups
from intentmem.train_data.synthetic import KINDS, build

from .embedder import SentenceTransformerEmbedder
from .registry import Registry
from .runtime import StudentDecider

Doubles = NDArray[np.float64]
_log = logging.getLogger(__name__)
_BLOCK = 256

LOOKUP: Mapping[str, float] = {
    "lexical_around": 1.0,
    "entity": 0.1,
    "dense": 0.5,
    "dense_around": 0.5,
    "turn_kin": 0.3,
    "scope": 0.1,
    "labels": 0.1,
    "speaker": 0.5,
    "statement": 0.5,
    "length": 0.3,
    "time": 0.3,
}
BACKGROUND: Mapping[str, float] = {
    "lexical_around": 0.5,
    "session_lexical": 0.5,
    "entity": 0.1,
    "dense": 0.33,
    "dense_around": 0.33,
    "turn_kin": 0.33,
    "session_centroid": 0.33,
    "session_best": 0.33,
    "session_kin": 0.33,
    "scope": 0.1,
    "labels": 0.1,
    "recency": 0.5,
    "thread_recency": 0.5,
    "time": 0.3,
    "statement": 0.25,
    "length": 0.25,
}
THREADS: Mapping[str, float] = {
    "lexical_around": 1.0,
    "entity": 0.1,
    "dense": 0.5,
    "dense_around": 0.5,
    "turn_kin": 0.3,
    "scope": 0.1,
    "scope_words": 1.0,
    "run_words": 0.5,
    "scope_opening": 4.0,
    "run_opening": 0.5,
    "scope_opening_dense": 0.5,
    "run_opening_dense": 0.2,
    "labels": 0.1,
    "speaker": 0.5,
    "statement": 0.5,
    "length": 0.3,
    "time": 0.3,
}
"""The prior. A signal that is not named is not weighed."""
KIN = 0.4
"""Share of what sittings alike score in a sitting's score: chosen among 0, 0.2 and 0.4 on the same personas."""


@dataclass(frozen=True, slots=True)
class Example:
    """One question: signals (E, K) of the eligible turns, the share of each of the weight vectors (3,), its gold.

    group: (E,) code of each turn's sitting where the gold are sittings, None where the gold are turns.
    """

    signals: Doubles
    shares: Doubles
    gold: NDArray[np.int64]
    group: NDArray[np.int64] | None


def examples(corpus: Corpus, embedder: Embedder, decider: StudentDecider) -> list[Example]:
    """Remember each trajectory, and take the signals of each of its questions."""
    found: list[Example] = []
    for trajectory in corpus.trajectories:
        with tempfile.TemporaryDirectory() as folder:
            store = Store(Path(folder))
            parts = (store, embedder, decider, ExtractiveWriter(), SystemClock())
            with Memory(*parts, turn_space=lambda: decider.turn_space) as memory:
                for start in range(0, len(trajectory.turns), _BLOCK):
                    memory.add(list(trajectory.turns[start : start + _BLOCK]), namespace="learn")
                asked = [q for q in corpus.questions if q.trajectory == trajectory.id and q.has_evidence]
                found += [e for q in asked if (e := _example(memory, trajectory, q)) is not None]
        _log.info("%s: %d questions so far", trajectory.id, len(found))
    return found


def _example(memory: Memory, trajectory: Trajectory, question: Question) -> Example | None:
    ordinal = memory.store.namespaces.ordinal("learn")
    rows = memory.store.turns.rows_by_source(ordinal)
    cut = question.searchable_until
    before = None if cut is None or cut >= len(trajectory.turns) else rows[trajectory.turns[cut].source_id or ""]
    request = SearchRequest(question.text, ordinal, "learn", Filters(), Recipe.FUSED, question.time, before_row=before)
    evidence = memory.searcher.rank(request).evidence
    if evidence is None:
        return None
    kept = evidence.pool.eligible
    signals = np.stack([evidence.standardised(name)[kept] for name in SIGNALS], axis=1).astype(np.float64)
    at = {int(row): place for place, row in enumerate(evidence.pool.rows[kept])}
    group = None
    if question.gold_sessions:
        columns = evidence.pool.columns
        sittings = columns.session[evidence.pool.positions[kept]]
        names = [session_name(columns.sessions.names[c]) for c in sittings]
        codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
        group = np.array([codes[name] for name in names])
        gold = np.array(sorted({codes[s] for s in question.gold_sessions if s in codes}))
    else:
        gold = np.array(sorted({at[rows[s]] for s in question.gold_turns if rows.get(s) in at}))
    long, threads = length_share(evidence.question_words), evidence.interleaving
    shares = np.array([(1 - threads) * (1 - long), (1 - threads) * long, threads])
    return Example(signals, shares, gold, group) if len(gold) else None


def fit(sets: Sequence[Sequence[Example]], strength: float) -> Doubles:
    """The weight vectors (3, K), each set of examples weighing the same.

    Loss of a question: mean over its gold of -log softmax against everything that is not gold; a sitting scores the
    log-sum-exp of its turns. Plus `strength` times the squared distance to the prior.
    """
    from scipy.optimize import minimize

    prior = np.concatenate([_vector(weights) for weights in (LOOKUP, BACKGROUND, THREADS)])

    def objective(w: Doubles) -> tuple[float, Doubles]:
        total, slope = strength * float(((w - prior) ** 2).sum()), 2 * strength * (w - prior)
        for part in sets:
            for example in part:
                loss, gradient = _loss(example, example.shares @ w.reshape(3, -1))
                total += loss / len(part)
                slope += np.outer(example.shares, gradient).ravel() / len(part)
        return total, slope

    bounds = [(0.0, None) if p > 0 else (0.0, 0.0) for p in prior]
    found = minimize(objective, prior, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40}).x
    return np.asarray(found.reshape(3, -1), np.float64)


def _loss(example: Example, weights: Doubles) -> tuple[float, Doubles]:
    """Loss of one question and its gradient by the weights (K,)."""
    scores = example.signals @ weights
    scored, inner = scores, None
    if example.group is not None:
        top = scores.max()
        parts = np.exp(scores - top)
        totals = np.maximum(np.bincount(example.group, parts), 1e-300)
        scored, inner = np.log(totals) + top, parts / totals[example.group]
    high = scored.max()
    rest = np.exp(scored - high)
    rest[example.gold] = 0.0
    gold = np.exp(scored[example.gold] - high)
    whole = rest.sum() + gold
    loss = float(np.mean(np.log(whole) - np.log(np.maximum(gold, 1e-300))))
    slope = rest * np.mean(1 / whole)
    slope[example.gold] += (gold / whole - 1) / len(gold)
    by_turn = slope if inner is None or example.group is None else slope[example.group] * inner
    return loss, by_turn @ example.signals


def recalls(part: Iterable[Example], weights: Doubles, k: int = 10) -> Doubles:
    """Share of each example's gold among the first k turns, or sittings."""
    found = []
    for example in part:
        scores = example.signals @ (example.shares @ weights)
        if example.group is not None:
            scores = np.log(np.maximum(np.bincount(example.group, np.exp(scores - scores.max())), 1e-300))
        best = np.argsort(-scores, kind="stable")[:k]
        found.append(np.isin(example.gold, best).mean())
    return np.array(found)


def choose_strength(found: Mapping[float, Sequence[Doubles]]) -> float:
    """The strongest prior whose recall is within one standard error of the best (Breiman et al., 1984, section 3.4).

    Args:
        found: by strength, the recalls of the examples of each choosing set.
    """
    means = {strength: sum(float(part.mean()) for part in parts) for strength, parts in found.items()}
    best = max(means, key=lambda strength: means[strength])
    error = float(np.sqrt(sum(part.var(ddof=1) / len(part) for part in found[best])))
    return max(strength for strength, mean in means.items() if mean >= means[best] - error)


def _vector(weights: Mapping[str, float]) -> Doubles:
    return np.array([weights.get(name, 0.0) for name in SIGNALS])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line; writes the weights as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sgd", type=Path, required=True, help="a folder of SGD dialogues (its train split)")
    parser.add_argument("--realmem", type=Path, required=True, help="the folder of RealMem personas")
    parser.add_argument("--tokens", type=int, default=12_000, help="length of each simulated conversation")
    parser.add_argument("--registry", type=Path, default=Path("registry"), help="of students; those that ship else")
    parser.add_argument("--strengths", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--out", type=Path, default=Path("fused.json"))
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    embedder = SentenceTransformerEmbedder()
    decider = StudentDecider.of(Registry(options.registry).open(TASKS), embedder.backbone, BaselineDecider())
    personas = load_corpus("realmem", options.realmem).for_training()
    train, dev = personas.only("train"), personas.only("dev")
    lookups = build_lookups(load_corpus("sgd", options.sgd), trajectories=4, dialogues=40, seed=1)
    training = [
        examples(lookups, embedder, decider),
        *_both(train, embedder, decider),
        _simulated(options.tokens, range(1, 3), embedder, decider),
    ]
    choosing = [*_both(dev, embedder, decider), _simulated(options.tokens, range(3, 4), embedder, decider)]
    fitted = {strength: fit(training, strength) for strength in options.strengths}
    found = {strength: [recalls(part, weights) for part in choosing] for strength, weights in fitted.items()}
    for strength, parts in found.items():
        _log.info("strength %g: R@10 %s", strength, [round(float(part.mean()), 4) for part in parts])
    chosen = choose_strength(found)
    report = {
        **{name: _named(weights) for name, weights in zip(_VECTORS, fitted[chosen], strict=True)},
        "kin": KIN,
        "learned": {
            "command": "python -m intentmem.distill.learn_fusion",
            "strength": chosen,
            "questions": dict(zip(_SETS, map(len, [*training, *choosing]), strict=True)),
            "embedder": str(embedder.fingerprint),
            "students": sorted(decider.names.values()),
        },
    }
    options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


_VECTORS = ("lookup", "background", "threads")
_CHOSEN_BY = ("memory look-ups", "queries", "simulated")
_SETS = ("task look-ups", *_CHOSEN_BY, *(f"choosing: {name}" for name in _CHOSEN_BY))


def _simulated(tokens: int, seeds: Iterable[int], embedder: Embedder, decider: StudentDecider) -> list[Example]:
    """Examples of simulated conversations of every kind, in the wordings that may be trained on."""
    found: list[Example] = []
    for seed, kind in product(seeds, KINDS):
        with tempfile.TemporaryDirectory() as folder:
            made = build(kind, tokens=tokens, seed=seed, out=Path(folder, kind), split="train")
            found += examples(load_corpus("came_bench", made.folder), embedder, decider)
    return found


def _both(personas: Corpus, embedder: Embedder, decider: StudentDecider) -> list[list[Example]]:
    """Examples of the memory look-ups and of the queries of personas, each persona remembered once."""
    lookups = memory_lookups(personas, most=150, seed=1)
    found = examples(replace(personas, questions=lookups.questions + personas.questions), embedder, decider)
    return [[e for e in found if e.group is None], [e for e in found if e.group is not None]]


def _named(weights: Doubles) -> dict[str, float]:
    return {name: round(float(w), 3) for name, w in zip(SIGNALS, weights, strict=True) if w > 0.0005}


if __name__ == "__main__":
    main()
