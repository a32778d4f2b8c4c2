"""States follow from their records: order, repetition, deletion, merging, deciding and resolving."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import QuickDecider, make_memory, quick_memory

from intentmem.memory.errors import InputError, ModelUnavailableError, NotFoundError
from intentmem.memory.memory import Memory
from intentmem.memory.reduction import reduce_claims
from intentmem.memory.tasks import STATE_OPERATION, Decision, Item, Task
from intentmem.memory.types import Evidence, Record, RecordDraft
from intentmem.memory.versions import Authority, Claim, Version

N = "n"


def add(memory: Memory, time: str, text: str, **rest: Any) -> str:
    turn: str = memory.add({"role": "user", "content": text, **rest}, time=time, namespace=N, wait=False)["results"][0][
        "id"
    ]
    return turn


def record(turn: str, value: str, name: str = "residence", entity: str = "user") -> Record:
    return Record(entity, name, value, (Evidence(turn),))


def held(memory: Memory, entity: str = "user", name: str = "residence", **options: Any) -> list[str]:
    return [version["value"] for version in memory.state(entity, name, namespace=N, **options)["values"]]


def versions(memory: Memory, entity: str = "user", name: str = "residence") -> list[tuple[str, str]]:
    found = memory.state_history(entity, name, namespace=N)["results"]
    return [(version["value"], version["status"]) for version in found]


@pytest.fixture
def moved(quick: Memory) -> tuple[Memory, list[str]]:
    """A memory of someone who moved, and its two turns."""
    turns = [add(quick, "2026-01-01", "I live in Lyon."), add(quick, "2026-02-01", "I moved to Oslo.")]
    quick.observe_records(N, [record(turns[0], "Lyon"), record(turns[1], "Oslo")])
    return quick, turns


def test_observing_the_same_records_again_changes_nothing(moved: tuple[Memory, list[str]]) -> None:
    memory, turns = moved
    before = memory.state_history("user", namespace=N)
    again = memory.observe_records(N, [record(turns[0], "Lyon"), record(turns[1], "Oslo")])
    assert again["new"] == 0
    assert memory.state_history("user", namespace=N) == before


def test_drafts_of_an_episode_are_taken_as_they_are(quick: Memory) -> None:
    turn = add(quick, "2026-01-01", "I live in Lyon, and I may move to Oslo.")
    drafts = [
        RecordDraft("user", "person", "residence", "Lyon", (turn,)),
        RecordDraft("user", "person", "residence", "Oslo", (turn,), modality="planned"),
    ]
    assert [pending["value"] for pending in quick.observe_records(N, drafts)["pending"]] == ["Oslo"]
    assert held(quick) == ["Lyon"]


def test_a_bad_record_stores_none_of_its_fellows(quick: Memory) -> None:
    turn = add(quick, "2026-01-01", "I live in Lyon.")
    for bad in (
        record(turn, " "),
        record("turn_0", "Lyon"),
        Record("user", "residence", "Lyon", ()),
        Record("user", "residence", "Lyon", (Evidence(turn, 3, 900),)),
        Record("user", "residence", "Lyon", (Evidence(turn),), modality="sung"),
    ):
        with pytest.raises(InputError):
            quick.observe_records(N, [record(turn, "Lyon"), bad])
    assert versions(quick) == []


def test_a_second_turn_that_says_the_same_halves_the_doubt(quick: Memory) -> None:
    turns = [add(quick, f"2026-01-0{day}", f"On day {day} I live in Lyon.") for day in (1, 2, 3)]
    for turn in turns:
        quick.observe_records(N, [record(turn, "Lyon")])
    (version,) = quick.state("user", "residence", namespace=N)["values"]
    assert version["evidence"] == turns
    assert version["confidence"] == pytest.approx(0.95)


def test_a_fact_loses_one_of_two_sources_and_stays(quick: Memory) -> None:
    turns = [add(quick, f"2026-01-0{day}", f"On day {day} I live in Lyon.") for day in (1, 2)]
    quick.observe_records(N, [record(turn, "Lyon") for turn in turns])
    quick.delete(turns[0], namespace=N)
    (version,) = quick.state("user", "residence", namespace=N)["values"]
    assert version["evidence"] == turns[1:]
    assert version["valid_from"].startswith("2026-01-02")


def test_a_version_that_goes_reopens_the_one_before(moved: tuple[Memory, list[str]]) -> None:
    memory, turns = moved
    memory.delete(turns[1], namespace=N)
    assert versions(memory) == [("Lyon", "current")]
    memory.delete(turns[0], namespace=N)
    assert versions(memory) == []
    ordinal = memory.store.namespaces.ordinal(N)
    for table in ("record", "record_evidence", "state", "state_choice"):
        assert memory.store.database.read(f"SELECT count(*) FROM {table} WHERE namespace = ?", (ordinal,))[0][0] == 0


def test_erasing_a_session_takes_its_claims(quick: Memory) -> None:
    first = add(quick, "2026-01-01", "I live in Lyon.")
    second = quick.add("I moved to Oslo.", time="2026-02-01", namespace=N, session="s", wait=False)["results"][0]["id"]
    quick.observe_records(N, [record(first, "Lyon"), record(second, "Oslo")])
    report = quick.erase(namespace=N, session="s")
    assert report["removed"]["record"] == report["removed"]["record_evidence"] == 1
    assert versions(quick) == [("Lyon", "current")]


def test_what_a_supporting_turn_says_goes_with_it(quick: Memory) -> None:
    first = add(quick, "2026-01-01", "I live in Lyon.")
    news, place = add(quick, "2026-02-01", "I have moved!"), add(quick, "2026-02-02", "Oslo it is.")
    both = Record("user", "residence", "Oslo", (Evidence(news), Evidence(place)))
    quick.observe_records(N, [record(first, "Lyon"), both])
    assert held(quick) == ["Oslo"]
    quick.delete(news, namespace=N)
    assert versions(quick) == [("Lyon", "current"), ("Oslo", "pending")]


def test_a_thousand_unrelated_facts_retire_none(moved: tuple[Memory, list[str]]) -> None:
    memory, _ = moved
    before = memory.state_history("user", namespace=N)
    turn = add(memory, "2026-03-01", "We replaced all of them, now it is different, actually.")
    many = [record(turn, f"value {i}", f"property {i % 50}", f"entity {i // 50}") for i in range(1000)]
    assert memory.observe_records(N, many)["new"] == 1000
    assert memory.state_history("user", namespace=N) == before
    ordinal = memory.store.namespaces.ordinal(N)
    assert len(memory.store.states.with_status(ordinal, "current")) == 1001


def test_a_plural_met_later_makes_a_set_of_what_was_pending(quick: Memory) -> None:
    turns = [add(quick, "2026-01-01", "I do chess."), add(quick, "2026-01-02", "I do judo.")]
    quick.observe_records(N, [record(turns[0], "chess", "hobby"), record(turns[1], "judo", "hobby")])
    assert held(quick, name="hobby") == ["chess"]
    other = add(quick, "2026-01-03", "Ana does yoga.")
    quick.observe_records(N, [record(other, "yoga", "hobbies", "Ana")])
    assert held(quick, name="hobby") == ["chess", "judo"]
    quick.delete(other, namespace=N)
    assert held(quick, name="hobby") == ["chess"]


def test_merged_entities_share_their_states_and_unmerged_ones_do_not(quick: Memory) -> None:
    turns = [add(quick, "2026-01-01", "Bob lives in Lyon."), add(quick, "2026-02-01", "Robert moved to Oslo.")]
    quick.observe_records(N, [record(turns[0], "Lyon", entity="Bob"), record(turns[1], "Oslo", entity="Robert")])
    quick.merge_entities("Robert", "Bob", namespace=N)
    assert versions(quick, "bob") == versions(quick, "ROBERT") == [("Lyon", "superseded"), ("Oslo", "current")]
    later = add(quick, "2026-03-01", "Robert moved to Rome.")
    quick.observe_records(N, [record(later, "Rome", entity="Robert")])
    assert held(quick, "Bob") == ["Rome"]
    with pytest.raises(InputError):
        quick.merge_entities("Bob", "Robert", namespace=N)
    quick.unmerge_entity("Robert", namespace=N)
    assert (held(quick, "Bob"), held(quick, "Robert")) == (["Lyon"], ["Rome"])
    with pytest.raises(NotFoundError):
        quick.merge_entities("Nobody", "Bob", namespace=N)


def test_what_was_known_at_a_time_leaves_later_turns_out(moved: tuple[Memory, list[str]]) -> None:
    memory, _ = moved
    correction = add(memory, "2026-03-01", "Sorry, I meant Bergen.")
    memory.observe_records(N, [record(correction, "Bergen")])
    assert held(memory, as_of="2026-02-15") == ["Bergen"]
    assert held(memory, known_at="2026-02-15") == ["Oslo"]
    assert held(memory, known_at="2026-02-15", as_of="2026-01-15") == ["Lyon"]


@pytest.mark.parametrize(
    ("choice", "expected"), [("accept", ["Rome"]), ("Rome", ["Rome"]), ("both", ["Oslo", "Rome"]), ("reject", ["Oslo"])]
)
def test_a_conflict_is_resolved_by_hand_for_good(
    moved: tuple[Memory, list[str]], choice: str, expected: list[str]
) -> None:
    memory, _ = moved
    turn = add(memory, "2026-03-01", "I live in Rome.")
    memory.observe_records(N, [record(turn, "Rome")])
    (conflict,) = memory.conflicts(namespace=N)["results"]
    memory.resolve(conflict["id"], choice, namespace=N)
    assert sorted(held(memory)) == expected
    assert memory.conflicts(namespace=N)["results"] == []
    memory.observe_records(N, [record(turn, "Rome")])
    assert sorted(held(memory)) == expected
    with pytest.raises(InputError):
        memory.resolve("state_0", choice, namespace=N)


class Chooser(QuickDecider):
    """Decides every contradiction alike, and counts how often it was asked."""

    def __init__(self, label: str, unsure: bool = False) -> None:
        super().__init__()
        self.label, self.unsure, self.asked = label, unsure, 0

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        if task is not STATE_OPERATION:
            return super().decide(task, items)
        self.asked += len(items)
        assert all(task.render(item) for item in items)
        return [Decision((self.label,), {}, 0.9, "chooser", unsure=self.unsure) for _ in items]


@pytest.mark.parametrize(
    ("decider", "expected"),
    [
        (Chooser("replace"), [("Lyon", "superseded"), ("Oslo", "current")]),
        (Chooser("add"), [("Lyon", "current"), ("Oslo", "current")]),
        (Chooser("retract"), [("Lyon", "retracted")]),
        (Chooser("pending"), [("Lyon", "current"), ("Oslo", "pending")]),
        (Chooser("replace", unsure=True), [("Lyon", "current"), ("Oslo", "pending")]),
    ],
    ids=lambda value: getattr(value, "label", None),
)
def test_a_decider_is_asked_once_where_rules_leave_a_contradiction(
    folder: Path, decider: Chooser, expected: list[tuple[str, str]]
) -> None:
    with quick_memory(folder, decider=decider) as memory:
        turns = [add(memory, "2026-01-01", "I live in Lyon."), add(memory, "2026-02-01", "I live in Oslo.")]
        memory.observe_records(N, [record(turns[0], "Lyon")])
        assert decider.asked == 0
        for _ in range(2):
            memory.observe_records(N, [record(turns[1], "Oslo")])
        assert decider.asked == 1
        assert versions(memory) == expected


class Down(QuickDecider):
    """A served model that does not answer."""

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        if task is STATE_OPERATION:
            raise ModelUnavailableError("m", "no connection")
        return super().decide(task, items)


def test_a_decider_that_fails_leaves_the_claim_pending_and_is_reported(folder: Path) -> None:
    with quick_memory(folder, decider=Down()) as memory:
        turns = [add(memory, "2026-01-01", "I live in Lyon."), add(memory, "2026-02-01", "I live in Oslo.")]
        with pytest.raises(ModelUnavailableError):
            memory.observe_records(N, [record(turns[0], "Lyon"), record(turns[1], "Oslo")])
        assert versions(memory) == [("Lyon", "current"), ("Oslo", "pending")]


def test_an_export_brings_states_to_another_memory(moved: tuple[Memory, list[str]], tmp_path: Path) -> None:
    memory, turns = moved
    memory.export(tmp_path / "n.jsonl", namespace=N)
    with make_memory(tmp_path / "other") as other:
        for _ in range(2):
            other.import_(tmp_path / "n.jsonl", namespace=N)
        assert versions(other) == versions(memory)
        other.delete(turns[1], namespace=N)
        assert versions(other) == [("Lyon", "current")]


def test_one_namespace_knows_nothing_of_another(moved: tuple[Memory, list[str]]) -> None:
    memory, turns = moved
    memory.add("Hello.", namespace="other", wait=False)
    assert memory.state("user", namespace="other")["values"] == []
    with pytest.raises(NotFoundError):
        memory.observe_records("other", [record(turns[0], "Lyon")])


# Properties of the reduction itself

CLAIMS = st.lists(
    st.builds(
        Claim,
        record=st.sampled_from([f"r{i}" for i in range(12)]),
        turn=st.sampled_from([f"t{i}" for i in range(12)]),
        value=st.just("v"),
        key=st.sampled_from("abcd"),
        said=st.integers(0, 9).map(float),
        order=st.tuples(st.integers(0, 20), st.integers(0, 5)),
        source=st.sampled_from(["ana", "ben", "assistant"]),
        authority=st.sampled_from(Authority),
        repeats=st.booleans(),
        doubt=st.sampled_from(["", "", "", "planned", "hearsay", "question"]),
        negated=st.booleans(),
        ended=st.booleans(),
        corrects=st.booleans(),
        updates=st.booleans(),
        adds=st.booleans(),
        only=st.booleans(),
        swaps=st.booleans(),
        linked=st.booleans(),
        since=st.none() | st.integers(0, 12).map(float),
        until=st.none() | st.integers(0, 12).map(float),
    ),
    max_size=12,
    unique_by=lambda claim: (claim.record, claim.turn),
)


@settings(max_examples=150, deadline=None)
@given(CLAIMS, st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_arrival_does_not_matter(claims: list[Claim], random: Any, is_set: bool) -> None:
    shuffled = [*claims, *claims[:3]]
    random.shuffle(shuffled)
    distinct = [
        c for c in claims if sum((d.said, d.order, d.record) == (c.said, c.order, c.record) for d in claims) < 2
    ]
    if len(distinct) == len(claims):
        assert reduce_claims(shuffled, is_set) == reduce_claims(claims, is_set)


@settings(max_examples=150, deadline=None)
@given(CLAIMS, st.booleans())
def test_whatever_is_claimed_the_versions_make_sense(claims: list[Claim], is_set: bool) -> None:
    found: list[Version] = reduce_claims(claims, is_set)
    known = {claim.turn for claim in claims}
    for version in found:
        assert version.evidence and set(version.evidence) <= known
        assert 0 < version.confidence < 1
        assert version.status != "current" or any(not c.doubt and not c.denies for c in claims if c.key == version.key)
    current = [version.key for version in found if version.status == "current"]
    assert len(current) == len(set(current))
    if not is_set and not any(c.adds or c.linked for c in claims):
        assert len(current) <= 1
    assert reduce_claims([], is_set) == []


def test_the_order_of_unrelated_facts_does_not_matter(quick: Memory) -> None:
    told = [("Ana", "Lyon"), ("Ben", "Oslo"), ("Cem", "Rome"), ("Dia", "Graz"), ("Eva", "Bonn"), ("Fay", "Kyiv")]
    turns = [add(quick, f"2026-01-0{day}", f"{who} moved to {place}.") for day, (who, place) in enumerate(told, 1)]
    records = [record(turn, place, entity=who) for turn, (who, place) in zip(turns, told, strict=True)]
    quick.observe_records(N, records)
    before = {who: quick.state_history(who, namespace=N) for who, _ in told}
    ordinal = quick.store.namespaces.ordinal(N)
    with quick.store.database.write() as connection:
        connection.execute("DELETE FROM record WHERE namespace = ?", (ordinal,))
        quick.store.states.rebuild(connection, ordinal)
    for made in reversed(records):
        quick.observe_records(N, [made])
    assert {who: quick.state_history(who, namespace=N) for who, _ in told} == before
