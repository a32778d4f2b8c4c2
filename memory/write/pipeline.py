"""After the acknowledgement: embed, label, write; resumable at the stage that failed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from ..blas import one_blas_thread
from ..errors import EmbedderMismatchError, IntentMemError
from ..protocols import Decider, Embedder, Foreseer, Payer, Writer
from ..store import Store
from ..store.embeddings import GROUNDED, TURN
from ..store.operations import Operation
from ..types import Turn, Vector
from .labelers import Labeler, Labelers
from .labelling import Labeller
from .lexicon import Lexicon
from .links import Linker
from .recording import FAILURES, Recorder
from .space import ScopeSpace
from .state import States
from .states import StateReducer

BLOCK = 256
"""Turns embedded and written together; more would hold results back, fewer would pad the encoder's batches."""
MAX_ATTEMPTS = 3
_REWORDED = 20
"""Turns, the latest ones, from which the gist of a scope is worded anew."""

Batch = list[tuple[Operation, list[Turn]]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a long run has come: turns done of those known so far."""

    done: int
    total: int
    stage: str


class _Overtaken(Exception):
    """Turns were removed while they were being worked on, or who decides was exchanged: what was decided must not be
    written.
    """


class Pipeline:
    """The stages after the first. At most one worker labels a namespace at a time, whatever the number of processes."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        decider: Decider,
        writer: Writer,
        foreseer: Foreseer | None = None,
        payer: Payer | None = None,
        turn_space: Callable[[], Embedder | None] | None = None,
        labelers: Sequence[Labeler] = (),
        record_late: bool = False,
    ) -> None:
        self._store = store
        self._record_late = record_late
        self._embedder = embedder
        self.lexicon = Lexicon(store, embedder)
        self._space = ScopeSpace(store, embedder, turn_space)
        self._states = States(store, self._space, self.lexicon)
        self._decider = decider
        self._writer = writer
        self._payer = payer
        self.labelers = Labelers(store, labelers)
        self.recorder = Recorder(store, writer, StateReducer(store, decider), self.lexicon)
        self._linker = Linker(store, decider)
        self._labeller = Labeller(store, embedder, decider, writer, self._states, self.lexicon, foreseer, self.labelers)

    def run(self, namespace: int, on_progress: Callable[[Progress], None] | None = None) -> int:
        """Work through what is pending in a namespace; returns the number of turns labelled.

        A failure marks its operations failed, with the reason, and goes on with the others; it does not raise.
        """
        done, tried = 0, set[str]()
        with one_blas_thread(), self._store.working(namespace):
            while True:
                removals = self._store.namespaces.removals(namespace)
                waiting = self._store.operations.unfinished(MAX_ATTEMPTS, namespace)
                if not self._record_late:
                    # Of an earlier run, whose labels are written and whose records are not.
                    self._record(namespace, [op for op in waiting if op.done_row >= op.last_row], tried)
                batch = self._batch(namespace, [op for op in waiting if op.id not in tried])
                if not batch:
                    return done
                try:
                    done += self._work(namespace, batch, removals, tried)
                except _Overtaken:
                    self._states.forget(namespace)
                if on_progress:
                    left = sum(op.turns for op in self._store.operations.unfinished(MAX_ATTEMPTS, namespace))
                    on_progress(Progress(done, done + left, "labelled"))

    def _work(self, namespace: int, batch: Batch, removals: int, tried: set[str]) -> int:
        """Turns done of a batch; operations that failed are added to `tried`."""
        if self._attempt(namespace, batch, removals):
            if not self._record_late:
                self._record(namespace, [operation for operation, _ in batch], tried)
            return sum(len(turns) for _, turns in batch)
        if len(batch) == 1:
            tried.add(batch[0][0].id)
            return 0
        # One bad write must not hold up its neighbours: each of them alone.
        return sum(self._work(namespace, [part], removals, tried) for part in batch)

    def _record(self, namespace: int, operations: Sequence[Operation], tried: set[str]) -> list[str]:
        """Records of the episodes that have closed. Where one fails, the operations do, and the reasons come back."""
        payer, first = self._payer, operations[0].id if operations else ""
        with payer.paying(namespace, first, background=True) if payer is not None else nullcontext():
            reasons = self.recorder.catch_up(namespace, first, tried)
        if reasons and operations:
            tried.update(operation.id for operation in operations)
            with self._store.database.write() as connection:
                for operation in operations:
                    self._store.operations.fail(connection, operation.id, reasons[0])
        return reasons

    def record(self, namespace: int) -> None:
        """Write the records of closed episodes that have none yet; those that fail are tried again the next time."""
        if self._store.episodes.unrecorded(namespace, MAX_ATTEMPTS):
            with self._store.working(namespace):
                self._record(namespace, [], set())

    def link(self, namespace: int) -> None:
        """Write the links of closed episodes that have none yet, their records first; those that fail are tried again
        the next time.

        Only when links are asked for: a served model would judge several pairs for every episode as it closes.
        """
        self.record(namespace)
        if self._store.links.unlinked(namespace, MAX_ATTEMPTS):
            paying = nullcontext() if self._payer is None else self._payer.paying(namespace, background=True)
            with self._store.working(namespace), paying:
                self._linker.catch_up(namespace)

    def close_episodes(self, namespace: int) -> int:
        """Close the episodes that are open, with summaries and records; returns how many were closed.

        Raises:
            IntentMemError: the writer failed on a summary, and none is closed; or on records, which `run` tries again.
        """
        with self._store.working(namespace):
            while (closed := self._closed(namespace)) is None:
                self._states.forget(namespace)
            if reasons := self._record(namespace, [], set()):
                raise IntentMemError(f"{len(reasons)} episodes have no records: {reasons[0]}")
        return closed

    def _closed(self, namespace: int) -> int | None:
        """Number of open episodes closed; None where turns were removed meanwhile, and nothing was written."""
        removals, payer = self._store.namespaces.removals(namespace), self._payer
        state = self._states.current(namespace)
        with payer.paying(namespace, background=True) if payer is not None else nullcontext():
            episodes = self._labeller.closed(state)
        try:
            with self._store.database.write() as connection:
                self._check(namespace, removals)
                for episode in episodes:
                    self._store.labels.put_episode(connection, namespace, episode, self._writer.name)
        except _Overtaken:
            return None
        state.episodes.clear()
        return len(episodes)

    def reembed(self, namespace: int, on_progress: Callable[[Progress], None] | None = None) -> int:
        """Encode a namespace with the present embedder; returns the number of vectors made.

        The former vectors serve until the last one is there; interrupted, it goes on where it stopped. Operations that
        the other embedder made fail are open again afterwards.
        """
        fingerprint, embeddings = self._embedder.fingerprint, self._store.embeddings
        if embeddings.active(namespace) in (None, str(fingerprint)):
            return 0
        made, total = 0, self._store.turns.count(namespace)
        with self._store.working(namespace):
            for view in (TURN, GROUNDED):
                while rows := embeddings.stale(namespace, view, fingerprint, BLOCK):
                    made += self._encoded_again(namespace, view, rows)
                    if on_progress:
                        on_progress(Progress(made, max(total, made), view))
            with self._store.database.write() as connection:
                embeddings.switch(connection, namespace, fingerprint)
                self._store.operations.reset_attempts(connection, namespace)
        return made

    def _encoded_again(self, namespace: int, view: str, rows: Sequence[int]) -> int:
        """Put vectors of the present embedder beside those in use; 0 where turns were removed meanwhile."""
        removals = self._store.namespaces.removals(namespace)
        texts = self._texts(namespace, view, rows)
        vectors = self._embedder.encode(list(texts.values()), "passage")
        try:
            with self._store.database.write() as connection:
                self._check(namespace, removals)
                self._store.embeddings.put(
                    connection, namespace, view, self._embedder.fingerprint, list(texts), vectors, claim=False
                )
        except _Overtaken:
            return 0
        return len(texts)

    def _texts(self, namespace: int, view: str, rows: Sequence[int]) -> dict[int, str]:
        """What is encoded for a view, by row, of the turns that are still there."""
        if view == GROUNDED:
            return {row: snippet.grounded for row, snippet in self._store.labels.snippets(namespace, rows).items()}
        return {row: turn.passage for row, turn in self._store.turns.by_rows(namespace, rows).items()}

    def reword(self, namespace: int, scopes: Sequence[str]) -> None:
        """Name and describe scopes anew from the turns they have left, after what worded them was removed.

        A writer that fails leaves them with the number they have instead.
        """
        try:
            self._reworded(namespace, scopes)
        except FAILURES as error:
            _log.warning("scopes could not be worded anew: %s", error)

    def _reworded(self, namespace: int, scopes: Sequence[str]) -> None:
        for scope in self._store.labels.scopes(namespace).values():
            if scope.id not in scopes:
                continue
            turns = self._store.labels.turns_of_scope(namespace, scope.id)
            found = [turn for _, turn in sorted(self._store.turns.by_rows(namespace, turns).items())]
            if not found:
                continue
            taken = [other.label for other in self._store.labels.scopes(namespace).values() if other.id != scope.id]
            gist = ""
            for turn in found[-_REWORDED:]:
                gist = self._writer.gist(gist, turn) or gist
            label = scope.label if scope.by_hand else self._writer.name_scope(found[0], taken)
            with self._store.database.write() as connection:
                self._store.labels.word_scope(connection, namespace, scope.id, label, gist)
                self._store.namespaces.bump(connection, namespace)

    def _batch(self, namespace: int, operations: Sequence[Operation]) -> Batch:
        """Whole operations, or the next part of a long one, up to a block."""
        batch: Batch = []
        room = BLOCK
        for operation in operations:
            turns = self._store.turns.of_operation(namespace, operation.id, operation.done_row, room)
            if turns:
                batch.append((operation, turns))
                room -= len(turns)
            else:
                # Its turns were deleted meanwhile.
                with self._store.database.write() as connection:
                    self._store.operations.advance(connection, operation.id, "labelled", operation.last_row)
            if room <= 0:
                break
        return batch

    def _attempt(self, namespace: int, batch: Batch, removals: int) -> bool:
        """Whether the batch was written; one that was overtaken is not, nor has it failed."""
        try:
            vectors = self._embedded(namespace, batch, removals)
            payer, first = self._payer, batch[0][0].id
            with payer.paying(namespace, first, background=True) if payer is not None else nullcontext():
                self._labelled(namespace, batch, vectors, removals)
            return True
        except _Overtaken:
            raise
        except FAILURES as error:
            self._states.forget(namespace)
            _log.warning("labelling failed, the turns stay searchable by their words: %s", error)
            with self._store.database.write() as connection:
                for operation, _ in batch:
                    self._store.operations.fail(connection, operation.id, f"{type(error).__name__}: {error}")
            return False
        except BaseException:
            self._states.forget(namespace)
            raise

    def _embedded(self, namespace: int, batch: Batch, removals: int) -> Vector:
        """Vectors of the turns, encoding only those that have none yet."""
        fingerprint, turns = self._embedder.fingerprint, _turns(batch)
        active = self._store.embeddings.active(namespace)
        if active not in (None, str(fingerprint)):
            raise EmbedderMismatchError(str(active), str(fingerprint))
        rows, stored = self._store.embeddings.load(namespace, TURN, fingerprint, [turn.row for turn in turns])
        known = dict(zip(rows.tolist(), stored, strict=True))
        missing = [turn for turn in turns if turn.row not in known]
        if missing:
            started = time.perf_counter()
            vectors = self._embedder.encode([turn.passage for turn in missing], "passage")
            seconds = time.perf_counter() - started
            with self._store.database.write() as connection:
                self._check(namespace, removals)
                self._store.embeddings.put(
                    connection, namespace, TURN, fingerprint, [turn.row for turn in missing], vectors
                )
                for operation, _ in batch:
                    self._store.operations.advance(connection, operation.id, "embedded")
                self._store.operations.charge(
                    connection, namespace, batch[0][0].id, "embed", fingerprint.name, len(missing), seconds
                )
            known |= {turn.row: vector for turn, vector in zip(missing, vectors, strict=True)}
        return np.stack([known[turn.row] for turn in turns])

    def _check(self, namespace: int, removals: int) -> None:
        """Within a write, so that nothing comes between the check and what follows."""
        if self._store.namespaces.removals(namespace) != removals:
            raise _Overtaken

    def _labelled(self, namespace: int, batch: Batch, vectors: Vector, removals: int) -> None:
        state, turns = self._states.current(namespace), _turns(batch)
        # A retry may find turns that an earlier attempt, or a person, labelled already.
        labelled = {row for _, row, _ in self._store.labels.intents(namespace, turns=[turn.row for turn in turns])}
        fresh = [at for at, turn in enumerate(turns) if turn.row not in labelled]
        block = self._labeller.label(
            state, [turns[at] for at in fresh], self._space.voices.without(turns, vectors)[fresh]
        )
        if self._states.outdated(state):  # scopes were decided by vectors that the new decider does not read
            raise _Overtaken
        with self._store.database.write() as connection:
            self._check(namespace, removals)
            current = self._store.namespaces.epoch(namespace) == state.epoch
            self._labeller.write(connection, state, block)
            for task, seconds in block.seconds.items():
                self._store.operations.charge(
                    connection, namespace, batch[0][0].id, task, self._decider.name, len(fresh), seconds
                )
            for operation, part in batch:
                self._store.operations.advance(connection, operation.id, "labelled", part[-1].row)
            self._states.wrote(state)
        if not current:
            # Someone set a label by hand meanwhile.
            self._states.forget(namespace)


def _turns(batch: Batch) -> list[Turn]:
    return [turn for _, turns in batch for turn in turns]
