"""The whole job over a real vLLM on the CPU, started by us, killed in the middle of a write, and started again.

`make vllm-env` makes its environment and model. A model this small follows a schema and labels poorly: it is tested
that everything arrives, never what is said.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support import assert_sound, state_of

from intentmem.memory.errors import ModelContextError
from intentmem.memory.memory import Memory
from intentmem.memory.tasks import TASKS, Candidates, Item, Task
from intentmem.serving import open_memory
from intentmem.serving.compose import make_client, settings_for
from intentmem.serving.llm import JsonRequest, LLMClient, ServerSettings, VllmServer, episodes
from intentmem.serving.llm.answer import answer
from intentmem.serving.llm.wiring import model_parts

from .vllm_setup import MODEL, PYTHON, lacking

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(lacking() is not None, reason=f"no vLLM here: {lacking()}"),
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
NOW = datetime(2026, 3, 5, 12, 0, tzinfo=UTC)


def messages(texts: Sequence[str], hour: int) -> list[dict[str, str]]:
    return [
        {
            "role": "user" if at % 2 == 0 else "assistant",
            "content": text,
            "time": f"2026-03-02T{hour:02}:{at:02}:00Z",
            # A short first sitting: its end closes an episode, which the model then reads.
            "session": f"{hour}/{min(at // 2, 1)}",
        }
        for at, text in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    logs = tmp_path_factory.mktemp("vllm")
    given: dict[str, Any] = {"model": str(MODEL), "python": PYTHON, "port": port, "profile": "cpu", "kv_cache_gib": 1}
    with VllmServer(ServerSettings(**given, logs=logs)) as made:
        yield made


def options(server: VllmServer, folder: Path, **more: Any) -> dict[str, Any]:
    # A busy machine serves few tokens a second.
    llm = {"base_url": server.base_url, "grammar_lengths": True, "structured_seconds": 1200, "choice_seconds": 600}
    return {"store": {"path": folder}, "embedder": "hash", "decider": "llm", "writer": "llm", "llm": {**llm, **more}}


@pytest.fixture(autouse=True)
def few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model this small fills every list that it may, at a few tokens a second."""
    monkeypatch.setattr(episodes, "MOST_RECORDS", 2)


@pytest.fixture
def client(server: VllmServer, folder: Path) -> Iterator[LLMClient]:
    with make_client(settings_for(None, options(server, folder))) as made:
        yield made


def test_the_probe_finds_what_we_rely_on(server: VllmServer, client: LLMClient) -> None:
    assert server.models() == ["smollm2"]
    found = client.probe()
    assert found.structured_output and found.thinking_with_schema and found.logprobs and found.tokenize
    assert found.max_model_len == 4096


def test_every_task_is_decided(client: LLMClient) -> None:
    decider = model_parts(client, None).decider
    assert decider is not None
    for task in TASKS.values():
        item = made_up(task)
        decision = task.check(item, decider.decide(task, [item])[0])
        assert decision.calls == max(1, len(task.groups)) and decision.decided_by == "llm:smollm2"
        for group in task.groups:
            assert sum(decision.probabilities[option.name] for option in group.options) == pytest.approx(1)


def test_every_text_is_written(client: LLMClient, memory: Memory) -> None:
    writer = model_parts(client, None).writer
    assert writer is not None
    memory.add(messages(TALK[:4], 9), namespace="n")
    turns = [memory.store.turns.get(1, row["id"]) for row in memory.list(namespace="n")["results"]]
    assert writer.name_scope(turns[0], ["focaccia"])
    assert isinstance(writer.name_label(turns[2], "event", ["inform"]), tuple)
    assert writer.sub_questions("Which hotel in Porto costs 134 euros, and is breakfast part of it?", NOW)
    assert isinstance(writer.probe("What does the hotel cost?", "its price", ["hotel"], [TALK[1]]), str)
    assert writer.summarise(turns[:2]) and isinstance(writer.records(turns[:2]), tuple)
    spent = client.totals.by_task()
    assert {"name_scope", "name_label", "read.questions", "read.probe", "episode"} <= set(spent)


def test_a_prompt_that_is_too_long_is_known_by_what_the_server_says(client: LLMClient) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "enum": [1, 2]}}, "required": ["n"]}
    long = " ".join(["Porto"] * 5000)
    asked = [{"role": "user", "content": f"{long}\nAnswer 1 or 2."}]
    refused, shortened = client.structured(
        [JsonRequest(asked, schema, 32), JsonRequest(asked, schema, 32, spare=(long,))]
    )
    assert isinstance(refused, ModelContextError) and shortened in ({"n": 1}, {"n": 2})


def test_turns_are_labelled_found_and_answered_from_and_outlive_a_kill(
    server: VllmServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(server, folder)
    with open_memory(**given) as memory:
        result = memory.add(messages(TALK, 9), namespace="n")
        assert result["status"] == "done", result["warnings"]
        assert_sound(memory, "n")
        usage = {str(row["task"]): int(row["calls"]) for row in state_of(memory, "n")["usage"] if row["calls"]}
        assert usage["annotate"] >= len(TALK) and usage["scope"] >= len(TALK) - 1 and usage["episode"] >= 1
        assert any(entry["summary"] for entry in memory.timeline(namespace="n")["results"] if not entry["open"])
        found = memory.search("What does the hotel cost?", namespace="n")
        assert found["results"] and found["usage"]["llm_calls"] > 0
        with make_client(settings_for(None, given)) as client:
            said = answer(memory, client, "What does the hotel cost?", namespace="n", budget=256)
        assert said.abstained or said.claims
    killed_in_the_middle(server, folder)
    with open_memory(**options(server, folder, max_retries=0)) as memory:
        assert memory.search("seat by the window", namespace="n", recipe="lexical")["results"]
        assert set(state_of(memory, "n")["operations"]) & {"failed", "pending"}
        assert state_of(memory, "n")["labelled"] == len(TALK)
    server.start()
    asked = annotated(monkeypatch)
    with open_memory(**given) as memory:
        assert memory.process("n", retry_failed=True) == len(MORE)
        assert_sound(memory, "n")
    assert [text for text in MORE if any(text in prompt for prompt in asked)] == MORE[1:], "the first was answered"


def killed_in_the_middle(server: VllmServer, folder: Path) -> None:
    """Write more turns, one call at a time, and kill the server when it has answered the first."""
    with open_memory(**options(server, folder, max_retries=0, max_concurrency=1)) as memory:
        results: list[Any] = []
        before = spent(memory)
        writing = threading.Thread(target=lambda: results.append(memory.add(messages(MORE, 12), namespace="n")))
        writing.start()
        while spent(memory) == before and writing.is_alive():
            time.sleep(0.02)
        assert server.pid is not None
        os.killpg(server.pid, signal.SIGKILL)
        writing.join(120)
        assert results and results[0]["status"] == "failed"
        assert len(results[0]["results"]) == len(MORE)


def spent(memory: Memory) -> int:
    """Tokens of the calls that were answered."""
    return sum(int(row["tokens"]) for row in state_of(memory, "n")["usage"])


def annotated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The turns that the server is asked to annotate from now on."""
    asked: list[str] = []
    plain = LLMClient.structured

    def watched(self: LLMClient, requests: Sequence[JsonRequest]) -> Any:
        prompts = [str(request.messages[-1]["content"]) for request in requests if request.task == "annotate"]
        asked.extend(prompt.rsplit("The turn:", 1)[-1] for prompt in prompts)
        return plain(self, requests)

    monkeypatch.setattr(LLMClient, "structured", watched)
    return asked


def made_up(task: Task) -> Item:
    """An item with something in every field, and three candidates where a task takes them."""
    texts = {True: ["A night at the hotel costs 134 euros.", "It is in Porto."], False: "What does the hotel cost?"}
    fields: dict[str, Any] = {spec.name: texts[spec.many] for spec in task.fields}
    if task.groups:
        return Item(fields)
    names = ("ask price", "book", "state fact")
    return Item(fields, Candidates(names, tuple(f"{name}: something about a {name}" for name in names)))
