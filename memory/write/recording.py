"""Closed episodes to records and states (EnSIMem, section 3): once each, whatever fails or stops in between."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from ..errors import IntentMemError
from ..protocols import Writer
from ..store import Store
from ..types import Episode, Record, Turn
from .claims import as_record
from .lexicon import Lexicon
from .properties import Properties
from .states import StateReducer

MOST_ATTEMPTS = 3
RECORDS = "records"
"""Name in the ledger; what was dropped as unsupported is counted under `DROPPED`."""
DROPPED = "records_dropped"
FAILURES = (IntentMemError, ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""What a stage may fail with, without taking the worker down."""
_log = logging.getLogger(__name__)


class Recorder:
    """Writes the records of episodes that have closed. The caller holds the namespace's worker lock.

    Args:
        store: where episodes and records are.
        writer: reads an episode.
        reducer: the one writer of records and states.
        lexicon: builds the vocabulary of properties.
    """

    def __init__(self, store: Store, writer: Writer, reducer: StateReducer, lexicon: Lexicon) -> None:
        self._store = store
        self._writer = writer
        self._reducer = reducer
        self.properties = Properties(store, lexicon)

    def catch_up(self, namespace: int, operation: str, tried: set[str]) -> list[str]:
        """Record every closed episode that is not yet; returns why some could not be, empty where all were.

        Args:
            namespace: ordinal.
            operation: id of the operation that pays, "" for none.
            tried: episodes that failed already in this run; extended.
        """
        reasons: list[str] = []
        for episode in self._store.episodes.unrecorded(namespace, MOST_ATTEMPTS):
            if episode.id in tried:
                continue
            try:
                self._record(namespace, episode, operation)
            except FAILURES as error:
                tried.add(episode.id)
                reasons.append(f"records of {episode.id}: {type(error).__name__}: {error}")
                _log.warning("records of %s could not be written, its turns stay searchable: %s", episode.id, error)
                with self._store.database.write() as connection:
                    self._store.episodes.failed(connection, namespace, episode.id)
        return reasons

    def _record(self, namespace: int, episode: Episode, operation: str) -> None:
        started = time.perf_counter()
        turns = self._store.turns.span(namespace, episode.trajectory, episode.first_seq, episode.last_seq)
        records, dropped = self._read(namespace, episode, turns)
        named, changes = self.properties.normalised(namespace, records)
        if named:
            self._reducer.observe(namespace, named, operation)
        with self._store.database.write() as connection:
            if named:
                self.properties.keep(connection, namespace, changes, len(named), self._writer.name)
            self._store.episodes.recorded(connection, namespace, episode.id)
            seconds = time.perf_counter() - started
            charge = self._store.operations.charge
            charge(connection, namespace, operation, RECORDS, self._writer.name, len(named), seconds)
            if dropped:
                charge(connection, namespace, operation, DROPPED, self._writer.name, dropped, 0.0)

    def _read(self, namespace: int, episode: Episode, turns: list[Turn]) -> tuple[list[Record], int]:
        if not turns:
            return [], 0
        snippets = self._store.labels.snippets(namespace, [turn.row for turn in turns])
        read = self._writer.records(turns, {snippet.turn: snippet for snippet in snippets.values()})
        dropped = self._writer.unsupported(turns)
        # Where a turn was deleted meanwhile, so is what it said.
        present = {turn.id for turn in turns}
        records = [replace(as_record(record), episode=episode.id) for record in read]
        return [record for record in records if {e.turn for e in record.evidence} <= present], dropped
