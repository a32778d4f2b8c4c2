"""The read path as a question meets it: a ranking, rounds for what it leaves open, a last look at the best."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from ..blas import one_blas_thread
from ..store import Store
from .columns import Ints
from .needs import coverage
from .plan import Plan
from .request import Recipe, SearchRequest
from .rounds import CANDIDATES, TOKENS_A_TERM, Reading, read
from .searcher import Ranked, Searcher
from .sources import PoolSources
from .support import mixed
from .wide import widely, width


class Reader:
    """Searches of one store, read in rounds."""

    def __init__(self, store: Store, searcher: Searcher) -> None:
        self._store = store
        self._searcher = searcher

    @one_blas_thread()
    def read(self, request: SearchRequest) -> Ranked:
        """As `Searcher.rank`; with the recipe `fused` further rounds look for what the first leaves uncovered, and the
        best turns are then scored for their support of the question.

        Raises:
            EmbedderMismatchError: stored vectors come from another embedder.
        """
        ranked = self._searcher.rank(request)
        if request.recipe is not Recipe.FUSED or ranked.evidence is None:
            return ranked
        if request.parts.rounds:
            started = time.perf_counter()
            ranked = self._in_rounds(request, ranked)
            ranked.seconds["rounds"] = time.perf_counter() - started
        if request.parts.reranker and self._searcher.budget.reranked:
            started = time.perf_counter()
            ranked = self._reranked(request, ranked)
            ranked.seconds["support"] = time.perf_counter() - started
        return ranked

    def _in_rounds(self, request: SearchRequest, ranked: Ranked) -> Ranked:
        assert ranked.evidence is not None
        pool, threads = ranked.evidence.pool, ranked.evidence.threads
        sources = PoolSources(self._store, self._searcher, request, ranked, pool)
        postings = self._searcher.postings
        coverages = [coverage(need, pool, threads, postings, sources.recorded(need)) for need in ranked.plan.needs]
        tokens = pool.columns.length[pool.positions] * TOKENS_A_TERM
        reading = read(ranked.places, coverages, sources, _bridges(ranked.plan), self._searcher.budget, tokens)
        ranked = _reordered(ranked, reading)
        # Groups are spread by themselves, and their scores are those of their turns.
        return ranked if request.group_by or self._searcher.budget.rounds < 2 else self._widely(ranked)

    def _widely(self, ranked: Ranked) -> Ranked:
        """The turns that rounds look at in the order of a wide reading, where the plan asks for one."""
        assert ranked.evidence is not None and ranked.reading is not None
        wide = width(ranked.plan.groups, ranked.evidence.alternation)
        if not wide:
            return ranked
        best = ranked.places[: self._searcher.budget.candidates]
        order = widely(best, ranked.scores[: len(best)], ranked.evidence.pool.session[best], wide)
        brought = [int(best[at]) for at in order[:CANDIDATES] if at >= CANDIDATES]
        return _in_order(ranked, order, ranked.reading.then("what else matches, elsewhere", brought))

    def _reranked(self, request: SearchRequest, ranked: Ranked) -> Ranked:
        """The best turns in the order of rank and support; scores stay with the ranks."""
        assert ranked.evidence is not None
        budget = self._searcher.budget
        best = ranked.places[: budget.reranked]
        rows, vectors = ranked.evidence.pool.rows[best], ranked.evidence.vectors[best]
        left = budget.calls - ranked.calls
        found = self._searcher.supports.of(request.namespace, request.query, ranked.query, rows, vectors, left)
        order = mixed(found.scores)
        count = len(order)
        places = np.concatenate([ranked.places[:count][order], ranked.places[count:]])
        positions = np.concatenate([ranked.positions[:count][order], ranked.positions[count:]])
        support = dict(zip(best.tolist(), found.scores.tolist(), strict=False))
        warnings = (*ranked.warnings, *([found.failure] if found.failure else []))
        calls = ranked.calls + found.calls
        return replace(ranked, places=places, positions=positions, support=support, warnings=warnings, calls=calls)


def _bridges(plan: Plan) -> bool:
    """Whether an answer to one part of a question names what another part is about."""
    return plan.groups["gate"]["decompose"] >= 0.5 or plan.groups["reasoning"]["compositional"] >= 0.5


def _reordered(ranked: Ranked, reading: Reading) -> Ranked:
    """The ranking in the order of the reading; a turn that was brought later has the score of the one before it."""
    if len(reading.rounds) < 2:
        return replace(ranked, reading=reading)
    assert ranked.evidence is not None
    at = np.full(len(ranked.evidence.pool), -1, np.int64)
    at[ranked.places] = np.arange(len(ranked.places))
    order = at[reading.places]
    return _in_order(ranked, order[order >= 0], reading)


def _in_order(ranked: Ranked, first: Ints, reading: Reading) -> Ranked:
    """The ranking with its places of some numbers first; a turn that comes later has at most the score before it."""
    rest = np.ones(len(ranked.places), bool)
    rest[first] = False
    order = np.concatenate([first, np.flatnonzero(rest)])
    scores = np.minimum.accumulate(ranked.scores[order])
    return replace(
        ranked, positions=ranked.positions[order], places=ranked.places[order], scores=scores, reading=reading
    )


def described(reading: Reading) -> dict[str, object]:
    """The rounds for a person to read."""
    return {
        "requirements": [
            need.as_json() | {"verdict": verdict}
            for need, verdict in zip(reading.needs, reading.rounds[-1].verdicts, strict=True)
        ],
        "rounds": [{"looked_for": list(one.looked_for), "brought": one.brought} for one in reading.rounds],
        "answerable": reading.answerable,
    }
