import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support import make_memory


def test_records_lists_what_closed_episodes_say_and_close_adds_the_open_one(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    with make_memory(tmp_path / "memory") as memory:
        memory.add("I live in Berlin and I am allergic to peanuts.", namespace="default")

    def found(*options: str) -> list[dict[str, Any]]:
        outcome = cli("records", "-n", "default", "--json", *options)
        assert outcome.code == 0, outcome.err
        return list(json.loads(outcome.out)["results"])

    assert "no records" in cli("records", "-n", "default").out
    assert [(r["property"], r["value"]) for r in found("--close")] == [("residence", "Berlin"), ("allergy", "peanuts")]
    (one,) = found("--property", "allergies")
    assert one["value"] == "peanuts"
    assert "Berlin" in cli("records", "-n", "default", "--turn", one["evidence"][0]["turn_id"]).out
