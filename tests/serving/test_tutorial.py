"""A labeler of one's own, as the README tells it: declared in TOML, taught by 306 traces, put on every turn."""

import json
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.real, pytest.mark.slow]
TUTORIAL = Path(str(files("intentmem.distill"))) / "tutorial"
TALK = [
    "Send me the contract this instant!",
    "The contract must be signed by next Wednesday.",
    "Could you tell me how contracts are usually worded?",
]


@pytest.fixture
def own(cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The command line with the real encoder and a registry of its own."""
    monkeypatch.setenv("INTENTMEM_EMBEDDER__PROFILE", "embedded")
    monkeypatch.setenv("INTENTMEM_STUDENTS__REGISTRY", str(tmp_path / "registry"))

    def run(*arguments: object) -> Any:
        outcome = cli(*arguments, "--json")
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)

    return run


def test_a_labeler_is_declared_taught_promoted_and_found_by(own: Callable[..., Any], tmp_path: Path) -> None:
    task, traces, out = TUTORIAL / "urgency.toml", tmp_path / "urgency.jsonl", tmp_path / "students"
    shutil.copy(TUTORIAL / "urgency.jsonl", traces)
    made = own("distill", "train", "--task", task, "--traces", traces, "--out", out)["students"][0]
    exact = next(metric["value"] for metric in made["metrics"] if metric["metric"] == "exact")
    # Wordings of the development split were never seen; a guess is right for one in three.
    assert exact >= 0.6
    own("distill", "promote", out / "urgency", "--target", 0.6)
    turns = tmp_path / "talk.jsonl"
    turns.write_text("".join(json.dumps({"role": "user", "content": text}) + "\n" for text in TALK), "utf-8")
    own("ingest", turns, "-n", "talk")
    listed = own("list", "-n", "talk")["results"]
    assert [turn["labels"]["urgency"][0]["label"] for turn in listed] == ["now", "dated", "open"]
    assert all(turn["labels"]["urgency"][0]["probability"] > 0.33 for turn in listed)
    found = own("search", "contract", "-n", "talk", "--label", "urgency=dated")["results"]
    assert [hit["memory"] for hit in found] == [TALK[1]]
