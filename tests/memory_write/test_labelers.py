"""A user's own labeler: its label on every turn, found by it, and caught up on turns stored before it."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from support import assert_sound, make_memory

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import EVENT, Decision, Field, Group, Item, Option, Space, Task
from intentmem.memory.write.labelers import Labeler

TONE = Task(
    name="tone",
    question="How does the speaker feel?",
    fields=(Field("turn", "The turn."), Field("before", "The turn before it.", required=False)),
    space=Space.CLOSED,
    groups=(Group("tone", (Option("angry", "upset about something"), Option("calm", "anything else"))),),
)
TALK = ["My order is late AGAIN!", "I am sorry to hear that.", "Where is it?", "This is the LAST time!"]


class ByShouting:
    """Angry is who shouts."""

    reads_window = False

    def __init__(self, name: str = "shouting", answer: str | None = None) -> None:
        self.name = name
        self.answer = answer
        self.asked: list[Item] = []

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        self.asked += items
        labels = [self.answer or ("angry" if "!" in str(item.fields["turn"]) else "calm") for item in items]
        return [Decision((label,), {label: 0.9}, 0.9, self.name) for label in labels]


def test_each_turn_carries_the_label_and_is_found_by_it(folder: Path) -> None:
    with make_memory(folder, labelers=[Labeler(TONE, ByShouting())]) as memory:
        memory.add([{"role": "user", "content": text} for text in TALK], namespace="n")
        turns = memory.list(namespace="n")["results"]
        assert [turn["labels"]["tone"][0]["label"] for turn in turns] == ["angry", "calm", "calm", "angry"]
        found = memory.search("order", namespace="n", labels={"tone": ["angry"]}, limit=10)["results"]
        assert {hit["memory"] for hit in found} == {TALK[0], TALK[3]}
        assert memory.delete_all(namespace="n", labels={"tone": ["calm"]}) == 2
        assert_sound(memory, "n")


def test_it_reads_the_turn_before(folder: Path) -> None:
    decider = ByShouting()
    with make_memory(folder, labelers=[Labeler(TONE, decider)]) as memory:
        memory.add([{"role": "user", "content": text} for text in TALK[:2]], namespace="n")
        memory.add(TALK[2], namespace="n")
    assert [item.fields.get("before") for item in decider.asked] == [None, *TALK[:2]]


def test_turns_stored_before_it_are_labelled_when_asked_and_once(folder: Path) -> None:
    with make_memory(folder) as memory:
        memory.add([{"role": "user", "content": text} for text in TALK], namespace="n")
        with pytest.raises(InputError, match="has labelled no turn"):
            memory.search("order", namespace="n", labels={"tone": ["angry"]})
    with make_memory(folder, labelers=[Labeler(TONE, ByShouting())]) as memory:
        assert memory.label(namespace="n") == len(TALK)
        assert memory.label(namespace="n") == 0
        assert memory.search("order", namespace="n", labels={"tone": ["angry"]})["results"]
    with make_memory(folder, labelers=[Labeler(TONE, ByShouting("another"))]) as memory:
        assert memory.label(namespace="n") == len(TALK)


def test_a_label_outside_its_space_fails_the_operation_and_keeps_the_turn(folder: Path) -> None:
    with make_memory(folder, labelers=[Labeler(TONE, ByShouting(answer="furious"))]) as memory:
        result = memory.add(TALK[0], namespace="n")
        assert result["status"] == "failed" and "furious" in result["warnings"][0]
        assert memory.search("order", namespace="n", recipe="lexical")["results"]


def test_a_task_that_needs_more_than_a_turn_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be read from a turn"):
        Labeler(Task("x", "?", (Field("question", "A question."),), Space.CLOSED, TONE.groups), ByShouting())
    with pytest.raises(InputError, match="built-in"):
        Labeler(EVENT, ByShouting())
