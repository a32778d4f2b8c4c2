import json
from collections.abc import Callable
from pathlib import Path

import pytest
from serving_llm.fake_model import FakeClient

from .conftest import Outcome

Cli = Callable[..., Outcome]
CLAIM = {"text": "It costs 134 euros a night.", "turns": ["T1"]}


def test_without_a_model_the_command_names_the_setting_and_what_works(cli: Cli) -> None:
    refused = cli("answer", "What does it cost?")
    assert refused.code == 2
    assert all(word in refused.err for word in ("llm.base_url", "INTENTMEM_LLM__BASE_URL", "search", "context"))


def test_the_command_streams_and_prints_json(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from intentmem.serving import compose

    class Closing(FakeClient):
        def __enter__(self) -> "Closing":
            return self

        def __exit__(self, *error: object) -> None:
            return None

    client = Closing(answer={"answered": True, "claims": [CLAIM]})
    client.pieces = ["It costs 134 ", "euros a night. [T1]"]
    monkeypatch.setattr(compose, "make_client", lambda settings: client)
    chat = tmp_path / "chat.txt"
    chat.write_text("[2026-03-02 09:00] assistant: The Casa do Cais costs 134 euros a night.\n")
    assert cli("ingest", chat).code == 0
    printed = cli("answer", "What does the Casa do Cais cost?")
    assert printed.code == 0 and "134 euros a night. [T1]" in printed.out and "turn_" in printed.out
    found = json.loads(cli("answer", "What does the Casa do Cais cost?", "--json").out)
    assert found["text"] == "It costs 134 euros a night." and not found["abstained"]
    assert found["answerable"] == "covered"
