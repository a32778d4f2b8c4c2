"""Corpora as benchmarks feed them to a memory: through `Memory.add`, in blocks, with the corpus' own ids."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from intentmem.memory.errors import InputError
from intentmem.memory.memory import Memory
from intentmem.memory.types import NewTurn, Vector, spoken, with_captions
from intentmem.train_data import CARDS, Corpus, Trajectory, load_corpus

BLOCK = 256
"""Turns handed to `Memory.add` at once."""

AUTO = "auto"
Report = Callable[[int], None]
_PAGE = 10_000
_RAW_VIEW = "turn"


def load(name: str, path: Path | str) -> Corpus:
    """Load a corpus by name; "auto" tells its format from the files.

    Raises:
        InputError: nothing readable is at `path`, or it is no known corpus.
    """
    if name != AUTO:
        return load_corpus(name, path)
    if not Path(path).exists():
        raise InputError("data", f"{path} does not exist", f"formats that can be read: {', '.join(sorted(CARDS))}")
    reasons = []
    for candidate in CARDS:
        try:
            return load_corpus(candidate, path)
        except InputError as error:
            reasons.append(f"{candidate}: {error.problem}")
    raise InputError("data", f"{path} is no corpus that can be read", "; ".join(reasons))


def text_of(turn: NewTurn) -> str:
    """What a reader of a turn is given: its text and captions."""
    return with_captions(turn.text, turn.attachments)


def passage_of(turn: NewTurn) -> str:
    """What the write path embeds of a turn (see `Turn.passage`)."""
    return spoken(turn.speaker, text_of(turn))


def one_trajectory(corpus: Corpus, limit: int | None = None) -> list[NewTurn]:
    """The turns of all trajectories one after another, ids and sessions made unique; the first `limit` of them.

    Raises:
        InputError: the corpus has fewer.
    """
    found = list(islice(_joined(corpus), limit))
    if limit is not None and len(found) < limit:
        raise InputError("turns", f"is {limit}, {corpus.name} holds {len(found)} here", "ask for fewer")
    return found


def _joined(corpus: Corpus) -> Iterator[NewTurn]:
    for trajectory in corpus.trajectories:
        for turn in trajectory.turns:
            yield replace(
                turn,
                source_id=f"{trajectory.id}/{turn.source_id}",
                session=f"{trajectory.id}/{turn.session}",
            )


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of turns that were added. `failed` ones are stored, not fully processed."""

    turns: int
    duplicates: int
    suppressed: int
    failed: int
    seconds: float
    errors: tuple[str, ...]


def ingest(memory: Memory, namespace: str, turns: Sequence[NewTurn], on_turns: Report | None = None) -> Ingested:
    """Add turns in blocks and wait for each; `on_turns` is told how many a block had."""
    start = time.perf_counter()
    duplicates = suppressed = failed = 0
    errors: list[str] = []
    for first in range(0, len(turns), BLOCK):
        block = turns[first : first + BLOCK]
        result = memory.add(block, namespace=namespace)
        duplicates += result["duplicates"]
        suppressed += result["suppressed"]
        if result["status"] not in ("done", "empty"):
            failed += len(block)
            errors += result["warnings"][-1:] or [str(result["status"])]
        if on_turns is not None:
            on_turns(len(block))
    return Ingested(len(turns), duplicates, suppressed, failed, time.perf_counter() - start, tuple(errors))


@dataclass(frozen=True, slots=True)
class Stored:
    """A trajectory in a namespace of its own name. `ids` are the memory's, by the corpus' `source_id`."""

    trajectory: Trajectory
    ids: Mapping[str, str]

    def before(self, until: int | None) -> str | None:
        """Id of the first stored turn from place `until` on: only turns before it may be searched. None: all may."""
        if until is None:
            return None
        sources = (turn.source_id for turn in self.trajectory.turns[until:])
        return next((self.ids[source] for source in sources if source is not None and source in self.ids), None)


def stored(memory: Memory, trajectory: Trajectory) -> Stored:
    """Look up the ids that a memory gave to an ingested trajectory."""
    ids: dict[str, str] = {}
    offset = 0
    while page := memory.list(limit=_PAGE, offset=offset, namespace=trajectory.id)["results"]:
        ids |= {turn["source_id"]: turn["id"] for turn in page if turn["source_id"] is not None}
        offset += len(page)
    return Stored(trajectory, ids)


def turn_vectors(memory: Memory, trajectory: Trajectory) -> Vector:
    """Vectors of a trajectory's turns, (N, D), as the write path made them; what it did not store is encoded here."""
    ordinal = memory.store.namespaces.ordinal(trajectory.id)
    owners, rows = memory.store.embeddings.load(ordinal, _RAW_VIEW, memory.embedder.fingerprint)
    turns = memory.store.turns.by_rows(ordinal, [int(owner) for owner in owners])
    known = {turns[int(owner)].source_id: row for owner, row in zip(owners, rows, strict=True) if int(owner) in turns}
    missing = [turn for turn in trajectory.turns if turn.source_id not in known]
    encoded = memory.embedder.encode([passage_of(turn) for turn in missing], "passage") if missing else ()
    known |= {turn.source_id: row for turn, row in zip(missing, encoded, strict=True)}
    vectors = np.stack([known[turn.source_id] for turn in trajectory.turns])
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)
