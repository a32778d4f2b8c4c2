"""`intentmem data build` from the outside."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Outcome

Cli = Callable[..., Outcome]


def test_a_set_is_built_and_told_as_json(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "set"
    done = cli("data", "build", "--kind", "shopping", "--tokens", 2000, "--seed", 4, "--out", out, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["kind"] == "shopping"
    assert told["path"] == str(out)
    assert sum(told["questions"].values()) == 60
    assert {file.name for file in out.iterdir()} == {
        "shopping-4-0_turns.jsonl",
        "shopping-4-0_questions.jsonl",
        "shopping-4-0_meta.json",
        "data_card.md",
        "manifest.json",
    }


def test_a_folder_in_use_is_kept_unless_forced(cli: Cli, tmp_path: Path) -> None:
    command = ("data", "build", "--kind", "travel", "--tokens", 1500, "--out", tmp_path / "set")
    assert cli(*command).code == 0
    refused = cli(*command, "--seed", 5)
    assert refused.code == 2
    assert "--force" in refused.err
    assert cli(*command, "--seed", 5, "--force").code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--kind", "woven"), "sgd:PATH"),
        (("--kind", "woven", "--source", "locomo:x"), "sgd:PATH"),
        (("--kind", "woven", "--source", "sgd:nowhere"), "does not exist"),
        (("--kind", "travel", "--source", "sgd:x"), "not used"),
        (("--kind", "travel", "--tokens", "5"), "at least"),
    ],
)
def test_unusable_arguments_end_with_a_clear_error_and_no_folder(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    failed = cli("data", "build", *arguments, "--out", tmp_path / "made")
    assert failed.code == 2
    assert says in failed.err
    assert not (tmp_path / "made").exists()
