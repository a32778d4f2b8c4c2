"""From a question to ranked turns: plan, pool, signals, recipe, grouping."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf

import numpy as np
from numpy.typing import NDArray

from ..filtering import resolved
from ..protocols import Decider, Decomposer, Embedder
from ..store import Store
from ..store.embeddings import GROUNDED, TURN
from ..store.vectors import VectorIndex
from ..types import Filters, Vector
from ..write.lexicon import KINDS, Lexicon
from ..write.vocabulary import Vocabulary
from . import rank
from .budget import Budget
from .columns import ColumnCache, Columns, Floats, Ints
from .goals import Goals
from .matrix import MatrixCache, gathered
from .needs import Need
from .parts import ALL_PARTS
from .plan import Plan, Planner
from .request import Recipe, SearchRequest
from .requirements import Requirements
from .rounds import Reading
from .signals import OF_SCOPES, Evidence, centroids, gather
from .support import Supports
from .words import Pool, PostingCache, make_pool

EXHAUSTIVE = 20_000
"""Turns up to which every one is scored with every signal; above it, candidates of each kind and their neighbours."""
_CANDIDATES = 1_000
_REACH = 5


@dataclass(frozen=True, slots=True)
class Ranked:
    """Turns of one search, best first.

    positions: (R,) into the columns; scores: (R,). places: (R,) into the pool of `evidence`. shares: each signal's
    share of the fused score, (P,), empty for other recipes. query: (D,), the question's vector. support: of places that
    were scored for it, in [0, 1]. calls: requests to a served model that it took.
    """

    columns: Columns
    positions: Ints
    scores: Floats
    places: Ints
    plan: Plan
    evidence: Evidence | None
    shares: dict[str, Floats]
    seconds: dict[str, float]
    warnings: tuple[str, ...]
    query: Vector
    calls: int
    reading: Reading | None = None
    support: Mapping[int, float] = field(default_factory=dict)


class Searcher:
    """The read path over one store.

    Args:
        decider: of what is asked about questions. budget: where reading one ends. decomposer: splits one into parts.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        decider: Decider,
        lexicon: Lexicon,
        budget: Budget | None = None,
        decomposer: Decomposer | None = None,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._lexicon = lexicon
        self._columns = ColumnCache(store)
        self.postings = PostingCache(store)
        self._matrices = MatrixCache()
        self._goals = Goals(store)
        self._planner = Planner(decider)
        self.requirements = Requirements(store, decider, decomposer)
        self.supports = Supports(store, decider)
        self.budget = budget or Budget()
        self._vocabularies: dict[int, tuple[int, int, dict[str, Vocabulary]]] = {}
        self.weights = rank.shipped_weights()
        self.parts = ALL_PARTS
        """What the facade's searches use: a benchmark switches parts off here."""

    def rank(self, request: SearchRequest) -> Ranked:
        """Score every turn that may be returned, best first.

        Raises:
            EmbedderMismatchError: stored vectors come from another embedder.
        """
        started = time.perf_counter()
        columns = self._columns.get(request.namespace)
        filters = resolved(self._store, request.namespace, request.filters)
        eligible = columns.eligible(filters, request.before_row)
        query = self._embedder.encode([request.query], "query")[0]
        encoded = time.perf_counter()
        now = _now(request, columns)
        plan = self._planner.plan(request.query, query, self._vocabulary(request.namespace), columns, now)
        plan = plan.with_facets(request.parts.event, request.parts.entity_types)
        if request.recipe is Recipe.FUSED and request.parts.rounds:
            plan = self._with_needs(request, plan, now)
        planned = time.perf_counter()
        evidence = self._evidence(request, columns, eligible, plan, query) if len(eligible) else None
        scores, shares = self._scored(request, evidence, plan) if evidence else (np.zeros(0, np.float32), {})
        # Ties by arrival, so that the same search gives the same order.
        order = np.argsort(-scores, kind="stable")[: int(np.isfinite(scores).sum())]
        seconds = {
            "encode": encoded - started,
            "plan": planned - encoded,
            "rank": time.perf_counter() - planned,
        }
        positions = evidence.pool.positions[order] if evidence else np.zeros(0, np.int64)
        warnings = self._warnings(request, columns)
        return Ranked(
            columns, positions, scores[order], order, plan, evidence, shares, seconds, warnings, query, plan.calls
        )

    def again(self, request: SearchRequest, ranked: Ranked, needs: Sequence[Need]) -> Iterator[Floats]:
        """Scores (P,) of the same pool for each of some requirements with their words, by the fused recipe."""
        assert ranked.evidence is not None
        for need, query in zip(needs, self._embedder.encode([need.text for need in needs], "query"), strict=True):
            plan = replace(ranked.plan, terms=need.terms, names=frozenset(need.terms) & ranked.plan.names)
            yield rank.fused(self._signals(request, ranked.evidence.pool, plan, query), self.weights)[0]

    def parts_in_use(self, namespace: int, recipe: Recipe) -> frozenset[str]:
        """The parts that a search of this namespace by this recipe makes use of: no other can be worth anything.

        Whoever builds a part into the read path names it here.
        """
        weights = self.weights
        weighed = {name for part in (weights.lookup, weights.background, weights.threads) for name in part}
        used = set()
        if recipe is Recipe.STITCH or (recipe is Recipe.FUSED and weighed & set(OF_SCOPES)):
            used.add("scope")
        if recipe is Recipe.STITCH or (recipe is Recipe.FUSED and "labels" in weighed):
            used |= {"event", "entity_types"}
        if self._store.embeddings.index(namespace, GROUNDED, self._embedder.fingerprint).count:
            used.add("grounding")
        if recipe is Recipe.FUSED:
            used.add("rounds")
            if self.requirements.known(namespace):
                used.add("records")
            if self.budget.reranked and self.supports.answers:
                used.add("reranker")
        return frozenset(used)

    def _with_needs(self, request: SearchRequest, plan: Plan, now: datetime) -> Plan:
        as_of, end = request.filters.as_of, request.before_row
        needs, calls = self.requirements.of(
            *(request.namespace, request.query, plan, now),
            known=(inf if as_of is None else as_of.timestamp(), inf if end is None else end),
            records=request.parts.records,
            split=plan.calls < self.budget.calls,
        )
        return replace(plan, needs=needs, calls=plan.calls + calls)

    def _scored(self, request: SearchRequest, evidence: Evidence, plan: Plan) -> tuple[Floats, dict[str, Floats]]:
        recipe = request.recipe
        if recipe is Recipe.DENSE:
            return rank.dense(evidence), {}
        if recipe is Recipe.LEXICAL:
            return rank.lexical(evidence), {}
        if recipe is Recipe.STITCH:
            return rank.stitch(evidence, plan, request.parts.scope), {}
        return rank.fused(evidence, self.weights)

    def _evidence(
        self, request: SearchRequest, columns: Columns, eligible: Ints, plan: Plan, query: Vector
    ) -> Evidence:
        index = self._store.embeddings.index(request.namespace, TURN, self._embedder.fingerprint)
        visible = columns.eligible(Filters(as_of=request.filters.as_of), request.before_row)
        if len(visible) > EXHAUSTIVE:
            visible = self._candidates(columns, visible, eligible, plan, query, index)
        pool = make_pool(columns, visible, eligible, self._goals.of(columns, index))
        return self._signals(request, pool, plan, query)

    def _signals(self, request: SearchRequest, pool: Pool, plan: Plan, query: Vector) -> Evidence:
        index = self._store.embeddings.index(request.namespace, TURN, self._embedder.fingerprint)
        vectors, embedded, sittings = self._vectors(pool, index)
        now = _now(request, pool.columns).timestamp()
        evidence = gather(pool, plan, query, vectors, embedded, sittings, now, self.postings, request.parts)
        cosine = self._grounded(request.namespace, pool, query) if request.parts.grounding else None
        if cosine is not None:
            # The grounded text stands beside the raw one: whichever is closer speaks for the turn.
            evidence = replace(evidence, raw={**evidence.raw, "dense": np.maximum(evidence.raw["dense"], cosine)})
        return evidence

    def _vectors(self, pool: Pool, index: VectorIndex) -> tuple[Vector, NDArray[np.bool_], Vector]:
        """Vectors (P, D) of a pool, which of them there are, and centroids (S, D) of its sessions."""
        if len(pool.columns) <= EXHAUSTIVE:
            return self._matrices.of(pool, index)
        vectors, embedded = gathered(index, pool.rows)
        kept = np.where(pool.eligible[:, None], vectors, np.float32(0))
        return vectors, embedded, centroids(pool.session, kept, pool.sessions)

    def _grounded(self, namespace: int, pool: Pool, query: Vector) -> Floats | None:
        index = self._store.embeddings.index(namespace, GROUNDED, self._embedder.fingerprint)
        if not index.count:
            return None
        places, found = pool.places(index.ids())
        cosine = np.full(len(pool), -1.0, np.float32)
        cosine[places] = index.vectors(index.ids()[found]) @ query
        return cosine

    def _candidates(
        self, columns: Columns, visible: Ints, eligible: Ints, plan: Plan, query: Vector, index: VectorIndex
    ) -> Ints:
        """The best turns by meaning and by words, with their neighbours; filters are applied before the cut."""
        allowed = None if len(eligible) == len(columns) else columns.rows[eligible]
        rows, _ = index.search(query[None], min(_CANDIDATES, len(eligible)), allowed)
        found = [columns.positions(rows[0][rows[0] >= 0])]
        weight = np.zeros(len(columns), np.float32)
        for term in plan.terms:
            postings = self.postings.get(columns, term)
            at = columns.positions(postings.rows)
            weight[at] += np.log1p(len(columns) / (len(at) + 1.0))
        weight = weight[eligible]
        top = np.argsort(-weight, kind="stable")[:_CANDIDATES]
        found.append(eligible[top[weight[top] > 0]])
        found.append(eligible[-_CANDIDATES // 10 :])
        near = np.concatenate(found)
        reach = np.unique(np.concatenate([near + step for step in range(-_REACH, _REACH)]))
        return np.intersect1d(reach, visible)

    def _vocabulary(self, namespace: int) -> dict[str, Vocabulary]:
        """The vocabularies, rebuilt when the namespace changed otherwise than by turns."""
        version = (self._store.namespaces.epoch(namespace), len(self._store.labels.labels(namespace)))
        known = self._vocabularies.get(namespace)
        if known is None or known[:2] != version:
            known = (*version, {kind: self._lexicon.vocabulary(namespace, kind) for kind in KINDS})
            self._vocabularies[namespace] = known
        return known[2]

    def _warnings(self, request: SearchRequest, columns: Columns) -> tuple[str, ...]:
        missing = len(columns) - self._store.embeddings.index(request.namespace, TURN, self._embedder.fingerprint).count
        if missing > 0:
            return (f"{missing} turns are not embedded yet and are found by their words only: run process()",)
        return ()


def _now(request: SearchRequest, columns: Columns) -> datetime:
    """When the question is asked: as it says itself, else directly after the last turn that it may know of."""
    if request.query_time is not None:
        return request.query_time
    if request.filters.as_of is not None:
        return request.filters.as_of
    known = columns.time if request.before_row is None else columns.time[columns.rows < request.before_row]
    return datetime.fromtimestamp(float(known[-1]) if len(known) else 0.0, UTC)
