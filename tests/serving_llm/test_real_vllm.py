"""The whole job over a real vLLM on the CPU, started by us, killed in the middle of a write, and started again.

`make vllm-env` makes its environment and model. A model this small follows a schema and labels poorly: it is tested
that everything arrives, never what is said.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import assert_sound, state_of

from intentmem.serving import open_memory
from intentmem.serving.compose import make_client, settings_for
from intentmem.serving.llm import ServerSettings, VllmServer
from intentmem.serving.llm.answer import answer

from .vllm_setup import MODEL, PYTHON

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists() or not list(MODEL.glob("*.safetensors")), reason="no vLLM here: make vllm-env"
    ),
]

TALK = [
    "I want to plan a trip to Porto in May.",
    "The Casa do Cais is a good hotel.",
    "What does it cost?",
    "It costs 134 euros a night.",
    "Is breakfast part of it?",
    "Breakfast is 12 euros more.",
    "How long does focaccia dough rise?",
    "Two hours in a warm oven.",
    "I will bake it on Sunday.",
    "Use a lot of olive oil.",
    "Please book the hotel in Porto.",
    "It is booked for day 1.",
]
MORE = ["The train to Porto leaves at nine.", "I need a seat by the window.", "Seat 41 is yours."]


def messages(texts: list[str], hour: int) -> list[dict[str, str]]:
    return [
        {"role": "user" if at % 2 == 0 else "assistant", "content": text, "time": f"2026-03-02T{hour:02}:{at:02}:00Z"}
        for at, text in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    logs = tmp_path_factory.mktemp("vllm")
    with VllmServer(ServerSettings(model=str(MODEL), python=PYTHON, port=port, profile="cpu", logs=logs)) as made:
        yield made


def options(server: VllmServer, folder: Path, retries: int = 2) -> dict[str, Any]:
    # A busy machine serves few tokens a second.
    llm = {"base_url": server.base_url, "max_retries": retries, "structured_seconds": 1200, "choice_seconds": 600}
    return {"store": {"path": folder}, "embedder": "hash", "decider": "llm", "writer": "llm", "llm": llm}


def test_the_probe_finds_what_we_rely_on(server: VllmServer, folder: Path) -> None:
    assert server.models() == ["smollm2"]
    with make_client(settings_for(None, options(server, folder))) as client:
        found = client.probe()
    assert found.structured_output and found.thinking_with_schema and found.logprobs and found.tokenize
    assert found.max_model_len == 4096


def test_turns_are_labelled_found_and_answered_from_and_outlive_a_kill(server: VllmServer, folder: Path) -> None:
    given = options(server, folder)
    with open_memory(**given) as memory:
        result = memory.add(messages(TALK, 9), namespace="n")
        assert result["status"] == "done", result["warnings"]
        assert_sound(memory, "n")
        found = memory.search("What does the hotel cost?", namespace="n")
        assert found["results"] and found["usage"]["llm_calls"] > 0
        with make_client(settings_for(None, given)) as client:
            said = answer(memory, client, "What does the hotel cost?", namespace="n")
        assert said.abstained or said.claims
    killed_in_the_middle(server, folder)
    with open_memory(**options(server, folder, retries=0)) as memory:
        assert memory.search("seat by the window", namespace="n", recipe="lexical")["results"]
        assert set(state_of(memory, "n")["operations"]) & {"failed", "pending"}
    server.start()
    with open_memory(**given) as memory:
        assert memory.process("n", retry_failed=True) == len(MORE)
        assert_sound(memory, "n")


def killed_in_the_middle(server: VllmServer, folder: Path) -> None:
    with open_memory(**options(server, folder, retries=0)) as memory:
        results: list[dict[str, Any]] = []
        writing = threading.Thread(target=lambda: results.append(memory.add(messages(MORE, 12), namespace="n")))
        writing.start()
        time.sleep(1.5)
        assert writing.is_alive() and server.pid is not None
        os.killpg(server.pid, signal.SIGKILL)
        writing.join(120)
        assert results and results[0]["status"] == "failed"
        assert len(results[0]["results"]) == len(MORE)
