"""How fast turns are written and found, as ratios to the floor: embedding alone, and encoding a query plus one look-up.

Each number of threads runs in a process of its own, as libraries fix their pools at the first use. Floor and subject
take turns in it. What is slow only once (loading a model, the first query) is reported apart, as `cold_ms`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from intentmem.memory.errors import InputError, IntentMemError

from . import corpora
from .progress import Progress, silent
from .report import Report, Row, header

WORKER = "intentmem.serving.bench.ingest_worker"
_POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What to measure.

    Args:
        corpus: its name, or "auto"; path: its file or folder.
        turns: the first so many; None means all.
        threads: of the encoder, one process each.
        repeats: of the write path and of its floor, and rounds of queries.
        recipes: to time searches with; queries: how many different ones.
        profile: of the embedder.
    """

    path: str
    corpus: str = corpora.AUTO
    turns: int | None = None
    threads: Sequence[int] = (1,)
    repeats: int = 3
    recipes: Sequence[str] = ("dense", "lexical", "stitch", "fused")
    queries: int = 50
    profile: str | None = None

    def __post_init__(self) -> None:
        numbers = [("turns", self.turns), ("repeats", self.repeats), ("queries", self.queries)]
        for name, number in [*numbers, *(("threads", count) for count in self.threads)]:
            if number is not None and number < 1:
                raise InputError(name, f"is {number}", "at least 1")
        if not self.threads:
            raise InputError("threads", "is empty", "for example 1,2")


class WorkerError(IntentMemError):
    """The process that measures failed."""


def run(plan: IngestPlan, command: str = "", progress: Progress = silent) -> Report:
    """Measure with each number of threads.

    Raises:
        InputError: the data cannot be read, or has fewer turns.
        WorkerError: a measuring process failed; carries the end of what it said.
    """
    start = time.perf_counter()
    corpus = corpora.load(plan.corpus, plan.path)
    corpora.one_trajectory(corpus, plan.turns)
    rows: list[Row] = []
    configuration: dict[str, Any] = {**asdict(plan), "corpus": corpus.name, "block": corpora.BLOCK}
    configuration["path"] = Path(plan.path).name
    failures = 0
    for place, threads in enumerate(plan.threads):
        progress("threads", place, len(plan.threads))
        found = _measured(plan, threads)
        rows += [Row(**row) for row in found["rows"]]
        configuration |= found["configuration"]
        failures += found["failed"]
    seconds = time.perf_counter() - start
    return Report(
        header("ingest", configuration, command, seconds, {"ingest": failures} if failures else {}, corpus.hash), rows
    )


def _measured(plan: IngestPlan, threads: int) -> dict[str, Any]:
    environment = {**os.environ, **dict.fromkeys(_POOLS, str(threads))}
    with tempfile.TemporaryDirectory(prefix="intentmem-bench-") as folder:
        job, result = Path(folder, "job.json"), Path(folder, "result.json")
        job.write_text(json.dumps({**asdict(plan), "threads": [threads]}), encoding="utf-8")
        arguments = [sys.executable, "-m", WORKER, str(job), str(result)]
        done = subprocess.run(arguments, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise WorkerError(f"measuring with {threads} threads failed: {done.stderr.strip()[-2000:]}")
        loaded: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return loaded
