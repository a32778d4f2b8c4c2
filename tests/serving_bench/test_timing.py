import time

import numpy as np
import pytest

from intentmem.serving.bench.process import PeakMemory, disk_mb
from intentmem.serving.bench.timing import interleaved, latency_rows, ratio_row, spread


def test_subjects_take_turns_and_the_one_to_begin_changes() -> None:
    calls: list[str] = []
    found = interleaved(
        {"a": lambda text: calls.append("a" + text), "b": lambda text: calls.append("b" + text)}, "12", 2
    )
    assert calls == ["a1", "b1", "b2", "a2", "b1", "a1", "a2", "b2"]
    assert {name: times.shape for name, times in found.items()} == {"a": (2, 2), "b": (2, 2)}


def test_a_slow_subject_reads_as_slow() -> None:
    found = interleaved({"fast": lambda _: None, "slow": lambda _: time.sleep(0.002)}, ["x"] * 3, 1)
    assert found["slow"].min() >= 0.002 > found["fast"].min()


def test_latencies_are_percentiles_in_milliseconds_over_rounds() -> None:
    rows = latency_rows("c", "s", "g", np.array([[0.001, 0.003], [0.002, 0.004], [0.003, 0.005]]))
    assert [(r.metric, r.n) for r in rows] == [("p50_ms", 6), ("p95_ms", 6)]
    assert (rows[0].value, rows[0].low, rows[0].high) == pytest.approx((3.0, 2.0, 4.0))


def test_a_ratio_is_the_median_over_neighbours_in_time() -> None:
    row = ratio_row("c", "s", "g", "ratio", np.array([[2.0, 9.0, 8.0]]), np.array([[1.0, 3.0, 4.0]]))
    assert row.value == 2.0 and row.n == 3


def test_a_repeated_figure_is_its_median_with_its_ends() -> None:
    row = spread("c", "s", "g", "m", [3.0, 1.0, 2.0], 5)
    assert (row.low, row.value, row.high) == (1.0, 2.0, 3.0)


def test_peak_memory_sees_what_was_held_for_a_moment() -> None:
    with PeakMemory() as memory:
        block = np.ones(20_000_000)  # 160 MB
        time.sleep(0.1)
        del block
    assert memory.added_mb > 100


def test_disk_size_counts_all_files_below(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"0" * 2**20)
    (tmp_path / "y").write_bytes(b"0" * 2**20)
    assert disk_mb(tmp_path) == 2
