from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import make_memory

from intentmem.memory.errors import IntentMemError, ModelError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.memory import Memory
from intentmem.memory.types import Record, RecordDraft, Role, Snippet, Turn
from intentmem.memory.write.extractive import ExtractiveWriter
from intentmem.memory.write.fact_patterns import find_facts
from intentmem.memory.write.properties import merge_near
from intentmem.memory.write.record_rules import read_records
from intentmem.memory.write.value_spans import find_values
from intentmem.memory.write.vocabulary import Vocabulary

NOW = datetime(2026, 3, 5, tzinfo=UTC)


def turns(*said: tuple[Role, str]) -> list[Turn]:
    numbered = enumerate(said)
    return [Turn(f"t{i}", i, "n", "main", i, role, text, None, NOW, "given", None) for i, (role, text) in numbered]


def read(*said: tuple[Role, str]) -> list[Record]:
    writer, known, snippets = ExtractiveWriter(), [], {}
    for turn in turns(*said):
        snippet = writer.ground(turn, known)
        known += snippet.mentions
        snippets[turn.id] = snippet
    return list(read_records(turns(*said), snippets))


def claims(*said: tuple[Role, str]) -> set[tuple[str, str, str]]:
    return {(r.entity, r.property, r.value) for r in read(*said)}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("It costs $1,250.50 in all.", "money", "$1,250.50"),
        ("It is 134 euros.", "money", "134 euros"),
        ("Call (408) 971-8523 now.", "phone", "(408) 971-8523"),
        ("Write to ann.b@example.org.", "email", "ann.b@example.org"),
        ("See https://example.org/menu.", "website", "https://example.org/menu"),
        ("It opens at half past 6 in the evening.", "time", "half past 6 in the evening"),
        ("at 8:15 am sharp", "time", "8:15 am"),
        ("from the 11th on", "date", "the 11th"),
        ("on 2nd of March", "date", "2nd of March"),
        ("a 4.6 rating", "rating", "4.6"),
        ("They live at 2664 Berryessa Road # 206 now", "address", "2664 Berryessa Road # 206"),
        ("a 29 percent chance", "percent", "29 percent"),
        ("around 76 degrees", "temperature", "76 degrees"),
        ("for 3 nights", "duration", "3 nights"),
    ],
)
def test_a_typed_value_is_found_at_its_place(text: str, kind: str, value: str) -> None:
    (span,) = find_values(text)
    assert (span.kind, text[span.start : span.end]) == (kind, value)


@given(st.text(max_size=200))
def test_values_and_facts_of_any_text_lie_within_it_and_do_not_overlap(text: str) -> None:
    spans = find_values(text)
    assert all(0 <= s.start < s.end <= len(text) for s in spans)
    assert all(a.end <= b.start for a, b in pairwise(spans))
    assert all(0 <= f.start < f.end <= len(text) for f in find_facts(text, True))


def test_the_property_of_an_answer_is_that_of_the_question_and_its_entity_what_was_named() -> None:
    found = claims(
        ("assistant", "How about the Apollo Hotel?"),
        ("user", "What does it cost, and what is the phone number?"),
        ("assistant", "It is 134 euros, and you can call 415-467-1400."),
    )
    assert ("Apollo Hotel", "price", "134 euros") in found
    assert ("Apollo Hotel", "phone number", "415-467-1400") in found


def test_the_words_around_a_date_or_a_time_say_which_it_is() -> None:
    found = {(r.property, r.value) for r in read(
        ("assistant", "The Sunrise Express train leaves at 8:15 am and arrives at 11:40 am."),
        ("user", "I want to check in on March 8th and check out on March 11th."),
    )}  # fmt: skip
    assert {("departure time", "8:15 am"), ("arrival time", "11:40 am")} <= found
    assert {("check in date", "March 8th"), ("check out date", "March 11th")} <= found


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("I live in Berlin these days.", ("I", "residence", "Berlin")),
        ("I'm allergic to peanuts, by the way.", ("I", "allergy", "peanuts")),
        ("My favourite colour is green.", ("I", "favourite colour", "green")),
        ("I have a dog called Rex.", ("I", "dog", "Rex")),
        ("The capital of Australia is Canberra.", ("Australia", "capital", "Canberra")),
        ("Ann's job title is head nurse.", ("Ann", "job title", "head nurse")),
    ],
)
def test_a_plain_statement_is_a_record(text: str, claim: tuple[str, str, str]) -> None:
    assert claim in claims(("user", text))


@pytest.mark.parametrize(
    "text",
    [
        "I think my idea is good.", "I do not live in Berlin.", "What is my name?", "My point is that we wait.",
        "My sister is a nurse.", "That is all for today, thanks for your help.", "Thanks, that is great!",
    ],
)  # fmt: skip
def test_what_is_not_certain_is_no_record(text: str) -> None:
    assert not read(("user", text))


def test_an_assistant_says_nothing_of_the_user_by_saying_i() -> None:
    assert not [r for r in read(("assistant", "I live in the cloud and my name is Ava.")) if r.entity == "I"]


def test_what_a_user_asks_for_is_a_wish_and_no_fact_about_him() -> None:
    assert {r.modality for r in read(("user", "Find me a place to eat in Palo Alto."))} == {"desired"}


def test_every_record_is_verbatim_in_its_turn() -> None:
    said: list[tuple[Role, str]] = [("user", "I live in Oslo."), ("assistant", "Dinner at Nopa costs $40 at 7 pm.")]
    for record in read(*said):
        (place,) = record.evidence
        text = said[int(place.turn[1:])][1]
        assert text[place.start : place.end] == record.value


def test_near_synonyms_merge_but_names_that_differ_in_what_they_say_of_their_head_stay_apart() -> None:
    embedder = HashEmbedder()
    vocabulary = Vocabulary("", "property", lambda texts: embedder.encode(texts, "label"))
    for name in ("departure time", "arrival time", "phone number"):
        vocabulary.add(name, coarse=True)
    merge_near(vocabulary)
    assert len(vocabulary.roots()) == 3
    assert vocabulary.add("Phone Numbers", coarse=True)[0].name == "phone number"


# In the pipeline


class FailingWriter(ExtractiveWriter):
    """Fails on records for a while."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def records(self, turns: Sequence[Turn], snippets: Mapping[str, Snippet]) -> tuple[Record, ...]:
        if self.failures:
            self.failures -= 1
            raise ModelError("records", "no answer")
        return super().records(turns, snippets)


def remember(memory: Memory, text: str, session: str) -> str:
    return str(memory.add(text, user_id="ann", run_id=session)["operation"]["id"])


def test_an_episode_has_records_and_states_once_it_has_closed(memory: Memory) -> None:
    remember(memory, "I live in Berlin.", "one")
    assert memory.records(user_id="ann")["results"] == []
    assert memory.close_episodes(memory.namespaces()[0]) == 1
    (record,) = memory.records(user_id="ann")["results"]
    assert (record["property"], record["value"], record["evidence"][0]["start"]) == ("residence", "Berlin", 10)
    assert memory.state("user", "residence", user_id="ann")["values"][0]["value"] == "Berlin"
    assert memory.close_episodes(memory.namespaces()[0]) == 0


def test_processing_with_close_closes_what_is_open_and_again_changes_nothing(memory: Memory) -> None:
    remember(memory, "I live in Berlin.", "one")
    memory.process(close=True)
    before = memory.records(user_id="ann")
    memory.process(close=True)
    assert before["results"] and memory.records(user_id="ann") == before


def test_records_are_found_by_entity_property_and_turn(memory: Memory) -> None:
    remember(memory, "I live in Berlin and I am allergic to peanuts.", "one")
    memory.process(close=True)
    (found,) = memory.records(property="Allergies", user_id="ann")["results"]
    assert found["value"] == "peanuts"
    turn = found["evidence"][0]["turn_id"]
    assert len(memory.records("user", turn_ids=turn, user_id="ann")["results"]) == 2
    assert memory.records("Bob", user_id="ann")["results"] == []
    known = memory.vocabulary("property", user_id="ann")["results"]
    assert {entry["label"] for entry in known} == {"allergy", "residence"}


def test_a_failure_on_records_leaves_the_turns_searchable_and_is_resumed(folder: Path) -> None:
    with make_memory(folder, writer=FailingWriter(1)) as memory:
        remember(memory, "I live in Berlin.", "one")
        with pytest.raises(IntentMemError, match="no answer"):
            memory.close_episodes(memory.namespaces()[0])
        assert memory.search("Where do I live?", user_id="ann")["results"]
        memory.process()
        assert {r["value"] for r in memory.records(user_id="ann")["results"]} == {"Berlin"}


def test_an_operation_that_closed_an_episode_without_records_failed_with_the_reason(folder: Path) -> None:
    with make_memory(folder, writer=FailingWriter(1)) as memory:
        messages = [{"role": "user", "content": f"I live in Berlin, day {n}."} for n in range(51)]
        operation = memory.add(messages, user_id="ann")["operation"]
        assert operation["status"] == "failed" and "no answer" in operation["error"]
        memory.process()
        assert memory.operation(operation["id"], user_id="ann")["status"] == "done"
        assert memory.records(user_id="ann")["results"]


def test_drafts_of_a_writer_are_located_and_belong_to_their_episode(folder: Path) -> None:
    class Drafting(ExtractiveWriter):
        def records(self, turns: Sequence[Turn], snippets: Mapping[str, Snippet]) -> tuple[RecordDraft, ...]:  # type: ignore[override]
            return (RecordDraft("Ann", "person", "city", "berlin", (turns[0].id,), decided_by="model"),)

    with make_memory(folder, writer=Drafting()) as memory:
        remember(memory, "We met in Berlin.", "one")
        memory.process(close=True)
        (record,) = memory.records(user_id="ann")["results"]
    assert record["evidence"][0]["start"] == 10 and record["episode"].startswith("episode_")


def test_an_export_keeps_records_and_does_not_read_its_episodes_again(memory: Memory, folder: Path) -> None:
    remember(memory, "I live in Berlin.", "one")
    memory.process(close=True)
    memory.export(folder / "out.jsonl", user_id="ann")
    with make_memory(folder.parent / "other", writer=FailingWriter(9)) as other:
        other.import_(folder / "out.jsonl", user_id="ann")
        assert [r["value"] for r in other.records(user_id="ann")["results"]] == ["Berlin"]


def test_deleting_a_turn_takes_its_records_along(memory: Memory) -> None:
    remember(memory, "I live in Berlin.", "one")
    memory.process(close=True)
    memory.delete(memory.list(user_id="ann")["results"][0]["id"], user_id="ann")
    assert memory.records(user_id="ann")["results"] == []
