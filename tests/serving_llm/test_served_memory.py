"""The whole job over the real client and a server on the loopback."""

import json
from pathlib import Path
from typing import Any

import pytest
from support import assert_sound, state_of

from intentmem.serving import open_memory
from intentmem.serving.compose import make_client, settings_for
from intentmem.serving.llm.answer import answer

from .stand_in import MODEL, Raw, StandIn, as_json, failure, scored

SAID = [
    "I plan a trip to Porto.",
    "The Casa do Cais is by the river.",
    "What does it cost there?",
    "It costs 134 euros.",
]


def reply(body: Any) -> Raw:
    """A letter, or an object of the schema asked for."""
    if "structured_outputs" in body:
        letters = body["structured_outputs"]["choice"]
        return scored(letters[0], {letter: -float(at + 0.1) for at, letter in enumerate(letters)})
    schema = body["response_format"]["json_schema"]["schema"]
    return as_json({name: value(part) for name, part in schema["properties"].items()})


def value(part: dict[str, Any]) -> Any:
    kind = part["type"]
    if kind == "object":
        return {name: value(inner) for name, inner in part["properties"].items()}
    if kind == "array":
        return [value(part["items"])] if part["maxItems"] else []
    return True if kind == "boolean" else part.get("enum", ["It costs 134 euros by the river"])[0]


def options(server: StandIn, folder: Path) -> dict[str, Any]:
    llm = {"base_url": server.url, "backoff_seconds": 0.01, "max_retries": 0}
    return {"store": {"path": folder}, "embedder": "hash", "decider": "llm", "writer": "llm", "llm": llm}


def messages() -> list[dict[str, str]]:
    return [{"role": "user", "content": text, "session": f"s{at // 2}"} for at, text in enumerate(SAID)]


def test_every_call_is_in_the_ledger_and_within_the_bound(server: StandIn, folder: Path) -> None:
    server.says(reply)
    with open_memory(**options(server, folder)) as memory:
        result = memory.add(messages(), namespace="n")
        assert result["status"] == "done", result["warnings"]
        usage = [row for row in state_of(memory, "n")["usage"] if row["calls"]]
        closed = [entry for entry in memory.timeline(namespace="n")["results"] if not entry["open"]]
        assert {row["task"] for row in usage} <= {"annotate", "scope", "episode"}
        calls = sum(int(row["calls"]) for row in usage)
        assert calls == len(server.bodies) <= 2 * len(SAID) + len(closed)
        assert all(int(row["tokens"]) > 0 for row in usage) and MODEL in str(usage)
        assert_sound(memory, "n")


def test_a_server_that_comes_back_is_asked_for_the_rest(server: StandIn, folder: Path) -> None:
    left = [3]

    def failing(body: Any) -> Raw:
        left[0] -= 1
        return reply(body) if left[0] >= 0 else failure(503)

    server.says(failing)
    with open_memory(**options(server, folder)) as memory:
        result = memory.add(messages(), namespace="n")
        assert result["status"] == "failed" and memory.search("Porto", namespace="n")["results"]
    server.says(reply)
    asked = len(server.bodies)
    with open_memory(**options(server, folder)) as memory:
        assert memory.process("n") == len(SAID)
        annotations = [body for body in server.bodies[asked:] if "response_format" in body]
        assert len([b for b in annotations if "goal" in json.dumps(b["response_format"])]) == len(SAID) - 3
        assert_sound(memory, "n")


def test_an_answer_over_the_server_cites_and_is_counted(server: StandIn, folder: Path) -> None:
    server.says(reply)
    given = options(server, folder)
    with open_memory(**{**given, "decider": "baseline", "writer": "extractive"}) as memory:
        memory.add(messages(), namespace="n")
        assert server.bodies == [], "the default asks no model"
        with make_client(settings_for(None, given)) as client:
            found = answer(memory, client, "What does it cost?", namespace="n")
            assert found.claims and not found.abstained
            assert found.usage["llm_calls"] == 1 and found.usage["prompt_tokens"] > 0
        (spent,) = [row for row in state_of(memory, "n")["usage"] if row["task"] == "answer"]
        assert spent["calls"] == 1 and int(spent["tokens"]) > 0
    assert server.paths <= {"/v1/models", "/v1/chat/completions"}


def test_a_search_works_where_the_server_was_never_seen(folder: Path) -> None:
    dead = {"base_url": "http://127.0.0.1:9/v1", "max_retries": 0}
    with open_memory(folder, embedder="hash", decider="llm", writer="llm", llm=dead) as memory:
        assert memory.add("The hotel is by the river.", namespace="n")["status"] == "failed"
        assert memory.search("hotel", namespace="n")["results"]
        assert memory.context("hotel", namespace="n")["turns"]
    with open_memory(folder, embedder="hash") as memory:
        assert memory.process("n") == 1, "another decider finishes what the model could not"


@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_server_that_refuses_fails_the_operation_with_its_reason(server: StandIn, folder: Path, status: int) -> None:
    server.says(failure(status, "no such luck"))
    with open_memory(**options(server, folder)) as memory:
        result = memory.add(messages(), namespace="n")
        assert result["status"] == "failed" and "no such luck" in str(result["operation"])
        assert memory.search("Porto", namespace="n")["results"]
