"""Students of `scope`: the goal that a turn serves, decided in the order of the turns.

Turns are vectors in the space of the student's own adapter, (D,), L2-normalised; nothing else of the text is read but
its surface cues, so that a turn is encoded once and every later turn can be compared with it for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.deciders.cues import strip_speaker
from intentmem.memory.deciders.scope_rule import NONE
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import SCOPE, Candidates, Decision, Item, Task
from intentmem.memory.types import Vector
from intentmem.memory.write.scopes import USUAL, VIEWS

from .base import Encodings
from .sequence_features import CANDIDATE, TURN, Floats, Matching, features, named_arrays

_INHERITED = 0.97
_CERTAIN = Decision((), {NONE: 1.0}, 1.0, "")
_SIGNALS: Mapping[str, float] = {
    "is_previous": 0,
    "age": 1,
    "size": 1,
    "same_session": 0.5,
    "session_turns": 0,
    "gap_hours": 0,
    "coherence": 1,
    "role_assistant": 0,
    "after_assistant": 1,
    "words": 0,
    "words_last": 0,
    "words_opening": 0,
    "words_first_clause": 0,
    "words_clause": 0,
    "named": 0,
    "named_again": 0,
    "named_mutual": 0,
    "numbered": 0,
    **dict.fromkeys(USUAL, 0),
}
"""Signals of candidates that come without any, as in a trace."""


@dataclass(frozen=True, slots=True, eq=False)
class Weigher:
    """Two small networks with one hidden layer: a score for each candidate, and one for a new scope.

    A candidate's sees its features and the turn's; that of a new scope sees the turn's, the best that any candidate has
    of each feature, and the previous scope's. mean, spread: (F,) of candidate and turn features, F = C + T. inner:
    (F, H). inner_bias, outer: (H,). fresh_inner: (T + 2 C, H). fresh_inner_bias, fresh_outer: (H,). offset: (1,) of the
    score of a new one.
    """

    mean: Floats
    spread: Floats
    inner: Floats
    inner_bias: Floats
    outer: Floats
    fresh_inner: Floats
    fresh_inner_bias: Floats
    fresh_outer: Floats
    offset: Floats

    @classmethod
    def of(cls, arrays: Mapping[str, Vector]) -> Weigher:
        """From arrays by name.

        Raises:
            InputError: one is missing, or of another shape than the features.
        """
        found = cls(**named_arrays(cls, arrays))
        wanted = (len(CANDIDATE) + len(TURN), len(TURN) + 2 * len(CANDIDATE))
        if (len(found.inner), len(found.fresh_inner)) != wanted or len(found.mean) != wanted[0]:
            raise InputError("head.inner", f"takes {len(found.inner)} features, there are {wanted[0]}")
        return found

    def scores(self, candidates: Floats, turn: Floats, previous: NDArray[np.bool_]) -> Floats:
        """(N + 1,) scores of the candidates, and of a new scope at the end."""
        count = len(CANDIDATE)
        each = np.clip((candidates - self.mean[:count]) / self.spread[:count], -6, 6)
        shared = np.clip((turn - self.mean[count:]) / self.spread[count:], -6, 6)
        hidden = np.maximum(each @ self.inner[:count] + (shared @ self.inner[count:] + self.inner_bias), 0)
        before = each[previous.argmax()] if previous.any() else np.zeros(count, np.float32)
        seen = np.concatenate([shared, each.max(axis=0), before])
        fresh = np.maximum(seen @ self.fresh_inner + self.fresh_inner_bias, 0) @ self.fresh_outer
        return np.append(hidden @ self.outer, fresh + self.offset[0])


class SequenceStudent:
    """Chooses one of the scopes so far, or none.

    Args:
        task: `SCOPE`.
        adapter: name of the adapter whose space the turns' vectors are in.
        matching, weigher: the head.
        options: `candidate_features`, `turn_features`: as the head was trained with; `views`: turns kept of a scope;
            `temperature`: of the probabilities; `stay_bias` and `fresh_bias`: added to the scores of the previous scope
            and of a new one before choosing, not to probabilities; `peer_temperature`, `peer_stay_bias`: the same where
            people chat without an assistant; `unsure`: confidence below which a decision is marked so.

    Raises:
        InputError: another task, or features that this version does not compute.
    """

    def __init__(
        self, task: Task, adapter: str, matching: Matching, weigher: Weigher, options: Mapping[str, object]
    ) -> None:
        if task.name != SCOPE.name:
            raise InputError("task", f"is {task.name!r}, this family decides {SCOPE.name!r}")
        values: Mapping[str, Any] = options
        for name, known in (("candidate_features", CANDIDATE), ("turn_features", TURN), ("views", VIEWS)):
            if tuple(values[name]) != known:
                raise InputError(f"options.{name}", "are not those of this version", "train the student again")
        self.task, self.adapter = task, adapter
        self._matching, self._weigher = matching, weigher
        self._unsure = float(values["unsure"])
        self._temperatures = (float(values["peer_temperature"]), float(values["temperature"]))
        self._biases = (float(values["peer_stay_bias"]), float(values["stay_bias"]))
        self._fresh_bias = float(values["fresh_bias"])

    @classmethod
    def from_head(
        cls, task: Task, adapter: str, head: Mapping[str, Vector], options: Mapping[str, object]
    ) -> SequenceStudent:
        """The student that `head()` and `options()` describe."""
        return cls(task, adapter, Matching.of(head), Weigher.of(head), options)

    def head(self) -> Mapping[str, Vector]:
        """The arrays of `Matching` and `Weigher` by their names."""
        return {
            spec.name: getattr(part, spec.name) for part in (self._matching, self._weigher) for spec in fields(part)
        }

    def options(self) -> Mapping[str, object]:
        """Plain values; see the class."""
        return {
            "candidate_features": list(CANDIDATE),
            "turn_features": list(TURN),
            "views": list(VIEWS),
            "temperature": self._temperatures[1],
            "peer_temperature": self._temperatures[0],
            "stay_bias": self._biases[1],
            "peer_stay_bias": self._biases[0],
            "fresh_bias": self._fresh_bias,
            "unsure": self._unsure,
        }

    def decide(self, items: Sequence[Item], encodings: Encodings | None = None) -> list[Decision]:
        """Decide items; results in order.

        Items that come without vectors, as from a trace, are encoded here: each candidate by its text.

        Raises:
            InputError: vectors of another size, or none and no encodings.
        """
        return [self._decide(item) for item in _completed(items, self.adapter, encodings)]

    def scores(self, candidates: Floats, turn: Floats) -> tuple[Floats, Floats]:
        """Of features: scores over candidates and a new scope, (N + 1,), before calibration; and those to choose by."""
        previous = candidates[:, CANDIDATE.index("previous")] > 0
        found = self._weigher.scores(candidates, turn, previous)
        chosen_by = found.copy()
        served = int(turn[TURN.index("after_assistant")])
        chosen_by[:-1] += previous * self._biases[served]
        chosen_by[-1] += served * self._fresh_bias
        return found, chosen_by

    def _decide(self, item: Item) -> Decision:
        ids, signals = item.candidates.ids, item.candidates.signals
        if not ids:
            return _CERTAIN
        previous = signals["is_previous"]
        if signals["role_assistant"][0] and previous.any():
            return _inherit(ids, int(previous.argmax()))
        scores, chosen_by = self.scores(*features(item, self._matching))
        warmth = self._temperatures[int(signals["after_assistant"][0])]
        shares = np.exp((scores - scores.max()) / warmth, dtype=np.float64)
        shares /= shares.sum()
        best = int(chosen_by.argmax())
        confidence = float(shares[best])
        return Decision(
            (ids[best],) if best < len(ids) else (),
            dict(zip((*ids, NONE), shares.tolist(), strict=True)),
            confidence,
            "",
            unsure=confidence < self._unsure,
        )


def _inherit(ids: Sequence[str], row: int) -> Decision:
    """An assistant's turn stays where the turn before it was."""
    probabilities = dict.fromkeys((*ids, NONE), (1 - _INHERITED) / len(ids))
    probabilities[ids[row]] = _INHERITED
    return Decision((ids[row],), probabilities, _INHERITED, "")


def _completed(items: Sequence[Item], adapter: str, encodings: Encodings | None) -> list[Item]:
    """Items with vectors, views and signals."""
    bare = [row for row, item in enumerate(items) if item.candidates.ids and not _has_vectors(item)]
    if not bare:
        return list(items)
    if encodings is None:
        raise InputError("scope.vector", "is missing from the turn or its candidates", "encode the turn first")
    found = list(items)
    turns = encodings.turns([strip_speaker(str(items[row].fields["turn"])) for row in bare], adapter)
    for row, turn in zip(bare, turns, strict=True):
        offered = items[row].candidates
        vectors = _unit(np.stack([one.pooled for one in encodings.texts(offered.texts, adapter)]))
        signals = {name: np.full(len(offered), value) for name, value in _SIGNALS.items()}
        signals["is_previous"] = _named(items[row])
        signals |= offered.signals
        candidates = Candidates(offered.ids, offered.texts, vectors, signals, dict.fromkeys(VIEWS, vectors))
        found[row] = replace(items[row], candidates=candidates, vector=_unit(turn.pooled[None])[0])
    return found


def _has_vectors(item: Item) -> bool:
    return item.vector is not None and item.candidates.vectors is not None and bool(item.candidates.views)


def _named(item: Item) -> NDArray[np.float64]:
    """Which candidate the field `previous` names, by id or by the beginning of its text."""
    name = item.fields.get("previous")
    offered = item.candidates
    return np.array(
        [
            float(name is not None and (name == id or text.split(":")[0] == name))
            for id, text in zip(offered.ids, offered.texts, strict=True)
        ]
    )


def _unit(vectors: Vector) -> Vector:
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return np.asarray(vectors / lengths, np.float32)
