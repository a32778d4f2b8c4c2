from datetime import UTC, datetime

import numpy as np

from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.types import Turn
from intentmem.memory.write.voices import Voices


def _turn(text: str, speaker: str | None) -> Turn:
    return Turn("t", 1, "n", "main", 0, "user", text, speaker, datetime(2024, 1, 1, tzinfo=UTC), "given", None)


def _encoded(embedder: HashEmbedder, *turns: Turn) -> np.ndarray:
    return embedder.encode([turn.passage for turn in turns], "passage")


def test_turns_of_one_person_about_two_things_are_less_alike_without_the_name() -> None:
    embedder = HashEmbedder(384)
    turns = [_turn("bake the bread", "Maximiliana"), _turn("migrate a database", "Maximiliana")]
    before = _encoded(embedder, *turns)
    after = Voices(embedder).without(turns, before)
    assert float(after[0] @ after[1]) < float(before[0] @ before[1]) - 0.1
    assert np.allclose(np.linalg.norm(after, axis=1), 1, atol=1e-5)


def test_a_role_is_no_name_and_its_turns_stay_as_they_are() -> None:
    embedder = HashEmbedder(384)
    turns = [_turn("bake the bread", "User"), _turn("bake the bread", None)]
    before = _encoded(embedder, *turns)
    assert (Voices(embedder).without(turns, before) == before).all()


def test_a_turn_that_is_nothing_but_the_name_keeps_a_direction() -> None:
    embedder = HashEmbedder(384)
    turn = _turn("", "Maximiliana")
    before = embedder.encode(["Maximiliana:"], "passage")
    assert np.linalg.norm(Voices(embedder).without([turn], before)[0]) > 0.9
