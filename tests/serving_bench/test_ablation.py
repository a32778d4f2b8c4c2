import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from intentmem.memory.errors import EmbedderError, InputError
from intentmem.memory.memory import Memory
from intentmem.memory.read.parts import ALL_PARTS, PARTS
from intentmem.serving.bench import quality
from intentmem.serving.bench.ablation import AblationPlan, run
from intentmem.serving.bench.commands import app
from intentmem.serving.bench.report import Report, Row, read_report

RUNNER = CliRunner()


def figures(report: Report) -> dict[tuple[str, str, str], Row]:
    return {(row.subject, row.group, row.metric): row for row in report.rows}


def plan(path: Path, **options: Any) -> AblationPlan:
    return AblationPlan("locomo", path, budgets=(40, 500), k=4, samples=30, **options)


def test_every_part_in_use_has_its_figures_and_the_paired_difference_to_the_full_system(
    memory: Memory, two_people: Path
) -> None:
    report = run(plan(two_people), memory)
    rows = figures(report)
    used = [f"without {part}" for part in PARTS if part not in report.header["not_in_use"]]
    assert list(dict.fromkeys(row.subject for row in report.rows)) == ["full", *used]
    assert {"without scope", "without event", "without entity_types"} <= set(used)
    for (subject, group, metric), row in rows.items():
        if metric.startswith("difference "):
            name = metric.removeprefix("difference ")
            apart = rows[subject, group, name].value - rows["full", group, name].value
            assert row.value == pytest.approx(apart) and row.low is not None and row.high is not None
            assert row.low <= row.value <= row.high
    assert memory.searcher.parts == ALL_PARTS


def test_the_full_system_scores_as_the_quality_benchmark_says(tmp_path: Path, two_people: Path) -> None:
    from intentmem.serving.compose import open_memory

    reports = []
    for name, measure in (("a", run), ("b", quality.run)):
        with open_memory(tmp_path / name, embedder={"profile": "hash"}) as memory:
            given = (
                plan(two_people) if name == "a" else quality.QualityPlan("locomo", two_people, ("fused",), (40, 500), 4)
            )
            reports.append(
                {k[1:]: r.value for k, r in figures(measure(given, memory)).items() if k[0] in ("full", "fused")}
            )  # type: ignore[operator]
    assert reports[0] == reports[1]


def test_a_part_that_nothing_uses_is_named_and_has_no_figures(
    memory: Memory, two_people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.searcher, "parts_in_use", lambda namespace, recipe: frozenset(["scope"]))
    report = run(plan(two_people, parts=("scope", "rounds")), memory)
    assert report.header["not_in_use"] == ["rounds"]
    assert {row.subject for row in report.rows} == {"full", "without scope"}


def test_a_failure_without_a_part_is_counted_and_not_compared(
    memory: Memory, two_people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = memory.search

    def failing(query: str, **options: Any) -> Any:
        if "kayak" in query and not memory.searcher.parts.event:
            raise EmbedderError("out of memory")
        return search(query, **options)

    monkeypatch.setattr(memory, "search", failing)
    report = run(plan(two_people, parts=("event",)), memory)
    assert report.header["failures"] == {"without event": 1}
    rows = figures(report)
    assert rows["full", "all", "R@4"].n == 7 and rows["without event", "all", "difference R@4"].n == 6
    assert memory.searcher.parts == ALL_PARTS


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"parts": ("scopes",)}, "part"),
        ({"parts": ()}, "parts"),
        ({"recipes": ("dense", "fused")}, "recipe"),
        ({"k": 0}, "k"),
    ],
)
def test_an_unusable_plan_is_refused_before_anything_is_ingested(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        AblationPlan("locomo", Path("x"), **options)
    assert caught.value.field == field


def test_the_command_prints_a_line_for_every_part_and_writes_both_reports(two_people: Path, tmp_path: Path) -> None:
    options = ["--corpus", "locomo", "--data", str(two_people), "--profile", "hash", "--samples", "20"]
    files = ["--json", str(tmp_path / "out.json"), "--report", str(tmp_path / "out.md")]
    done = RUNNER.invoke(app, ["ablation", *options, *files, "--budgets", "40"], env={"COLUMNS": "150"})
    assert done.exit_code == 0, done.output
    report = read_report(tmp_path / "out.json")
    assert report.header["benchmark"] == "ablation"
    text = (tmp_path / "out.md").read_text(encoding="utf-8")
    for part in PARTS:
        line = next(line for line in text.splitlines() if line.startswith(f"| without {part} "))
        assert ("not in use" in line) == (part in report.header["not_in_use"])
        assert f"without {part}" in done.output
    assert "### locomo, category 1" in text and json.loads((tmp_path / "out.json").read_text())["rows"]


def test_a_part_that_does_not_exist_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["ablation", "--corpus", "locomo", "--data", "absent", "--parts", "scope,glue"])
    assert done.exit_code == 2 and "'glue' is unknown" in " ".join(done.output.split())
