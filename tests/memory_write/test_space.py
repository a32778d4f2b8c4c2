"""A decider of scopes may see turns in vectors of its own."""

from pathlib import Path

import pytest
from support import OtherEmbedder, WatchedEmbedder, assert_sound, make_memory

from intentmem.memory.memory import Memory

TALK = ["Find me a hotel in Porto.", "Which nights?", "From Friday to Sunday.", "Does rye dough rise as fast as wheat?"]


class Opened:
    """A memory whose decider of scopes has vectors of its own, and the texts that were encoded for it."""

    def __init__(self, folder: Path) -> None:
        self.seen: list[str] = []
        space = WatchedEmbedder(lambda texts, _: self.seen.extend(texts), OtherEmbedder())
        self.memory: Memory = make_memory(folder, turn_space=lambda: space)

    def vectors(self) -> int:
        found = self.memory.store.database.read("SELECT count(*) FROM embedding WHERE view = 'scope'")
        return int(found[0][0])


@pytest.fixture
def opened(folder: Path) -> Opened:
    made = Opened(folder)
    made.memory.add(TALK[0], namespace="n")
    for text in TALK[1:]:
        made.memory.add([{"role": "user", "name": "Ana", "content": text}], namespace="n")
    return made


def test_each_turn_is_encoded_once_and_without_its_speaker(opened: Opened) -> None:
    assert opened.seen == TALK
    assert opened.vectors() == len(TALK)
    assert_sound(opened.memory, "n")


def test_scopes_go_on_after_a_restart_from_the_stored_vectors(opened: Opened, folder: Path) -> None:
    opened.memory.close()
    again = Opened(folder)
    again.memory.add("And a room for two.", namespace="n")
    assert again.seen == ["And a room for two."]


def test_turns_labelled_before_there_was_such_a_decider_are_encoded_when_they_are_needed(folder: Path) -> None:
    with make_memory(folder) as memory:
        memory.add([{"role": "user", "content": text} for text in TALK], namespace="n")
    later = Opened(folder)
    later.memory.add("And a room for two.", namespace="n")
    assert sorted(later.seen) == sorted([*TALK, "And a room for two."])
    assert later.vectors() == len(TALK) + 1


def test_a_turn_that_is_deleted_leaves_no_vector_there(opened: Opened) -> None:
    turn = opened.memory.list(namespace="n")["results"][0]["id"]
    opened.memory.delete(turn, namespace="n")
    assert opened.vectors() == len(TALK) - 1
    assert_sound(opened.memory, "n")


def test_another_embedder_leaves_them_alone(opened: Opened, folder: Path) -> None:
    opened.memory.close()
    space = OtherEmbedder()
    with make_memory(folder, embedder=OtherEmbedder(), turn_space=lambda: space) as memory:
        memory.reembed()
        memory.add("And a room for two.", namespace="n")
        found = memory.store.database.read("SELECT count(*) FROM embedding WHERE view = 'scope'")
        assert found[0][0] == len(TALK) + 1
        assert_sound(memory, "n")
