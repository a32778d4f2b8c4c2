import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from intentmem.serving.bench.commands import app
from intentmem.serving.bench.report import read_report

RUNNER = CliRunner()


def test_quality_shows_a_table_a_group_and_writes_the_report(two_people: Path, tmp_path: Path) -> None:
    options = ["--corpus", "locomo", "--data", str(two_people), "--profile", "hash", "--samples", "20"]
    done = RUNNER.invoke(app, ["quality", *options, "--json", str(tmp_path / "out.json")])
    assert done.exit_code == 0, done.output
    for part in ("locomo, all", "locomo, category 4", "baseline:bm25", "1 have no evidence", "tokenizer of hash"):
        assert part in done.output
    report = read_report(tmp_path / "out.json")
    assert report.header["benchmark"] == "quality" and report.header["data_hash"]


def test_vectors_writes_its_report(tmp_path: Path) -> None:
    options = ["--n", "500", "--dim", "8", "--queries", "5", "--json", str(tmp_path / "out.json")]
    assert RUNNER.invoke(app, ["vectors", *options]).exit_code == 0
    assert read_report(tmp_path / "out.json").header["benchmark"] == "vectors"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["quality", "--corpus", "locomo", "--data", "absent"], "absent does not exist"),
        (["quality", "--corpus", "lokomo", "--data", "absent"], "'lokomo' is no known corpus"),
        (["quality", "--corpus", "locomo", "--data", "absent", "--recipes", "best"], "recipe: 'best' is unknown"),
        (["quality", "--corpus", "locomo", "--data", "absent", "--budgets", "1k"], "'1k' is no list of whole numbers"),
        (["ingest", "--data", "absent"], "absent does not exist"),
        (["scale", "--turns", "0"], "turns: is 0"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(options: list[str], message: str, tmp_path: Path) -> None:
    done = RUNNER.invoke(app, [*options, "--json", str(tmp_path / "out.json")])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert not (tmp_path / "out.json").exists()


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    options = ["--corpus", "locomo", "--data", str(tmp_path / "bad.json"), "--profile", "hash"]
    done = RUNNER.invoke(app, ["quality", *options, "--json", str(tmp_path / "out.json")])
    assert done.exit_code == 2 and re.search(r"bad\.json: is not JSON at line 1", done.output)


@pytest.mark.parametrize("command", ["quality", "ingest", "vectors", "scale"])
def test_every_command_explains_itself(command: str) -> None:
    assert RUNNER.invoke(app, [command, "--help"]).exit_code == 0
