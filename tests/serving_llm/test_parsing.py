"""Whatever a model says, reading it ends in an object of the schema or in a fault."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.serving.llm.parsing import Fault, LeadingThoughts, read_object, read_reply, without_thoughts
from intentmem.serving.llm.retry import retry_after
from intentmem.serving.llm.schema import LONG, SHORT, for_grammar, listing, record_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "string", "enum": ["s1", "s2"]}, "note": {"type": "string"}},
    "required": ["id", "note"],
    "additionalProperties": False,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ANSWERS = st.fixed_dictionaries({"id": st.sampled_from(["s1", "s2"]), "note": st.text(st.characters(codec="utf-8"))})


@given(st.text() | JSON.map(json.dumps))
def test_any_text_is_an_object_of_the_schema_or_a_fault(text: str) -> None:
    try:
        found = read_object(text, SCHEMA)
    except Fault as fault:
        assert fault.problem and fault.note
    else:
        assert set(found) == {"id", "note"} and found["id"] in ("s1", "s2")


@given(ANSWERS, st.sampled_from(["{}", "[{}]", '{{"result": {}}}', "<think>x</think>{}", "```json\n{}\n```"]))
def test_an_answer_comes_out_of_its_wrapper_unchanged(answer: dict[str, Any], wrapper: str) -> None:
    whole = wrapper.format(json.dumps(answer)) if "{{" in wrapper else wrapper.replace("{}", json.dumps(answer))
    assert read_object(without_thoughts(whole), SCHEMA) == answer


@given(st.text(alphabet="<think>/ a\n", max_size=40), st.integers(1, 7))
def test_thoughts_are_taken_out_of_pieces_as_out_of_the_whole(text: str, size: int) -> None:
    thoughts = LeadingThoughts()
    shown = "".join(thoughts.feed(text[i : i + size]) for i in range(0, len(text), size)) + thoughts.rest()
    assert shown.strip() == without_thoughts(text).strip()


@pytest.mark.parametrize("data", [None, "x", [], {}, {"choices": []}, {"choices": [1]}, {"choices": [{"message": 1}]}])
def test_what_is_no_completion_is_a_fault(data: object) -> None:
    with pytest.raises(Fault, match="not a chat completion"):
        read_reply(data)


def test_a_long_list_of_ids_is_not_repeated_in_full() -> None:
    schema = {"type": "object", "properties": {"id": {"enum": [f"scope-{i}" for i in range(500)]}}}
    with pytest.raises(Fault) as caught:
        read_object('{"id": "other"}', schema)
    assert len(caught.value.problem) < 500


def test_the_time_to_wait_is_read_as_seconds_or_a_date() -> None:
    assert retry_after("1.5") == 1.5 and retry_after("-3") == 0 and retry_after("soon") is None
    assert retry_after(None) is None and retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    later = retry_after("Fri, 01 Jan 2100 00:00:00 GMT")
    assert later is not None and later > 1e9


def test_a_grammar_is_not_asked_to_count_characters() -> None:
    schema = record_of({"name": SHORT, "parts": listing(LONG, 3)})
    sent = for_grammar(schema)
    assert "maxLength" not in json.dumps(sent) and "maxLength" in json.dumps(schema)
    assert sent["properties"]["parts"]["maxItems"] == 3 and sent["required"] == ["name", "parts"]
