"""What a scope student weighs of a turn and of each scope it may belong to: numbers from vectors and bookkeeping.

In a conversation of interleaved goals a user's turn answers the last assistant turn *of its own goal*, so the turn is
matched with single turns of each scope, and by a map of its own for each kind of them: an answer is not like its
question. The number of candidates is no feature: heads trained on few fail on many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.deciders.cues import read_cues
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import Candidates, Item
from intentmem.memory.types import Vector
from intentmem.memory.write.scopes import RECENT, USUAL

Floats = NDArray[np.float32]

MAPS = ("assistant", "user", "opening", "topic", "peer")
"""Maps of the turn onto: the last assistant turn of a scope, its last user turn, its first turn, its centroid and
recent turns, and the turn just before it where that is by a user too (people who chat)."""

_MATCHED = (("assistant", "last_assistant"), ("user", "last_user"), ("opening", "opening"))
_WORDS = ("words", "words_last", "words_opening", "words_first_clause", "words_clause")
_NAMES = ("named", "named_again", "named_mutual")
_CUES = 7
CANDIDATE = (
    *(
        "assistant",
        "user",
        "opening",
        "centroid",
        "whole",
        "recent_best",
        "recent_mean",
        "cosine_best",
        "cosine_centroid",
    ),
    *_WORDS,
    *(f"{name}_lead" for name in _WORDS),
    *_NAMES,
    *(f"{name}_lead" for name in _NAMES),
    "numbered",
    *("assistant_lead", "user_lead", "topic_lead", "whole_lead", "assistant_absent", "coherence"),
    *("previous", "previous_same", "previous_other", "previous_peer", "peer", "same_session", "other_session"),
    *("age", "rank", "gap", "size"),
)
"""Features of one candidate; `lead` is the score less the best of the other candidates."""
TURN = (
    *("stay", "opens", "words", "affirms", "refers", "shifts", "begins", "asks", "commands"),
    *("after_assistant", "session_known", "session_starts", "session_turns"),
    *USUAL,
)
"""Features of the turn, equal for all candidates."""


def named_arrays(cls: type[Any], arrays: Mapping[str, Vector]) -> dict[str, Floats]:
    """Each field of a dataclass of arrays, from arrays by name.

    Raises:
        InputError: one is missing.
    """
    try:
        return {spec.name: np.asarray(arrays[spec.name], np.float32) for spec in fields(cls)}
    except KeyError as error:
        raise InputError(f"head.{error.args[0]}", "is missing") from error


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """Bilinear maps: score = key . (scale * query + right @ (left' @ query) + bias).

    scale: (M,). left, right: (M, D, R). bias: (M, D), what makes a key open to any reply. stay, opens: (D,), what a
    turn says by itself for the previous scope and for a new one. M is the number of `MAPS`.
    """

    scale: Floats
    left: Floats
    right: Floats
    bias: Floats
    stay: Floats
    opens: Floats

    @classmethod
    def of(cls, arrays: Mapping[str, Vector]) -> Matching:
        """From arrays by name.

        Raises:
            InputError: one is missing, or of another shape than the rest.
        """
        found = cls(**named_arrays(cls, arrays))
        maps, size = found.bias.shape
        if maps != len(MAPS) or found.left.shape != found.right.shape or found.left.shape[:2] != (maps, size):
            raise InputError("head.left", f"has shape {found.left.shape}, unlike bias {found.bias.shape}")
        return found

    def keys(self, query: Vector) -> Floats:
        """(M, D): what a key is multiplied with to get its score by each map."""
        inner = np.einsum("mdr,d->mr", self.left, query, optimize=False)
        return np.asarray(self.scale[:, None] * query + (self.right @ inner[:, :, None])[:, :, 0] + self.bias)


def features(item: Item, matching: Matching) -> tuple[Floats, Floats]:
    """Features of an item of the task `scope`: (N, len(CANDIDATE)) and (len(TURN),).

    Raises:
        InputError: the turn or its candidates have no vectors, or of another size than the student's.
    """
    candidates, query = item.candidates, item.vector
    size = matching.bias.shape[1]
    if query is None or candidates.vectors is None or not candidates.views:
        raise InputError("scope.vector", "is missing from the turn or its candidates", "encode the turn first")
    if query.shape != (size,) or candidates.vectors.shape[1:] != (size,):
        raise InputError("scope.vector", f"has shape {query.shape}, the student's turns have {size} dimensions")
    turn = turn_features(item, matching)
    found = np.zeros((len(candidates), len(CANDIDATE)), np.float32)
    columns = _Columns(found)
    _match(columns, candidates, query, matching.keys(query))
    _book(columns, candidates)
    return found, turn


def turn_features(item: Item, matching: Matching) -> Floats:
    """The features that do not depend on a candidate: (len(TURN),)."""
    assert item.vector is not None
    cues = read_cues(str(item.fields["turn"]))
    signals = item.candidates.signals
    same, turns = signals["same_session"], float(signals["session_turns"][0])
    known = float(same[0] != 0.5)
    return np.array(
        [
            *(matching.stay @ item.vector, matching.opens @ item.vector),
            *(np.log1p(cues.words), *cues[1:]),
            *(signals["after_assistant"][0], known, known * (turns == 0), np.log1p(turns)),
            *(signals[name][0] for name in USUAL),
        ],
        np.float32,
    )


class _Columns:
    """Columns of a matrix of features by name."""

    def __init__(self, matrix: Floats) -> None:
        self._matrix = matrix

    def __setitem__(self, name: str, values: NDArray[Any]) -> None:
        self._matrix[:, CANDIDATE.index(name)] = values

    def __getitem__(self, name: str) -> Floats:
        return self._matrix[:, CANDIDATE.index(name)]


def _match(columns: _Columns, candidates: Candidates, query: Vector, keys: Floats) -> None:
    views = candidates.views
    assert candidates.vectors is not None
    silent = (~np.any(views["last_assistant"], axis=1)).astype(np.float32)
    for name, view in _MATCHED:
        columns[name] = views[view] @ keys[MAPS.index(name)]
    columns["assistant_absent"] = silent
    topic = keys[MAPS.index("topic")]
    columns["centroid"] = candidates.vectors @ topic
    columns["whole"] = views["mean"] @ topic
    columns["cosine_centroid"] = candidates.vectors @ query
    both = np.stack([topic, query], axis=1)  # (D, 2)
    recent = np.stack([views[f"recent_{place}"] @ both for place in range(RECENT)])  # (RECENT, N, 2)
    filled = np.stack([views[f"recent_{place}"][:, 0] != 0 for place in range(RECENT)])
    recent_or_low = np.where(filled[:, :, None], recent, -np.inf).max(axis=0)
    columns["recent_best"], columns["cosine_best"] = recent_or_low[:, 0], recent_or_low[:, 1]
    columns["recent_mean"] = recent[:, :, 0].sum(axis=0) / filled.sum(axis=0)
    for lead, score in (
        ("assistant_lead", "assistant"),
        ("user_lead", "user"),
        ("topic_lead", "recent_best"),
        ("whole_lead", "whole"),
    ):
        columns[lead] = _lead(columns[score])
    previous = candidates.signals["is_previous"]
    if not candidates.signals["after_assistant"][0]:
        peers = previous * (views["last_user"] @ keys[MAPS.index("peer")])
        columns["peer"], columns["previous_peer"] = peers, previous


def _book(columns: _Columns, candidates: Candidates) -> None:
    signals = candidates.signals
    previous, same = signals["is_previous"], signals["same_session"]
    columns["coherence"] = signals["coherence"]
    columns["numbered"] = signals["numbered"]
    for name in (*_WORDS, *_NAMES):
        columns[name] = signals[name]
        columns[f"{name}_lead"] = _lead(columns[name])
    columns["previous"] = previous
    columns["previous_same"], columns["previous_other"] = previous * (same == 1), previous * (same == 0)
    columns["same_session"], columns["other_session"] = same == 1, same == 0
    columns["age"] = np.log1p(signals["age"])
    ranks = np.empty(len(candidates), np.float32)
    ranks[np.argsort(signals["age"], kind="stable")] = np.arange(len(candidates))
    columns["rank"] = np.log1p(ranks)
    columns["gap"] = np.log1p(signals["gap_hours"])
    columns["size"] = np.log1p(signals["size"])


def _lead(scores: Floats) -> Floats:
    """Each score less the best of the others; 0 where there are no others."""
    if len(scores) < 2:
        return np.zeros_like(scores)
    best = int(scores.argmax())
    led: Floats = scores - scores[best]
    rest = led.copy()
    rest[best] = -np.inf
    led[best] = -rest.max()
    return led
