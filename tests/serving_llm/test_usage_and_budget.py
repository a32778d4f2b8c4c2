"""What calls cost (group B), as far as the client is concerned."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from intentmem.memory.errors import BudgetExceededError, ModelUnavailableError
from intentmem.memory.memory import Memory
from intentmem.serving.llm import (
    Budget,
    ChoiceRequest,
    JsonRequest,
    LLMClient,
    LLMSettings,
    TextRequest,
    UsageEvent,
    durable_ledger,
)

from .stand_in import MODEL, Raw, StandIn, as_json, failure, said, scored, streamed

Connect = Callable[..., LLMClient]
ASK = [{"role": "user", "content": "Hello"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ONE = {"a": 1}


def requests(count: int, task: str = "scope") -> list[JsonRequest]:
    return [JsonRequest(ASK, SCHEMA, 16, task=task)] * count


def test_b02_calls_are_bounded_by_the_settings_and_run_side_by_side(server: StandIn, connect: Connect) -> None:
    server.says(said("prose", delay=0.02))
    client = connect(max_retries=1, max_concurrency=8)
    client.structured(requests(16))
    assert len(server.bodies) == client.totals.total().calls == 16 * 2
    assert 2 < server.peak <= 8


def test_b09_no_default_is_without_a_bound() -> None:
    settings = LLMSettings()
    bounds = ("max_retries", "max_concurrency", "max_backoff_seconds", "max_output_tokens", "background_tokens")
    assert all(0 < getattr(settings, name) < float("inf") for name in bounds)
    assert all(
        0 < settings.seconds(kind) < float("inf") for kind in ("choice", "structured", "text", "tokenize", "probe")
    )


def test_b03_answers_that_came_are_reported_before_the_batch_has_ended(server: StandIn, connect: Connect) -> None:
    """A batch that is interrupted has told of each call that was answered until then."""
    seen: list[UsageEvent] = []
    server.says(as_json(ONE))

    def interrupted(event: UsageEvent) -> None:
        seen.append(event)
        if len(seen) == 3:
            raise KeyboardInterrupt

    client = connect(max_concurrency=1)
    with client.charging(interrupted), pytest.raises(KeyboardInterrupt):
        client.structured(requests(500))
    assert len(seen) == 3 and len(server.bodies) < 400, "the rest was cancelled"
    assert client.structured(requests(1)) == [ONE], "and the client goes on"


def test_b06_each_call_is_reported_with_its_task_and_tokens(server: StandIn, connect: Connect) -> None:
    seen: list[UsageEvent] = []
    client = connect()
    with client.charging(seen.append):
        server.says(said("prose"), as_json(ONE))
        client.structured(requests(1, "property"))
        server.says(said("Hi."))
        client.text(TextRequest(ASK, task="answer"))
        server.says(streamed(["Hi", "."]))
        assert list(client.stream(TextRequest(ASK, task="stream"))) == ["Hi", "."]
    told = [(event.task, event.calls, event.prompt_tokens, event.completion_tokens) for event in seen]
    assert told == [("property", 1, 11, 7), ("property", 1, 11, 7), ("answer", 1, 11, 7), ("stream", 1, 11, 7)]
    assert all(event.seconds > 0 and not event.estimated for event in seen)
    assert client.totals.by_task()["property"].calls == 2 and client.totals.total().tokens == 72
    assert server.bodies[-1]["stream_options"] == {"include_usage": True}


def test_b06_usage_that_the_server_leaves_out_is_guessed_and_marked(server: StandIn, connect: Connect) -> None:
    seen: list[UsageEvent] = []
    client = connect(max_retries=0)
    with client.charging(seen.append):
        server.says(said("Hello there.", usage=False))
        client.text(TextRequest(ASK))
        server.says(streamed(["Hello there."], usage=False))
        list(client.stream(TextRequest(ASK)))
        server.says(failure(503))
        client.structured(requests(1))
    assert [(event.estimated, event.completion_tokens > 0) for event in seen] == [
        (True, True),
        (True, True),
        (False, False),
    ]
    assert [event.calls for event in seen] == [1, 1, 1]


def test_b07_background_work_pauses_at_its_budget_and_foreground_goes_on(
    server: StandIn, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    server.says(as_json(ONE))
    client = connect(background_tokens=50, max_concurrency=1)
    with caplog.at_level(logging.WARNING), client.charging(background=True):
        found = [client.structured(requests(1))[0] for _ in range(5)]
    assert [isinstance(one, BudgetExceededError) for one in found] == [False, False, False, True, True]
    assert len(server.bodies) == 3 and client.budget.used == 54
    assert len([line for line in caplog.messages if "background work pauses" in line]) == 1
    assert "llm.background_tokens" in str(found[-1])
    assert client.structured(requests(1)) == [ONE]
    assert client.budget.used == 54, "foreground work is not counted"
    client.budget.resume(1000)
    with client.charging(background=True):
        assert client.structured(requests(1)) == [ONE]


def test_b07_calls_in_flight_count_with_what_they_may_use(server: StandIn, connect: Connect) -> None:
    server.says(as_json(ONE, delay=0.05))
    client = connect(background_tokens=40)
    with client.charging(background=True):
        found = client.structured(requests(50))
    assert len(server.bodies) == 3, "16 tokens of room and 2 of prompt each"
    assert sum(isinstance(one, BudgetExceededError) for one in found) == 47


def test_b07_the_switch_stops_background_work_alone(server: StandIn, connect: Connect) -> None:
    server.says(as_json(ONE))
    client = connect()
    client.budget.stop()
    with client.charging(background=True):
        (refused,) = client.structured(requests(1))
        with pytest.raises(BudgetExceededError, match="stopped"):
            client.text(TextRequest(ASK))
    assert isinstance(refused, BudgetExceededError) and not server.bodies
    assert client.structured(requests(1)) == [ONE]


def test_b08_the_ledger_survives_a_restart_and_tells_background_work_apart(
    server: StandIn, connect: Connect, memory: Memory, reopened: Callable[[Memory], Memory]
) -> None:
    memory.add([{"role": "user", "content": "The greenhouse key lies under the can."}], namespace="n")
    ordinal = memory.store.namespaces.ordinal("n")
    server.says(as_json(ONE))
    client = connect()
    with client.charging(durable_ledger(memory.store, ordinal, "op-1", client.name)):
        client.structured(requests(2))
        with client.charging(background=True):
            client.structured(requests(1))
    again = reopened(memory)
    rows = [row for row in again.store.operations.usage(ordinal) if str(row["decider"]).startswith("llm:")]
    assert [(row["task"], row["decider"], row["calls"], row["tokens"]) for row in rows] == [
        ("scope", f"llm:{MODEL}", 2, 36),
        ("scope", f"llm:{MODEL}/background", 1, 18),
    ]
    assert again.store.operations.usage(ordinal, "op-1")


def test_each_thread_pays_for_its_own_calls(server: StandIn, connect: Connect) -> None:
    server.says(lambda body: as_json(ONE))
    client = connect()
    seen: dict[str, list[str]] = {name: [] for name in "abc"}

    def work(name: str) -> None:
        with client.charging(lambda event: seen[name].append(event.task)):
            client.structured(requests(5, name))

    threads = [threading.Thread(target=work, args=(name,)) for name in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {name: [name] * 5 for name in "abc"}


def test_a_budget_takes_up_what_was_used_before() -> None:
    assert not Budget(10, used=10).open and Budget(None, used=10**9).open and Budget(11, used=10).open


@pytest.mark.parametrize(
    ("reply", "shown", "problem"),
    [
        (streamed(["a", "b"], finish="length"), "ab", "length"),
        (streamed(["a", "b"], finish=None), "ab", "ended before"),
        (streamed([]), "", "empty"),
        (failure(400, "no"), "", "refuses"),
    ],
)
def test_a_stream_that_is_not_whole_is_an_error(
    server: StandIn, connect: Connect, reply: Raw, shown: str, problem: str
) -> None:
    server.says(reply)
    pieces: list[str] = []
    with pytest.raises(Exception, match=problem):
        pieces.extend(connect(max_retries=0).stream(TextRequest(ASK)))
    got: list[str] = []
    try:
        for piece in connect(max_retries=0).stream(TextRequest(ASK)):
            got.append(piece)
    except Exception:
        assert "".join(got) == shown


def test_a_stream_is_tried_again_only_while_nothing_was_shown(server: StandIn, connect: Connect) -> None:
    server.says(failure(503), streamed([]), streamed(["ok"]))
    assert list(connect().stream(TextRequest(ASK))) == ["ok"]
    server.says(streamed(["a"], finish=None), streamed(["ok"]))
    with pytest.raises(Exception, match="ended before"):
        list(connect().stream(TextRequest(ASK)))
    assert len(server.bodies) == 4


def test_a_stream_that_is_left_ends_its_call(server: StandIn, connect: Connect) -> None:
    server.says(streamed(["a"] * 100))
    client = connect(max_concurrency=1)
    for piece in client.stream(TextRequest(ASK)):
        assert piece == "a"
        break
    server.says(scored("A", {"A": -0.1}))
    assert client.choose([ChoiceRequest(ASK, ("x", "y"))])


def test_a_client_that_is_closed_ends_its_calls_with_an_error(server: StandIn, connect: Connect) -> None:
    server.says(as_json(ONE, delay=0.5))
    client = connect()
    closing = threading.Timer(0.1, client.close)
    closing.start()
    with pytest.raises(ModelUnavailableError, match="closed"):
        client.structured(requests(1))
    closing.join()


def test_background_work_stays_so_within(server: StandIn, connect: Connect) -> None:
    seen: list[UsageEvent] = []
    server.says(as_json(ONE))
    client = connect()
    with client.charging(background=True), client.charging(seen.append):
        client.structured(requests(1))
    assert [event.background for event in seen] == [True]


def test_a_client_works_again_after_it_was_closed(server: StandIn, connect: Connect, tmp_path: Path) -> None:
    server.says(as_json(ONE))
    client = connect()
    assert client.structured(requests(1)) == [ONE]
    client.close()
    client.close()
    assert client.structured(requests(1)) == [ONE]
