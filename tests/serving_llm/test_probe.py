import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from intentmem.memory.errors import ModelError
from intentmem.serving.cli import main
from intentmem.serving.llm import ChoiceRequest, JsonRequest, LLMClient

from .stand_in import MODEL, Raw, StandIn, as_json, failure, said, scored

Connect = Callable[..., LLMClient]
ASK = [{"role": "user", "content": "Hello"}]


def obedient(body: dict[str, Any]) -> Raw:
    """As a server with constrained decoding answers: whatever the schema forces."""
    if "logprobs" in body:
        return scored("A", {"A": -0.1, "B": -2.5})
    schema = body["response_format"]["json_schema"]["schema"]
    return as_json({name: rules["enum"][0] for name, rules in schema["properties"].items()})


def test_the_probe_tells_what_the_server_does(server: StandIn, connect: Connect) -> None:
    rows = [{"id": MODEL, "max_model_len": 2048}, {"id": "scopes", "parent": MODEL}]
    server.on["/v1/models"] = Raw(json.dumps({"data": rows}).encode())
    server.says(obedient)
    client = connect()
    found = client.probe()
    assert (found.model, found.models, found.lora) == (MODEL, (MODEL,), ("scopes",))
    assert found.max_model_len == client.context_tokens == 2048
    assert found.structured_output and found.thinking_with_schema and found.logprobs and found.tokenize


def test_a17_the_probe_tries_the_combination_that_every_call_uses(server: StandIn, connect: Connect) -> None:
    def broken(body: dict[str, Any]) -> Raw:
        return said('{"word": ') if "chat_template_kwargs" in body and "logprobs" not in body else obedient(body)

    server.says(broken)
    client = connect()
    found = client.probe()
    probing = server.bodies[0]
    assert found.structured_output and not found.thinking_with_schema
    schema = {"type": "object", "properties": {"x": {"enum": ["y"]}}, "required": ["x"]}
    assert client.structured([JsonRequest(ASK, schema)]) == [{"x": "y"}]
    assert "chat_template_kwargs" not in server.bodies[-1]
    assert set(probing) == set(server.bodies[-1]) | {"chat_template_kwargs"}
    assert probing["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_server_that_ignores_the_schema_is_found_out(server: StandIn, connect: Connect) -> None:
    server.on["/tokenize"] = failure(404)
    server.says(said("Good morning!"))
    client = connect()
    found = client.probe()
    assert not (found.structured_output or found.logprobs or found.tokenize)
    assert client.count_tokens(["four words are here"])[1] is False
    server.says(as_json({"choice": "B"}))
    client.choose([ChoiceRequest(ASK, ("x", "y"))])
    assert "response_format" in server.bodies[-1], "log-probabilities are not asked for again"


def test_a_server_that_refuses_the_key_fails_the_probe(server: StandIn, connect: Connect) -> None:
    server.says(failure(401, "wrong key"))
    with pytest.raises(ModelError, match="wrong key"):
        connect().probe()


def test_tokens_are_counted_by_the_server(server: StandIn, connect: Connect) -> None:
    assert connect().count_tokens(["one two", "", "three"]) == ([2, 0, 1], True)
    server.on["/tokenize"] = Raw(b'{"count": "many"}')
    counts, exact = connect().count_tokens(["one two"])
    assert counts[0] > 0 and not exact


def test_the_first_listed_model_is_taken(server: StandIn, connect: Connect) -> None:
    assert connect().name == f"llm:{MODEL}"
    assert connect(model="other").name == "llm:other"
    server.on["/v1/models"] = Raw(b'{"data": []}')
    with pytest.raises(ModelError, match="serves no model"):
        _ = connect().name


Doctor = Callable[[], tuple[int, dict[str, Any]]]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """The doctor over an empty memory: its exit code, and its checks by name."""

    def visit() -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["intentmem", "doctor", "--json"])
        with pytest.raises(SystemExit) as stop:
            main()
            raise SystemExit(0)
        checks = json.loads(capsys.readouterr().out)["checks"]
        return int(stop.value.code or 0), {check["name"]: check for check in checks}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTENTMEM_STORE__PATH", str(tmp_path / "memory"))
    monkeypatch.setenv("INTENTMEM_EMBEDDER__PROFILE", "hash")
    return visit


def test_a21_the_doctor_prints_what_the_probe_found(
    server: StandIn, monkeypatch: pytest.MonkeyPatch, doctor: Doctor
) -> None:
    assert "model" not in doctor()[1]
    monkeypatch.setenv("INTENTMEM_LLM__BASE_URL", server.url)
    server.says(obedient)
    code, checks = doctor()
    assert code == 0 and checks["model"]["ok"]
    assert f"{MODEL} at {server.url}: context 4096 tokens; JSON schema yes" in checks["model"]["detail"]
    server.says(said("Good morning!"))
    code, checks = doctor()
    assert code != 0 and not checks["model"]["ok"] and checks["model"]["remedy"]


def test_l07_the_doctor_says_that_a_server_was_started_without_adapters_at_run_time(
    server: StandIn, monkeypatch: pytest.MonkeyPatch, doctor: Doctor
) -> None:
    monkeypatch.setenv("INTENTMEM_LLM__BASE_URL", server.url)
    server.says(obedient)
    code, checks = doctor()
    assert code == 0 and "adapters" not in checks, "nobody wants any"

    monkeypatch.setenv("INTENTMEM_SERVER__RUNTIME_ADAPTERS", "true")
    code, checks = doctor()
    assert code != 0 and not checks["adapters"]["ok"]
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True" in checks["adapters"]["remedy"]
    for lacks_a_name in (failure(400), failure(422)):
        server.on["/v1/load_lora_adapter"] = lacks_a_name
        code, checks = doctor()
        assert code == 0 and checks["adapters"]["ok"]
    assert [one.body for one in server.requests if one.path == "/v1/load_lora_adapter"] == [{}] * 3, "loads nothing"
    server.on["/v1/load_lora_adapter"] = failure(500)
    assert not doctor()[1]["adapters"]["ok"]
