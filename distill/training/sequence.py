"""Training of the scope student: first its encoder, then its head on the histories that it makes itself."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import SCOPE, Task
from intentmem.memory.types import Vector
from intentmem.train_data.written import WRITTEN

from ..backbone import Backbone
from ..calibration import reliability
from ..evaluation.scope import MOVES, confusion, judgements, measure
from ..evaluation.scope_runs import Run, Walk, gold_move, runs_of, walk
from ..gold.scope import BUILT, HELD_OUT
from ..judging import Judged
from ..splits import GIVEN, split_traces
from ..students.sequence import SequenceStudent
from ..students.sequence_features import Matching
from ..traces import GOLD, Trace, belongs
from .adapting import AdaptingEncoder, LoraShape
from .loop import LoopConfig, fit
from .outcome import Trained, TrainOptions
from .sequence_calibration import Alone, calibrated
from .sequence_encoder import ScopeRecipe
from .sequence_head import train_head

ADAPTER = "scope"
SHAPE = LoraShape(layers=2, max_tokens=64)
"""Two layers take half the training of four; the two were not compared on equal terms. What a long turn serves, it says
at its beginning.
"""
LOOP = LoopConfig(epochs=2, patience=2)
TURNS = 7_000
"""Turns of a source in an epoch of the encoder, and turns of it that the head is trained on, at most."""
_SIMULATED = 24_000
"""Turns of simulated conversations that the head is trained on: the only long ones, where many goals are alike."""
_WATCHED = 2_000
"""Turns of a source after whose surprise training stops."""
_ENOUGH = 8
_SHOWN = 120


def train(tasks: Sequence[Task], traces: Sequence[Trace], base: Backbone, options: TrainOptions) -> list[Trained]:
    """Train the student of `scope` on traces of any teacher, whole trajectories each.

    Raises:
        InputError: another task than `scope`, traces that cannot teach it, or too few conversations to split.
    """
    for task in tasks:
        if task.hash != SCOPE.hash:
            raise InputError("tasks", f"holds {task.name!r}, this family trains {SCOPE.name!r} alone")
    kept = [trace for trace in traces if trace.meta.get(GIVEN) != HELD_OUT]
    for trace in kept:
        if reason := belongs(SCOPE, trace):
            raise InputError("traces", f"{trace.conversation}, turn {trace.seq}, {reason}")
    parts, splits = split_traces(kept, options.seed)
    encoder = AdaptingEncoder(base, options.shape or SHAPE, options.seed)
    for_encoder, for_head = stacked(_blank(parts["train"]), options.seed)
    watched = [run for own in _by_source(_blank(parts["dev"])).values() for run in _up_to(own, _WATCHED)]
    recipe = ScopeRecipe(encoder, for_encoder, watched, options.seed, _shares(for_encoder))
    loop = options.loop_or(LOOP)
    curve = fit(recipe, loop, options.checkpoints, options.progress)
    wanted = {run.id for run in for_head}
    parts["train"] = [trace for trace in parts["train"] if trace.conversation in wanted]
    runs = {name: runs_of(part, recipe.trunk.vectors) for name, part in parts.items()}
    recipe.trunk.forget()
    student, losses = _head(recipe.arrays(), runs, options.seed)
    curve.losses.extend(losses)
    decider = Alone(student)
    judged = [one for walked in walk(decider, runs["calibration"], forced=True) for one in _judged(walked)]
    return [
        Trained(
            student,
            encoder.adapter(ADAPTER),
            curve,
            tuple(measure(decider, runs["dev"])),
            splits,
            _sources(kept),
            _confusion(walk(decider, runs["dev"], forced=True)),
            reliability([one.confidence for one in judged], [one.agrees for one in judged]),
            judged=tuple(judged),
        )
    ]


def stacked(runs: Sequence[Run], seed: int) -> tuple[list[Run], list[Run]]:
    """Runs for the encoder and for the head: others where a source has enough, as scores of turns that an encoder
    learnt from look better than any it will meet. What was written by hand is little, and all for the head.
    """
    for_encoder: list[Run] = []
    for_head: list[Run] = []
    for source, own in _by_source(runs).items():
        random.Random(f"{seed} {source}").shuffle(own)
        if source == GOLD + WRITTEN:
            for_head += own
            continue
        most = _SIMULATED if source == GOLD + BUILT else TURNS
        kept_back = len(own) // 4 if len(own) >= _ENOUGH else 0
        if most > TURNS:
            kept_back = max(kept_back, len(own) - len(_up_to(own[::-1], TURNS)))
        for_encoder += own[kept_back:]
        for_head += _up_to(own[:kept_back] or own, most)
    return for_encoder, for_head


def _by_source(runs: Sequence[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.source, []).append(run)
    return found


def _up_to(runs: Sequence[Run], turns: int) -> list[Run]:
    """Runs until there are so many turns, one at least."""
    found: list[Run] = []
    count = 0
    for run in runs:
        if found and count + len(run.steps) > turns:
            break
        found.append(run)
        count += len(run.steps)
    return found


def _shares(runs: Sequence[Run]) -> dict[str, float]:
    """What share of each source's runs makes an epoch."""
    turns: Counter[str] = Counter()
    for run in runs:
        turns[run.source] += len(run.steps)
    return {source: min(1.0, TURNS / count) for source, count in turns.items()}


def _judged(forced: Walk) -> Iterator[Judged]:
    """Decisions under gold history, as moves."""
    run = forced.run
    for place, (confidence, right) in zip(sorted(forced.decisions), judgements(forced), strict=True):
        gold = gold_move(run, place, set(run.gold[:place]))
        yield Judged(confidence, right, gold, forced.moves[place], run.steps[place].text[:_SHOWN], run.id)


def _head(
    arrays: Mapping[str, Vector], runs: Mapping[str, Sequence[Run]], seed: int
) -> tuple[SequenceStudent, list[float]]:
    """The head, its options set on the calibration part, and the losses of its training."""
    matching = Matching.of(arrays)
    student, losses = train_head(matching, arrays, runs["train"], seed)
    return calibrated(student, matching, runs["calibration"]), losses


def _blank(traces: Sequence[Trace]) -> list[Run]:
    """Runs whose turns have no vectors yet."""
    return runs_of(traces, lambda texts: np.zeros((len(texts), 1), np.float32))


def _sources(traces: Sequence[Trace]) -> dict[str, str]:
    """Traces by teacher, as text."""
    return {teacher: f"{count} turns" for teacher, count in sorted(Counter(t.teacher for t in traces).items())}


def _confusion(forced: Sequence[Walk]) -> dict[tuple[str, str], int]:
    """Counts by (gold, given) move."""
    counts = sum((confusion(one) for one in forced), np.zeros((len(MOVES), len(MOVES))))
    return {
        (str(gold), str(given)): int(counts[row, column])
        for row, gold in enumerate(MOVES)
        for column, given in enumerate(MOVES)
    }
