"""A namespace as columns: what ranking needs of every turn, in memory, caught up by what was appended."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..store import Store
from ..types import ROLES, Filters

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
NO_SCOPE = -1
_CACHED_NAMESPACES = 32


class Codes:
    """Texts as small integers, in order of first appearance."""

    def __init__(self) -> None:
        self.names: list[str | None] = []
        self._codes: dict[str | None, int] = {}

    def code(self, name: str | None) -> int:
        """The integer of a text."""
        found = self._codes.get(name)
        if found is None:
            found = self._codes[name] = len(self.names)
            self.names.append(name)
        return found

    def of(self, names: Sequence[str] | None) -> list[int]:
        """The integers of those texts that appear."""
        return [self._codes[name] for name in names or () if name in self._codes]


@dataclass(slots=True)
class Columns:
    """Turns of one namespace by ascending row; every array is (N,) unless said otherwise.

    session: code of (trajectory, session), so that neighbours of one code are neighbours in the talk. scope: code of
    the scope it now stands for, -1 where a turn has none yet. labels, weights, given: (N, L) codes of event and entity
    types, their probabilities, and whether the turn was given them or they were only weighed; padded with -1, 0, False.
    """

    namespace: int
    epoch: int
    rows: Ints
    seq: Ints
    trajectory: Ints
    session: Ints
    role: Ints
    speaker: Ints
    time: NDArray[np.float64]
    length: Floats
    asks: Floats
    scope: Ints
    labels: Ints
    weights: Floats
    given: NDArray[np.bool_]
    trajectories: Codes = field(default_factory=Codes)
    sessions: Codes = field(default_factory=Codes)
    speakers: Codes = field(default_factory=Codes)
    scopes: Codes = field(default_factory=Codes)
    label_codes: Codes = field(default_factory=Codes)
    last_intent: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def positions(self, rows: Ints) -> Ints:
        """Positions of those rows that are here: an index may have seen later turns, or removed ones."""
        at = np.searchsorted(self.rows, rows)
        known = at < len(self)
        known[known] = self.rows[at[known]] == np.asarray(rows)[known]
        return at[known]

    def eligible(self, filters: Filters, before_row: int | None = None) -> Ints:
        """Positions of the turns that filters let through, ascending."""
        keep = np.ones(len(self), dtype=bool)
        if before_row is not None:
            keep &= self.rows < before_row
        if filters.rows is not None:
            keep &= np.isin(self.rows, np.fromiter(filters.rows, np.int64, len(filters.rows)))
        if filters.roles is not None:
            keep &= np.isin(self.role, [ROLES.index(role) for role in filters.roles])
        if filters.speakers is not None:
            keep &= np.isin(self.speaker, self.speakers.of(filters.speakers))
        if filters.trajectories is not None:
            keep &= np.isin(self.trajectory, self.trajectories.of(filters.trajectories))
        if filters.sessions is not None:
            wanted = set(filters.sessions)
            keep &= np.isin(self.session, [i for i, n in enumerate(self.sessions.names) if session_name(n) in wanted])
        if filters.scopes is not None:
            keep &= np.isin(self.scope, self.scopes.of(filters.scopes))
        for wanted_labels in (filters.events, filters.entity_types):
            if wanted_labels is not None:
                carried = np.isin(self.labels, self.label_codes.of(wanted_labels)) & self.given
                keep &= carried.any(axis=1)
        if filters.since is not None:
            keep &= self.time >= filters.since.timestamp()
        if filters.until is not None:
            keep &= self.time < filters.until.timestamp()
        if filters.as_of is not None:
            keep &= self.time <= filters.as_of.timestamp()
        return np.flatnonzero(keep)


def session_key(trajectory: str, session: str | None) -> str:
    """Identity of a sitting: two trajectories may use the same session name."""
    return json.dumps([trajectory, session])


def session_name(key: str | None) -> str | None:
    """The session part of a `session_key`."""
    name: str | None = json.loads(key)[1] if key else None
    return name


class ColumnCache:
    """Columns of the namespaces read last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: OrderedDict[int, Columns] = OrderedDict()
        self._guard = threading.RLock()

    def get(self, namespace: int) -> Columns:
        """The columns of a namespace, up to date. The arrays of an earlier result are never changed."""
        with self._guard:
            epoch = self._store.namespaces.epoch(namespace)
            columns = self._cache.get(namespace)
            if columns is None or columns.epoch != epoch:
                columns = _empty(namespace, epoch)
            columns = self._with_new_turns(columns)
            columns = self._with_new_intents(columns)
            self._cache[namespace] = columns
            self._cache.move_to_end(namespace)
            while len(self._cache) > _CACHED_NAMESPACES:
                self._cache.popitem(last=False)
            return columns

    def _with_new_turns(self, c: Columns) -> Columns:
        last = int(c.rows[-1]) if len(c) else 0
        found = self._store.database.read(
            "SELECT row, trajectory, seq, role, speaker, session, time, terms, asks FROM turn"
            " WHERE namespace = ? AND row > ? ORDER BY row",
            (c.namespace, last),
        )
        if not found:
            return c
        n = len(found)
        new: dict[str, Any] = {
            "rows": [r["row"] for r in found],
            "seq": [r["seq"] for r in found],
            "trajectory": [c.trajectories.code(r["trajectory"]) for r in found],
            "session": [c.sessions.code(session_key(r["trajectory"], r["session"])) for r in found],
            "role": [ROLES.index(r["role"]) for r in found],
            "speaker": [c.speakers.code(r["speaker"]) for r in found],
            "time": [r["time"] for r in found],
            "length": [r["terms"] for r in found],
            "asks": [r["asks"] for r in found],
            "scope": np.full(n, NO_SCOPE),
            "labels": np.full((n, c.labels.shape[1]), -1),
            "weights": np.zeros((n, c.weights.shape[1])),
            "given": np.zeros((n, c.given.shape[1])),
        }
        grown = {
            name: np.concatenate([getattr(c, name), np.asarray(v, getattr(c, name).dtype)]) for name, v in new.items()
        }
        return _replaced(c, **grown)

    def _with_new_intents(self, c: Columns) -> Columns:
        intents = self._store.labels.intents(c.namespace, after=c.last_intent)
        if not intents:
            return c
        scope, labels, weights, given = c.scope.copy(), c.labels.copy(), c.weights.copy(), c.given.copy()
        canonical = self._store.labels.merged(c.namespace)
        for _, row, intent in intents:
            at = int(np.searchsorted(c.rows, row))
            if at >= len(c) or c.rows[at] != row:
                continue  # stored after the turns were read: found at the next call
            scope[at] = c.scopes.code(canonical.get(intent.scope.id, intent.scope.id))
            held = (*intent.events, *intent.entity_types)
            scored = (*held, *intent.near)
            labels[at], weights[at] = -1, 0
            given[at] = np.arange(labels.shape[1]) < len(held)
            for slot, label in enumerate(scored[: labels.shape[1]]):
                labels[at, slot] = c.label_codes.code(canonical.get(label.id, label.id))
                weights[at, slot] = label.probability
        last = int(c.rows[-1]) if len(c) else 0
        unseen = [i for i, row, _ in intents if row > last]
        read_to = min(unseen) - 1 if unseen else max(i for i, _, _ in intents)
        return _replaced(c, scope=scope, labels=labels, weights=weights, given=given, last_intent=read_to)


_LABELS_A_TURN = 10


def _empty(namespace: int, epoch: int) -> Columns:
    none, floats = np.zeros(0, np.int64), np.zeros(0, np.float32)
    return Columns(
        namespace,
        epoch,
        rows=none,
        seq=none,
        trajectory=none,
        session=none,
        role=none,
        speaker=none,
        time=np.zeros(0, np.float64),
        length=floats,
        asks=floats,
        scope=none,
        labels=np.zeros((0, _LABELS_A_TURN), np.int64),
        weights=np.zeros((0, _LABELS_A_TURN), np.float32),
        given=np.zeros((0, _LABELS_A_TURN), np.bool_),
    )


def _replaced(columns: Columns, **changes: Any) -> Columns:
    values = {name: getattr(columns, name) for name in Columns.__slots__} | changes
    return Columns(**values)
