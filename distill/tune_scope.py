"""Find the weights of the scope rule: `python -m intentmem.distill.tune_scope --sgd SGD --realmem REALMEM [--report]`.

SGD is the folder that holds `train` and `dev`, REALMEM the folder of personas. The search is over SGD train dialogues,
woven into trajectories, and RealMem's training personas; among the weights after each sweep the best on SGD dev and
RealMem's development persona wins; `--report` measures those on the held-out persona, once. Nothing is random but the
weaving, which is seeded. Every run is online: each decision builds on the decisions before it, never on gold. Scope is
scored at user turns by the adjusted Rand index (ARI) and by the number of scopes opened relative to gold.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from intentmem.memory.deciders import BaselineDecider, ScopeWeights
from intentmem.memory.tasks import SCOPE
from intentmem.memory.types import NewTurn, Vector
from intentmem.memory.write.scopes import ScopeTracker, Step
from intentmem.train_data import Trajectory, load_corpus

from .evaluation.grouping import rand_index

Encode = Callable[[Sequence[str]], Vector]

WOVEN = {"train": (28, 1), "dev": (10, 2)}
"""Trajectories to weave of each SGD split, and the seed."""

SEARCH: Mapping[str, tuple[float, ...]] = {
    "threshold": (0.30, 0.32, 0.34, 0.35, 0.36, 0.38, 0.40),
    "continuity": (0.0, 0.5, 1.0, 1.5, 2.0),
    "coherence_power": (0.0, 0.15, 0.25, 0.35, 0.5),
    "session": (2.0, 3.0, 4.0),
    "session_fade": (5.0, 10.0, 15.0, 30.0),
    "sitting": (2.0, 3.0, 4.0, 6.0),
    "affirms": (1.0, 2.0, 3.0),
    "refers": (0.0, 1.0),
    "opens": (0.0, 1.0, 2.0, 3.0),
    "short": (0.0, 1.0, 2.0, 3.0),
    "weight": (6.0, 8.0, 12.0),
}
_SWEEPS = 2
_DIALOGUES, _LIVE = 8, 4
_COUNT_PENALTY = 0.1
_START = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One trajectory to place: its steps, and the gold scope of each."""

    steps: tuple[Step, ...]
    gold: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """Means over runs: ARI at user turns in [-1, 1], and scopes opened relative to gold (1 is as many)."""

    ari: float
    scopes: float

    @property
    def value(self) -> float:
        """What the search maximises: a wrong number of scopes costs whichever way it is wrong."""
        return self.ari - _COUNT_PENALTY * abs(math.log(self.scopes))


def main(arguments: Sequence[str] | None = None, encode: Encode | None = None) -> None:
    """Search, then write the chosen weights and their scores as JSON to standard output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--sgd", type=Path, required=True, help="folder with train and dev")
    parser.add_argument("--realmem", type=Path, required=True, help="folder of personas")
    parser.add_argument("--report", action="store_true", help="measure the held-out persona too")
    options = parser.parse_args(arguments)
    encode = encode or _encoder()
    personas = load_corpus("realmem", options.realmem)
    sets = {split: _woven(options.sgd / split, split, encode) for split in WOVEN}
    train = [*sets["train"], [_as_run(t, encode) for t in personas.only("train").trajectories]]
    dev = [*sets["dev"], [_as_run(t, encode) for t in personas.only("dev").trajectories]]
    chosen = search(train, dev)
    groups = ("sgd", "sgd_one_session", "realmem")
    report = {
        "weights": asdict(chosen),
        "train": dict(zip(groups, (asdict(score(runs, chosen)) for runs in train), strict=True)),
        "dev": dict(zip(groups, (asdict(score(runs, chosen)) for runs in dev), strict=True)),
    }
    if options.report:
        held_out = [_as_run(t, encode) for t in personas.only("test").trajectories]
        report["test"] = {"realmem": asdict(score(held_out, chosen))}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


def search(train: Sequence[Sequence[Run]], dev: Sequence[Sequence[Run]]) -> ScopeWeights:
    """Coordinate search over `SEARCH` on `train`; the best on `dev` of the weights after each sweep, calibrated."""
    weights = ScopeWeights()
    best = _value(train, weights)
    seen = [weights]
    for _ in range(_SWEEPS):
        for name, values in SEARCH.items():
            for value in values:
                trial = replace(weights, **{name: value})
                result = best if trial == weights else _value(train, trial)
                if result > best + 1e-3:
                    weights, best = trial, result
        seen.append(weights)
    chosen = max(seen, key=lambda candidate: _value(dev, candidate))
    return replace(chosen, temperature=calibrate([run for runs in train for run in runs], chosen))


def score(runs: Iterable[Run], weights: ScopeWeights) -> Score:
    """Place each run online and compare with gold.

    Raises:
        MissingExtraError: scikit-learn is absent.
    """
    aris, ratios = [], []
    for run in runs:
        placed = place(run, weights)
        user = [i for i, step in enumerate(run.steps) if step.role == "user"]
        aris.append(rand_index([placed[i] for i in user], [run.gold[i] for i in user]))
        ratios.append(len(set(placed)) / len(set(run.gold)))
    return Score(float(np.mean(aris)), float(np.mean(ratios)))


def place(run: Run, weights: ScopeWeights) -> list[str]:
    """The scope of each step, decided online."""
    decider, tracker, placed = BaselineDecider(scope=weights), ScopeTracker("tune", "run"), []
    for step in run.steps:
        if step.role != "user" and tracker.previous is not None:
            tracker.place(step, tracker.previous)  # what the rule does for any weights
            placed.append(tracker.previous)
            continue
        (decision,) = decider.decide(SCOPE, [tracker.propose(step)])
        scope, _ = tracker.apply(step, decision)
        if scope is None:
            scope = f"scope {len(tracker.scopes)}"
            tracker.open(step, scope, scope)
        placed.append(scope)
    return placed


def calibrate(runs: Iterable[Run], weights: ScopeWeights) -> float:
    """The temperature under which gold is likeliest at user turns, given the gold scopes before each."""
    temperatures = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
    losses = np.zeros(len(temperatures))
    deciders = [BaselineDecider(scope=replace(weights, temperature=value)) for value in temperatures]
    for run in runs:
        tracker = ScopeTracker("tune", "run")
        for step, gold in zip(run.steps, run.gold, strict=True):
            item = tracker.propose(step)
            known = gold in tracker.scopes
            if step.role == "user" and tracker.turns:
                key = gold if known else "none"
                losses += [-math.log(max(1e-9, d.decide(SCOPE, [item])[0].probabilities[key])) for d in deciders]
            if known:
                tracker.place(step, gold)
            else:
                tracker.open(step, gold, gold)
    return temperatures[int(losses.argmin())]


def weave(dialogues: Sequence[Trajectory], rng: random.Random) -> list[tuple[NewTurn, str]]:
    """Interleave dialogues into one trajectory, each turn with the id of its dialogue; pieces start at user turns."""
    waiting = list(dialogues)
    live: list[tuple[Trajectory, list[NewTurn]]] = []
    woven: list[tuple[NewTurn, str]] = []
    while waiting or live:
        opens = bool(waiting) and (not live or (len(live) < _LIVE and rng.random() < 0.5))
        if opens:
            dialogue = waiting.pop()
            live.append((dialogue, list(dialogue.turns)))
        last = woven[-1][1] if woven else None
        others = [entry for entry in live if entry[0].id != last] or live
        dialogue, rest = live[-1] if opens else rng.choice(others)
        cut = 2 * rng.randint(1, 5)
        woven.extend((turn, dialogue.id) for turn in rest[:cut])
        del rest[:cut]
        live = [entry for entry in live if entry[1]]
    return woven


def _value(sets: Sequence[Sequence[Run]], weights: ScopeWeights) -> float:
    plain, one_session, realmem = (score(runs, weights).value for runs in sets)
    return (plain + one_session) / 2 + realmem


def _woven(folder: Path, split: str, encode: Encode) -> tuple[list[Run], list[Run]]:
    """Woven dialogues twice: with no sessions given, and as one session each."""
    count, seed = WOVEN[split]
    rng = random.Random(seed)
    dialogues = list(load_corpus("sgd", folder).trajectories)
    rng.shuffle(dialogues)
    plain: list[Run] = []
    one_session: list[Run] = []
    for start in range(0, count * _DIALOGUES, _DIALOGUES):
        turns, gold = zip(*weave(dialogues[start : start + _DIALOGUES], rng), strict=True)
        vectors = encode([turn.text for turn in turns])
        plain.append(Run(_steps([replace(turn, session=None) for turn in turns], vectors), gold))
        one_session.append(Run(_steps([replace(turn, session="only") for turn in turns], vectors), gold))
    return plain, one_session


def _as_run(trajectory: Trajectory, encode: Encode) -> Run:
    vectors = encode([turn.text for turn in trajectory.turns])
    gold = tuple(str(trajectory.gold[str(turn.source_id)].scope) for turn in trajectory.turns)
    return Run(_steps(trajectory.turns, vectors), gold)


def _steps(turns: Sequence[NewTurn], vectors: Vector) -> tuple[Step, ...]:
    return tuple(
        Step(vector, turn.role, turn.time or _START + timedelta(minutes=row), turn.session, turn.text)
        for row, (turn, vector) in enumerate(zip(turns, vectors, strict=True))
    )


def _encoder() -> Encode:
    from .embedder import SentenceTransformerEmbedder

    embedder = SentenceTransformerEmbedder()
    return lambda texts: embedder.encode(texts, "passage")


if __name__ == "__main__":
    main()
