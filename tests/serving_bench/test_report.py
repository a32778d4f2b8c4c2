import json
from pathlib import Path

import pytest

from intentmem.memory.errors import InputError
from intentmem.serving.bench.report import Report, Row, header, read_report
from intentmem.serving.bench.tables import notes, tables

ROWS = (
    Row("made up", "fused", "all", "R@10", 0.5, 0.4, 0.6, 10),
    Row("made up", "dense", "all", "R@10", 0.25, None, None, 9),
)


@pytest.fixture
def report() -> Report:
    configuration = {"budgets": [1024], "tokenizer": "minilm", "tokens_a_turn": 8, "samples": 100}
    questions = {"total": 12, "without_evidence": 2, "asked": 10}
    made = header("quality", configuration, "intentmem bench", 1.5, {"dense": 1}, "abc", questions=questions)
    return Report(made, ROWS)


def test_a_report_reads_back_as_it_was_written(report: Report, tmp_path: Path) -> None:
    report.write(tmp_path / "new" / "report.json")
    assert read_report(tmp_path / "new" / "report.json") == report


def test_rows_keep_their_order_and_their_fields(report: Report, tmp_path: Path) -> None:
    report.write(tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [row["subject"] for row in data["rows"]] == ["fused", "dense"]
    assert list(data["rows"][0]) == ["corpus", "subject", "group", "metric", "value", "low", "high", "n"]


def test_the_header_says_what_is_needed_to_repeat_the_run(report: Report) -> None:
    found = report.header
    assert found["command"] and found["commit"] and found["data_hash"] == "abc" and found["failures"] == {"dense": 1}
    assert {"python", "sqlite", "intentmem", "torch", "transformers"} <= set(found["versions"])
    assert {"cpu", "cores", "memory_bytes", "gpu"} == set(found["hardware"])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_figure_never_enters_a_report(value: float) -> None:
    with pytest.raises(InputError, match=r"fused/all/R@10\.value"):
        Row("made up", "fused", "all", "R@10", value, None, None, 1)
    with pytest.raises(InputError, match="low"):
        Row("made up", "fused", "all", "R@10", 0.5, value, 1.0, 1)


def test_a_report_that_cannot_be_written_leaves_the_former_one(report: Report, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("former", encoding="utf-8")
    broken = Report({**report.header, "seconds": float("nan")}, report.rows)
    with pytest.raises(ValueError, match="JSON"):
        broken.write(tmp_path / "report.json")
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == "former"
    assert list(tmp_path.iterdir()) == [tmp_path / "report.json"]


def test_an_unusable_place_is_named(report: Report, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"json: .*cannot be written"):
        report.write(tmp_path / "file" / "report.json")


def test_what_is_no_report_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="no benchmark report"):
        read_report(tmp_path / "x.json")


def test_tables_have_a_line_a_subject_and_notes_say_what_was_left_out(report: Report) -> None:
    (table,) = tables(report)
    assert [list(column.cells) for column in table.columns] == [
        ["fused", "dense"],
        ["10", "9"],
        [".500\n[dim].400-.600[/dim]", ".250"],
    ]
    text = "\n".join(notes(report))
    for part in ("2 have no evidence", "1,024 tokens", "minilm", "plus 8 a turn", "FAILED, not scored: dense 1 times"):
        assert part in text
