"""MemConflict with a reader: answers of the served model, graded by it."""

import json
from pathlib import Path
from typing import Any

import pytest
from serving_llm.fake_model import FakeClient, Request
from typer.testing import CliRunner

from intentmem.memory.errors import InputError, ModelOutputError
from intentmem.memory.memory import Memory
from intentmem.serving.bench.commands import app
from intentmem.serving.bench.quality import QualityPlan, run
from intentmem.serving.bench.report import Report, Row

SAID = ("I live in Lyon.", "I was born in Nice.", "I drink tea at home.", "I moved to Turin.", "I was born in Rome.")
ASKED = {3: ("dynamic", "Where do I live?"), 4: ("static", "Where was I born?")}


@pytest.fixture
def persona(tmp_path: Path) -> Path:
    """A made-up persona in MemConflict's format: an update, and a contradiction of what is told before."""
    chain: list[dict[str, Any]] = [
        {
            "Session_ID": n,
            "Date": f"2024-01-{n + 1:02d}",
            "Session_Dialogue": {"dialogue_turn_1": [{"role": "user", "content": text}]},
        }
        for n, text in enumerate(SAID)
    ]
    for session, (kind, text) in ASKED.items():
        question = {"question_id": "Q", "question": text, "answer": "as told", "conflict_type": kind}
        chain[session]["Session_Questions"] = [question]
    chain[3]["Updated_Attributes"] = [{"Attribute": "Residence"}]
    chain[1]["Static_Conflict_Information"] = [{"Conflict_ID": "S", "Role": "Point_A"}]
    chain[4]["Static_Conflict_Information"] = [{"Conflict_ID": "S", "Role": "Point_B"}]
    path = tmp_path / "Step4_4.jsonl"
    path.write_text(json.dumps({"ID": "P", "Full_Session_Chain": chain}), encoding="utf-8")
    return path


def plan(path: Path) -> QualityPlan:
    return QualityPlan("memconflict", path, ("fused",), (500,), 4, samples=20)


def figures(report: Report) -> dict[tuple[str, str, str], Row]:
    return {(row.subject, row.group, row.metric): row for row in report.rows}


def says(text: str, *turns: str) -> dict[str, Any]:
    return {"answered": True, "claims": [{"text": text, "turns": list(turns)}]}


def graded(request: Request) -> int:
    """Partly right, in the right order; it does not recognise a contradiction."""
    asked = str(request.messages[-1]["content"])
    return 0 if "from what to what" in asked else 1


def test_answers_are_graded_by_kind_of_conflict(memory: Memory, persona: Path) -> None:
    client = FakeClient(answer=says("First Lyon, then Turin.", "T1"), judge=graded)
    report = run(plan(persona), memory, client=client)
    rows = figures(report)
    assert rows["fused", "all", "AA"].value == 0.5 and rows["fused", "all", "AA"].n == 2
    assert rows["fused", "dynamic", "UOCS"].value == 1.0 and ("fused", "static", "UOCS") not in rows
    assert rows["fused", "static", "CRS"].value == 0.0 and ("fused", "dynamic", "CRS") not in rows
    assert rows["fused", "all", "SRS"].n == 2 and ("baseline:bm25", "all", "AA") not in rows
    assert client.counts == {"answer": 2, "judge": 4}
    assert "as told" in client.prompt() and "First Lyon, then Turin." in client.prompt()
    assert report.header["configuration"]["reader"] == "llm:fake"


def test_without_a_reader_there_are_no_grades(memory: Memory, persona: Path) -> None:
    metrics = {row.metric for row in run(plan(persona), memory).rows}
    assert metrics == {"SEH@2", "SEH@3", "SEH@5", "SRS"}


def test_an_abstention_is_wrong_and_is_not_sent_to_the_judge(memory: Memory, persona: Path) -> None:
    client = FakeClient(answer={"answered": False, "claims": []})
    rows = figures(run(plan(persona), memory, client=client))
    assert [rows["fused", "all", metric].value for metric in ("AA", "UOCS", "CRS")] == [0, 0, 0]
    assert client.counts == {"answer": 2}


def test_a_model_that_fails_is_counted_and_the_search_is_scored_all_the_same(memory: Memory, persona: Path) -> None:
    client = FakeClient(answer=says("Turin.", "T1"))
    client.fails = lambda request: ModelOutputError("fake", "prose", "Sure!") if request.task == "judge" else None
    report = run(plan(persona), memory, client=client)
    assert report.header["failures"] == {"answers from fused": 2}
    rows = figures(report)
    assert rows["fused", "all", "SRS"].n == 2 and ("fused", "all", "AA") not in rows


def test_answers_about_other_corpora_are_not_graded(memory: Memory, two_people: Path) -> None:
    with pytest.raises(InputError, match="only those of memconflict"):
        run(QualityPlan("locomo", two_people), memory, client=FakeClient())


def test_the_command_needs_a_served_model_for_a_reader(persona: Path) -> None:
    options = ["--corpus", "memconflict", "--data", str(persona), "--profile", "hash", "--reader"]
    done = CliRunner().invoke(app, ["quality", *options])
    assert done.exit_code == 2 and "llm.base_url" in " ".join(done.output.split())
