"""What labelling a namespace needs to remember between turns; all of it derived from SQLite, none of it the truth."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from ..protocols import Embedder
from ..store import Store
from ..types import Episode, Mention, Scope, Turn, Vector
from .label_growth import LabelGrowth
from .lexicon import KINDS, Lexicon
from .scopes import ScopeTracker, Step
from .space import ScopeSpace
from .vocabulary import Vocabulary

KNOWN_MENTIONS = 200
"""Latest mentions of a scope that a reference may stand for."""
POOL_FIT = 0.25
"""Confidence of the best label below which a turn is pooled for a new one."""
_PAGE = 2000


@dataclass(slots=True)
class NamespaceState:
    """Trackers, vocabularies and open episodes of one namespace, as of one epoch and intent row.

    space: encodes turns for its trackers, None for the embedder.
    """

    namespace: int
    epoch: int
    space: Embedder | None = None
    last_intent: int = 0
    vocabularies: dict[str, Vocabulary] = field(default_factory=dict)
    growth: dict[str, LabelGrowth] = field(default_factory=dict)
    trackers: dict[str, ScopeTracker] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)
    episodes: dict[str, Episode] = field(default_factory=dict)
    sessions: dict[str, str | None] = field(default_factory=dict)
    mentions: dict[str, deque[Mention]] = field(default_factory=dict)

    def tracker(self, trajectory: str) -> ScopeTracker:
        """The tracker of a trajectory, new where there is none."""
        if trajectory not in self.trackers:
            self.trackers[trajectory] = ScopeTracker(str(self.namespace), trajectory)
        return self.trackers[trajectory]


class States:
    """Builds states from SQLite and keeps those in use current.

    A state is replayed from the intents that were written: after a kill, a deletion, a correction by hand or work by
    another process, labelling goes on from what is stored and nothing else.
    """

    def __init__(self, store: Store, space: ScopeSpace, lexicon: Lexicon) -> None:
        self._store = store
        self.space = space
        self._lexicon = lexicon
        self._states: dict[int, NamespaceState] = {}

    def current(self, namespace: int) -> NamespaceState:
        """The state up to the last intent written; the caller holds the namespace's worker lock.

        Trackers of another space than the present one are made anew.
        """
        epoch, space = self._store.namespaces.epoch(namespace), self.space.now()
        state = self._states.get(namespace)
        if state is not None and state.epoch == epoch and _alike(state.space, space):
            state.space = space
        else:
            state = self._built(namespace, epoch, space)
            self._states = {namespace: state} if len(self._states) >= _KEPT else self._states | {namespace: state}
        self._replay(state)
        return state

    def outdated(self, state: NamespaceState) -> bool:
        """Whether the decider of scopes was exchanged for one of another space since the state was given out."""
        return not _alike(state.space, self.space.now())

    def wrote(self, state: NamespaceState) -> None:
        """Take what the present transaction wrote as seen, so that it is not replayed over the state it came from."""
        state.epoch = self._store.namespaces.epoch(state.namespace)
        state.last_intent = self._store.labels.last_intent(state.namespace)

    def forget(self, namespace: int) -> None:
        """Drop a state that a failure may have left ahead of SQLite."""
        self._states.pop(namespace, None)

    def _built(self, namespace: int, epoch: int, space: Embedder | None) -> NamespaceState:
        state = NamespaceState(namespace, epoch, space)
        for kind in KINDS:
            vocabulary = self._lexicon.vocabulary(namespace, kind)
            state.vocabularies[kind] = vocabulary
            pooled, vectors = self.space.embedded(namespace, self._lexicon.pooled(namespace, kind))
            pool = {str(turn.row): vector for turn, vector in zip(pooled, vectors, strict=True)}
            state.growth[kind] = self._lexicon.growth(namespace, vocabulary, pool, POOL_FIT)
        for scope in self._store.labels.scopes(namespace).values():
            state.scopes[scope.id] = scope
        for episode in self._store.labels.episodes(namespace, open_only=True):
            state.episodes[episode.trajectory] = episode
        return state

    def _replay(self, state: NamespaceState) -> None:
        intents = self._store.labels.intents(state.namespace, after=state.last_intent)
        if not intents:
            return
        merged = self._store.labels.merged(state.namespace)
        by_turn = {row: intent for _, row, intent in intents}
        for start in range(0, len(intents), _PAGE):
            rows = sorted(by_turn)[start : start + _PAGE]
            for turn, vector in zip(*self.space.stored(state.space, state.namespace, rows), strict=True):
                scope = by_turn[turn.row].scope.id
                self._place(state, turn, merged.get(scope, scope), vector)
        state.last_intent = max(row for row, _, _ in intents)

    def _place(self, state: NamespaceState, turn: Turn, scope: str, vector: Vector) -> None:
        tracker, step = state.tracker(turn.trajectory), step_of(turn, vector)
        if scope not in state.scopes:
            state.scopes |= {s.id: s for s in self._store.labels.scopes(state.namespace).values()}
        if scope in tracker.scopes:
            tracker.place(step, scope)
        elif scope in state.scopes:
            tracker.open(step, scope, state.scopes[scope].label, state.scopes[scope].gist)
        state.sessions[turn.trajectory] = turn.session

    def mentions(self, state: NamespaceState, scope: str) -> deque[Mention]:
        """Entities named in a scope so far, oldest first."""
        if scope not in state.mentions:
            stored = self._store.labels.mentions_in_scope(state.namespace, scope, KNOWN_MENTIONS)
            state.mentions[scope] = deque(stored, maxlen=KNOWN_MENTIONS)
        return state.mentions[scope]


_KEPT = 64


def _alike(one: Embedder | None, other: Embedder | None) -> bool:
    """Whether the vectors of both are the same."""
    if one is None or other is None:
        return one is other
    return one is other or one.fingerprint == other.fingerprint


def step_of(turn: Turn, vector: Vector) -> Step:
    """A turn as the tracker takes it."""
    return Step(np.asarray(vector, np.float32), turn.role, turn.time, turn.session, rendered(turn))


def rendered(turn: Turn) -> str:
    """A turn with its speaker, as deciders read it."""
    return f"{turn.speaker or turn.role}: {turn.searchable_text}"
