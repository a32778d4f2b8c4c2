"""Generated texts: good ones stand, bad ones never replace good content."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from intentmem.memory.protocols import Upcoming
from intentmem.memory.tasks import Candidates
from intentmem.memory.types import Turn
from intentmem.memory.write.extractive import GIST_LIMIT, ExtractiveWriter
from intentmem.serving.llm.prompts import load_prompt
from intentmem.serving.llm.texts import fault_of, shown
from intentmem.serving.llm.wiring import ModelParts, model_parts
from intentmem.serving.llm.writers import LLMWriter

from .fake_model import FakeClient

EVENTS = Candidates(("e1", "e2"), ("ask price: Ask how much.", "book: Reserve."), np.eye(2, 4, dtype=np.float32))
TYPES = Candidates(("t1",), ("price: How much.",), np.eye(1, 4, dtype=np.float32))


def turn(text: str, seq: int = 0, role: str = "user") -> Turn:
    time = datetime(2026, 3, 2, 9, seq, tzinfo=UTC)
    return Turn(f"turn_{seq}", seq + 1, "n", "main", seq, role, text, None, time, "given", None)  # type: ignore[arg-type]


BEFORE = (turn("Is there a hotel by the river?"), turn("The Apollo Hotel is by the river.", 1, "assistant"))


def annotated(text: str, **answer: Any) -> tuple[LLMWriter, Turn, ModelParts]:
    client = FakeClient(annotate=answer)
    parts = model_parts(client, None)
    assert parts.writer is not None
    subject = turn(text, 2)
    parts.foresight.steps([Upcoming(subject, BEFORE, EVENTS, TYPES, np.eye(1, 4, dtype=np.float32)[0])])
    return parts.writer, subject, parts


def test_references_are_put_beside_the_words_of_the_turn() -> None:
    writer, subject, _ = annotated(
        "Book it for tomorrow.",
        references=[{"phrase": "it", "stands_for": "Apollo Hotel"}],
        summary="The user asks to book the Apollo Hotel.",
    )
    snippet = writer.ground(subject, [])
    assert snippet.grounded == "user (2026-03-02): Book it [Apollo Hotel] for tomorrow [2026-03-03]."
    assert snippet.summary == "The user asks to book the Apollo Hotel." and snippet.decided_by == "llm:fake"


@pytest.mark.parametrize(
    "reference",
    [
        {"phrase": "it", "stands_for": "Hotel Ritz"},
        {"phrase": "the second one", "stands_for": "Apollo Hotel"},
        {"phrase": "it", "stands_for": ""},
        {"phrase": "", "stands_for": "Apollo Hotel"},
        {"phrase": "it", "stands_for": "It"},
        {"phrase": "oo", "stands_for": "Apollo Hotel"},
    ],
)
def test_a_reference_that_the_texts_do_not_bear_out_is_dropped(reference: dict[str, str]) -> None:
    writer, subject, _ = annotated("Book it.", references=[reference], summary="Book the Apollo Hotel.")
    snippet = writer.ground(subject, [])
    assert "Ritz" not in snippet.grounded and "extractive: references" in snippet.decided_by


BAD = [
    "",
    "   \n",
    "...",
    "string",
    '{"summary": "Book the hotel"}',
    "Book book book book book book book book hotel",
    "<|im_start|>assistant book the Apollo Hotel",
    "The user asks what the third night at the Pension Quastenflosser costs.",
    "I'm sorry, I cannot help to book the Apollo Hotel.",
    "Bitte reservieren Sie ein Zimmer, danke schön",
    "请预订阿波罗酒店的房间",
    "Book the Apollo Hotel. " * 40,
]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_summary_gives_way_to_the_extractive_one(bad: str) -> None:
    writer, subject, _ = annotated("Please book it for two nights.", summary=bad)
    snippet = writer.ground(subject, [])
    assert snippet.summary == ExtractiveWriter().ground(subject, []).summary
    assert snippet.decided_by.startswith("llm:fake; extractive: summary")


@pytest.mark.parametrize("bad", [*BAD, "a name of far too many words for a name of a goal it is"])
def test_a_bad_name_of_a_scope_gives_way_to_the_extractive_one(bad: str) -> None:
    writer, subject, _ = annotated("Please book the Apollo Hotel for two nights.", goal=bad)
    assert writer.name_scope(subject, []) == ExtractiveWriter().name_scope(subject, [])


def test_the_name_of_a_scope_is_unlike_those_there_are() -> None:
    writer, subject, _ = annotated("Please book the Apollo Hotel.", goal="Apollo Hotel booking.")
    assert writer.name_scope(subject, ["Trip", "apollo hotel Booking"]) == "Apollo Hotel booking (2)"


def test_text_in_another_language_keeps_its_language() -> None:
    said = "请为我预订阿波罗酒店的两晚住宿"
    assert fault_of("用户请求预订阿波罗酒店两晚", [said], 400) is None
    assert fault_of("The user asks to book the Apollo hotel", [said], 400) is not None
    assert fault_of("Reservar el hotel Apolo dos noches", ["Quiero reservar el hotel Apolo dos noches"], 400) is None


def test_what_a_user_says_about_prompts_is_not_taken_for_a_fault() -> None:
    said = 'The tag <think> and the key "type" {x} break my parser.'
    assert fault_of("The tag <think> breaks the parser", [said], 400) is None


@pytest.mark.parametrize(
    ("named", "kept"),
    [
        ("complain", ("complain", "")),
        ("demand refund", ("demand refund", "")),
        ("", ("", "")),
        ("book Apollo", ("", "")),
        ("pay 30 euros", ("", "")),
        ("Ask Price", ("", "")),
        ("a kind of operation that complains", ("", "")),
    ],
)
def test_a_new_label_is_general_or_not_at_all(named: str, kept: tuple[str, str]) -> None:
    writer, subject, _ = annotated("The room at the Apollo was cold.", event="none", new_event=named)
    assert writer.name_label(subject, "event", ["ask price"]) == kept


def test_c09_a_label_asked_for_on_its_own_is_not_the_example_of_the_prompt() -> None:
    client = FakeClient(name_label={"name": "demand refund", "description": "Asks for money to be paid back."})
    writer = model_parts(client, None).writer
    assert writer is not None
    assert writer.name_label(turn("The room was cold."), "event", []) == ("", "")
    client.answers["name_label"] = {"name": "Complain", "description": "Says that something is bad."}
    assert writer.name_label(turn("The room was cold."), "event", []) == ("complain", "Says that something is bad.")


def test_no_event_means_no_label_and_room_for_a_new_one() -> None:
    _, subject, parts = annotated("The room was cold.", event="none", entity_types=["price", "price", "odd"])
    annotation = parts.foresight._annotator.of(subject)
    assert annotation is not None
    event, types = annotation.event("m"), annotation.types("m")
    assert event.labels == () and sum(event.probabilities.values()) < 0.2
    assert types.labels == ("t1",)


def test_a_gist_keeps_its_beginning_and_its_bound() -> None:
    gist = ""
    for number in range(30):
        writer, subject, _ = annotated(
            f"Stop {number} of the journey is the old harbour.", summary=f"Stop {number} of the journey is the harbour."
        )
        gist = writer.gist(gist, subject)
        assert len(gist) <= GIST_LIMIT
    assert gist.startswith("Stop 0") and "Stop 29" in gist
    writer, subject, _ = annotated("Fine.", summary="")
    assert writer.gist(gist, subject) == gist


RECORD = {
    "entity": "Apollo Hotel",
    "entity_type": "place",
    "property": "location",
    "value": "by the river",
    "condition": "",
    "modality": "observed",
    "kind": "aspect",
    "time": "yesterday",
    "speaker": "assistant",
    "turns": ["T2"],
}


def read(**answer: Any) -> tuple[LLMWriter, FakeClient]:
    client = FakeClient(episode=answer)
    writer = model_parts(client, None).writer
    assert writer is not None
    return writer, client


def test_an_episode_is_read_once_for_its_summary_and_its_records() -> None:
    writer, client = read(summary="The Apollo Hotel by the river was found.", records=[RECORD, RECORD])
    assert writer.summarise(BEFORE) == "The Apollo Hotel by the river was found."
    (record,) = writer.records(BEFORE)
    assert (record.entity, record.value, record.evidence) == ("Apollo Hotel", "by the river", ("turn_1",))
    assert (record.valid_time, record.valid_at) == ("yesterday", "2026-03-01")
    assert len(client.asked) == 1


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_summary_of_an_episode_gives_way(bad: str) -> None:
    writer, _ = read(summary=bad, records=[])
    assert writer.summarise(BEFORE) == ExtractiveWriter().summarise(BEFORE) != ""


@pytest.mark.parametrize(
    "change",
    [
        {"value": ""},
        {"entity": " "},
        {"property": "-"},
        {"turns": []},
        {"turns": ["T9"]},
        {"value": "in the mountains"},
        {"entity": "Korbin"},
    ],
)
def test_a_record_that_its_turns_do_not_bear_out_is_dropped(change: dict[str, Any]) -> None:
    writer, _ = read(summary="The Apollo Hotel by the river was found.", records=[{**RECORD, **change}, RECORD])
    assert [record.value for record in writer.records(BEFORE)] == ["by the river"]


def test_sub_questions_and_probes_are_used_or_declined() -> None:
    client = FakeClient()
    writer = model_parts(client, None).writer
    assert writer is not None
    question, now = "What does Ana's brother who moved to Porto do?", datetime(2026, 3, 2, tzinfo=UTC)
    assert writer.sub_questions(question, now) == (question,)
    client.answers["read.questions"] = {"questions": ["Which brother of Ana moved to Porto?", "What does {1} do?", ""]}
    assert writer.sub_questions(question, now) == ("Which brother of Ana moved to Porto?", "What does {1} do?")
    client.answers["read.probe"] = {"search": "brother moved Porto"}
    assert writer.probe(question, "which brother", [], []) == "brother moved Porto"
    assert writer.probe(question, "which brother", ["Brother moved Porto"], []) == ""
    client.answers["read.probe"] = {"search": "string"}
    assert writer.probe(question, "which brother", [], []) == ""


def test_prompts_know_their_version_and_hash() -> None:
    for name in ("annotate", "answer", "answer_stream", "choose", "episode", "labels", "name_label", "name_scope"):
        prompt = load_prompt(name)
        assert prompt.version >= 1 and len(prompt.hash) == 16 and prompt is load_prompt(name)


def test_a_quoted_text_is_one_line_without_marks_of_roles() -> None:
    assert shown('a\n"b" <|im_end|>').count("\n") == 0 and "<|im_end|>" not in shown("<|im_end|>")
    assert len(shown("x" * 5000, 100)) <= 110
