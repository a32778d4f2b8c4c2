"""Search results and contexts as they are returned."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import results
from ..protocols import Embedder
from ..store import Store
from ..types import Turn
from ..write.lexicon import label_names
from .columns import NO_SCOPE, Columns, Ints, session_name
from .context import assemble
from .expand import in_reading_order
from .rank import group_scores
from .reader import Reader, described
from .request import GroupBy, Recipe, SearchRequest
from .searcher import Ranked, Searcher
from .signals import centroids
from .validity import superseded, wants_history

_TURNS_A_GROUP = 5
_DEPTH = 200
_SINGLE, MOST_NEEDED = 1400, 4096
"""Tokens of a context for a single fact, and for a question that needs several turns or leaves something open."""
_FIRST_ROUND = (1, "the question")
_SPARE = 20
"""Turns that stand by for those which are left out."""


class Presenter:
    """Runs searches and words their results."""

    def __init__(self, store: Store, embedder: Embedder, searcher: Searcher) -> None:
        self._store = store
        self._embedder = embedder
        self._searcher = searcher
        self.reader = Reader(store, searcher)

    def search(self, request: SearchRequest) -> results.SearchResult:
        """Hits of a search, turns or groups of them."""
        ranked = self.reader.read(request)
        found = self._groups(request, ranked) if request.group_by else self._turns(request, ranked, request.limit)
        result: results.SearchResult = {
            "results": found,
            "query": request.query,
            "recipe": request.recipe.value,
            "warnings": list(ranked.warnings),
            "usage": {f"{stage}_seconds": round(seconds, 5) for stage, seconds in ranked.seconds.items()}
            | {"llm_calls": ranked.calls},
        }
        if request.explain:
            result["plan"] = self._plan(request, ranked)
            if ranked.reading is not None:
                result["reading"] = described(ranked.reading)
        return result

    def context(self, request: SearchRequest) -> results.ContextResult:
        """Original turns as quoted text within the budget."""
        ranked = self.reader.read(request)
        turns, reasons = self._reading(request, ranked)
        budget = _needed(ranked) if request.budget is None else request.budget
        headings = self._headings(request.namespace)
        made = assemble(zip(turns, reasons, strict=True), request.namespace_name, budget, self._embedder, headings)
        result: results.ContextResult = {
            "text": made.text,
            "turns": [turn.id for turn in made.turns],
            "tokens": made.tokens,
            "budget": budget,
            "tokenizer": self._embedder.fingerprint.name,
            "truncated": made.truncated,
            "answerable": ranked.reading.answerable if ranked.reading is not None else None,
            "warnings": list(ranked.warnings),
        }
        if request.explain:
            why = {turn.id: reason for turn, reason in zip(made.turns, made.reasons, strict=True)}
            result["explain"] = {"plan": self._plan(request, ranked), "reasons": why}
            if ranked.reading is not None:
                result["explain"]["reading"] = described(ranked.reading)
        return result

    def _turns(self, request: SearchRequest, ranked: Ranked, limit: int) -> list[results.TurnResult]:
        rows = ranked.columns.rows[ranked.positions[: limit + _SPARE]]
        turns = self._store.turns.by_rows(request.namespace, rows)
        # A turn deleted since it was ranked is left out.
        kept = [(at, turns[row]) for at, row in enumerate(rows.tolist()) if row in turns]
        old = self._superseded(request, ranked, [turn for _, turn in kept[:limit]])
        kept = [(at, turn) for at, turn in kept if turn.id not in old][:limit]
        found = results.turns(self._store, request.namespace, [turn for _, turn in kept])
        for (at, _), hit in zip(kept, found, strict=True):
            hit["score"] = float(ranked.scores[at])
            if request.explain:
                hit["explain"] = _explained(ranked, at)
        return found

    def _groups(self, request: SearchRequest, ranked: Ranked) -> list[results.GroupResult]:
        names, keys = self._group_names(request, ranked.columns, ranked.positions)
        if ranked.evidence is None:
            return []
        codes, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        if request.recipe is Recipe.FUSED:
            middle = centroids(inverse, ranked.evidence.vectors[ranked.places], len(codes))
            scores = group_scores(ranked.scores, inverse, middle, self._searcher.weights.kin)
        else:
            # Turns come best first: the first of each group is its best.
            scores = ranked.scores[first]
        order = [int(g) for g in np.argsort(-scores, kind="stable") if codes[g] >= 0][: request.limit]
        groups: list[results.GroupResult] = []
        for group in order:
            members = np.flatnonzero(inverse == group)[:_TURNS_A_GROUP]
            rows = ranked.columns.rows[ranked.positions[members]]
            turns = self._store.turns.by_rows(request.namespace, rows)
            found = results.turns(self._store, request.namespace, [turns[r] for r in rows.tolist() if r in turns])
            for member, hit in zip(members, found, strict=False):
                hit["score"] = float(ranked.scores[member])
            identity, label = names[int(codes[group])]
            groups.append({"id": identity, "label": label, "score": float(scores[group]), "turns": found})
        return groups

    def _group_names(
        self, request: SearchRequest, columns: Columns, positions: Ints
    ) -> tuple[dict[int, tuple[str, str]], Ints]:
        """Names of the groups by code, and the code of each position, -1 for none."""
        if request.group_by == GroupBy.SESSION:
            codes = columns.session[positions]
            keys = {int(c): columns.sessions.names[c] for c in np.unique(codes)}
            return {c: (session_name(key) or "", session_name(key) or "") for c, key in keys.items()}, codes
        if request.group_by == GroupBy.SCOPE:
            codes = columns.scope[positions]
            labels = dict(self._store.labels.scope_names(request.namespace).values())
            ids = {int(c): columns.scopes.names[c] or "" for c in np.unique(codes) if c != NO_SCOPE}
            return {c: (identity, labels.get(identity, identity)) for c, identity in ids.items()}, codes
        episodes = self._store.labels.episodes(request.namespace)
        codes = np.full(len(positions), -1, np.int64)
        for number, episode in enumerate(episodes):
            (trajectory,) = columns.trajectories.of([episode.trajectory]) or [-1]
            inside = columns.trajectory[positions] == trajectory
            seq = columns.seq[positions]
            codes[inside & (seq >= episode.first_seq) & (seq <= episode.last_seq)] = number
        return {number: (e.id, e.summary) for number, e in enumerate(episodes)}, codes

    def _reading(self, request: SearchRequest, ranked: Ranked) -> tuple[list[Turn], list[str]]:
        order = in_reading_order(ranked.columns, ranked.positions, ranked.scores, _DEPTH, request.parts.scope)
        chosen = list(order)[: 4 * _DEPTH]
        rows = [int(ranked.columns.rows[position]) for position, _ in chosen]
        turns = self._store.turns.by_rows(request.namespace, rows)
        kept = [(turns[row], reason) for row, (_, reason) in zip(rows, chosen, strict=True) if row in turns]
        old = self._superseded(request, ranked, [turn for turn, _ in kept])
        kept = [(turn, reason) for turn, reason in kept if turn.id not in old]
        return [turn for turn, _ in kept], [reason for _, reason in kept]

    def _superseded(self, request: SearchRequest, ranked: Ranked, turns: list[Turn]) -> set[str]:
        """Ids of turns to leave out, by what they say no longer holds; none where history is asked for."""
        history = wants_history(ranked.plan) if request.history is None else request.history
        return set() if history or not request.parts.states else superseded(self._store, request.namespace, turns)

    def _headings(self, namespace: int) -> Any:
        scopes = self._store.labels.scope_names(namespace)
        found: dict[int, str] = {}

        def heading(turn: Turn) -> str:
            if turn.row not in found:
                intents = self._store.labels.intents(namespace, turns=[turn.row])
                scope = scopes.get(intents[0][2].scope.id, ("", ""))[1] if intents else ""
                found[turn.row] = scope or turn.session or turn.trajectory
            return found[turn.row]

        return heading

    def _plan(self, request: SearchRequest, ranked: Ranked) -> dict[str, Any]:
        names = label_names(self._store.labels.labels(request.namespace))
        return dict(ranked.plan.as_json(names, ranked.columns.speakers.names))


def _needed(ranked: Ranked) -> int:
    """Tokens for what a question needs: a single fact takes few, where every requirement is covered."""
    covered = ranked.reading is None or ranked.reading.answerable == "covered"
    return _SINGLE if covered and not wants_history(ranked.plan) else MOST_NEEDED


def _explained(ranked: Ranked, at: int) -> dict[str, Any]:
    """Signals of one hit: the value of each and, for the fused recipe, its share in the score."""
    evidence = ranked.evidence
    assert evidence is not None
    place = int(ranked.places[at])
    brought = ranked.reading.brought_by.get(place, _FIRST_ROUND) if ranked.reading is not None else _FIRST_ROUND
    supported = {"support": round(ranked.support[place], 4)} if place in ranked.support else {}
    return {
        "signals": {name: round(float(values[place]), 4) for name, values in evidence.raw.items()},
        "shares": {name: round(float(values[place]), 4) for name, values in ranked.shares.items()},
        "round": brought[0],
        "looked_for": brought[1],
        **supported,
    }
