from dataclasses import replace
from pathlib import Path

import pytest

from intentmem.memory.errors import InputError
from intentmem.train_data import CARDS, Corpus, load_corpus
from intentmem.train_data.lookups import build_lookups, memory_lookups
from intentmem.train_data.schemas import MemoryGold, Trajectory


def test_look_ups_of_memories_open_with_what_was_remembered_and_name_its_turn() -> None:
    memories = (
        MemoryGold(
            "【Plan】 The user wants to bake sourdough bread with rye flour on every Sunday morning", "x", "s", "s:3"
        ),
        MemoryGold("Nobody knows where this comes from", "x", "s", None),
    )
    corpus = Corpus(CARDS["realmem"], (Trajectory("p", (), memories=memories),))
    (question,) = memory_lookups(corpus, most=10, seed=0).questions
    assert question.text == "The user wants to bake sourdough bread with rye"
    assert question.gold_turns == ("s:3",)


def test_a_corpus_for_evaluation_only_makes_no_look_ups() -> None:
    corpus = Corpus(CARDS["locomo"], ())
    with pytest.raises(InputError, match="evaluation only"):
        memory_lookups(corpus, 1, 0)
    with pytest.raises(InputError, match="evaluation only"):
        build_lookups(corpus, 1, 1, 0)


def test_woven_dialogues_answer_their_questions_in_the_turns_they_name(shared: Path) -> None:
    source = load_corpus("sgd", shared / "data" / "sgd" / "dev")
    source = replace(source, trajectories=source.trajectories[:20])
    made, again = (build_lookups(source, trajectories=2, dialogues=10, seed=3) for _ in range(2))
    assert made.questions == again.questions and len(made.trajectories) == 2
    for trajectory in made.trajectories:
        known = {turn.source_id: turn for turn in trajectory.turns}
        asked = [q for q in made.questions if q.trajectory == trajectory.id]
        assert asked and all(known[s] for q in asked for s in q.gold_turns)
        assert len({turn.session for turn in trajectory.turns}) > 1
