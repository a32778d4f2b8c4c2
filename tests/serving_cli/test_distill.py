from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distill.standin import DECLARED, MOOD, MoodStudent, mood_traces

from distill import standin
from intentmem.distill import artifacts
from intentmem.distill.audit import Audit, AuditPlan
from intentmem.distill.backbone import Backbone
from intentmem.distill.task_files import read_task
from intentmem.distill.trace_files import write_traces
from intentmem.distill.training import run
from intentmem.distill.training.outcome import Trained
from intentmem.memory.tasks import Task
from intentmem.serving.cli import main

pytestmark = pytest.mark.usefixtures("mood_family")


@pytest.fixture
def task(tmp_path: Path) -> Task:
    (tmp_path / "mood.toml").write_text(DECLARED)
    return read_task(tmp_path / "mood.toml").task


@pytest.fixture
def place(tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch, tiny_folder: Path) -> Path:
    """A folder with a task and its traces; settings that point into it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "part", lambda room, family: SimpleNamespace(train=standin.train))
    monkeypatch.setenv("INTENTMEM_STUDENTS__REGISTRY", str(tmp_path / "registry"))
    monkeypatch.setenv("INTENTMEM_EMBEDDER__PROFILE", str(tiny_folder))
    write_traces(tmp_path / "traces.jsonl", [replace(t, task_hash=task.hash) for t in mood_traces(240)])
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["intentmem", "distill", *arguments])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def run_it(*arguments: str, fails: int = 0) -> Any:
        code, out, err = call(capsys, monkeypatch, *arguments)
        assert code == fails, err
        if fails:
            return err
        return json.loads(out) if "--json" in arguments else out

    return run_it


def test_a_task_of_a_file_is_trained_measured_and_put_in_service(place: Path, cli: Any, tiny_folder: Path) -> None:
    given = ("--task", "mood.toml", "--traces", "traces.jsonl", "--out", "out", "--base", str(tiny_folder))
    trained = cli("train", *given, "--json")
    assert trained["students"][0]["task"] == "mood"
    assert "mood" in cli("show", "out/mood")

    measured = cli(
        *("evaluate", "--task", "mood.toml", "--data", "traces:traces.jsonl", "--student", "out/mood"),
        *("--report", "report.json", "--json"),
    )
    rows = {(row["subject"], row["metric"]): row for row in measured["rows"]}
    assert {subject for subject, _ in rows} == {"student", "majority"}
    assert {"macro_f1", "exact", "ece", "turns_per_s", "p95_ms"} <= {metric for _, metric in rows}
    assert rows["student", "macro_f1"]["value"] > rows["majority", "macro_f1"]["value"]
    assert measured["header"]["failures"] == {"baseline": 240}
    assert measured["header"]["students"]["version"] == trained["students"][0]["version"]
    assert json.loads(Path("report.json").read_text())["rows"] == measured["rows"]

    assert "fails on labels" in cli("promote", "out/mood", "--target", "0.99", fails=1)
    promoted = cli("promote", "out/mood", "--target", "0.99", "--force", "--json")
    assert promoted["forced"] == "yes" and promoted["current"]
    assert "mood" in {one["task"] for one in cli("list", "--json")["students"] if one["current"]}
    assert cli("show", "mood", "--json")["version"] == promoted["version"]

    doubted = cli(
        "suspects", "--task", "mood", "--traces", "traces.jsonl", "--out", "s.jsonl", "--confidence", ".3", "--json"
    )
    assert doubted["traces"] == 240 and 0 < doubted["suspects"] == len(Path("s.jsonl").read_text().splitlines())

    assert "is an encoder" in cli("export", "mood", "--out", "peft", "--for", "vllm", fails=1)
    assert "adapter" in cli("export", "mood", "--out", "peft")
    assert Path("peft/adapter_config.json").is_file()

    assert "no student answers it now" in cli("rollback", "mood")
    assert "nothing was promoted" in cli("rollback", "mood", fails=2)
    assert "none of its students answers" in cli("show", "mood", fails=2)


def test_a_promotion_lets_a_demoted_student_answer_again(
    place: Path, cli: Any, trained: Trained, tiny: Backbone, task: Task
) -> None:
    head = trained.student.head()
    student = MoodStudent(task, "mood", head["weights"], head["bias"], 1.0)
    artifacts.save(replace(trained, student=student), place / "mood", tiny)
    audit = Audit(place / "registry" / "audit.json", AuditPlan(window=30, fewest=30))
    for _ in range(30):
        audit.record("mood", False)
    assert audit.demoted("mood")
    cli("promote", "mood", "--force")
    assert not Audit(place / "registry" / "audit.json").demoted("mood")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "--task", "nothing", "--out", "o"), "is no built-in task and no file"),
        (("train", "--task", "mood.toml", "--out", "o"), "says nothing about the task 'mood'"),
        (("train", "--task", "mood.toml", "--traces", "none.jsonl", "--out", "o"), "no file of traces"),
        (("train", "--task", "mood.toml", "--data", "bad:x", "--out", "o"), "names no known source"),
        (("train", "--task", "mood.toml", "--traces", "traces.jsonl", "--out", "o", "--epochs", "0"), "epochs"),
        (("evaluate", "--task", "mood.toml", "--data", "traces:traces.jsonl"), "none answers 'mood' here"),
    ],
)
def test_unusable_input_is_one_line_and_exit_code_2(
    place: Path, cli: Any, arguments: tuple[str, ...], message: str, tiny_folder: Path
) -> None:
    more = ("--base", str(tiny_folder)) if arguments[0] == "train" else ()
    err = cli(*arguments, *more, fails=2)
    assert message in err and "Traceback" not in err
    assert not (place / "o" / "mood").exists()


def test_a_folder_without_a_student_is_refused(place: Path, cli: Any) -> None:
    assert "holds no manifest.json" in cli("promote", "nowhere", fails=1)


def test_another_base_is_refused_by_its_name(
    place: Path, cli: Any, trained: Trained, tiny: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts.save(trained, place / "mood", tiny)
    standin.make_encoder(place / "other", seed=3)
    monkeypatch.setenv("INTENTMEM_EMBEDDER__PROFILE", str(place / "other"))
    assert "was trained on tiny" in cli("promote", "mood", "--force", fails=1)
    monkeypatch.setenv("INTENTMEM_EMBEDDER__PROFILE", "hash")
    assert "is no encoder" in cli("promote", "mood", "--force", fails=2)
    assert MOOD.name not in json.dumps(cli("list", "--json")["students"])


def test_l07_a_server_is_told_that_adapters_may_be_loaded_at_run_time() -> None:
    from intentmem.serving.llm.server_command import environment
    from intentmem.serving.llm.server_settings import ServerSettings

    for wanted in (False, True):
        settings = ServerSettings(runtime_adapters=wanted)
        made = environment(settings.resolved(()), settings)
        assert (made.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING") == "True") is wanted
