"""The scopes of one trajectory as they unfold: online, with no look-ahead (STITCH, section 3.1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..tasks import Candidates, Decision, Item
from ..types import Role, ScopeMove, Vector
from .scope_names import ScopeNames
from .scope_words import ScopeWords, scope_clauses, scope_terms

WINDOW = 50
"""Turns before the present one that a decider may see (10 and 100 were worse in the paper)."""

_UNKNOWN_SESSION = 0.5
_KEEP = 0.9
"""What a scope's centroid keeps of itself at each of its turns: a half-life of about seven turns, as goals drift."""

USUAL = ("usual_words", "usual_overlap", "usual_likeness")
"""How people talk here, over users' turns that go on with a scope, late ones counting more: the logarithm of their
terms, how much of them the scope had said, and their cosine to its centroid. Where much is said, goals are taken up by
allusion; where little is, by name.
"""
_USUAL_RATE = 0.05
"""What one turn counts of them, once there have been twenty."""

RECENT = 4
VIEWS = ("last_user", "last_assistant", "opening", "mean", *(f"recent_{place}" for place in range(RECENT)))
"""What is kept of each scope beside its centroid, which favours late turns: single turns (the recent are its latest
four, in no order), and the mean of all its turns, not normalised.
"""
_ASSISTANT: frozenset[Role] = frozenset({"assistant", "tool"})


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """The turn to place. `vector` is (D,), L2-normalised; `text` is the turn rendered with its speaker."""

    vector: Vector
    role: Role
    time: datetime
    session: str | None = None
    text: str = ""

    @property
    def hours(self) -> float:
        """Its time in hours since 1970."""
        return self.time.timestamp() / 3600


@dataclass(slots=True)
class _Known:
    """What is kept of one scope. `total`, (D,), sums its turns' vectors with fading weights; `weight` sums those."""

    id: str
    name: str
    gist: str
    total: NDArray[np.float64]
    size: int
    weight: float
    last_turn: int
    last_hours: float
    sessions: set[str]


class ScopeTracker:
    """What is known of the scopes of one trajectory in one namespace, up to the last turn placed.

    For each turn: `propose` it as an item of the task `scope`, have a decider decide, `apply` the decision; where the
    answer is None, make a new scope and `open` it. A proposal that is not applied leaves no trace.

    Signals of the candidates, (N,) each: `is_previous`; `age`, turns since the scope was last active; `size`, its turns
    so far; `same_session`, 1 where it was active in the turn's session, 0 where not, .5 where the turn has no session;
    `session_turns`, turns so far in that session; `gap_hours` since its last turn; `coherence`, the length of the
    weighted mean of its unit vectors (times the cosine to its centroid, that is the mean cosine to its turns);
    `role_assistant`, 1 where the turn is by an assistant or a tool; `after_assistant`, 1 where the turn before it was;
    `words`, `words_last`, `words_opening`, `words_first_clause` and `words_clause`, how much of what the turn says the
    scope has said (`scope_words.Overlap`); `named`, `named_again`, `named_mutual` and `numbered`, how far the turn
    names the scope (`scope_names.Named`); those of `USUAL`, alike for all candidates.
    Centroids favour a scope's latest turns. Views of the candidates: those named in `VIEWS`, zeros where a scope
    has no such turn; they are the tracker's own and hold until it next changes.
    """

    def __init__(self, namespace: str, trajectory: str) -> None:
        self.namespace = namespace
        self.trajectory = trajectory
        self.turns = 0
        self.previous: str | None = None
        self._known: dict[str, _Known] = {}
        self._centroids: Vector = np.zeros((0, 0), np.float32)
        self._coherence: NDArray[np.float64] = np.zeros(0)
        self._turns_kept: Vector = np.zeros((0, len(VIEWS), 0), np.float32)
        self._row_of: dict[str, int] = {}
        self._words = ScopeWords()
        self._names = ScopeNames()
        self._after_assistant = False
        self._usual, self._usual_turns = np.zeros(len(USUAL)), 0
        self._session_turns: dict[str, int] = {}
        self._window: deque[tuple[str, str]] = deque(maxlen=WINDOW)

    @property
    def scopes(self) -> tuple[str, ...]:
        """Ids of the scopes so far, in the order they were opened."""
        return tuple(self._known)

    def propose(self, step: Step, with_window: bool = False) -> Item:
        """The turn as an item of the task `scope`, with every scope so far as a candidate.

        `with_window` adds the last 50 turns as texts, which a model reads and a rule does not need.
        """
        fields: dict[str, str | list[str]] = {"turn": step.text}
        if with_window:
            fields["window"] = [f"[{self._known[scope].name}] {text}" for scope, text in self._window]
        if self.previous is not None:
            fields["previous"] = self._known[self.previous].name
            fields["gist"] = self._known[self.previous].gist
        return Item(fields, self._candidates(step), step.vector)

    def apply(self, step: Step, decision: Decision) -> tuple[str | None, ScopeMove]:
        """Place the turn as decided. None for the scope asks the caller to make one and `open` it: nothing changed yet.

        Raises:
            InputError: the decision names a scope that is not known here.
        """
        if not decision.labels:
            return None, ScopeMove.NEW
        scope = decision.labels[0]
        move = ScopeMove.CONTINUE if scope == self.previous else ScopeMove.RETURN
        self.place(step, scope)
        return scope, move

    def open(self, step: Step, scope: str, name: str, gist: str = "") -> None:
        """Open a scope with the turn as its first.

        Raises:
            InputError: the id is taken, or the vector is not (D,) as the others are.
        """
        if scope in self._known:
            raise InputError("scope", f"{scope!r} is open already")
        if step.vector.ndim != 1 or (len(self._known) and step.vector.shape[0] != self._centroids.shape[1]):
            raise InputError("step.vector", f"has shape {step.vector.shape}, unlike those before it")
        dimension = step.vector.shape[0]
        blank = np.zeros(dimension, np.float64)
        self._row_of[scope] = len(self._known)
        self._known[scope] = _Known(scope, name, gist or name, blank, 0, 0.0, self.turns, step.hours, set())
        self._centroids = np.vstack([self._centroids.reshape(-1, dimension), np.zeros((1, dimension), np.float32)])
        self._coherence = np.append(self._coherence, 0.0)
        self._make_room(len(self._known), dimension)
        self.place(step, scope)

    def place(self, step: Step, scope: str) -> None:
        """Count the turn to a known scope, which becomes the previous one.

        Raises:
            InputError: no such scope.
        """
        known = self._known.get(scope)
        if known is None:
            raise InputError("scope", f"{scope!r} is not a scope of this trajectory")
        self._talked(step, scope)
        known.total = known.total * _KEEP + step.vector
        known.weight = known.weight * _KEEP + 1.0
        known.size += 1
        known.last_turn, known.last_hours = self.turns, step.hours
        if step.session is not None:
            known.sessions.add(step.session)
            self._session_turns[step.session] = self._session_turns.get(step.session, 0) + 1
        self._refresh(scope)
        self._keep_turn(step, known)
        self._words.add(self._row_of[scope], scope_terms(step.text))
        if scope != self.previous or known.size == 1:
            self._names.add(self._row_of[scope], scope_clauses(step.text))
        self._window.append((scope, step.text))
        self.turns += 1
        self.previous = scope

    def describe(self, scope: str, name: str | None = None, gist: str | None = None) -> None:
        """Set the name or the running gist of a scope.

        Raises:
            InputError: no such scope.
        """
        if scope not in self._known:
            raise InputError("scope", f"{scope!r} is not a scope of this trajectory")
        known = self._known[scope]
        known.name, known.gist = name or known.name, gist or known.gist

    def state(self) -> dict[str, Any]:
        """Everything that the next decision depends on, as plain values and two arrays.

        `totals` is (N, D) float64, `turns_kept` (N, V, D) float32 with V the number of `VIEWS`.
        """
        totals = [known.total for known in self._known.values()]
        return {
            "namespace": self.namespace,
            "trajectory": self.trajectory,
            "turns": self.turns,
            "previous": self.previous,
            "session_turns": dict(self._session_turns),
            "window": [list(entry) for entry in self._window],
            "scopes": [
                {
                    "id": known.id,
                    "name": known.name,
                    "gist": known.gist,
                    "size": known.size,
                    "weight": known.weight,
                    "last_turn": known.last_turn,
                    "last_hours": known.last_hours,
                    "sessions": sorted(known.sessions),
                }
                for known in self._known.values()
            ],
            "after_assistant": self._after_assistant,
            "usual": [*self._usual.tolist(), self._usual_turns],
            "words": self._words.state(),
            "names": self._names.state(),
            "totals": np.array(totals) if totals else np.zeros((0, 0)),
            "turns_kept": self._turns_kept[: len(totals)].copy(),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> ScopeTracker:
        """The tracker that `state` was taken of: its decisions go on as if there had been no break."""
        tracker = cls(state["namespace"], state["trajectory"])
        tracker.turns, tracker.previous = state["turns"], state["previous"]
        tracker._session_turns = dict(state["session_turns"])
        tracker._window.extend((scope, text) for scope, text in state["window"])
        totals = np.array(state["totals"], np.float64)
        tracker._centroids = np.zeros(totals.shape, np.float32)
        tracker._coherence = np.zeros(len(totals))
        for entry, total in zip(state["scopes"], totals, strict=True):
            tracker._row_of[entry["id"]] = len(tracker._known)
            tracker._known[entry["id"]] = _Known(**{**entry, "sessions": set(entry["sessions"])}, total=total.copy())
        tracker._after_assistant = state["after_assistant"]
        *usual, tracker._usual_turns = state["usual"]
        tracker._usual = np.array(usual)
        tracker._words = ScopeWords.restore(state["words"])
        tracker._names = ScopeNames.restore(state["names"])
        tracker._turns_kept = np.array(state["turns_kept"], np.float32)
        for scope in tracker._known:
            tracker._refresh(scope)
        return tracker

    def _talked(self, step: Step, scope: str) -> None:
        """Count a user's turn that goes on with the scope before towards how people talk here."""
        if step.role in _ASSISTANT or scope != self.previous:
            return
        row, terms = self._row_of[scope], scope_terms(step.text)
        said = self._words.said_in(row, terms)
        now = np.array([np.log1p(len(terms)), said, float(self._centroids[row] @ step.vector)])
        self._usual_turns += 1
        self._usual += (now - self._usual) * max(_USUAL_RATE, 1 / self._usual_turns)

    def _refresh(self, scope: str) -> None:
        row, known = self._row_of[scope], self._known[scope]
        length = float(np.linalg.norm(known.total))
        self._centroids[row] = known.total / length if length else 0.0
        self._coherence[row] = length / known.weight

    def _make_room(self, count: int, dimension: int) -> None:
        """Room for the kept turns of `count` scopes, doubled when it runs out."""
        room = len(self._turns_kept)
        if count > room:
            grown = np.zeros((max(8, 2 * room), len(VIEWS), dimension), np.float32)
            grown[:room] = self._turns_kept.reshape(room, len(VIEWS), dimension)
            self._turns_kept = grown

    def _keep_turn(self, step: Step, known: _Known) -> None:
        kept = self._turns_kept[self._row_of[known.id]]
        self._after_assistant = step.role in _ASSISTANT
        kept[VIEWS.index("last_assistant" if self._after_assistant else "last_user")] = step.vector
        if known.size == 1:
            kept[VIEWS.index("opening")] = step.vector
        mean = kept[VIEWS.index("mean")]
        mean += (step.vector - mean) / known.size
        kept[len(VIEWS) - RECENT + known.size % RECENT] = step.vector

    def _views(self) -> dict[str, Vector]:
        kept = self._turns_kept[: len(self._known)]
        kept.flags.writeable = False
        return {name: kept[:, place] for place, name in enumerate(VIEWS)}

    def _candidates(self, step: Step) -> Candidates:
        known, n = list(self._known.values()), len(self._known)
        if step.session is None:
            same = np.full(n, _UNKNOWN_SESSION)
        else:
            same = np.array([float(step.session in scope.sessions) for scope in known])
        clauses = scope_clauses(step.text)
        said = self._words.overlap(scope_terms(step.text), clauses)
        named = self._names.named(clauses)
        signals = {
            "is_previous": np.array([float(scope.id == self.previous) for scope in known]),
            "age": np.array([float(self.turns - scope.last_turn) for scope in known]),
            "size": np.array([float(scope.size) for scope in known]),
            "same_session": same,
            "session_turns": np.full(n, float(self._session_turns.get(step.session or "", 0))),
            "gap_hours": np.maximum(0.0, step.hours - np.array([scope.last_hours for scope in known])),
            "coherence": self._coherence.copy(),
            "role_assistant": np.full(n, float(step.role in _ASSISTANT)),
            "after_assistant": np.full(n, float(self._after_assistant)),
            "words": said.said,
            "words_last": said.last,
            "words_opening": said.opening,
            "words_first_clause": said.lead,
            "words_clause": said.clause,
            "named": named.opening,
            "named_again": named.again,
            "named_mutual": named.mutual,
            "numbered": named.numbered,
            **{name: np.full(n, value) for name, value in zip(USUAL, self._usual, strict=True)},
        }
        texts = tuple(f"{s.name}: {s.gist}" if s.gist != s.name else s.name for s in known)
        return Candidates(self.scopes, texts, self._centroids.copy(), signals, self._views())
