"""What `bench llm` reports, over a scripted server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving_llm.stand_in import MODEL, Raw, StandIn, as_json, failure, said, scored
from typer.testing import CliRunner

from intentmem.memory.memory import Memory
from intentmem.serving.bench.commands import app
from intentmem.serving.bench.metrics import exact_matching, rand_index
from intentmem.serving.bench.report import read_report

RUNNER = CliRunner()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    made = StandIn()
    monkeypatch.setenv("INTENTMEM_LLM__BASE_URL", made.url)
    monkeypatch.setenv("INTENTMEM_LLM__BACKOFF_SECONDS", "0.01")
    yield made
    made.close()


def reply(body: Any) -> Raw:
    """The first letter, or an object of the schema asked for."""
    if "structured_outputs" in body:
        letters = body["structured_outputs"]["choice"]
        return scored("A", {letter: -float(at + 0.1) for at, letter in enumerate(letters)})
    return as_json({name: made_up(part) for name, part in schema_of(body)["properties"].items()})


def schema_of(body: Any) -> Any:
    return body["response_format"]["json_schema"]["schema"]


def made_up(part: dict[str, Any]) -> Any:
    if part["type"] == "array":
        return []
    return True if part["type"] == "boolean" else part.get("enum", ["kayak"])[0]


def figures(path: Path, group: str) -> dict[tuple[str, str], float]:
    return {(row.subject, row.metric): row.value for row in read_report(path).rows if row.group == group}


def test_a_task_is_reported_with_its_calls_tokens_and_faults(server: StandIn, persona: Path, tmp_path: Path) -> None:
    spoiled = [1]

    def once_in_prose(body: Any) -> Raw:
        if "response_format" in body and spoiled:
            spoiled.clear()
            return said("Sure, here it is!")
        return reply(body)

    server.says(once_in_prose)
    out = tmp_path / "out.json"
    options = ["--corpus", "realmem", "--data", str(persona), "--profile", "hash", "--turns", "12", "--questions", "1"]
    done = RUNNER.invoke(app, ["llm", *options, "--json", str(out)])
    assert done.exit_code == 0, done.output
    tasks = figures(out, "write path")
    assert tasks["annotate", "calls"] == 13 and tasks["annotate", "schema_failures"] == 1
    assert tasks["scope", "calls"] <= 12 and tasks["scope", "prompt_tokens"] == 11 * tasks["scope", "calls"]
    whole = figures(out, "a turn")
    assert whole["all", "calls_per_turn_without_episodes"] <= 2 + 1 / 12
    calls = sum(value for (_, metric), value in tasks.items() if metric == "calls")
    assert whole["all", "calls_per_turn"] == pytest.approx(calls / 12)
    assert figures(out, "read path")["answer", "calls"] == 1
    report = read_report(out)
    assert report.header["benchmark"] == "llm" and report.header["model"] == f"llm:{MODEL}"
    assert server.url not in json.dumps(report.to_dict()), "an address may be private"


def test_turns_are_added_a_session_at_a_time_or_all_in_one_call(
    server: StandIn, persona: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.says(reply)
    added: list[int] = []
    plain = Memory.add

    def counted(self: Memory, messages: Any, **options: Any) -> Any:
        added.append(len(messages))
        return plain(self, messages, **options)

    monkeypatch.setattr(Memory, "add", counted)
    options = ["--corpus", "realmem", "--data", str(persona), "--profile", "hash", "--turns", "12"]
    for flags in ([], ["--at-once"]):
        added.clear()
        done = RUNNER.invoke(app, ["llm", *options, *flags, "--json", str(tmp_path / "out.json")])
        assert done.exit_code == 0, done.output
        served = added[: len(added) // 2] if not flags else added[:1]
        assert sum(served) == 12 and (len(served) == 1) == bool(flags)
    assert read_report(tmp_path / "out.json").header["configuration"]["at_once"] is True


def test_scopes_are_compared_with_gold_at_user_turns_and_with_the_rules(
    server: StandIn, persona: Path, tmp_path: Path
) -> None:
    server.says(reply)
    out = tmp_path / "out.json"
    options = ["--corpus", "realmem", "--data", str(persona), "--profile", "hash", "--turns", "12"]
    assert RUNNER.invoke(app, ["llm", *options, "--json", str(out)]).exit_code == 0
    scopes = figures(out, "scopes at user turns")
    for subject in (f"llm:{MODEL}", "baseline: rules", "baseline: one scope"):
        assert 0 < scopes[subject, "exact"] <= 1 and -1 <= scopes[subject, "ARI"] <= 1
    assert {row.n for row in read_report(out).rows if row.group == "scopes at user turns"} == {6}
    assert scopes[f"llm:{MODEL}", "scopes"] == 1, "the model always chose the first of them"


def test_what_failed_is_told_and_not_scored(server: StandIn, persona: Path, tmp_path: Path) -> None:
    server.says(failure(400, "no such luck"))
    out = tmp_path / "out.json"
    options = ["--corpus", "realmem", "--data", str(persona), "--profile", "hash", "--turns", "4"]
    done = RUNNER.invoke(app, ["llm", *options, "--json", str(out)])
    assert done.exit_code == 0 and "FAILED, not scored: ingest 4 times" in " ".join(done.output.split())
    assert not [name for name, _ in figures(out, "scopes at user turns") if name.startswith("llm")]


def test_no_model_and_no_such_conversation_are_one_line(
    persona: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["llm", "--corpus", "realmem", "--data", str(persona), "--profile", "hash"]
    done = RUNNER.invoke(app, options)
    assert done.exit_code == 2 and "llm.base_url" in done.output
    monkeypatch.setenv("INTENTMEM_LLM__BASE_URL", "http://127.0.0.1:9/v1")
    done = RUNNER.invoke(app, [*options, "--trajectory", "Sam"])
    assert done.exit_code == 2 and "known: Pat" in done.output


def test_groups_are_matched_one_to_one() -> None:
    gold = ["a", "a", "b", "b", "c", "c"]
    assert (
        exact_matching(["x", "x", "y", "y", "z", "z"], gold) == 1.0 == rand_index(["x", "x", "y", "y", "z", "z"], gold)
    )
    assert exact_matching(["x"] * 6, gold) == pytest.approx(2 / 6) and rand_index(["x"] * 6, gold) == 0.0
    assert exact_matching(["x", "y", "x", "y", "x", "y"], gold) == pytest.approx(2 / 6)
    with pytest.raises(ValueError, match="nothing"):
        exact_matching([], [])
