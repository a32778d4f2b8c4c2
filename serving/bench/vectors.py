"""The vector index at size: recall against exhaustive search, latency, time to build, memory. Synthetic vectors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from intentmem.memory.errors import InputError
from intentmem.memory.store.backends import faiss_module
from intentmem.memory.store.vectors import VectorIndex
from intentmem.memory.types import Fingerprint, Vector

from .process import PeakMemory
from .progress import Progress, silent
from .report import Report, Row, header
from .timing import MILLISECONDS, latency_rows, seconds, spread

CORPUS = "clustered synthetic vectors"
INDEX, FLAT = "index", "flat"
DEPTH = 10
_CHUNK = 50_000
_TURNS_A_CLUSTER = 100
_SPREAD, _QUESTION_NOISE = 0.8, 0.6


@dataclass(frozen=True, slots=True)
class VectorsPlan:
    """What to measure: `n` vectors of `dim` dimensions, `queries` of them looked up one by one."""

    n: int = 1_000_000
    dim: int = 384
    queries: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("n", DEPTH), ("dim", 2), ("queries", 1)):
            if getattr(self, name) < least:
                raise InputError(name, f"is {getattr(self, name)}", f"at least {least}")


def run(plan: VectorsPlan, command: str = "", progress: Progress = silent) -> Report:
    """Build an index, ask it, and compare with exhaustive search over the same vectors.

    Raises:
        MissingExtraError: FAISS or psutil is not installed.
    """
    start = time.perf_counter()
    queries = _questions(plan)
    with PeakMemory() as memory:
        index = VectorIndex(Fingerprint("synthetic", f"seed {plan.seed}", plan.dim), expected=plan.n)
        adding = 0.0
        for first, block in vectors(plan):
            ids = np.arange(first, first + len(block), dtype=np.int64)
            progress("add", first, plan.n)
            adding += seconds(lambda ids=ids, block=block: index.add(ids, block))  # type: ignore[misc]
        index.search(queries[:1], DEPTH)  # warm-up
        found = np.stack([index.search(query[None], DEPTH)[0][0] for query in queries])
        times = np.array([[seconds(lambda q=query: index.search(q[None], DEPTH)) for query in queries]])  # type: ignore[misc]
    exact, flat_times = _exhaustive(plan, queries)
    recalls = [len(set(a) & set(b)) / DEPTH for a, b in zip(found.tolist(), exact.tolist(), strict=True)]
    group, stats = f"n={plan.n}", index.stats()
    rows = [
        Row(CORPUS, INDEX, group, f"recall@{DEPTH}", float(np.mean(recalls)), None, None, plan.queries),
        *latency_rows(CORPUS, INDEX, group, times),
        spread(CORPUS, INDEX, group, "build_s", [adding], plan.n),
        spread(CORPUS, INDEX, group, "peak_memory_mb", [memory.added_mb], plan.n),
        spread(CORPUS, INDEX, group, "index_mb", [stats.bytes / 2**20], plan.n),
        spread(CORPUS, FLAT, group, "mean_ms", [flat_times], plan.queries),
    ]
    configuration = {**asdict(plan), "k": DEPTH, "index": asdict(stats)}
    return Report(header("vectors", configuration, command, time.perf_counter() - start), rows)


def vectors(plan: VectorsPlan) -> Iterator[tuple[int, Vector]]:
    """Chunks of unit vectors, (N, D), with the number of the first: turns gather in topics, unlike uniform noise."""
    centres = _centres(plan)
    for first in range(0, plan.n, _CHUNK):
        generator = np.random.default_rng((plan.seed, first))
        size = min(_CHUNK, plan.n - first)
        yield first, _near(generator, centres[generator.integers(len(centres), size=size)], _SPREAD)


def _questions(plan: VectorsPlan) -> Vector:
    """Unit vectors near stored ones, but none of them."""
    generator = np.random.default_rng((plan.seed, 1))
    _, stored = next(vectors(plan))
    return _near(generator, stored[generator.integers(len(stored), size=plan.queries)], _QUESTION_NOISE)


def _centres(plan: VectorsPlan) -> Vector:
    generator = np.random.default_rng(plan.seed)
    count = max(1, plan.n // _TURNS_A_CLUSTER)
    return _unit(generator.standard_normal((count, plan.dim), dtype=np.float32))


def _near(generator: np.random.Generator, points: Vector, noise: float) -> Vector:
    moved = generator.standard_normal(points.shape, dtype=np.float32) * np.float32(noise / np.sqrt(points.shape[1]))
    return _unit(points + moved)


def _unit(rows: Vector) -> Vector:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def _exhaustive(plan: VectorsPlan, queries: Vector) -> tuple[np.ndarray, float]:
    """Ids of the closest, (Q, k), chunk by chunk so that memory stays small; and ms a query."""
    heap = faiss_module().ResultHeap(len(queries), DEPTH, keep_max=True)
    taken = 0.0
    for first, block in vectors(plan):
        flat = faiss_module().IndexFlatIP(plan.dim)
        flat.add(block)
        start = time.perf_counter()
        scores, places = flat.search(queries, DEPTH)
        taken += time.perf_counter() - start
        heap.add_result(scores, places + first)
    heap.finalize()
    return np.asarray(heap.I), taken * MILLISECONDS / len(queries)
