from pathlib import Path

import pytest

from intentmem.memory.errors import InputError
from intentmem.memory.memory import Memory
from intentmem.serving.bench import ingest, ingest_worker, scale
from intentmem.serving.compose import open_memory


def _open(folder: Path) -> Memory:
    return open_memory(folder, embedder={"profile": "hash"})


def test_the_write_path_and_searches_are_measured_against_their_floors(tmp_path: Path, two_people: Path) -> None:
    plan = ingest.IngestPlan(str(two_people), repeats=2, recipes=("dense", "fused"), queries=3)
    found = ingest_worker.measure(plan, _open, tmp_path / "stores")
    rows = {(row.subject, row.metric): row for row in found.rows}
    assert {row.group for row in found.rows} == {"threads=1"} and found.failed == 0
    assert rows["embedding alone", "ratio_to_embedding"].value == 1.0
    assert rows["write path", "turns_per_s"].n == 12
    assert rows["query encoding and look-up", "ratio_to_floor"].value == 1.0
    for subject in ("search dense", "search fused"):
        measured = {"cold_ms", "p50_ms", "p95_ms", "ratio_to_floor", "ratio_to_encoding"}
        assert measured == {metric for name, metric in rows if name == subject}
        assert rows[subject, "p50_ms"].value <= rows[subject, "p95_ms"].value


def test_a_process_that_fails_says_why(two_people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "WORKER", "intentmem.serving.bench.no_such_worker")
    with pytest.raises(ingest.WorkerError, match="no_such_worker"):
        ingest.run(ingest.IngestPlan(str(two_people)))


@pytest.mark.parametrize("options", [{"threads": ()}, {"threads": (0,)}, {"repeats": 0}, {"turns": 0}, {"queries": 0}])
def test_an_unusable_plan_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError) as caught:
        ingest.IngestPlan("x", **options)  # type: ignore[arg-type]
    assert caught.value.field == next(iter(options))


def test_a_store_of_made_up_turns_is_measured() -> None:
    told: list[tuple[str, int, int]] = []
    report = scale.run(
        scale.ScalePlan(turns=90, queries=3, rounds=1, dim=32), progress=lambda *told_now: told.append(told_now)
    )
    rows = {(row.subject, row.metric): row.value for row in report.rows}
    assert rows["store", "disk_mb"] > 0 and rows["write path", "peak_rss_mb"] > 0
    assert rows["search fused", "p50_ms"] <= rows["search fused", "p95_ms"]
    assert "stand-in" in report.header["configuration"]["embedder"]
    assert told[-1] == ("write", 90, 90) and report.header["failures"] == {}


def test_made_up_turns_are_the_same_for_the_same_seed_and_all_different() -> None:
    plan = scale.ScalePlan(turns=100)
    turns = list(scale.made_up_turns(plan))
    assert turns == list(scale.made_up_turns(plan))
    assert len({turn.text for turn in turns}) == 100
    assert len({turn.session for turn in turns}) == 3
