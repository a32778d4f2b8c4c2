"""Cases of group A: what servers and small models do instead of what was asked."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from intentmem.memory.errors import (
    ModelError,
    ModelOutputError,
    ModelRefusedError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from intentmem.serving.llm import ChoiceRequest, JsonRequest, LLMClient, TextRequest

from .stand_in import MODEL, Raw, StandIn, as_json, failure, said, scored, streamed

Connect = Callable[..., LLMClient]
ASK = [{"role": "system", "content": "Label."}, {"role": "user", "content": "How much is the Casa do Cais?"}]
SCHEMA = {
    "type": "object",
    "properties": {"scope": {"type": "string", "enum": ["s1", "s2"]}, "facts": {"type": "array"}},
    "required": ["scope"],
    "additionalProperties": False,
}
GOOD = {"scope": "s2"}


def ask(client: LLMClient, **changed: Any) -> dict[str, Any] | ModelError:
    given = {"messages": ASK, "schema": SCHEMA, "max_tokens": 64, "task": "scope", **changed}
    (found,) = client.structured([JsonRequest(**given)])
    return found


def test_a01_the_schema_stands_on_every_structured_call(server: StandIn, connect: Connect) -> None:
    server.says(said("prose"), as_json(GOOD))
    assert ask(connect()) == GOOD
    assert len(server.bodies) == 2
    for body in server.bodies:
        assert body["response_format"]["type"] == "json_schema"
        assert body["response_format"]["json_schema"]["schema"] == SCHEMA
        assert body["max_tokens"] == 64 and body["chat_template_kwargs"] == {"enable_thinking": False}


def test_lengths_are_sent_where_the_setting_says_so(server: StandIn, connect: Connect) -> None:
    short = {**SCHEMA, "properties": {"text": {"type": "string", "maxLength": 5}}, "required": ["text"]}
    server.says(as_json({"text": "Porto"}))
    for lengths in (False, True):
        connect(grammar_lengths=lengths).structured([JsonRequest(ASK, short)])
    sent = [body["response_format"]["json_schema"]["schema"]["properties"]["text"] for body in server.bodies]
    assert sent == [{"type": "string"}, {"type": "string", "maxLength": 5}]


@pytest.mark.parametrize("raw", ["", "   \n", "I think it is about the hotel.", '{"scope": "s', "[[[[" * 3000, "NaN"])
def test_a02_what_is_no_json_is_fed_back_and_ends_in_a_typed_error(server: StandIn, connect: Connect, raw: str) -> None:
    server.says(said(raw))
    failed = ask(connect(max_retries=2))
    assert isinstance(failed, ModelOutputError)
    assert failed.model == MODEL and failed.raw == raw[:200] and len(failed.raw) <= 200
    assert MODEL in str(failed) and (not raw or repr(raw[:200]) in str(failed))
    assert len(server.bodies) == 3
    said_back, told = server.bodies[1]["messages"][-2:]
    assert server.bodies[1]["messages"][:2] == ASK
    assert said_back["role"] == "assistant" and said_back["content"]
    assert told["role"] == "user" and ("JSON" in told["content"] or "empty" in told["content"])


def test_a02_the_second_reply_is_taken_when_the_first_was_prose(server: StandIn, connect: Connect) -> None:
    server.says(said("Sure! Here you go"), as_json(GOOD))
    assert ask(connect()) == GOOD


def test_a03_nothing_to_extract_differs_from_a_failure(server: StandIn, connect: Connect) -> None:
    server.says(as_json({"scope": "s1", "facts": []}))
    assert ask(connect()) == {"scope": "s1", "facts": []}
    server.says(said(""))
    assert isinstance(ask(connect()), ModelOutputError)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_a04_text_in_the_field_for_reasoning_is_read(server: StandIn, connect: Connect, name: str) -> None:
    server.says(said(None, **{name: json.dumps(GOOD)}))
    assert ask(connect()) == GOOD
    server.says(said(None, **{name: "In Porto."}))
    assert connect().text(TextRequest(ASK)) == "In Porto."
    server.says(streamed(["In ", "Porto."], into=name))
    assert "".join(connect().stream(TextRequest(ASK))) == "In Porto."


def test_a04_thoughts_are_no_answer_where_thinking_is_left_on(server: StandIn, connect: Connect) -> None:
    server.says(said(None, reasoning_content="Let me see."))
    with pytest.raises(ModelOutputError):
        connect(thinking="server", max_retries=0).text(TextRequest(ASK))
    assert "chat_template_kwargs" not in server.bodies[0]


def test_a07_only_the_known_paths_are_requested(server: StandIn, connect: Connect) -> None:
    client = connect()
    server.says(as_json(GOOD))
    ask(client)
    client.text(TextRequest(ASK))
    client.count_tokens(["one two"])
    client.probe()
    server.says(streamed(["x"]))
    list(client.stream(TextRequest(ASK)))
    assert server.paths == {"/v1/chat/completions", "/v1/models", "/tokenize"}


@pytest.mark.parametrize(
    "wrong",
    [{"Zolon Farsane": -1.1}, {}, [], {"scope": ["s1"]}, "s1", 7, None, [GOOD, GOOD], {"scope": "s1", "more": 1}],
)
def test_a08_a_wrong_shape_is_a_failure(server: StandIn, connect: Connect, wrong: object) -> None:
    server.says(as_json(wrong))
    failed = ask(connect(max_retries=1))
    assert isinstance(failed, ModelOutputError) and "schema" in failed.problem
    assert len(server.bodies) == 2


def test_a08_the_schema_itself_is_no_answer(server: StandIn, connect: Connect) -> None:
    open_schema = {"type": "object", "properties": {"note": {"type": "string"}}}
    server.says(as_json(open_schema), as_json({"note": "x"}))
    assert ask(connect(), schema=open_schema) == {"note": "x"}
    assert "repeated the schema" in server.bodies[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "reply",
    [
        said("prose"),
        failure(500),
        failure(503),
        failure(400),
        Raw(b"<html>", kind="text/html"),
        Raw(b"{", kind="application/json"),
        Raw(b"{}"),
        Raw(b'{"choices": []}'),
        Raw(b'{"choices": [null]}'),
        Raw(b"", drop=True),
    ],
)
def test_a09_attempts_are_bounded_and_end_in_an_error(server: StandIn, connect: Connect, reply: Raw) -> None:
    server.says(reply)
    started = time.perf_counter()
    assert isinstance(ask(connect(max_retries=2)), ModelError)
    assert len(server.bodies) <= 3 and time.perf_counter() - started < 20


def test_a10_each_kind_of_call_ends_at_its_own_time_out(server: StandIn, connect: Connect) -> None:
    client = connect(choice_seconds=0.05, structured_seconds=0.1, text_seconds=0.15, max_retries=0)
    server.says(as_json(GOOD, delay=0.4))
    (choice,) = client.choose([ChoiceRequest(ASK, ("a", "b"))])
    structured = ask(client)
    assert isinstance(choice, ModelTimeoutError) and isinstance(structured, ModelTimeoutError)
    assert (choice.seconds, choice.setting) == (0.05, "llm.choice_seconds")
    assert (structured.seconds, structured.setting) == (0.1, "llm.structured_seconds")
    with pytest.raises(ModelTimeoutError, match=r"0\.15 s \(llm\.text_seconds\)"):
        client.text(TextRequest(ASK))
    with pytest.raises(ModelTimeoutError, match=r"llm\.text_seconds"):
        list(client.stream(TextRequest(ASK)))


def test_a11_no_field_is_sent_that_was_not_configured(server: StandIn, connect: Connect) -> None:
    server.says(as_json(GOOD))
    ask(connect(temperature=None, thinking="server"))
    assert set(server.bodies[0]) == {"model", "messages", "max_tokens", "response_format"}
    server.says(scored("A", {"A": -0.1, "B": -2.3}))
    connect().choose([ChoiceRequest(ASK, ("a", "b"))])
    assert set(server.bodies[1]) == {
        "model",
        "messages",
        "max_tokens",
        "temperature",
        "logprobs",
        "top_logprobs",
        "structured_outputs",
        "chat_template_kwargs",
    }


def test_a13_only_a_leading_block_of_thoughts_is_taken_away(server: StandIn, connect: Connect) -> None:
    mine = "My template says <think>plan</think> before each answer."
    messages = [{"role": "user", "content": mine}]
    server.says(said(f"<think>\nshort\n</think>\n\n{mine}"))
    assert connect().text(TextRequest(messages)) == mine
    assert server.bodies[0]["messages"] == messages
    quoted = {"scope": "s1", "facts": [mine]}
    for before in ("<think>x</think>", "thoughts whose tag stood in the prompt</think>\n", ""):
        server.says(said(before + json.dumps(quoted)))
        assert ask(connect()) == quoted
    server.says(streamed(["<thi", "nk>a", "</think>", "\nSee ", "<think>", " there."]))
    assert "".join(connect().stream(TextRequest(messages))) == "See <think> there."


def test_a13_thoughts_that_never_end_are_no_answer(server: StandIn, connect: Connect) -> None:
    server.says(said("<think>and then"))
    with pytest.raises(ModelOutputError, match="empty"):
        connect(max_retries=0).text(TextRequest(ASK))


@pytest.mark.parametrize(
    "wrapped",
    [
        json.dumps([GOOD]),
        json.dumps({"result": GOOD}),
        json.dumps({"result": [GOOD]}),
        f"```json\n{json.dumps(GOOD)}\n```",
        f"Here it is:\n```\n{json.dumps(GOOD)}\n```\nAnything else?",
        f"\n\n  {json.dumps(GOOD, indent=4)}  \n",
    ],
)
def test_a14_common_wrappers_are_accepted(server: StandIn, connect: Connect, wrapped: str) -> None:
    server.says(said(wrapped))
    assert ask(connect(max_retries=0)) == GOOD


def test_a14_a_bare_list_stands_for_the_only_property(server: StandIn, connect: Connect) -> None:
    schema = {"type": "object", "properties": {"facts": {"type": "array"}}, "required": ["facts"]}
    server.says(as_json([{"text": "a"}, {"text": "b"}]))
    assert ask(connect(max_retries=0), schema=schema) == {"facts": [{"text": "a"}, {"text": "b"}]}


@pytest.mark.parametrize("partial", ['{"scope": "s1"}', '{"scope": "s1"' + "\n" * 400, '{"scope": "s'])
def test_a18_a_cut_reply_is_never_parsed_and_gets_more_room(server: StandIn, connect: Connect, partial: str) -> None:
    server.says(said(partial, finish="length"), as_json(GOOD))
    assert ask(connect()) == GOOD
    assert [body["max_tokens"] for body in server.bodies] == [64, 128]
    told = server.bodies[1]["messages"][-1]["content"]
    assert "blank" in told if partial.endswith("\n") else "too long" in told


def test_a18_the_room_grows_within_its_bounds(server: StandIn, connect: Connect) -> None:
    server.says(said("x", finish="length"))
    failed = ask(connect(max_output_tokens=100, max_retries=3))
    assert isinstance(failed, ModelOutputError) and "length" in failed.problem
    assert [body["max_tokens"] for body in server.bodies] == [64, 100, 100, 100]
    ask(connect(context_tokens=91, max_retries=1))
    assert server.bodies[-1]["max_tokens"] == 80, "what the context leaves beside 11 tokens of prompt"
    with pytest.raises(ModelOutputError):
        connect(max_retries=0).text(TextRequest(ASK))


def test_a19_an_invented_id_is_refused(server: StandIn, connect: Connect) -> None:
    server.says(as_json({"scope": "s9"}), as_json(GOOD))
    assert ask(connect()) == GOOD
    assert "'s9' is not one of" in server.bodies[1]["messages"][-1]["content"]
    server.says(as_json({"scope": "s9"}))
    assert isinstance(ask(connect()), ModelOutputError)


def test_a19_a_check_beyond_the_schema_is_fed_back(server: StandIn, connect: Connect) -> None:
    server.says(as_json({"scope": "s1"}), as_json(GOOD))
    assert ask(connect(), check=lambda found: None if found == GOOD else "s1 is closed") == GOOD
    assert "s1 is closed" in server.bodies[1]["messages"][-1]["content"]


def test_a21_the_context_length_is_the_servers_or_the_settings(server: StandIn, connect: Connect) -> None:
    assert connect().context_tokens == 4096
    assert connect(context_tokens=1000).context_tokens == 1000


@pytest.mark.parametrize("reply", [said(""), failure(503), failure(400), as_json(GOOD), said("x", finish="length")])
def test_a22_no_retries_is_exactly_one_call(server: StandIn, connect: Connect, reply: Raw) -> None:
    server.says(reply)
    ask(connect(max_retries=0, model=MODEL))
    assert len(server.requests) == 1
    connect(max_retries=0, model=MODEL).choose([ChoiceRequest(ASK, ("a", "b"))])
    assert len(server.requests) == 2


def test_a23_other_calls_go_on_while_one_backs_off(server: StandIn, connect: Connect) -> None:
    blocked = {"first": True}

    def answer(body: dict[str, Any]) -> Raw:
        if body["messages"][-1]["content"] == "slow" and blocked["first"]:
            blocked["first"] = False
            return failure(429, retry_after="0.5")
        return as_json(GOOD)

    server.says(answer)
    client = connect(max_concurrency=1)
    asked = [JsonRequest([{"role": "user", "content": text}], SCHEMA) for text in ("slow", *"abcdef")]
    assert client.structured(asked) == [GOOD] * 7
    assert server.bodies[-1]["messages"][-1]["content"] == "slow", "the others did not wait for it"
    assert server.peak == 1


def test_retry_after_is_honoured(server: StandIn, connect: Connect) -> None:
    for status in (429, 503):
        server.says(failure(status, retry_after="0.3"), as_json(GOOD))
        started = time.perf_counter()
        assert ask(connect()) == GOOD
        assert time.perf_counter() - started >= 0.3
    server.says(failure(429, retry_after="3600"))
    failed = ask(connect())
    assert isinstance(failed, ModelUnavailableError) and failed.retry_after == 3600
    assert len(server.bodies) == 5, "asked to wait for longer than configured: not asked again"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_repeated(server: StandIn, connect: Connect, status: int) -> None:
    server.says(failure(status, "no such model"))
    failed = ask(connect())
    assert isinstance(failed, ModelRefusedError) and failed.status == status and "no such model" in str(failed)
    assert len(server.bodies) == 1


def test_a_server_that_is_away_is_named(server: StandIn, connect: Connect) -> None:
    client = connect(max_retries=1)
    server.close()
    failed = ask(client)
    assert isinstance(failed, ModelUnavailableError) and server.url in str(failed)
    with pytest.raises(ModelUnavailableError):
        _ = client.name


def test_a_field_that_the_server_refuses_is_left_out_from_then_on(server: StandIn, connect: Connect) -> None:
    def picky(body: dict[str, Any]) -> Raw:
        return failure(400, "unknown field chat_template_kwargs") if "chat_template_kwargs" in body else as_json(GOOD)

    server.says(picky)
    client = connect()
    assert ask(client) == ask(client) == GOOD
    assert ["chat_template_kwargs" in body for body in server.bodies] == [True, False, False]


def test_half_characters_neither_break_a_request_nor_come_out_of_a_reply(server: StandIn, connect: Connect) -> None:
    server.says(said('{"scope": "s1", "facts": ["\\ud800"]}'), as_json(GOOD))
    assert ask(connect(), messages=[{"role": "user", "content": "half \ud83d here"}]) == GOOD
    assert server.bodies[0]["messages"][0]["content"] == "half ? here"
