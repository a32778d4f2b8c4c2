"""Cases of updates, conflicts and validity: what a memory holds to be true after later turns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import QuickDecider, quick_memory

from intentmem.memory.memory import Memory
from intentmem.memory.tasks import STATE_OPERATION, Decision, Item, Task


def say(memory: Memory, time: str, text: str, entity: str, name: str, value: str, **rest: Any) -> str:
    """Store a turn and the record that was read from it; returns the turn's id."""
    turn: str = memory.add(text, time=time, namespace="n", wait=False)["results"][0]["id"]
    memory.claim(entity, name, value, turn, namespace="n", **rest)
    return turn


def held(memory: Memory, entity: str, name: str, **options: Any) -> list[str]:
    return [version["value"] for version in memory.state(entity, name, namespace="n", **options)["values"]]


PAIRS = [
    ("I live in Lyon.", "Lyon", "I moved to Oslo.", "Oslo", "Oslo"),
    ("I work at Acme.", "Acme", "I'm with Globex now.", "Globex", "Globex"),
    ("My rent is $900.", "$900", "The rent was raised to $950.", "$950", "$950"),
    ("My dentist is Dr Weber.", "Dr Weber", "My new dentist is Dr Okafor.", "Dr Okafor", "Dr Okafor"),
    ("The call is at 3pm.", "3pm", "The call was postponed to 5pm.", "5pm", "5pm"),
    ("My size is 42.", "42", "Sorry, I meant 43.", "43", "43"),
    ("I drink coffee.", "coffee", "I switched to tea.", "tea", "tea"),
    ("My phone is a Nokia.", "Nokia", "I replaced it with a Fairphone.", "Fairphone", "Fairphone"),
    ("My plan is basic.", "basic", "I upgraded to premium.", "premium", "premium"),
    ("My name is Ana Roth.", "Ana Roth", "From now on I'm called Ana Weiss.", "Ana Weiss", "Ana Weiss"),
    ("I live in Lyon.", "Lyon", "I live in Oslo.", "Oslo", "Lyon"),
    ("I was born in Lyon.", "Lyon", "I was born in Nice.", "Nice", "Lyon"),
    ("My blood type is A.", "A", "My blood type is B.", "B", "A"),
    ("I live in Lyon.", "Lyon", "If I lived in Oslo, I'd ski.", "Oslo", "Lyon"),
    ("I live in Lyon.", "Lyon", "I plan to move to Oslo.", "Oslo", "Lyon"),
    ("I live in Lyon.", "Lyon", "Should I move to Oslo?", "Oslo", "Lyon"),
    ("I live in Lyon.", "Lyon", "I don't live in Oslo.", "Oslo", "Lyon"),
    ("I live in Lyon.", "Lyon", "I wish I lived in Oslo.", "Oslo", "Lyon"),
    ("I live in Lyon.", "Lyon", "Maybe I'll move to Oslo.", "Oslo", "Lyon"),
    ("I live in Lyon.", "Lyon", "I used to live in Oslo.", "Oslo", "Lyon"),
    ("I live in Lyon.", "Lyon", "I live in Lyon.", "Lyon", "Lyon"),
]


@pytest.mark.parametrize(("first", "old", "second", "new", "expected"), PAIRS)
def test_d02_a_claim_updates_only_what_it_says_to_change(
    quick: Memory, first: str, old: str, second: str, new: str, expected: str
) -> None:
    say(quick, "2026-01-01", first, "user", "property", old)
    say(quick, "2026-02-01", second, "user", "property", new)
    assert held(quick, "user", "property") == [expected]


class Inventive(QuickDecider):
    """Answers with an operation that does not exist."""

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        if task is STATE_OPERATION:
            return [Decision(("operation 99",), {}, 1.0, "inventive") for _ in items]
        return super().decide(task, items)


def test_d04_an_operation_that_was_not_offered_changes_nothing(folder: Path) -> None:
    with quick_memory(folder, decider=Inventive()) as memory:
        say(memory, "2026-01-01", "I live in Lyon.", "user", "residence", "Lyon")
        say(memory, "2026-02-01", "I live in Oslo.", "user", "residence", "Oslo")
        assert held(memory, "user", "residence") == ["Lyon"]
        assert len(memory.conflicts(namespace="n")["results"]) == 1


def test_d08_two_disjoint_intervals_of_one_value_are_both_kept(quick: Memory) -> None:
    say(quick, "2026-01-01", "I lived in Paris from 2010 to 2012.", "user", "residence", "Paris")
    say(quick, "2026-01-02", "I lived in Paris from 2020 to 2022.", "user", "residence", "Paris")
    times = {"2011-06-01": ["Paris"], "2016-06-01": [], "2021-06-01": ["Paris"], "2024-06-01": []}
    assert {time: held(quick, "user", "residence", as_of=time) for time in times} == times
    history = quick.state_history("user", "residence", namespace="n")["results"]
    assert [(v["valid_from"][:4], v["valid_to"][:4]) for v in history] == [("2010", "2013"), ("2020", "2023")]


def test_d09_a_record_without_a_type_erases_nothing(quick: Memory) -> None:
    say(quick, "2026-01-01", "Acme is in Lyon.", "Acme", "city", "Lyon")
    say(quick, "2026-02-01", "Acme has 40 employees.", "Acme", "size", "40 employees")
    found = quick.state("Acme", namespace="n")["values"]
    assert {version["property"]: version["value"] for version in found} == {"city": "Lyon", "size": "40 employees"}


def test_d19_a_correction_supersedes_and_both_versions_stay(quick: Memory) -> None:
    say(quick, "2026-01-01", "My birthday is on 3 May.", "user", "birthday", "3 May")
    say(quick, "2026-01-02", "I misspoke, my birthday is on 4 May.", "user", "birthday", "4 May")
    assert held(quick, "user", "birthday") == ["4 May"]
    history = quick.state_history("user", "birthday", namespace="n")["results"]
    assert [(version["value"], version["status"]) for version in history] == [
        ("3 May", "retracted"),
        ("4 May", "current"),
    ]
    assert history[1]["supersedes"] == history[0]["id"]


def test_d20_what_was_superseded_is_not_among_what_holds(quick: Memory) -> None:
    say(quick, "2026-01-01", "I live in Lyon.", "user", "residence", "Lyon")
    say(quick, "2026-02-01", "I moved to Oslo.", "user", "residence", "Oslo")
    assert held(quick, "user", "residence") == ["Oslo"]
    assert held(quick, "user", "residence", as_of="2026-01-15") == ["Lyon"]
    assert len(quick.state_history("user", "residence", namespace="n")["results"]) == 2
    assert texts(quick) == ["I moved to Oslo."]
    assert texts(quick, history=True) == ["I live in Lyon.", "I moved to Oslo."]
    assert texts(quick, as_of="2026-01-15") == ["I live in Lyon."]


def texts(memory: Memory, **options: Any) -> list[str]:
    return sorted(hit["memory"] for hit in memory.search("Where do I live?", namespace="n", **options)["results"])


def test_d10_deleting_the_source_of_a_state_takes_it_and_reopens_the_one_before(quick: Memory) -> None:
    first = say(quick, "2026-01-01", "I live in Lyon.", "user", "residence", "Lyon")
    second = say(quick, "2026-02-01", "I moved to Oslo.", "user", "residence", "Oslo")
    quick.delete(second, namespace="n")
    assert held(quick, "user", "residence") == ["Lyon"]
    quick.delete(first, namespace="n")
    assert quick.state_history("user", "residence", namespace="n")["results"] == []
    assert set(quick.store.orphans(quick.store.namespaces.ordinal("n")).values()) == {0}
