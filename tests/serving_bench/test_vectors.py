import pytest

from intentmem.memory.errors import InputError
from intentmem.serving.bench.vectors import VectorsPlan, run


def test_an_exact_index_recalls_everything_and_the_report_says_what_it_was() -> None:
    report = run(VectorsPlan(n=2000, dim=16, queries=20))
    rows = {(row.subject, row.metric): row for row in report.rows}
    assert rows["index", "recall@10"].value == 1.0
    assert {("index", "p50_ms"), ("index", "p95_ms"), ("index", "build_s"), ("index", "peak_memory_mb")} <= set(rows)
    assert report.header["configuration"]["index"]["kind"] == "flat"


def test_chunks_are_searched_as_one_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intentmem.serving.bench.vectors._CHUNK", 300)
    assert run(VectorsPlan(n=1000, dim=8, queries=10)).rows[0].value == 1.0


def test_fewer_vectors_than_are_looked_up_are_refused() -> None:
    with pytest.raises(InputError, match="n: is 3"):
        VectorsPlan(n=3)
