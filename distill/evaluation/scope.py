"""How well a decider tells scopes apart: with gold history, and online on its own decisions.

Teacher-forced figures hide an absorbing state (all turns in one scope); `online_ari` and `scopes_ratio` show it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import InputError, MissingExtraError
from intentmem.memory.protocols import Decider, Embedder
from intentmem.memory.tasks import SCOPE
from intentmem.memory.types import ScopeMove

from ..calibration import ece
from ..traces import Trace
from ..training.outcome import Measured
from .grouping import rand_index
from .scope_runs import Run, Walk, gold_move, runs_of, walk

Floats = NDArray[np.float64]
MOVES = (ScopeMove.CONTINUE, ScopeMove.RETURN, ScopeMove.NEW)
_RESAMPLES = 1000


def evaluate(decider: Decider, traces: Sequence[Trace], embedder: Embedder | None = None) -> list[Measured]:
    """Figures of a decider on traces of `scope`, those of each source on their own, at turns of users but the first.

    With gold history: `exact`, the share of turns whose scope is right; `macro_f1` over continue, return and new;
    `shift_f1`, of leaving the previous scope; `ece` of the confidence. Online: `online_ari` and `scopes_ratio` (opened
    relative to gold), means over trajectories, and `online_exact` under the best one-to-one match of scopes.

    Args:
        embedder: what makes the turns' vectors; None takes the decider's own `turn_space`, else the built-in encoder.

    Raises:
        InputError: no trace is of this task.
        MissingExtraError: scikit-learn or scipy is absent.
    """
    kept = [trace for trace in traces if trace.task == SCOPE.name]
    if not kept:
        raise InputError("traces", "hold none of the task 'scope'")
    encoder = embedder or _space_of(decider)
    return measure(decider, runs_of(kept, lambda texts: encoder.encode(texts, "passage")))


def measure(decider: Decider, runs: Sequence[Run], resamples: int = _RESAMPLES) -> list[Measured]:
    """As `evaluate`, of runs that are at hand."""
    found = []
    for source in sorted({run.source for run in runs}):
        part = [run for run in runs if run.source == source and run.decided]
        if part:
            forced, online = walk(decider, part, forced=True), walk(decider, part, forced=False)
            found += _figures(source, forced, online, resamples)
    return found


def _figures(source: str, forced: Sequence[Walk], online: Sequence[Walk], resamples: int) -> list[Measured]:
    moves = np.array([confusion(one) for one in forced])  # (W, 3, 3)
    right = np.array([[sum(_right(one)), len(one.decisions)] for one in forced], np.float64)
    matched = np.array([[_matched(one), len(_at_users(one)[0])] for one in online], np.float64)
    aris = np.array([_ari(one) for one in online])
    ratios = np.array([len(set(one.placed)) / len(set(one.run.gold)) for one in online])
    confidence, correct = zip(*(pair for one in forced for pair in judgements(one)), strict=True)
    n, calls = len(correct), len(forced)
    figures: tuple[tuple[str, int, Callable[[NDArray[np.int64]], float]], ...] = (
        ("macro_f1", n, lambda rows: macro_f1(moves[rows].sum(axis=0))),
        ("exact", n, lambda rows: _share(right[rows])),
        ("shift_f1", n, lambda rows: shift_f1(moves[rows].sum(axis=0))),
        ("online_ari", calls, lambda rows: float(aris[rows].mean())),
        ("scopes_ratio", calls, lambda rows: float(ratios[rows].mean())),
        ("online_exact", int(matched[:, 1].sum()), lambda rows: _share(matched[rows])),
    )
    rng = np.random.default_rng(0)
    draws = [rng.integers(0, calls, calls) for _ in range(resamples)]
    found = []
    for metric, count, of in figures:
        spread = [of(rows) for rows in draws] or [float("nan")]
        low, high = np.quantile(spread, (0.025, 0.975))
        found.append(Measured(SCOPE.name, metric, of(np.arange(calls)), count, float(low), float(high), data=source))
    return [*found, Measured(SCOPE.name, "ece", ece(confidence, correct), n, data=source)]


def macro_f1(counts: Floats) -> float:
    """Mean F1 over the moves that gold or the decider ever makes; (3, 3) counts, gold by given."""
    hits, gold, given = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    used = (gold + given) > 0
    return float((2 * hits[used] / (gold + given)[used]).mean())


def shift_f1(counts: Floats) -> float:
    """F1 of leaving the previous scope, whether to return or to open a new one; 0 where nobody ever does."""
    hits, gold, given = counts[1:, 1:].sum(), counts[1:].sum(), counts[:, 1:].sum()
    return float(2 * hits / (gold + given)) if gold + given else 0.0


def judgements(forced: Walk) -> list[tuple[float, bool]]:
    """Confidence of each decided turn under gold history, and whether it is right."""
    return [
        (forced.decisions[place].confidence, right)
        for place, right in zip(sorted(forced.decisions), _right(forced), strict=True)
    ]


def confusion(forced: Walk) -> Floats:
    """Moves under gold history: (3, 3) counts in the order of `MOVES`, gold by given."""
    counts = np.zeros((3, 3))
    known: set[str] = set()
    for place in range(len(forced.run.steps)):
        if place in forced.moves:
            gold = gold_move(forced.run, place, known)
            counts[MOVES.index(gold), MOVES.index(forced.moves[place])] += 1
        known.add(forced.run.gold[place])
    return counts


def _right(forced: Walk) -> list[bool]:
    """Whether each decided turn got its gold scope; a scope of gold that is not known yet means: none."""
    hits, known = [], set()
    for place, gold in enumerate(forced.run.gold):
        if place in forced.decisions:
            labels = forced.decisions[place].labels
            hits.append(labels == ((gold,) if gold in known else ()))
        known.add(gold)
    return hits


def _matched(online: Walk) -> float:
    """Decided turns whose scope is the one that its gold scope is matched with, scopes matched one to one."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "train") from error
    gold, placed = _at_users(online)
    rows, columns = ({name: i for i, name in enumerate(dict.fromkeys(names))} for names in (gold, placed))
    counts = np.zeros((len(rows), len(columns)))
    for a, b in zip(gold, placed, strict=True):
        counts[rows[a], columns[b]] += 1
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum())


def _ari(online: Walk) -> float:
    gold, placed = _at_users(online)
    return rand_index(placed, gold)


def _at_users(online: Walk) -> tuple[list[str], list[str]]:
    places = [place for place, step in enumerate(online.run.steps) if step.role == "user"]
    return [online.run.gold[place] for place in places], [online.placed[place] for place in places]


def _share(counts: Floats) -> float:
    hits, n = counts.sum(axis=0)
    return float(hits / n) if n else 0.0


def _space_of(decider: Decider) -> Embedder:
    own: Embedder | None = getattr(decider, "turn_space", None)
    if own is not None:
        return own
    from ..embedder import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder()
