"""A prompt longer than the context: what can be spared is left out, else the error names the setting."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import assert_sound, make_memory, state_of

from intentmem.memory.errors import ModelContextError
from intentmem.serving import open_memory
from intentmem.serving.llm import ChoiceRequest, JsonRequest, LLMClient, TextRequest
from intentmem.serving.llm.answer import answer

from .fake_model import FakeClient
from .stand_in import Raw, StandIn, as_json, failure, said, scored

Connect = Callable[..., LLMClient]
LINES = tuple(f"- line {number}" for number in range(8))
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "\n".join([*LINES, "The turn"])}]
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": False}
TOO_LONG = "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens."


def fits(characters: int, reply: Raw, room: int = 10_000) -> Callable[[Any], Raw]:
    """A server whose context holds prompts of so many characters, and replies of so many tokens."""

    def answer(body: Any) -> Raw:
        size = sum(len(message["content"]) for message in body["messages"])
        return reply if size <= characters and body["max_tokens"] <= room else failure(400, TOO_LONG)

    return answer


def test_the_oldest_lines_are_left_out_first_at_no_cost_of_attempts(server: StandIn, connect: Connect) -> None:
    server.says(fits(50, as_json({"x": "y"})))
    client = connect(max_retries=0)
    assert client.structured([JsonRequest(ASKED, SCHEMA, spare=LINES)]) == [{"x": "y"}]
    sent = [body["messages"][-1]["content"].split("\n") for body in server.bodies]
    assert [len(lines) for lines in sent] == [9, 5, 3]
    assert sent[-1] == ["- line 6", "- line 7", "The turn"]


def test_a_choice_is_shortened_too_and_stays_a_choice(server: StandIn, connect: Connect) -> None:
    server.says(fits(70, scored("B", {"A": -3.0, "B": -0.1})))
    (found,) = connect(max_retries=0).choose([ChoiceRequest(ASKED, ("x", "y"), spare=LINES)])
    assert not isinstance(found, Exception) and found.measured and found.probabilities[1] > 0.9


def test_without_lines_to_spare_the_reply_gets_less_room(server: StandIn, connect: Connect) -> None:
    server.says(fits(1000, as_json({"x": "y"}), room=200))
    assert connect(max_retries=0).structured([JsonRequest(ASKED, SCHEMA, max_tokens=512)]) == [{"x": "y"}]
    assert [body["max_tokens"] for body in server.bodies] == [512, 256, 128]


@pytest.mark.parametrize("status", [400, 413])
def test_where_nothing_is_left_the_error_names_the_setting(server: StandIn, connect: Connect, status: int) -> None:
    server.says(failure(status, TOO_LONG))
    client = connect(max_retries=3)
    (found,) = client.structured([JsonRequest(ASKED, SCHEMA, max_tokens=256, spare=LINES)])
    assert isinstance(found, ModelContextError)
    assert "server.context_tokens" in str(found) and "5000 input tokens" in str(found)
    assert len(server.bodies) == 1 + 4 + 2, "eight lines are halved four times, the room twice"
    with pytest.raises(ModelContextError, match=r"llm\.context_tokens"):
        client.text(TextRequest(ASKED, 64))
    with pytest.raises(ModelContextError, match=r"llm\.context_tokens"):
        list(client.stream(TextRequest(ASKED, 64)))


def test_another_refusal_is_not_taken_for_length(server: StandIn, connect: Connect) -> None:
    server.says(failure(400, "unknown field guided_json"))
    (found,) = connect(max_retries=0).structured([JsonRequest(ASKED, SCHEMA, spare=LINES)])
    assert isinstance(found, Exception) and not isinstance(found, ModelContextError) and len(server.bodies) == 1


def test_turns_are_labelled_where_the_turns_before_do_not_fit(server: StandIn, folder: Path) -> None:
    limits = {"structured": 4200, "choice": 1900}

    def narrow(body: Any) -> Raw:
        kind = "choice" if "structured_outputs" in body else "structured"
        if sum(len(message["content"]) for message in body["messages"]) > limits[kind]:
            return failure(400, TOO_LONG)
        if kind == "choice":
            return scored("A", {"A": -0.1, "B": -2.5})
        properties = body["response_format"]["json_schema"]["schema"]["properties"]
        return as_json({name: made_up(part) for name, part in properties.items()})

    server.says(narrow)
    llm = {"base_url": server.url, "max_retries": 0}
    talk = [{"role": "user", "content": f"Day {n} in Porto has a walk along the river. " * 5} for n in range(16)]
    with open_memory(folder, embedder="hash", decider="llm", writer="llm", llm=llm) as memory:
        result = memory.add(talk, namespace="n")
        assert result["status"] == "done", result["warnings"]
        assert_sound(memory, "n")
        refused = sum(int(row["calls"]) for row in state_of(memory, "n")["usage"]) - 2 * len(talk)
        assert refused > 0, "some prompts were too long at first"


def made_up(part: dict[str, Any]) -> Any:
    return [] if part["type"] == "array" else part.get("enum", ["Porto"])[0]


def test_the_context_of_an_answer_fits_the_model(folder: Path) -> None:
    with make_memory(folder) as memory:
        memory.add([{"role": "user", "content": f"Hotel {n} costs {n} euros. " * 20} for n in range(60)], namespace="n")
        client = FakeClient(answer={"answered": False, "claims": []})
        answer(memory, client, "What does hotel 7 cost?", namespace="n", budget=4096)
        whole = len(client.prompt())
        client.context_tokens = 4096
        found = answer(memory, client, "What does hotel 7 cost?", namespace="n", budget=4096)
        assert len(client.prompt()) < 0.8 * whole and found.context
        assert len(json.dumps([dict(m) for m in client.asked[-1].messages])) / 3 < 4096 - 768


def test_a_context_that_is_said_to_be_long_is_left_alone(server: StandIn, connect: Connect) -> None:
    server.says(said('{"x": "y"}'))
    connect().structured([JsonRequest(ASKED, SCHEMA, spare=LINES)])
    assert len(server.bodies) == 1 and server.bodies[0]["messages"][-1] == ASKED[-1]
