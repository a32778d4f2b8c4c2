"""An open labeler of one's own: declared in TOML, taught by traces, put on every turn and searched by."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distill.standin import WORDS
from typer.testing import CliRunner

from intentmem.distill import registry
from intentmem.distill.labelers import own_labelers
from intentmem.distill.registry import Registry
from intentmem.distill.task_files import DeclaredTask, read_task
from intentmem.distill.trace_files import write_traces
from intentmem.distill.traces import Trace
from intentmem.distill.training import open as family
from intentmem.distill.training.adapting import LoraShape
from intentmem.memory.deciders import BaselineDecider
from intentmem.serving.bench.commands import app
from intentmem.serving.cli import main

pytestmark = pytest.mark.usefixtures("mood_family")
TOPICS = ("w0", "w20", "w40")
"""Names of words that the encoder of the tests knows: students read a label's name too."""
DECLARED = """
name = "topic"
question = "Which topics does the turn touch?"
space = "open"
[labels]
w0 = "w0 w1 w2"
w20 = "w20 w21 w22"
w40 = "w40 w41 w42"
"""


def traces(declared: DeclaredTask, conversations: int = 40) -> list[Trace]:
    """Turns whose words tell their topic; a quarter of them is about none."""
    rng = random.Random(0)
    task, found = declared.task, []
    for number in range(conversations * 4):
        topic = rng.randrange(4)
        words = rng.sample(WORDS[20 * topic : 20 * topic + 5], 3) if topic < 3 else rng.sample(WORDS[10:20], 3)
        labels = TOPICS[topic : topic + 1]
        place = (f"c{number % conversations}", number)
        found.append(
            Trace(task.name, task.hash, {"turn": " ".join(words)}, labels, "t", *place, options=declared.labels)
        )
    return found


@pytest.fixture
def cli(
    tmp_path: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """The command line in a folder of its own, with the tiny encoder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "shipped_folder", lambda: tmp_path / "shipped")  # they are of another encoder
    monkeypatch.setattr(family, "SHAPE", LoraShape(rank=8, alpha=16, layers=2, dropout=0.0))
    monkeypatch.setattr(family, "_RATE", 2e-2)  # the encoder of the tests starts from random weights
    monkeypatch.setattr(family, "_HEAD_RATE", 2e-2)
    monkeypatch.setenv("INTENTMEM_STORE__PATH", str(tmp_path / "memory"))
    monkeypatch.setenv("INTENTMEM_STUDENTS__REGISTRY", str(tmp_path / "registry"))
    monkeypatch.setenv("INTENTMEM_EMBEDDER__PROFILE", str(tiny_folder))

    def run(*arguments: str) -> Any:
        monkeypatch.setattr(sys, "argv", ["intentmem", *arguments, "--json"])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        assert code == 0, err
        return json.loads(out)

    return run


def test_an_open_labeler_of_ones_own_is_put_on_turns_and_filtered_by_and_has_its_row_in_the_benchmark(
    cli: Callable[..., Any], tiny_folder: Path
) -> None:
    Path("topic.toml").write_text(DECLARED)
    write_traces(Path("topic.jsonl"), traces(read_task(Path("topic.toml"))))
    given = ("--task", "topic.toml", "--traces", "topic.jsonl", "--out", "out", "--base", str(tiny_folder))
    made = cli("distill", "train", *given)["students"][0]
    assert next(one["value"] for one in made["metrics"] if one["metric"] == "micro_f1") > 0.7
    cli("distill", "promote", "out/topic", "--target", ".5", "--force")

    said = {"w0 w2 w3": "w0", "w20 w21 w24": "w20", "w40 w43 w44": "w40"}
    Path("talk.jsonl").write_text("".join(json.dumps({"role": "user", "content": text}) + "\n" for text in said))
    cli("ingest", "talk.jsonl", "-n", "talk")
    listed = cli("list", "-n", "talk")["results"]
    labels = {turn["memory"]: [one["label"] for one in turn["labels"].get("topic", [])] for turn in listed}
    assert labels == {text: [topic] for text, topic in said.items()}
    found = cli("search", "w20", "-n", "talk", "--label", "topic=w20")["results"]
    assert [hit["memory"] for hit in found] == ["w20 w21 w24"]

    options = ("--subjects", "students", "--task", "topic.toml", "--groups", "topic", "--requests", "4")
    done = CliRunner().invoke(app, ["latency", *options, "--profile", str(tiny_folder), "--json", "latency.json"])
    assert done.exit_code == 0, done.output
    report = json.loads(Path("latency.json").read_text())
    assert report["header"]["failures"] == {}, report["header"]["errors"]
    assert {"p50_ms", "p95_ms", "throughput_per_s"} <= {row["metric"] for row in report["rows"]}
    assert {(row["subject"], row["group"]) for row in report["rows"]} == {("students", "topic")}
    assert report["header"]["subjects"]["students"]["versions"]["topic"] == made["version"]


def test_a_student_that_states_no_labels_is_named_instead_of_labelling_nothing(
    cli: Callable[..., Any], tiny_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Path("topic.toml").write_text(DECLARED)
    write_traces(Path("topic.jsonl"), traces(read_task(Path("topic.toml")), 10))
    given = ("--task", "topic.toml", "--traces", "topic.jsonl", "--out", "out", "--base", str(tiny_folder))
    cli("distill", "train", *given, "--epochs", "1")
    cli("distill", "promote", "out/topic", "--target", ".5", "--force")
    [artifact] = [one for one in Registry(Path("registry")).open() if one.task.name == "topic"]
    assert [len(one.options) for one in own_labelers(BaselineDecider(), [artifact])] == [3]
    artifact.manifest.options["labels"] = {}
    assert own_labelers(BaselineDecider(), [artifact]) == []
    assert "'topic' states no labels" in caplog.text
