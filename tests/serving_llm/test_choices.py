import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.memory.errors import InputError, ModelOutputError, ModelRefusedError
from intentmem.serving.llm import Choice, ChoiceRequest, LLMClient, lettered
from intentmem.serving.llm.parsing import NoScores, read_reply, read_scores

from .stand_in import Raw, StandIn, as_json, failure, said, scored

Connect = Callable[..., LLMClient]
ASK = [{"role": "user", "content": f"Which?\n{lettered(['trip', 'bread', 'none'])}"}]


def choose(client: LLMClient) -> Any:
    (found,) = client.choose([ChoiceRequest(ASK, ("trip", "bread", "none"), "scope")])
    return found


def test_a_choice_is_one_constrained_token_with_its_probabilities(server: StandIn, connect: Connect) -> None:
    server.says(scored("B", {"B": math.log(0.6), "A": math.log(0.3), "C": math.log(0.1)}))
    found = choose(connect())
    assert found.probabilities == pytest.approx((0.3, 0.6, 0.1)) and found.measured
    assert (found.usage.calls, found.usage.prompt_tokens, found.usage.completion_tokens) == (1, 11, 7)
    body = server.bodies[0]
    assert body["max_tokens"] == 1 and body["logprobs"] is True and body["top_logprobs"] == 20
    assert body["structured_outputs"] == {"choice": ["A", "B", "C"]} and "response_format" not in body


def test_an_option_that_is_not_listed_gets_little(server: StandIn, connect: Connect) -> None:
    server.says(scored("A", {"A": math.log(0.9), " A": math.log(0.04), "The": math.log(0.05)}))
    found = choose(connect()).probabilities
    assert found[0] > 0.98 and found[1] == found[2] > 0 and sum(found) == pytest.approx(1)


def test_a_server_without_log_probabilities_is_asked_for_json_from_then_on(server: StandIn, connect: Connect) -> None:
    server.says(said("B"), as_json({"choice": "B"}))
    client = connect()
    expected = (0.0, 1.0, 0.0)
    first, second = choose(client), choose(client)
    assert first.probabilities == second.probabilities == expected and not first.measured
    assert first.usage.calls == 2 and second.usage.calls == 1
    schema = server.bodies[1]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["choice"]["enum"] == ["A", "B", "C"]


def test_a_server_that_refuses_the_fields_is_asked_for_json(server: StandIn, connect: Connect) -> None:
    def picky(body: dict[str, Any]) -> Raw:
        return failure(400, "logprobs are not supported") if "logprobs" in body else as_json({"choice": "C"})

    server.says(picky)
    client = connect()
    assert [choose(client).probabilities for _ in range(2)] == [(0.0, 0.0, 1.0)] * 2
    assert len(server.bodies) == 3


def test_a_prompt_that_is_too_long_does_not_look_like_a_missing_ability(server: StandIn, connect: Connect) -> None:
    server.says(failure(400, "This model's maximum context length is 4096 tokens"))
    client = connect()
    assert isinstance(choose(client), ModelRefusedError)
    server.says(scored("A", {"A": -0.1}))
    assert choose(client).measured


def test_a_token_that_is_no_letter_is_asked_again_as_json(server: StandIn, connect: Connect) -> None:
    server.says(scored("The", {"The": -0.1}), as_json({"choice": "A"}))
    assert choose(connect()).probabilities == (1.0, 0.0, 0.0)
    server.says(scored("The", {"The": -0.1}), said("A"))
    assert isinstance(choose(connect()), ModelOutputError)


def test_many_choices_come_back_in_order(server: StandIn, connect: Connect) -> None:
    def answer(body: dict[str, Any]) -> Raw:
        letter = body["messages"][0]["content"]
        return scored(letter, {letter: -0.01})

    server.says(answer)
    asked = [ChoiceRequest([{"role": "user", "content": "ABC"[i % 3]}], ("x", "y", "z")) for i in range(30)]
    found = connect(max_concurrency=4).choose(asked)
    chosen = [one.probabilities.index(max(one.probabilities)) for one in found if isinstance(one, Choice)]
    assert chosen == [i % 3 for i in range(30)] and server.peak <= 4


def test_one_option_needs_no_call_and_too_many_are_refused(server: StandIn, connect: Connect) -> None:
    assert connect().choose([ChoiceRequest(ASK, ("only",))])[0].probabilities == (1.0,)  # type: ignore[union-attr]
    assert not server.bodies
    for options in ((), tuple(map(str, range(27)))):
        with pytest.raises(InputError, match="options"):
            ChoiceRequest(ASK, options)


@given(st.dictionaries(st.sampled_from(["A", " B", "B", "C", "The", ""]), st.floats(-9999, 0), min_size=1))
def test_any_log_probabilities_give_a_distribution_or_none(top: dict[str, float]) -> None:
    token = next(iter(top))
    listed = [{"token": name, "logprob": value} for name, value in top.items()]
    logprobs = {"content": [{"token": token, "logprob": top[token], "top_logprobs": listed}]}
    reply = read_reply({"choices": [{"message": {"content": token}, "logprobs": logprobs}]})
    try:
        found = read_scores(reply, 3)
    except NoScores:
        return
    assert len(found) == 3 and min(found) >= 0 and sum(found) == pytest.approx(1)
