"""python -m intentmem.serving.bench.ingest_worker JOB RESULT: one measuring process of `bench ingest`."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from intentmem.memory.memory import Memory
from intentmem.memory.protocols import Embedder
from intentmem.memory.store.backends import faiss_module
from intentmem.memory.types import NewTurn, Vector
from intentmem.train_data import Corpus

from . import corpora
from .ingest import IngestPlan
from .report import Row
from .timing import MILLISECONDS, interleaved, latency_rows, ratio_row, seconds, spread

EMBEDDING, WRITING = "embedding alone", "write path"
ENCODING, FLOOR = "query encoding", "query encoding and look-up"
NAMESPACE = "bench"
_WARM_UP = 32

Open = Callable[[Path], Memory]


@dataclass(slots=True)
class Measurement:
    """Rows so far, and turns whose processing failed."""

    corpus: str
    group: str
    rows: list[Row] = field(default_factory=list)
    failed: int = 0
    configuration: dict[str, Any] = field(default_factory=dict)


def measure(plan: IngestPlan, open_memory: Open, folder: Path) -> Measurement:
    """Time the write path and then searches; stores are made in `folder`."""
    corpus = corpora.load(plan.corpus, plan.path)
    turns = corpora.one_trajectory(corpus, plan.turns)
    found = Measurement(corpus.name, f"threads={plan.threads[0]}")
    memory, vectors = _write(plan, open_memory, folder, turns, found)
    with memory:
        _search(plan, memory, vectors, _queries(corpus, turns, plan.queries), found)
    return found


def _write(
    plan: IngestPlan, open_memory: Open, folder: Path, turns: Sequence[NewTurn], found: Measurement
) -> tuple[Memory, Vector]:
    texts = sorted((corpora.passage_of(turn) for turn in turns), key=len)
    warm = open_memory(folder / "warm")
    with warm:
        cold = seconds(lambda: warm.embedder.encode(texts[:1], "passage"))
        warm.embedder.encode(texts[:_WARM_UP], "passage")
        cold_write = seconds(lambda: corpora.ingest(warm, NAMESPACE, turns[:1]))
        corpora.ingest(warm, "more", turns[:_WARM_UP])
        found.configuration |= {"embedder": str(warm.embedder.fingerprint), "turns": len(turns)}
    alone: list[float] = []
    written: list[float] = []
    vectors: Vector = np.empty((0, 0), np.float32)
    memory = warm
    for repeat in range(plan.repeats):
        memory = open_memory(folder / str(repeat))
        memory.embedder.encode(texts[:1], "passage")  # a store opened anew may load its model anew

        def embed(embedder: Embedder = memory.embedder) -> None:
            nonlocal vectors
            vectors = embedder.encode(texts, "passage")

        def write(memory: Memory = memory) -> None:
            found.failed += corpora.ingest(memory, NAMESPACE, turns).failed

        for name in ("alone", "written") if repeat % 2 == 0 else ("written", "alone"):
            (alone if name == "alone" else written).append(seconds(embed if name == "alone" else write))
        if repeat < plan.repeats - 1:
            memory.close()
    count = len(turns)
    for subject, first, times in ((EMBEDDING, cold, alone), (WRITING, cold_write, written)):
        rate = [count / t for t in times]
        found.rows.append(spread(found.corpus, subject, found.group, "turns_per_s", rate, count))
        ratios = [a / t for a, t in zip(alone, times, strict=True)]
        found.rows.append(spread(found.corpus, subject, found.group, "ratio_to_embedding", ratios, count))
        found.rows.append(spread(found.corpus, subject, found.group, "cold_ms", [first * MILLISECONDS], 1))
    return memory, vectors


def _search(plan: IngestPlan, memory: Memory, vectors: Vector, queries: Sequence[str], found: Measurement) -> None:
    faiss = faiss_module()
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(np.ascontiguousarray(vectors, np.float32))
    subjects: dict[str, Callable[[str], object]] = {
        ENCODING: lambda text: memory.embedder.encode([text], "query"),
        FLOOR: lambda text: flat.search(memory.embedder.encode([text], "query"), 10),
    }
    for recipe in plan.recipes:
        subjects[f"search {recipe}"] = lambda text, recipe=recipe: memory.search(  # type: ignore[misc]
            text, namespace=NAMESPACE, recipe=recipe
        )
    cold = {name: seconds(lambda name=name: subjects[name](queries[0])) for name in subjects}  # type: ignore[misc]
    times = interleaved(subjects, queries, plan.repeats)
    for name, measured in times.items():
        found.rows.append(spread(found.corpus, name, found.group, "cold_ms", [cold[name] * MILLISECONDS], 1))
        found.rows += latency_rows(found.corpus, name, found.group, measured)
        found.rows.append(ratio_row(found.corpus, name, found.group, "ratio_to_floor", measured, times[FLOOR]))
        found.rows.append(ratio_row(found.corpus, name, found.group, "ratio_to_encoding", measured, times[ENCODING]))


def _queries(corpus: Corpus, turns: Sequence[NewTurn], count: int) -> list[str]:
    """Evenly spread questions of the corpus; where it has none, texts of its turns."""
    texts = list(dict.fromkeys(q.text for q in corpus.questions)) or [t.text for t in turns if t.text.strip()]
    places = np.linspace(0, len(texts) - 1, min(count, len(texts))).astype(int)
    return [texts[place] for place in places]


def main(job: str, result: str) -> None:
    """Measure the plan in a JSON file and write rows to another."""
    from intentmem.serving.compose import open_memory

    plan = IngestPlan(**json.loads(Path(job).read_text(encoding="utf-8")))
    _set_threads(plan.threads[0])
    overrides = {} if plan.profile is None else {"embedder": {"profile": plan.profile}}
    with tempfile.TemporaryDirectory(prefix="intentmem-bench-") as folder:
        found = measure(plan, lambda path: open_memory(path, **overrides), Path(folder))
    data = {"rows": [asdict(row) for row in found.rows], "failed": found.failed, "configuration": found.configuration}
    Path(result).write_text(json.dumps(data, allow_nan=False), encoding="utf-8")


def _set_threads(count: int) -> None:
    faiss_module().omp_set_num_threads(count)
    try:
        import torch
    except ImportError:  # the embedder without a model needs none
        return
    torch.set_num_threads(count)


if __name__ == "__main__":
    main(*sys.argv[1:])
