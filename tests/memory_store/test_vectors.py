from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from intentmem.memory.errors import EmbedderError, InputError
from intentmem.memory.store.vectors import VectorIndex
from intentmem.memory.types import Fingerprint, Vector

faiss = pytest.importorskip("faiss")
D = 16
PRINT = Fingerprint("fake", "0" * 64, D)
SMALL = {"flat_limit": 150, "exact_limit": 10}
STRUCTURES = pytest.mark.parametrize("options", [{}, SMALL], ids=["flat", "ivf"])


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Searches this small only lose by threads, most of all where tests run side by side."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(threads)


def clustered(count: int, seed: int = 0, dimension: int = D) -> Vector:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((20, dimension))
    rows = centres[rng.integers(20, size=count)] + rng.standard_normal((count, dimension)) * 0.5
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def filled(count: int, **options: int) -> tuple[VectorIndex, NDArray[np.int64], Vector]:
    index = VectorIndex(PRINT, **options)  # type: ignore[arg-type]
    ids, rows = np.arange(count, dtype=np.int64) * 3 + 7, clustered(count)
    index.add(ids, rows)
    return index, ids, rows


@STRUCTURES
def test_g01_deleting_and_adding_leave_every_id_with_its_own_vector(options: dict[str, int]) -> None:
    index, ids, rows = filled(300, **options)
    index.remove(ids[::2])
    index.add(np.array([1, 2]), -rows[:2])
    np.testing.assert_allclose(index.vectors(ids[1::2]), rows[1::2], atol=1e-3)
    np.testing.assert_allclose(index.vectors(np.array([2, 1])), -rows[[1, 0]], atol=1e-3)
    found, _ = index.search(rows[1::2], 1)
    assert found[:, 0].tolist() == ids[1::2].tolist()


def test_g03_a_filter_of_five_rows_in_a_hundred_thousand_returns_all_five() -> None:
    fingerprint = Fingerprint("fake", "0" * 64, 8)
    index = VectorIndex(fingerprint)
    index.add(np.arange(100_000), clustered(100_000, dimension=8))
    mine = np.array([5, 40_000, 77, 99_999, 12_345])
    found, scores = index.search(clustered(1, 5, 8), 5, mine)
    assert sorted(found[0]) == sorted(mine)
    assert (np.diff(scores[0]) <= 0).all()


@STRUCTURES
@pytest.mark.parametrize("size", [1, 5, 11, 120, 299])
def test_g03_a_filter_is_applied_before_the_cut_whatever_its_size(options: dict[str, int], size: int) -> None:
    index, ids, rows = filled(300, **options)
    allowed = np.random.default_rng(size).choice(ids, size, replace=False)
    found, scores = index.search(rows[:4], 8, np.append(allowed, 1_000_000))
    truth = rows[:4] @ rows[np.searchsorted(ids, np.sort(allowed))].T
    assert (found >= 0).sum(axis=1).tolist() == [min(8, size)] * 4
    assert set(found[found >= 0]) <= set(allowed)
    np.testing.assert_allclose(scores[:, 0], truth.max(axis=1), atol=1e-3)


@STRUCTURES
def test_g04_vectors_are_normalised_on_write_and_on_query(options: dict[str, int]) -> None:
    index = VectorIndex(PRINT, **options)  # type: ignore[arg-type]
    rows = clustered(200)
    index.add(np.arange(200), rows * np.linspace(0.01, 900, 200, dtype=np.float32)[:, None])
    _, scores = index.search(rows * 50, 3)
    np.testing.assert_allclose(scores[:, 0], 1, atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(index.vectors(index.ids()), axis=1), 1, atol=1e-3)


@STRUCTURES
def test_g11_scores_are_cosines_with_the_closest_first(options: dict[str, int]) -> None:
    index, ids, rows = filled(300, **options)
    found, scores = index.search(np.concatenate([rows[:5], -rows[:5]]), 300)
    assert scores.min() >= -1
    assert scores.max() <= 1
    assert (np.diff(scores, axis=1) <= 0).all()
    assert found[:5, 0].tolist() == ids[:5].tolist()
    assert found[5:, -1].tolist() == ids[:5].tolist()


@STRUCTURES
def test_g09_ids_survive_delete_reload_add(tmp_path: Path, options: dict[str, int]) -> None:
    index, ids, rows = filled(300, **options)
    index.remove(ids[-10:])
    index.save(tmp_path, {"watermark": 290})
    again, note = VectorIndex.load(tmp_path, PRINT, **options)
    again.add(np.array([5000]), rows[-1:])
    assert note == {"watermark": 290}
    assert again.ids().tolist() == [*ids[:-10].tolist(), 5000]
    np.testing.assert_allclose(again.vectors(ids[:-10]), rows[:-10], atol=1e-3)
    assert again.stats().kind == index.stats().kind


@STRUCTURES
def test_d11_a_deleted_id_never_comes_back_also_after_a_restart(tmp_path: Path, options: dict[str, int]) -> None:
    index, ids, rows = filled(300, **options)
    assert index.remove(np.append(ids[:3], 999_999)) == 3
    index.save(tmp_path, {})
    for each in (index, VectorIndex.load(tmp_path, PRINT, **options)[0]):
        assert not set(each.search(rows[:3], 300)[0].ravel()) & set(ids[:3].tolist())
        assert not set(each.search(rows[:3], 300, ids)[0].ravel()) & set(ids[:3].tolist())


@STRUCTURES
def test_d16_replacing_one_vector_changes_only_that_one(options: dict[str, int]) -> None:
    index, ids, _ = filled(200, **options)
    before = index.vectors(ids)
    index.add(ids[50:51], -before[50:51])
    after = index.vectors(ids)
    np.testing.assert_allclose(after[50], -before[50], atol=1e-3)
    np.testing.assert_array_equal(np.delete(after, 50, 0), np.delete(before, 50, 0))
    assert index.count == 200


@pytest.mark.parametrize(
    "vectors", [np.zeros((1, D)), np.full((1, D), np.nan), np.full((1, D), np.inf), np.ones((1, D + 1)), np.ones(D)]
)
def test_unusable_vectors_are_refused_and_nothing_is_stored(vectors: Vector) -> None:
    index, _, _ = filled(3)
    with pytest.raises(EmbedderError, match=r"vectors"):
        index.add(np.array([1]), vectors)
    with pytest.raises(EmbedderError, match=r"queries"):
        index.search(vectors, 3)
    assert index.count == 3


@pytest.mark.parametrize("ids", [[1, 1], [-1, 2], [1], [[1, 2]], [0.5, 1.5]])
def test_unusable_ids_are_refused_and_nothing_is_stored(ids: list[float]) -> None:
    index, _, _ = filled(3)
    with pytest.raises(InputError, match="ids"):
        index.add(np.array(ids), clustered(2))
    assert index.count == 3


def test_an_empty_index_and_an_empty_filter_answer_with_padding() -> None:
    index = VectorIndex(PRINT)
    assert index.search(clustered(2), 3)[0].tolist() == [[-1] * 3] * 2
    index, _, rows = filled(4)
    assert index.search(rows[:1], 2, np.empty(0, np.int64))[0].tolist() == [[-1, -1]]
    assert index.search(rows[:0], 2)[0].shape == (0, 2)
    with pytest.raises(InputError, match="k:"):
        index.search(rows, 0)
    with pytest.raises(InputError, match="is not in the index"):
        index.vectors(np.array([8]))


def test_inverted_lists_keep_the_recall_they_were_tuned_to_as_they_grow() -> None:
    index = VectorIndex(PRINT, flat_limit=1000)
    rows = clustered(6000)
    for start in range(0, 6000, 500):
        index.add(np.arange(start, start + 500), rows[start : start + 500])
    queries = clustered(100, 7)
    truth = np.argsort(-(queries @ rows.T), axis=1)[:, :10]
    found, _ = index.search(queries, 10)
    assert index.stats().kind == "ivf"
    assert index.stats().probes < index.stats().lists
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), truth.tolist(), strict=True)]) >= 0.95


def test_an_announced_size_trains_once_for_that_size() -> None:
    index = VectorIndex(PRINT, flat_limit=100, expected=5000)
    rows = clustered(5000)
    index.add(np.arange(1000), rows[:1000])
    assert index.stats().kind == "flat"
    index.add(np.arange(1000, 5000), rows[1000:])
    assert (index.stats().kind, index.stats().lists) == ("ivf", 128)


def test_very_large_ids_can_be_filtered() -> None:
    index = VectorIndex(PRINT, exact_limit=1)
    rows = clustered(10)
    index.add(np.arange(10) + 2**40, rows)
    found, _ = index.search(rows[:1], 2, np.arange(4, 10) + 2**40)
    assert set(found[0]) <= set(range(2**40 + 4, 2**40 + 10))


def test_threads_may_write_and_search_at_once() -> None:
    index, _, rows = filled(200)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(20):
                index.add(np.array([10_000 + number * 100 + step]), rows[:1])
                index.search(rows[:2], 5)
                index.remove(np.array([10_000 + number * 100 + step]))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert index.count == 200


def test_a_failing_gpu_is_left_for_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def search(self, rows: Vector, k: int) -> None:
            raise RuntimeError("out of memory")

    index, ids, rows = filled(20)
    monkeypatch.setattr(index, "_gpu_mirror", lambda: Broken() if index._use_gpu else None)
    assert index.search(rows[:1], 1)[0].tolist() == [[ids[0]]]
    assert not index._use_gpu


def test_a_gpu_copy_answers_until_the_next_change(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[object] = []

    def copy(resources: object, device: int, index: object) -> object:
        copies.append(index)
        return faiss.clone_index(index)

    class Resources: ...

    monkeypatch.setattr(faiss, "StandardGpuResources", Resources, raising=False)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", copy, raising=False)
    monkeypatch.setattr("intentmem.memory.store.vectors.GPU_LIMIT", 10)
    index, ids, rows = filled(20)
    for _ in range(3):
        assert index.search(rows[:1], 1)[0].tolist() == [[ids[0]]]
    assert (len(copies), index.stats().gpu) == (1, True)
    index.remove(ids[:1])
    assert index.search(rows[:1], 1)[0][0, 0] != ids[0]
    assert len(copies) == 2
