"""Requirements of a question, aligned to what a namespace has records about."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import QuickDecider, QuickWriter, make_memory, quick_memory

from intentmem.memory.errors import DecisionError, ModelUnavailableError
from intentmem.memory.memory import Memory
from intentmem.memory.read.catalogue import EMPTY, Catalogue
from intentmem.memory.read.needs import MOST, Need, Property
from intentmem.memory.read.parts import Parts
from intentmem.memory.read.request import Recipe
from intentmem.memory.read.requirements import MOST_TURNS, record_turns
from intentmem.memory.store.record_index import EvidenceRow
from intentmem.memory.tasks import PLAN, PROPERTY_MATCH, Decision, Item, Task
from intentmem.memory.types import Label

NOW = datetime(2026, 3, 5, tzinfo=UTC)
SAID = (
    ("The Apollo Hotel asks 90 euros.", "2026-01-01"),
    ("It is 140 euros from February on.", "2026-02-01"),
    ("Luis is the brother of Ana.", "2026-02-02"),
    ("Luis works as a carpenter.", "2026-02-03"),
    ("I would rather sit at a window.", "2026-02-04"),
)
CLAIMS = (
    ("Apollo Hotel", "price", "90 euros", 0),
    ("Apollo Hotel", "price", "140 euros", 1),
    ("Ana", "brother", "Luis", 2),
    ("Luis", "job", "carpenter", 3),
    ("I", "favourite seat", "window", 4),
)


class Matcher(QuickDecider):
    """Matches what costs to a price, and wants every question split that asks to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.unsure, self.calls = False, 0

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        if task.name == PROPERTY_MATCH.name:
            self.asked += [str(item.fields["requirement"]) for item in items]
            chosen = [("price",) if "cost" in str(item.fields["requirement"]) else () for item in items]
            return [Decision(one, {}, 0.9, self.name, unsure=self.unsure, calls=self.calls) for one in chosen]
        found = super().decide(task, items)
        if task.name == PLAN.name and "split" in str(items[0].fields["question"]):
            found = [Decision(one.labels, {**one.probabilities, "decompose": 0.9}, 0.9, self.name) for one in found]
        return [Decision(one.labels, one.probabilities, 1.0, self.name, calls=self.calls) for one in found]


class Splitter(QuickWriter):
    """Splits a question into two."""

    def __init__(self, *parts: str) -> None:
        self.parts = parts
        self.asked = 0
        self.fails = False

    def sub_questions(self, question: str, now: datetime) -> Sequence[str]:
        self.asked += 1
        if self.fails:
            raise ModelUnavailableError("http://127.0.0.1:8000", "no server")
        return self.parts


@pytest.fixture
def matcher() -> Matcher:
    return Matcher()


@pytest.fixture
def splitter() -> Splitter:
    return Splitter("Who is the brother of Ana?", "What is the job of {1}?")


@pytest.fixture
def memory(tmp_path: Path, matcher: Matcher, splitter: Splitter) -> Iterator[Memory]:
    with quick_memory(tmp_path, decider=matcher, writer=splitter) as made:
        for text, time in SAID:
            made.add(text, namespace="n", time=time)
        recorded(made)
        yield made


def recorded(memory: Memory) -> None:
    turns = [turn["id"] for turn in memory.list(namespace="n")["results"]]
    for entity, name, value, turn in CLAIMS:
        memory.claim(entity, name, value, turns[turn], namespace="n")


def needs(memory: Memory, question: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = memory.search(question, namespace="n", explain=True)["reading"]["requirements"]
    return found


def only(memory: Memory, question: str) -> tuple[str, list[str]]:
    (need,) = needs(memory, question)
    return need.get("entity", ""), need.get("properties", [])


@pytest.mark.parametrize(
    ("question", "entity", "properties"),
    [
        ("What is the price of the Apollo Hotel?", "apollo hotel", ["price"]),
        ("the prices at APOLLO HOTEL, please", "apollo hotel", ["price"]),
        ("what is my favourite seat", "user", ["favourite seat"]),
        ("Where does Nikolai live?", "", []),
        ("What is the price of the Apollo?", "", []),
    ],
)
def test_an_entity_is_found_by_its_key_and_its_properties_by_their_words(
    memory: Memory, question: str, entity: str, properties: list[str]
) -> None:
    assert only(memory, question) == (entity, properties)


def test_an_alias_leads_to_the_records_of_what_it_stands_for(memory: Memory) -> None:
    turn = memory.list(namespace="n")["results"][0]["id"]
    memory.claim("Grand Apollo", "phone", "415", turn, namespace="n")
    memory.merge_entities("Apollo Hotel", "Grand Apollo", namespace="n")
    assert only(memory, "price of the Grand Apollo?") == ("grand apollo", ["price"])
    assert only(memory, "price of the Apollo Hotel?") == ("grand apollo", ["price"])
    memory.unmerge_entity("Apollo Hotel", namespace="n")
    assert only(memory, "price of the Apollo Hotel?") == ("apollo hotel", ["price"])


def test_a_name_that_was_merged_into_another_asks_for_the_records_of_both(memory: Memory, matcher: Matcher) -> None:
    ordinal = memory.store.namespaces.ordinal("n")
    turn = memory.list(namespace="n")["results"][1]["id"]
    memory.claim("Apollo Hotel", "nightly rate", "95 euros", turn, namespace="n")
    with memory.store.database.write() as connection:
        for identity, name, into in (("p1", "price", None), ("p2", "nightly rate", "p1")):
            label = Label(identity, "property", name, "", None, into, "grown")
            memory.store.labels.put_label(connection, ordinal, label, "test")
        memory.store.namespaces.bump(connection, ordinal)
    for question in ("nightly rate of the Apollo Hotel?", "price of the Apollo Hotel?"):
        assert only(memory, question) == ("apollo hotel", ["price"])
    assert not matcher.asked


def test_a_property_asked_for_in_other_words_is_matched_by_the_decider(memory: Memory, matcher: Matcher) -> None:
    assert only(memory, "What does the Apollo Hotel cost?") == ("apollo hotel", ["price"])
    assert matcher.asked == ["What does the Apollo Hotel cost?"]
    needs(memory, "What is the price of the Apollo Hotel?")
    assert len(matcher.asked) == 1
    matcher.unsure = True
    assert only(memory, "How much does the Apollo Hotel cost?") == ("apollo hotel", [])


def test_a_decider_that_matches_no_properties_leaves_it_to_words(tmp_path: Path) -> None:
    with make_memory(tmp_path, writer=QuickWriter()) as memory:
        for text, time in SAID:
            memory.add(text, namespace="n", time=time)
        recorded(memory)
        with pytest.raises(DecisionError):
            memory.states_decider.decide(PROPERTY_MATCH, [])
        assert only(memory, "What does the Apollo Hotel cost?") == ("apollo hotel", [])
        assert only(memory, "price of the Apollo Hotel?") == ("apollo hotel", ["price"])


def test_what_is_matched_is_kept_until_records_change(memory: Memory, matcher: Matcher) -> None:
    for _ in range(3):
        needs(memory, "What does the Apollo Hotel cost?")
    assert len(matcher.asked) == 1
    memory.add("A word more.", namespace="n", time="2026-02-05")
    needs(memory, "What does the Apollo Hotel cost?")
    assert len(matcher.asked) == 1
    turn = memory.list(namespace="n")["results"][0]["id"]
    memory.claim("Apollo Hotel", "phone", "415", turn, namespace="n")
    needs(memory, "What does the Apollo Hotel cost?")
    assert len(matcher.asked) == 2


def test_the_turns_behind_a_record_are_brought_up_superseded_ones_too(memory: Memory) -> None:
    for number in range(60):
        memory.add(f"The Apollo Hotel is a price of its own, word {number}.", namespace="n", time="2026-03-01")
    question = {"query": "What is the price of the Apollo Hotel?", "namespace": "n", "history": True}
    found = memory.search(**question, limit=8, explain=True)
    brought = {hit["memory"]: hit["explain"]["looked_for"] for hit in found["results"]}
    assert brought["It is 140 euros from February on."].startswith("records:")
    assert brought["The Apollo Hotel asks 90 euros."]
    memory.searcher.parts = Parts(records=False)
    without = memory.search(**question, limit=8, explain=True)
    assert "It is 140 euros from February on." not in {hit["memory"] for hit in without["results"]}
    assert "entity" not in without["reading"]["requirements"][0]


def test_turns_of_the_time_asked_for_come_first_then_the_latest(memory: Memory) -> None:
    ordinal = memory.store.namespaces.ordinal("n")
    price = (Property("price", ("price",)),)
    rows = [turn.row for turn in memory.store.turns.after(ordinal, 0, 5)]
    asked = Need("", (), entity="apollo hotel", properties=price)
    assert record_turns(memory.store, ordinal, asked).tolist() == [rows[1], rows[0]]
    january = Need(
        *("", ()), entity="apollo hotel", properties=price, until=datetime(2026, 1, 9, tzinfo=UTC).timestamp()
    )
    assert record_turns(memory.store, ordinal, january).tolist() == [rows[0], rows[1]]
    every = Need("", (), entity="apollo hotel", properties=price, span="all_matching")
    assert record_turns(memory.store, ordinal, every).tolist() == [rows[0], rows[1]]
    assert not len(record_turns(memory.store, ordinal, Need("", (), entity="apollo hotel")))
    assert len(record_turns(memory.store, ordinal, every)) <= MOST_TURNS


def test_a_record_holds_for_the_time_that_it_says() -> None:
    row = EvidenceRow(1, 0.0, "2026-01-01T00:00:00+00:00", "")
    january, march = datetime(2026, 1, 5, tzinfo=UTC).timestamp(), datetime(2026, 3, 5, tzinfo=UTC).timestamp()
    assert row.falls_in(january, march) and row.falls_in(None, None)
    assert not row.falls_in(1.0, 2.0) and EvidenceRow(1, 1.0, "", "").falls_in(1.0, 2.0)


def test_a_value_that_has_what_is_asked_for_opens_a_hop(memory: Memory) -> None:
    first, hop = needs(memory, "What is the job of the brother of Ana?")
    assert (first["entity"], first["properties"]) == ("ana", ["brother"])
    assert (hop["entity"], hop["properties"], hop["after"]) == ("luis", ["job"], 1)
    assert hop["text"].startswith("Luis")


def test_a_hop_over_what_was_said_later_is_not_taken(memory: Memory) -> None:
    question = {"query": "What is the job of the brother of Ana?", "namespace": "n", "explain": True}
    for limit in ({"as_of": "2026-02-01T12:00"}, {"before": memory.list(namespace="n")["results"][2]["id"]}):
        (need,) = memory.search(**question, **limit)["reading"]["requirements"]
        assert need["entity"] == "ana"
    assert len(memory.search(**question)["reading"]["requirements"]) == 2


def test_braces_of_a_question_are_left_alone(memory: Memory) -> None:
    assert needs(memory, "What is {1}  in the template?")[0]["text"] == "What is {1}  in the template?"


def test_a_question_that_must_be_split_is_split_by_the_writer_and_its_hole_is_filled(
    memory: Memory, splitter: Splitter, matcher: Matcher
) -> None:
    first, second = needs(memory, "split: the job of her brother?")[:2]
    assert first["text"] == "Who is the brother of Ana?" and second["text"] == "What is the job of Luis?"
    assert second["entity"] == "luis" and second["properties"] == ["job"] and second["after"] == 1
    needs(memory, "split: the job of her brother?")
    needs(memory, "What is the price of the Apollo Hotel?")
    assert splitter.asked == 1


def test_a_hole_that_no_record_fills_is_left_out(memory: Memory, splitter: Splitter) -> None:
    splitter.parts = ("Who is the teacher of Ana?", "What is the job of {1}?")
    _, second = needs(memory, "split: the job of her teacher?")[:2]
    assert second["text"] == "What is the job of ?" and second["after"] == 1 and "entity" not in second


def test_a_splitter_that_fails_leaves_it_to_words_and_is_asked_again(memory: Memory, splitter: Splitter) -> None:
    splitter.fails = True
    assert [need["text"] for need in needs(memory, "split the price?")] == ["split the price?"]
    splitter.fails = False
    assert len(needs(memory, "split the price?")) == 2 and splitter.asked == 2


def test_calls_of_a_served_model_are_counted_once_and_its_plan_is_kept(memory: Memory, matcher: Matcher) -> None:
    matcher.calls = 1
    question = "split: what does the Apollo Hotel cost?"
    calls = [memory.search(question, namespace="n")["usage"]["llm_calls"] for _ in range(2)]
    # Plan, events, entity types and the split; then nothing.
    assert calls == [4, 0]


def test_records_are_in_use_where_there_are_some(memory: Memory, tmp_path: Path) -> None:
    ordinal = memory.store.namespaces.ordinal("n")
    assert "records" in memory.searcher.parts_in_use(ordinal, Recipe.FUSED)
    with quick_memory(tmp_path / "plain") as plain:
        plain.add("The Apollo Hotel asks 90 euros.", namespace="n")
        assert "records" not in plain.searcher.parts_in_use(plain.store.namespaces.ordinal("n"), Recipe.FUSED)
        assert not plain.searcher.requirements.known(plain.store.namespaces.ordinal("n"))


def test_a_question_of_one_tenant_meets_no_records_of_another(memory: Memory) -> None:
    memory.add("The Apollo Hotel.", namespace="other")
    found = memory.search("price of the Apollo Hotel?", namespace="other", explain=True)
    assert "entity" not in found["reading"]["requirements"][0]


def test_of_time_and_departure_time_the_longer_name_is_meant() -> None:
    words = [frozenset({"time"}), frozenset({"departur", "time"}), frozenset({"gate"})]
    properties = tuple(Property(" ".join(sorted(one)), ("k",), (one,)) for one in words)
    catalogue = Catalogue((), {"flight": "flight"}, {"flight": properties}, 1)
    (asked,) = catalogue.asked("flight", {"departur", "time", "flight"})
    assert asked is properties[1]
    assert not catalogue.asked("train", {"time"})


@given(st.text(max_size=60))
def test_any_text_can_be_looked_up(text: str) -> None:
    catalogue = Catalogue((), {"apollo hotel": "apollo hotel", "user": "user"}, {}, 2)
    assert set(catalogue.named_in(text)) <= {"apollo hotel", "user"} and EMPTY.named_in(text) == []
    assert catalogue.entity(text) in ("", "apollo hotel", "user")


def test_there_are_at_most_four_requirements_of_a_split_question(memory: Memory, splitter: Splitter) -> None:
    splitter.parts = tuple(f"What is number {n}?" for n in range(9))
    assert len(needs(memory, "split the numbers?")) == MOST
