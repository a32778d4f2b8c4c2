import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import quick_memory

from .conftest import Outcome

Cli = Callable[..., Outcome]


@pytest.fixture
def told(cli: Cli, tmp_path: Path) -> Cli:
    """A memory in which two residences contradict each other."""
    with quick_memory(tmp_path / "memory") as memory:
        for time, text, value in (
            ("2026-01-01T00:00:00Z", "I live in Lyon.", "Lyon"),
            ("2026-02-01T00:00:00Z", "I moved to Oslo.", "Oslo"),
            ("2026-03-01T00:00:00Z", "I live in Rome.", "Rome"),
        ):
            turn = memory.add(text, time=time, namespace="default", wait=False)["results"][0]["id"]
            memory.claim("user", "residence", value, turn, namespace="default")
    return cli


def payload(outcome: Outcome) -> Any:
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_a_state_is_shown_as_of_now_and_as_of_a_day(told: Cli) -> None:
    now = payload(told("state", "user", "residence", "-n", "default", "--json"))
    assert [v["value"] for v in now["values"]] == ["Oslo"]
    assert [v["value"] for v in now["pending"]] == ["Rome"]
    then = payload(told("state", "user", "residence", "--as-of", "2026-01-15", "-n", "default", "--json"))
    assert [v["value"] for v in then["values"]] == ["Lyon"]
    table = told("state", "user", "-n", "default")
    assert table.code == 0 and "Oslo" in table.out and "Rome" in table.out


def test_a_history_lists_all_versions(told: Cli) -> None:
    found = payload(told("state-history", "user", "residence", "-n", "default", "--json"))
    assert [(v["value"], v["status"]) for v in found["results"]] == [
        ("Lyon", "superseded"),
        ("Oslo", "current"),
        ("Rome", "pending"),
    ]


def test_a_conflict_is_listed_and_resolved_by_hand(told: Cli) -> None:
    (conflict,) = payload(told("conflicts", "-n", "default", "--json"))["results"]
    assert (conflict["value"], conflict["fact"]["value"]) == ("Rome", "Oslo")
    refused = told("resolve", conflict["id"], "perhaps", "-n", "default")
    assert refused.code and "accept" in refused.err
    assert payload(told("resolve", conflict["id"], "Rome", "-n", "default", "--json"))["status"] == "current"
    assert payload(told("conflicts", "-n", "default", "--json")) == {"results": []}
    assert "no conflicts" in told("conflicts", "-n", "default").out
