"""One block of turns labelled: event and entity types together, scopes one after the other, references within them."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..protocols import Decider, Embedder, Foreseer, Upcoming, Writer
from ..store import Store
from ..store.embeddings import GROUNDED
from ..store.store import grounding_words
from ..tasks import ENTITY_TYPES, EVENT, SCOPE, Decision, Item, Task
from ..types import Episode, Intent, Scope, ScopeMove, Scored, Snippet, Turn, Vector
from .labelers import Labeler, Labelers
from .lexicon import Lexicon
from .state import NamespaceState, States, rendered, step_of
from .vocabulary import VocabularyChange

EPISODE_TURNS = 50
"""An episode is closed after so many turns even where nothing ends it."""
BEFORE = 6
"""Turns of a session directly before one that help to tell its events and entity types."""
_NEAR = 4
_LEAST = 0.03


@dataclass(slots=True)
class Block:
    """What a block of turns came to, ready to be written in one transaction."""

    intents: list[tuple[Turn, Intent]] = field(default_factory=list)
    snippets: list[tuple[Turn, Snippet]] = field(default_factory=list)
    scopes: dict[str, Scope] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)
    closing: list[tuple[Episode, list[Turn]]] = field(default_factory=list)
    changes: list[VocabularyChange] = field(default_factory=list)
    grounded_rows: list[int] = field(default_factory=list)
    grounded_vectors: Vector | None = None
    scope_vectors: Vector | None = None
    own_labels: list[tuple[Labeler, dict[int, tuple[Scored, ...]]]] = field(default_factory=list)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


class Labeller:
    """Labels blocks with whatever decides and writes."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        decider: Decider,
        writer: Writer,
        states: States,
        lexicon: Lexicon,
        foreseer: Foreseer | None = None,
        labelers: Labelers | None = None,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._decider = decider
        self._writer = writer
        self._states = states
        self._lexicon = lexicon
        self._foreseer = foreseer
        self._labelers = labelers or Labelers(store)

    def label(self, state: NamespaceState, turns: Sequence[Turn], vectors: Vector) -> Block:
        """Decide everything about a block, in order, without look-ahead; nothing is written here.

        Args:
            turns: of one namespace, in order of arrival.
            vectors: (N, D), theirs.
        """
        block = Block()
        self._foresee(state, turns, vectors, block)
        before = self._before(state, turns)
        events = self._open_labels(state, "event", EVENT, turns, vectors, before, block)
        types = self._open_labels(state, "entity_type", ENTITY_TYPES, turns, vectors, before, block)
        started = time.perf_counter()
        block.scope_vectors = places = self._states.space.of(state.space, turns, vectors)
        block.seconds[SCOPE.name] += time.perf_counter() - started
        placed = self._scopes(state, turns, places, block)
        for at, turn in enumerate(turns):
            scope, move, decision = placed[at]
            block.intents.append((turn, _intent(turn, scope, move, decision, events[at], types[at])))
            self._ground(state, turn, scope, block)
            self._episode(state, turn, scope, block)
            self._observe(state, turn, vectors[at], events[at], types[at], block)
        block.own_labels = self._labelers.label(state.namespace, turns, block.seconds)
        self._summarise(block)
        self._encode_grounded(block)
        return block

    def write(self, connection: sqlite3.Connection, state: NamespaceState, block: Block) -> None:
        """Write a block within the caller's transaction."""
        n, labels = state.namespace, self._store.labels
        for scope in block.scopes.values():
            labels.add_scope(connection, n, scope, self._decider.name)
        changed = self._lexicon.save(connection, n, block.changes, self._writer.name)
        for turn, intent in block.intents:
            labels.put_intent(connection, n, turn.row, intent, by_hand=False)
        if block.scope_vectors is not None:
            turns = [turn for turn, _ in block.intents]
            self._states.space.put(state.space, connection, n, turns, block.scope_vectors)
        for labeler, given in block.own_labels:
            self._store.turn_labels.put(connection, n, labeler.task.name, given, labeler.decider.name)
        for turn, snippet in block.snippets:
            labels.put_snippet(connection, n, turn.row, snippet)
            if snippet.references:
                self._store.lexical.add(connection, n, -turn.row, grounding_words(snippet.references))
        for episode in [*block.episodes, *state.episodes.values()]:
            labels.put_episode(connection, n, episode, self._writer.name)
        if block.grounded_vectors is not None:
            self._store.embeddings.put(
                connection, n, GROUNDED, self._embedder.fingerprint, block.grounded_rows, block.grounded_vectors
            )
        for growth in state.growth.values():
            self._lexicon.save_growth(connection, n, growth)
        self._store.calls.drop(connection, n, [turn for turn, _ in block.intents], block.episodes)
        if changed:
            self._store.namespaces.bump(connection, n)

    def _open_labels(
        self,
        state: NamespaceState,
        kind: str,
        task: Task,
        turns: Sequence[Turn],
        vectors: Vector,
        before: Mapping[int, Sequence[str]],
        block: Block,
    ) -> list[Decision]:
        started = time.perf_counter()
        candidates = state.vocabularies[kind].candidates()
        items = []
        for turn, vector in zip(turns, vectors, strict=True):
            fields: dict[str, str | Sequence[str]] = {"turn": rendered(turn)}
            if before.get(turn.row):
                fields["before"] = before[turn.row]
            items.append(Item(fields, candidates, vector, turn))
        decisions = self._decider.decide(task, items)
        checked = [task.check(item, decision) for item, decision in zip(items, decisions, strict=True)]
        block.seconds[task.name] += time.perf_counter() - started
        return checked

    def _before(self, state: NamespaceState, turns: Sequence[Turn]) -> dict[int, tuple[str, ...]]:
        """What was said in its session directly before each turn, by row, oldest first."""
        found = {}
        for trajectory in {turn.trajectory for turn in turns}:
            mine = [turn for turn in turns if turn.trajectory == trajectory]
            seqs = [turn.seq for turn in mine]
            span = self._store.turns.span(state.namespace, trajectory, max(0, min(seqs) - BEFORE), max(seqs))
            places = {turn.row: place for place, turn in enumerate(span)}
            for turn in mine:
                place = places.get(turn.row, 0)
                near = span[max(0, place - BEFORE) : place]
                found[turn.row] = tuple(rendered(other) for other in near if other.session == turn.session)
        return found

    def _foresee(self, state: NamespaceState, turns: Sequence[Turn], vectors: Vector, block: Block) -> None:
        """Tell whoever wants to know what comes: all that does not depend on a decision is then asked at once."""
        if self._foreseer is None or not turns:
            return
        started = time.perf_counter()
        events, types = (state.vocabularies[kind].candidates() for kind in ("event", "entity_type"))
        earlier: dict[str, list[Turn]] = {}
        for trajectory in {turn.trajectory for turn in turns}:
            seqs = [turn.seq for turn in turns if turn.trajectory == trajectory]
            first = max(0, min(seqs) - self._foreseer.reach)
            earlier[trajectory] = self._store.turns.span(state.namespace, trajectory, first, max(seqs))
        steps = []
        for at, turn in enumerate(turns):
            before = [other for other in earlier[turn.trajectory] if other.seq < turn.seq]
            steps.append(Upcoming(turn, tuple(before[-self._foreseer.reach :]), events, types, vectors[at]))
        self._foreseer.steps(steps)
        block.seconds["foresee"] += time.perf_counter() - started

    def _scopes(
        self, state: NamespaceState, turns: Sequence[Turn], vectors: Vector, block: Block
    ) -> dict[int, tuple[Scope, ScopeMove, Decision]]:
        """Scopes by place in the block: in order within a trajectory, where each depends on the one before it, and the
        n-th turns of all trajectories together.
        """
        started = time.perf_counter()
        waiting: dict[str, list[int]] = defaultdict(list)
        for at, turn in enumerate(turns):
            waiting[turn.trajectory].append(at)
        placed: dict[int, tuple[Scope, ScopeMove, Decision]] = {}
        for rank in range(max(map(len, waiting.values()), default=0)):
            wave = [places[rank] for places in waiting.values() if rank < len(places)]
            items = []
            for at in wave:
                tracker = state.tracker(turns[at].trajectory)
                item = tracker.propose(step_of(turns[at], vectors[at]), with_window=self._decider.reads_window)
                items.append(replace(item, turn=turns[at]))
            for at, item, decision in zip(wave, items, self._decider.decide(SCOPE, items), strict=True):
                placed[at] = self._placed(state, turns[at], vectors[at], SCOPE.check(item, decision), block)
        block.seconds[SCOPE.name] += time.perf_counter() - started
        return placed

    def _placed(
        self, state: NamespaceState, turn: Turn, vector: Vector, decision: Decision, block: Block
    ) -> tuple[Scope, ScopeMove, Decision]:
        tracker, step = state.tracker(turn.trajectory), step_of(turn, vector)
        found, move = tracker.apply(step, decision)
        if found is None:
            taken = [scope.label for scope in state.scopes.values()]
            name = self._writer.name_scope(turn, taken)
            scope = Scope(f"scope_{secrets.token_hex(8)}", name, self._writer.gist("", turn), 0)
            tracker.open(step, scope.id, scope.label, scope.gist)
        else:
            scope = state.scopes[found]
            gist = self._writer.gist(scope.gist, turn)
            # An empty generation never replaces good content.
            scope = replace(scope, gist=gist or scope.gist)
            tracker.describe(scope.id, gist=scope.gist)
        state.scopes[scope.id] = block.scopes[scope.id] = scope
        return scope, move, decision

    def _ground(self, state: NamespaceState, turn: Turn, scope: Scope, block: Block) -> None:
        started = time.perf_counter()
        known = self._states.mentions(state, scope.id)
        snippet = self._writer.ground(turn, list(known))
        known.extend(snippet.mentions)
        block.snippets.append((turn, snippet))
        if any(reference.kind != "date" for reference in snippet.references):
            block.grounded_rows.append(turn.row)
        block.seconds["ground"] += time.perf_counter() - started

    def _episode(self, state: NamespaceState, turn: Turn, scope: Scope, block: Block) -> None:
        """Extend the open episode of the trajectory, or close it and open another."""
        current = state.episodes.get(turn.trajectory)
        same = (
            current is not None
            and current.scope == scope.id
            and state.sessions.get(turn.trajectory) == turn.session
            and turn.seq - current.first_seq < EPISODE_TURNS
        )
        state.sessions[turn.trajectory] = turn.session
        if current is not None and same:
            state.episodes[turn.trajectory] = replace(current, last_seq=max(turn.seq, current.last_seq))
            return
        if current is not None:
            span = self._store.turns.span(state.namespace, turn.trajectory, current.first_seq, current.last_seq)
            block.closing.append((current, span))
        state.episodes[turn.trajectory] = Episode(
            f"episode_{secrets.token_hex(8)}", turn.trajectory, scope.id, turn.seq, turn.seq, "", False
        )

    def _summarise(self, block: Block) -> None:
        """Word the episodes that the block closed."""
        started = time.perf_counter()
        if self._foreseer is not None and block.closing:
            self._foreseer.episodes([span for _, span in block.closing if span])
        for episode, span in block.closing:
            summary = self._writer.summarise(span) if span else ""
            block.episodes.append(replace(episode, summary=summary or episode.summary, closed=True))
        block.seconds["summarise"] += time.perf_counter() - started

    def closed(self, state: NamespaceState) -> list[Episode]:
        """The open episodes of a namespace, worded and closed; nothing is written here."""
        block = Block()
        for episode in state.episodes.values():
            span = self._store.turns.span(state.namespace, episode.trajectory, episode.first_seq, episode.last_seq)
            block.closing.append((episode, span))
        self._summarise(block)
        return block.episodes

    def _observe(
        self, state: NamespaceState, turn: Turn, vector: Vector, event: Decision, types: Decision, block: Block
    ) -> None:
        """Count the turn towards the vocabularies' growth, and let them grow when it is time."""
        for kind, decision in (("event", event), ("entity_type", types)):
            growth = state.growth[kind]
            growth.observe(str(turn.row), vector, best_fit(decision))
            if growth.due:
                pooled = self._store.turns.by_rows(state.namespace, [int(row) for row in growth.pooled])
                by_name = {str(row): found for row, found in pooled.items()}
                block.changes += growth.grow(self._writer, by_name.get)

    def _encode_grounded(self, block: Block) -> None:
        started = time.perf_counter()
        wanted = set(block.grounded_rows)
        texts = [snippet.grounded for turn, snippet in block.snippets if turn.row in wanted]
        if texts:
            block.grounded_vectors = np.asarray(self._embedder.encode(texts, "passage"))
        block.seconds["embed_grounded"] += time.perf_counter() - started


def best_fit(decision: Decision) -> float:
    """How well the vocabulary fits: the probability of the best label chosen, 0 where none was."""
    return max((decision.probabilities.get(label, 0.0) for label in decision.labels), default=0.0)


def _intent(turn: Turn, scope: Scope, move: ScopeMove, decision: Decision, events: Decision, types: Decision) -> Intent:
    probability = (
        decision.probabilities.get(scope.id, decision.confidence) if move is not ScopeMove.NEW else decision.confidence
    )
    return Intent(
        turn.id,
        Scored(scope.id, float(probability)),
        move,
        _given(events),
        _given(types),
        _near(events) + _near(types),
        {"scope": decision.decided_by, "event": events.decided_by, "entity_types": types.decided_by},
    )


def _given(decision: Decision) -> tuple[Scored, ...]:
    return tuple(Scored(label, float(decision.probabilities.get(label, 1.0))) for label in decision.labels)


def _near(decision: Decision) -> tuple[Scored, ...]:
    """The likeliest labels that were not chosen."""
    others = {k: float(p) for k, p in decision.probabilities.items() if k not in decision.labels and p >= _LEAST}
    return tuple(Scored(k, others[k]) for k in sorted(others, key=lambda k: -others[k])[:_NEAR])
