"""One run shared out over several processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from intentmem.distill import artifacts
from intentmem.distill.artifacts import Artifact
from intentmem.distill.sources import parse_source
from intentmem.distill.task_files import read_task
from intentmem.distill.trace_files import write_traces
from intentmem.distill.training import run
from intentmem.distill.training.processes import own_part
from intentmem.distill.training.run import TrainPlan

from .standin import DECLARED, mood_traces


@pytest.mark.parametrize(("count", "world"), [(0, 2), (1, 2), (5, 2), (6, 2), (7, 3), (2, 4)])
def test_every_process_has_as_many_batches_and_all_of_them_are_taken(count: int, world: int) -> None:
    parts = [list(own_part(iter(range(count)), rank, world)) for rank in range(world)]
    assert {len(part) for part in parts} == {-(-count // world)}
    assert {batch for part in parts for batch in part} == set(range(count))
    assert all(one < other for part in parts for one, other in pairwise(part))
    assert list(own_part(iter(range(count)), 0, 1)) == list(range(count))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A task in a file and 1000 traces of it."""
    (tmp_path / "mood.toml").write_text(DECLARED)
    task = read_task(tmp_path / "mood.toml").task
    write_traces(tmp_path / "traces.jsonl", [replace(one, task_hash=task.hash) for one in mood_traces(1000, 60)])
    return tmp_path


def launched(place: Path, base: Path, processes: int) -> subprocess.CompletedProcess[str]:
    """As `accelerate launch` on a machine without GPUs starts it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = ["--multi_gpu", "--num_processes", str(processes), "--num_machines", "1", "--mixed_precision", "no"]
    given = ["--task", "mood.toml", "--traces", "traces.jsonl", "--out", "out", "--base", str(base), "--epochs", "20"]
    return subprocess.run(
        [
            *(sys.executable, "-m", "accelerate.commands.launch", *launch, "--dynamo_backend", "no"),
            *("--main_process_port", str(port), "-m", "intentmem.distill.training.run", *given),
        ],
        cwd=place,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HOME": str(place / "hf"), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def score(artifact: Artifact) -> float:
    return next(one.value for one in artifact.manifest.metrics if one.metric == "macro_f1" and one.group == "all")


@pytest.mark.slow
def test_two_processes_without_a_gpu_train_one_student_as_good_as_one_process_does(
    place: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = launched(place, tiny_folder, 2)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count(f"mood: {Path('out') / 'mood'}") == 1, "one of them writes and tells"
    assert sorted(path.name for path in (place / "out").iterdir()) == ["mood"]
    together = artifacts.read(place / "out" / "mood")

    monkeypatch.chdir(place)
    task = read_task(Path("mood.toml")).task
    sources = (parse_source("traces:traces.jsonl"),)
    [alone] = run.train(TrainPlan((task,), sources, Path("alone"), str(tiny_folder), epochs=20))
    assert together.manifest.splits == alone.manifest.splits
    assert score(alone) > 0.6
    assert score(together) == pytest.approx(score(alone), abs=0.1)
