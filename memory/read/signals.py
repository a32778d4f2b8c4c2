"""Every reason to think that a turn answers a question, as one number each.

All signals are (P,) over a pool, higher is better, and are standardised over the eligible turns, so that one set of
weights serves trajectories of any length. The first ten turns found lend to those like them: what a second round of
retrieval would do (EMIR2, section 3.3) without a second question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..types import Vector
from .columns import NO_SCOPE, Floats, Ints
from .parts import ALL_PARTS, Parts
from .plan import Plan, facet_weights
from .threads import Threads, alternation, interleaving, meaning_signals, threads_of, word_signals
from .words import Pool, PostingCache, documents, frequencies, rarity, saturated, spread

OF_SCOPES = (
    "scope",
    "scope_words",
    "run_words",
    "scope_opening",
    "run_opening",
    "scope_opening_dense",
    "run_opening_dense",
)
"""Those that need to know which turns serve one goal."""

SIGNALS = (
    "lexical",
    "lexical_around",
    "entity",
    "session_lexical",
    "dense",
    "dense_around",
    "session_centroid",
    "session_best",
    "session_kin",
    "turn_kin",
    *OF_SCOPES,
    "labels",
    "speaker",
    "statement",
    "length",
    "recency",
    "thread_recency",
    "time",
)
"""Names of the signals that `fused` weighs."""

_OF_WORDS = (
    *("lexical", "lexical_around", "entity", "session_lexical"),
    *("scope_words", "run_words", "scope_opening", "run_opening"),
)
_SEEDS = 10
_DAY = 86_400.0
_SURE = 1.5
"""Standardised session score at which a sitting is as likely as not to be of the question's matter."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Signals of a pool for one question, raw, (P,) each; `vectors` (P, D) are the turns' own.

    threads: the runs of the pool. question_words: content words of the question.
    """

    pool: Pool
    vectors: Vector
    raw: Mapping[str, Floats]
    threads: Threads
    question_words: int

    @property
    def alternation(self) -> float:
        """How much goals alternate within sittings here, in [0, 1]."""
        return alternation(self.pool, self.threads)

    @property
    def interleaving(self) -> float:
        """How much goals alternate and are returned to here, in [0, 1]."""
        return interleaving(self.pool, self.threads)

    def standardised(self, name: str) -> Floats:
        """One signal with mean 0 and deviation 1 over the eligible turns; 0 where it does not vary."""
        return standardise(self.raw[name], self.pool.eligible)


def gather(
    pool: Pool,
    plan: Plan,
    query: Vector,
    vectors: Vector,
    embedded: NDArray[np.bool_],
    sittings: Vector,
    now: float,
    cache: PostingCache,
    parts: Parts = ALL_PARTS,
) -> Evidence:
    """Compute every signal.

    Args:
        query: (D,). vectors: (P, D), zero where `embedded` (P,) is False. sittings: (S, D), centroids of the eligible
            turns of each session, by its code.
        now: seconds since 1970 at which the question is asked.
        parts: a signal of a part that is off is 0.
    """
    threads = threads_of(pool)
    raw = _words(pool, threads, plan, cache, parts.grounding)
    raw |= _meaning(pool, query, vectors, embedded)
    raw |= meaning_signals(threads, raw["dense"])
    raw |= _groups(pool, query, vectors, sittings, raw)
    raw |= _facets(pool, plan, now)
    if not parts.scope:
        raw |= dict.fromkeys(OF_SCOPES, np.zeros(len(pool), np.float32))
    return Evidence(pool, vectors, raw, threads, len(plan.terms))


def standardise(values: Floats, eligible: NDArray[np.bool_]) -> Floats:
    """Mean 0, deviation 1 over the eligible; 0 everywhere where they do not differ."""
    kept = values[eligible].astype(np.float64)  # in single precision nearly equal values lose their mean
    deviation = float(kept.std()) if len(kept) else 0.0
    if deviation < 1e-6:
        return np.zeros_like(values)
    return np.asarray((values - kept.mean()) / deviation, np.float32)


def _words(pool: Pool, threads: Threads, plan: Plan, cache: PostingCache, grounding: bool) -> dict[str, Floats]:
    if not plan.terms or not len(pool):
        return dict.fromkeys(_OF_WORDS, np.zeros(len(pool), np.float32))
    text, meta = frequencies(pool, list(plan.terms), cache, grounding)
    own, around = text + meta, spread(pool, text) + meta
    length = pool.columns.length[pool.positions]
    idf = rarity(own, pool.eligible)
    named = np.array([term in plan.names for term in plan.terms])
    return {
        "lexical": idf @ saturated(own, length),
        "lexical_around": idf @ saturated(around, spread(pool, length)),
        "entity": idf[named] @ np.minimum(around[named], 1.0),
        "session_lexical": _session_words(pool, text, length),
        **word_signals(pool, threads, text),
    }


def _session_words(pool: Pool, text: Floats, length: Floats) -> Floats:
    """BM25 of a turn's whole sitting as one document, over the eligible turns."""
    kept = pool.eligible
    return documents(pool.session, pool.sessions, text * kept, np.where(kept, length, np.float32(0)))[pool.session]


def _meaning(pool: Pool, query: Vector, vectors: Vector, embedded: NDArray[np.bool_]) -> dict[str, Floats]:
    cosine = np.asarray(vectors @ query, np.float32)
    if not embedded.all() and embedded.any():
        # What is not embedded yet is neither near nor far.
        cosine[~embedded] = cosine[embedded].mean()
    speaker = pool.columns.speaker[pool.positions]
    count = np.maximum(np.bincount(speaker), 1)
    level = (np.bincount(speaker, cosine) / count)[speaker].astype(np.float32)
    # Neighbours speak alternately: without their own level, a talkative stranger's would drown the rest.
    return {"dense": cosine, "dense_around": spread(pool, cosine - level)}


def _groups(
    pool: Pool, query: Vector, vectors: Vector, sittings: Vector, raw: Mapping[str, Floats]
) -> dict[str, Floats]:
    """Signals that turns lend to those they belong with: sessions, scopes, and turns alike."""
    first = sum(standardise(raw[name], pool.eligible) for name in ("lexical_around", "dense", "dense_around"))
    base = np.where(pool.eligible, first, -np.inf).astype(np.float32)
    session = pool.session
    best, near = _top_mean(session, base, pool.sessions), sittings @ query
    found = np.isfinite(best)
    lent = np.where(found, standardise(np.where(found, best, 0.0), found) + standardise(near, found), -np.inf)
    lent = lent.astype(np.float32)
    return {
        "session_centroid": near[session],
        "session_best": np.nan_to_num(best, neginf=0.0)[session],
        "session_kin": _kin(sittings, lent, 1.0)[session],
        "turn_kin": _kin(vectors, base, 0.5),
        "thread_recency": _thread_recency(pool, session, lent),
        "scope": _scope_lent(pool, base),
    }


def _facets(pool: Pool, plan: Plan, now: float) -> dict[str, Floats]:
    columns, at = pool.columns, pool.positions
    weights = facet_weights(plan, columns)
    labels = (weights[columns.labels[at]] * columns.weights[at]).sum(axis=1)
    time = columns.time[at]
    return {
        "labels": np.asarray(labels, np.float32),
        "speaker": np.isin(columns.speaker[at], plan.speakers).astype(np.float32),
        "statement": 1.0 - columns.asks[at],
        "length": np.log(columns.length[at] + 4.0).astype(np.float32),
        "recency": -np.log1p(np.maximum(now - time, 0.0) / _DAY).astype(np.float32),
        "time": _within(time, plan.since, plan.until),
    }


def _within(time: NDArray[np.float64], since: float | None, until: float | None) -> Floats:
    """0 within the span that the question names, falling with the logarithm of the days outside it; 0 without one."""
    outside = np.zeros(len(time))
    if since is not None:
        outside = np.maximum(outside, since - time)
    if until is not None:
        outside = np.maximum(outside, time - until)
    return -np.log1p(outside / _DAY).astype(np.float32)


def centroids(group: Ints, vectors: Vector, groups: int) -> Vector:
    """Normalised mean vector of each of `groups` groups, (G, D); zero for one without members."""
    total = np.zeros((groups, vectors.shape[1]), np.float32)
    if len(group):
        # Members of a group mostly stand together: sum each run at once, then the few runs.
        starts = np.flatnonzero(np.r_[True, np.diff(group) != 0])
        np.add.at(total, group[starts], np.add.reduceat(vectors, starts, axis=0))
    length = np.linalg.norm(total, axis=1, keepdims=True)
    return np.asarray(total / np.maximum(length, 1e-6), np.float32)


def _top_mean(group: Ints, score: Floats, groups: int, depth: int = 3) -> Floats:
    """Mean of the best three scores of each group, (G,); minus infinity for one with none that is finite."""
    order = np.lexsort((-score, group))
    sizes = np.bincount(group, minlength=groups)
    rank = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = order[(rank < depth) & np.isfinite(score[order])]
    count = np.bincount(group[kept], minlength=groups)
    total = np.bincount(group[kept], score[kept], minlength=groups)
    return np.where(count > 0, total / np.maximum(count, 1), -np.inf).astype(np.float32)


def _kin(vectors: Vector, score: Floats, sharpness: float) -> Floats:
    """Likeness to the best ten, weighted by how good they are; none lends to itself. (N,)"""
    finite = np.flatnonzero(np.isfinite(score))
    if not len(finite):
        return np.zeros(len(score), np.float32)
    best = finite[np.argsort(-score[finite], kind="stable")[:_SEEDS]]
    weight = np.exp((score[best] - score[best].max()) * sharpness)
    weight /= weight.sum()
    likeness = vectors @ (weight @ vectors[best])
    likeness[best] -= weight * (vectors[best] ** 2).sum(axis=1)
    return np.asarray(likeness, np.float32)


def _thread_recency(pool: Pool, session: Ints, lent: Floats) -> Floats:
    """How little of the matter's own sittings came after a turn's: 0 for its latest sitting, negative before.

    In order of arrival: dates may be missing, coarse or wrong, what was told later is not.
    """
    belongs = 1.0 / (1.0 + np.exp(_SURE - np.clip(lent, -50.0, 50.0)))
    begins = np.full(len(lent), np.inf)
    np.minimum.at(begins, session, pool.rows)
    order = np.argsort(begins, kind="stable")
    later = np.cumsum(belongs[order][::-1])[::-1] - belongs[order]
    ahead = np.empty(len(lent))
    ahead[order] = later
    return -np.log1p(np.maximum(ahead, 0.0))[session].astype(np.float32)


def _scope_lent(pool: Pool, score: Floats) -> Floats:
    """Mean of the best three scores of a turn's scope; the mean over scopes for a turn that has none."""
    scope = pool.goal
    known = scope != NO_SCOPE
    best = _top_mean(scope[known], score[known], int(scope.max(initial=NO_SCOPE)) + 1)
    found = np.isfinite(best)
    usual = float(best[found].mean()) if found.any() else 0.0
    lent = np.full(len(scope), usual, np.float32)
    lent[known] = np.where(found, best, usual)[scope[known]]
    return lent
