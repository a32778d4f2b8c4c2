from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from intentmem.memory.errors import CorruptIndexError, StoreError
from intentmem.memory.store import backends, generations, vectors
from intentmem.memory.store.vectors import VectorIndex
from intentmem.memory.types import Fingerprint, Vector

faiss = pytest.importorskip("faiss")
D = 4
PRINT = Fingerprint("fake", "0" * 64, D)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Searches this small only lose by threads, most of all where tests run side by side."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(threads)


def vector(seed: int) -> Vector:
    row = np.random.default_rng(seed).standard_normal((1, D)).astype(np.float32)
    return np.asarray(row / np.linalg.norm(row), np.float32)


def index_of(*ids: int) -> VectorIndex:
    index = VectorIndex(PRINT)
    index.add(np.array(ids), np.concatenate([vector(number) for number in ids]))
    return index


class Killed(BaseException):
    """Stands for a kill: nothing in the code under test may catch it."""


def test_g05_an_interruption_at_any_step_leaves_the_old_generation_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = ("mkdir", "rename", "replace", "write_bytes", "write_text", "open")
    outcomes = set()
    for stop_at in range(1, 40):
        place = tmp_path / str(stop_at)
        index_of(1, 2).save(place, {"watermark": 1})
        left = stop_at

        def counted(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
                    raise Killed
                return real(*args, **kwargs)

            return call

        with monkeypatch.context() as patch:
            for name in steps:
                patch.setattr(Path, name, counted(getattr(Path, name)))
            patch.setattr(os, "fsync", counted(os.fsync))
            patch.setattr(vectors, "write_backend", counted(backends.write_backend))
            try:
                index_of(1, 2, 3).save(place, {"watermark": 2})
                finished = True
            except Killed:
                finished = False
        index, note = VectorIndex.load(place, PRINT)
        assert (index.count, note["watermark"]) in {(2, 1), (3, 2)}
        outcomes.add((finished, index.count))
        index_of(1, 2, 3, 4).save(place, {"watermark": 3})
        assert sorted(path.name[:4] for path in place.iterdir() if path.is_dir()) == ["gen-"]
        if finished:
            break
    assert {(False, 2), (False, 3), (True, 3)} <= outcomes


_WRITER = """
import sys
from pathlib import Path
from intentmem.memory.store.generations import Contents, write_generation
from intentmem.memory.types import Fingerprint
payload = bytes([7]) * 2_000_000
print("started", flush=True)
for number in range(10_000):
    contents = Contents(Fingerprint("fake", "0" * 64, 4), number, number, {"watermark": number}, "-")
    write_generation(Path(sys.argv[1]), lambda path: path.write_bytes(payload), contents)
    print(number, flush=True)
"""


@pytest.mark.parametrize("delay", [0.003, 0.011, 0.027])
def test_g05_a_real_kill_leaves_a_whole_generation(tmp_path: Path, delay: float) -> None:
    with subprocess.Popen([sys.executable, "-c", _WRITER, tmp_path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"started\n", b"0\n"]
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
    generation = generations.current_generation(tmp_path, PRINT)
    assert generation.contents.count == generation.contents.note["watermark"]
    assert generation.index_file.stat().st_size == 2_000_000


def test_g06_an_index_that_does_not_hold_what_its_manifest_says_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_of(1, 2).save(tmp_path, {})
    place = next(tmp_path.glob("gen-*"))
    manifest = json.loads((place / "manifest.json").read_text())
    for change in ({"count": 3}, {"max_id": 1}):
        _rewrite(tmp_path, place, manifest | change)
        with pytest.raises(CorruptIndexError, match="the manifest says"):
            VectorIndex.load(tmp_path, PRINT)
    _rewrite(tmp_path, place, manifest)
    assert VectorIndex.load(tmp_path, PRINT)[0].count == 2


def _rewrite(directory: Path, place: Path, manifest: dict[str, object]) -> None:
    raw = json.dumps(manifest).encode()
    (place / "manifest.json").write_bytes(raw)
    (directory / "CURRENT").write_text(f"{place.name} {hashlib.sha256(raw).hexdigest()}")


@pytest.mark.parametrize("name", ["CURRENT", "manifest.json", "index.faiss"])
@pytest.mark.parametrize("damage", ["absent", "truncated", "altered", "empty"])
def test_g05_a_damaged_file_is_refused(tmp_path: Path, name: str, damage: str) -> None:
    index_of(1, 2, 3).save(tmp_path, {})
    path = next(tmp_path.rglob(name))
    raw = path.read_bytes()
    path.unlink()
    if damage != "absent":
        damaged = {"truncated": raw[: len(raw) // 2], "altered": raw[:-9] + b"#" + raw[-8:], "empty": b""}[damage]
        path.write_bytes(damaged)
    with pytest.raises(CorruptIndexError):
        VectorIndex.load(tmp_path, PRINT)


def test_an_index_of_another_encoder_is_refused(tmp_path: Path) -> None:
    index_of(1).save(tmp_path, {})
    for other in (Fingerprint("fake", "1" * 64, D), Fingerprint("fake", "0" * 64, D, query_prefix="query: ")):
        with pytest.raises(CorruptIndexError, match="holds vectors of"):
            VectorIndex.load(tmp_path, other)


def test_a_missing_directory_is_a_corrupt_index(tmp_path: Path) -> None:
    with pytest.raises(CorruptIndexError):
        VectorIndex.load(tmp_path / "nothing", PRINT)


def test_a_disk_that_refuses_keeps_the_old_generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index_of(1).save(tmp_path, {})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left"):
            index_of(1, 2).save(tmp_path, {})
    assert VectorIndex.load(tmp_path, PRINT)[0].count == 1


def test_g12_nothing_is_pickled_and_no_place_is_chosen_for_the_caller() -> None:
    folder = Path(vectors.__file__).parent
    for name in ("vectors.py", "backends.py", "generations.py"):
        source = (folder / name).read_text()
        assert not {"pickle", "/tmp", "tempfile", "gettempdir"} & set(source.replace('"', " ").split()), name
        assert "import pickle" not in source


class IndexAgainstDict(RuleBasedStateMachine):
    """The index behaves as a dict of vectors through adds, removals and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.options = {"flat_limit": 25, "exact_limit": 3}
        self.index = VectorIndex(PRINT, **self.options)  # type: ignore[arg-type]
        self.model: dict[int, int] = {}
        self.saved: dict[int, int] | None = None

    @rule(ids=st.sets(st.integers(0, 60), min_size=1, max_size=20), seed=st.integers(0, 10**6))
    def add(self, ids: set[int], seed: int) -> None:
        keys = list(ids)
        self.index.add(np.array(keys), np.concatenate([vector(seed + key) for key in keys]))
        self.model |= {key: seed + key for key in keys}

    @rule(ids=st.sets(st.integers(0, 60), max_size=20))
    def remove(self, ids: set[int]) -> None:
        assert self.index.remove(np.array(list(ids), np.int64)) == len(ids & set(self.model))
        self.model = {key: seed for key, seed in self.model.items() if key not in ids}

    @rule()
    def save(self) -> None:
        self.index.save(Path(self.folder.name), {"watermark": len(self.model)})
        self.saved = dict(self.model)

    @rule()
    def restart(self) -> None:
        if self.saved is not None:
            self.index, note = VectorIndex.load(Path(self.folder.name), PRINT, **self.options)
            self.model = dict(self.saved)
            assert note["watermark"] == len(self.model)

    @rule(seed=st.integers(0, 10**6), allowed=st.none() | st.sets(st.integers(0, 60)), k=st.integers(1, 30))
    def search(self, seed: int, allowed: set[int] | None, k: int) -> None:
        chosen = None if allowed is None else np.array(list(allowed), np.int64)
        found, scores = self.index.search(vector(seed), k, chosen)
        pool = set(self.model) if allowed is None else set(self.model) & allowed
        hits = [int(number) for number in found[0] if number >= 0]
        assert len(hits) == len(set(hits)) == min(k, len(pool))
        assert set(hits) <= pool
        for number, score in zip(hits, scores[0], strict=False):
            assert abs(float((vector(seed) @ vector(self.model[number]).T)[0, 0]) - score) < 2e-3

    @invariant()
    def holds_the_same(self) -> None:
        keys = sorted(self.model)
        assert self.index.ids().tolist() == keys
        if keys:
            truth = np.concatenate([vector(self.model[key]) for key in keys])
            np.testing.assert_allclose(self.index.vectors(np.array(keys)), truth, atol=1e-3)

    def teardown(self) -> None:
        self.folder.cleanup()


TestIndexAgainstDict = IndexAgainstDict.TestCase
TestIndexAgainstDict.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
