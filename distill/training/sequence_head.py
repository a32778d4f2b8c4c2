"""The head of a scope student, trained on the histories that its own decisions make (DAgger; Ross et al., 2011).

Under gold history every scope is pure; online it is not, and a head that never saw a mixed one may put all turns into
one scope and stay there. So each round places the trajectories with the head so far, says for each turn which of the
scopes so made is its goal's, and trains on all rounds together.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.tasks import SCOPE, Item
from intentmem.memory.types import Vector
from intentmem.memory.write.scopes import VIEWS, ScopeTracker

from ..evaluation.scope_runs import Run
from ..students.sequence import SequenceStudent, Weigher
from ..students.sequence_features import CANDIDATE, TURN, Floats, Matching, features

if TYPE_CHECKING:
    import torch

HIDDEN = 96
ROUNDS = 2
NETS = 4
"""Nets whose scores are averaged: one by itself places a long conversation well or badly by its seed."""
_EPOCHS = 10
_RATE = 3e-3
_DECAY = 1e-3
_BATCH_ROWS = 4096
_OWN_KEEP = 0.9
_LEAST_OWN = 0.5

Names = Mapping[str, object]
DEFAULTS: Names = {
    "candidate_features": CANDIDATE,
    "turn_features": TURN,
    "views": VIEWS,
    "temperature": 1.0,
    "peer_temperature": 1.0,
    "stay_bias": 0.0,
    "peer_stay_bias": 0.0,
    "fresh_bias": 0.0,
    "unsure": 0.5,
}


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One decision to learn: features (N, C) and (T,), and which of the N + 1 answers are right."""

    source: str
    conversation: str
    candidates: Floats
    turn: Floats
    right: NDArray[np.bool_]


class Owners:
    """Which goal each induced scope is of: that of most of its turns, late ones counting more."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, float]] = defaultdict(dict)

    def add(self, scope: str, goal: str) -> None:
        """Count a turn of a goal to a scope."""
        counts = self._counts[scope]
        for name in counts:
            counts[name] *= _OWN_KEEP
        counts[goal] = counts.get(goal, 0.0) + 1.0

    def right(self, scopes: Sequence[str], goal: str) -> NDArray[np.bool_]:
        """(N + 1,) which scopes are the goal's; the last is set where none is: a new one is right then."""
        found = np.zeros(len(scopes) + 1, np.bool_)
        for row, scope in enumerate(scopes):
            counts = self._counts[scope]
            own = counts.get(goal, 0.0)
            found[row] = own > 0 and own >= _LEAST_OWN * sum(counts.values())
        found[-1] = not found.any()
        return found


def cases(student: SequenceStudent, matching: Matching, run: Run, forced: bool) -> Iterator[Case]:
    """The decisions of a run, under gold history or under the student's own."""
    tracker, owners = ScopeTracker("train", run.id), Owners()
    for place, (step, gold) in enumerate(zip(run.steps, run.gold, strict=True)):
        scope: str | None = tracker.previous
        if place and step.role == "user":
            item: Item = tracker.propose(step)
            found, turn = features(item, matching)
            right = owners.right(tracker.scopes, gold)
            yield Case(run.source, run.id, found, turn, right)
            best = int(student.scores(found, turn)[1].argmax())
            scope = tracker.scopes[best] if best < len(found) else None
        if forced:
            scope = gold
        if scope is None or scope not in tracker.scopes:
            scope = scope or f"scope {len(tracker.scopes)}"
            tracker.open(step, scope, scope)
        else:
            tracker.place(step, scope)
        owners.add(scope, gold)


def train_head(
    matching: Matching,
    arrays: Mapping[str, Vector],
    runs: Sequence[Run],
    seed: int,
    rounds: int = ROUNDS,
    nets: int = NETS,
) -> tuple[SequenceStudent, list[float]]:
    """A head for runs whose vectors are those of the adapter; the losses of its epochs.

    Args:
        arrays: of `matching`, by name.
        rounds: online rounds after the one under gold history.
        nets: how many are fitted anew on all rounds and averaged.
    """
    student = SequenceStudent(SCOPE, "scope", matching, Weigher.of(_start(seed)), DEFAULTS)
    gathered = [case for run in runs for case in cases(student, matching, run, forced=True)]
    net, losses = None, list[float]()
    for number in range(rounds):
        net, more = _fit(gathered, net, seed + number)
        student = SequenceStudent(SCOPE, "scope", matching, Weigher.of(net), DEFAULTS)
        gathered += [case for run in runs for case in cases(student, matching, run, forced=False)]
        losses += more
    fitted = [_fit(gathered, None, seed + rounds + number) for number in range(nets)]
    losses += [loss for _, more in fitted for loss in more]
    head = averaged([net for net, _ in fitted])
    return SequenceStudent.from_head(SCOPE, "scope", {**arrays, **head}, DEFAULTS), losses


def averaged(nets: Sequence[Mapping[str, Vector]]) -> dict[str, Vector]:
    """One net whose scores are the mean of those of several of one standardisation: their hidden units side by side."""
    found: dict[str, Vector] = {"mean": nets[0]["mean"], "spread": nets[0]["spread"]}
    for inner in ("inner", "fresh_inner"):
        outer = inner.replace("inner", "outer")
        found[inner] = np.concatenate([net[inner] for net in nets], axis=1)
        found[f"{inner}_bias"] = np.concatenate([net[f"{inner}_bias"] for net in nets])
        found[outer] = np.asarray(np.concatenate([net[outer] for net in nets]) / len(nets), np.float32)
    found["offset"] = np.asarray(np.mean([net["offset"] for net in nets], axis=0), np.float32)
    return found


def _start(seed: int) -> dict[str, Vector]:
    rng = np.random.default_rng(seed)
    count, wide = len(CANDIDATE) + len(TURN), len(TURN) + 2 * len(CANDIDATE)

    def drawn(rows: int, columns: int) -> Vector:
        return np.asarray(rng.normal(size=(rows, columns)) / rows**0.5, np.float32)

    return {
        "mean": np.zeros(count, np.float32),
        "spread": np.ones(count, np.float32),
        "inner": drawn(count, HIDDEN),
        "inner_bias": np.zeros(HIDDEN, np.float32),
        "outer": drawn(HIDDEN, 1)[:, 0],
        "fresh_inner": drawn(wide, HIDDEN),
        "fresh_inner_bias": np.zeros(HIDDEN, np.float32),
        "fresh_outer": drawn(HIDDEN, 1)[:, 0],
        "offset": np.zeros(1, np.float32),
    }


def source_weights(gathered: Sequence[Case]) -> dict[str, float]:
    """What a decision of each source weighs: a source counts by the root of its decisions.

    Simulated conversations come in any number, and by sheer number they would teach the head to neglect all others.
    """
    counts = Counter(case.source for case in gathered)
    even = len(gathered) / len(counts)
    return {source: math.sqrt(even / count) for source, count in counts.items()}


def _fit(
    gathered: Sequence[Case], net: Mapping[str, Vector] | None, seed: int
) -> tuple[dict[str, Vector], list[float]]:
    """Fit from a start or go on from a net; its arrays and the mean loss of each epoch."""
    import torch

    torch.manual_seed(seed)
    if net is None:
        started = _start(seed)
        rows = np.concatenate([case.candidates for case in gathered])
        turns = np.stack([case.turn for case in gathered])
        started["mean"] = np.concatenate([rows.mean(axis=0), turns.mean(axis=0)]).astype(np.float32)
        started["spread"] = np.maximum(np.concatenate([rows.std(axis=0), turns.std(axis=0)]), 1e-2).astype(np.float32)
        net = started
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in net.items()}
    learning = [tensors[name].requires_grad_() for name in tensors if name not in ("mean", "spread")]
    optimizer = torch.optim.AdamW(learning, lr=_RATE, weight_decay=_DECAY)
    batches, weights = list(_batches(gathered, random.Random(seed))), source_weights(gathered)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _EPOCHS * len(batches))
    losses = []
    for epoch in range(_EPOCHS):
        random.Random(f"{seed} {epoch}").shuffle(batches)
        total = 0.0
        for batch in batches:
            loss = _loss(tensors, batch, weights)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
        losses.append(total / len(batches))
    return {name: np.asarray(value.detach().numpy(), np.float32) for name, value in tensors.items()}, losses


def _batches(gathered: Sequence[Case], rng: random.Random) -> Iterator[list[Case]]:
    """Cases of like numbers of candidates, at most so many padded rows a batch."""
    order = sorted(gathered, key=lambda case: (len(case.candidates), rng.random()))
    batch: list[Case] = []
    for case in order:
        if batch and (len(batch) + 1) * len(case.candidates) > _BATCH_ROWS:
            yield batch
            batch = []
        batch.append(case)
    if batch:
        yield batch


def _loss(net: Mapping[str, torch.Tensor], batch: Sequence[Case], weights: Mapping[str, float]) -> torch.Tensor:
    """Mean surprise that any of the right answers is chosen."""
    import torch

    most = max(len(case.candidates) for case in batch)
    rows = np.zeros((len(batch), most, len(CANDIDATE)), np.float32)
    here = np.zeros((len(batch), most + 1), np.bool_)
    right = np.zeros((len(batch), most + 1), np.bool_)
    for at, case in enumerate(batch):
        count = len(case.candidates)
        rows[at, :count] = case.candidates
        here[at, :count] = True
        right[at, :count], right[at, most] = case.right[:-1], case.right[-1]
    here[:, most] = True
    turns = torch.from_numpy(np.stack([case.turn for case in batch]))
    scores = _scores(net, torch.from_numpy(rows), turns, torch.from_numpy(here))
    share = torch.log_softmax(scores, dim=1)
    chosen = torch.logsumexp(share.masked_fill(~torch.from_numpy(right), -1e4), dim=1)
    each = torch.tensor([weights[case.source] for case in batch])
    return -(chosen * each).sum() / each.sum()


def _scores(
    net: Mapping[str, torch.Tensor], rows: torch.Tensor, turns: torch.Tensor, here: torch.Tensor
) -> torch.Tensor:
    """As `Weigher.scores`, for a batch: (B, K + 1), very low where there is no candidate."""
    import torch

    count, low = len(CANDIDATE), -1e4
    each = ((rows - net["mean"][:count]) / net["spread"][:count]).clamp(-6, 6)
    shared = ((turns - net["mean"][count:]) / net["spread"][count:]).clamp(-6, 6)
    hidden = torch.relu(each @ net["inner"][:count] + (shared @ net["inner"][count:] + net["inner_bias"])[:, None, :])
    found = (hidden @ net["outer"]).masked_fill(~here[:, :-1], low)
    best = each.masked_fill(~here[:, :-1, None], -6.0).amax(dim=1)
    previous = rows[:, :, CANDIDATE.index("previous")] > 0
    before = (each * previous[:, :, None]).sum(dim=1)
    seen = torch.cat([shared, best, before], dim=1)
    fresh = torch.relu(seen @ net["fresh_inner"] + net["fresh_inner_bias"]) @ net["fresh_outer"]
    return torch.cat([found, (fresh + net["offset"])[:, None]], dim=1)
