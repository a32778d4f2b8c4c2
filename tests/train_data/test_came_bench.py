import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.memory.errors import InputError
from intentmem.train_data import Corpus, Fault, load_corpus
from intentmem.train_data.came_bench import split_timestamp

TURNS: list[Any] = [
    {
        "id": "t1",
        "role": "user",
        "content": "Find a hotel for day 1.\n----TIMESTAMP: 2025-05-15T08:00",
        "partition": ["SECRET day 1", "hotel"],
        "action": "SECRET search",
        "action_object": "hotel",
    },
    {"id": "t2", "role": "agent", "content": "It is priced at around 76.22.----TIMESTAMP: 2025-05-15T08:01"},
    {"id": "t2", "role": "Pro", "content": "I object.", "timestamp_mapping": {"question:q1": "x", "c": "2025-06-01"}},
    {"id": 7, "role": "user", "content": "Book it. ----TIMESTAMP: noon"},
    {"id": "t5", "role": "user", "content": "----TIMESTAMP: 2025-05-15T08:02"},
    {"id": "t6", "role": "user"},
    {"id": "t8", "role": "user", "content": "Later."},
]
QUESTIONS: list[Any] = [
    {
        "id": "q1",
        "type": "type_2",
        "content": "How dear is the hotel?",
        "answer": {"free_form_answer": "76.22"},
        "answer_type": "FREE_FORM",
        "question_turn_ids": ["t1", "t2", "7"],
        "answer_turn_ids": ["t2", "t8", "gone"],
        "date": "2025-05-15T09:00",
    },
    {"id": "q2", "type": "type 1", "content": "What else?", "answer_turn_ids": [7], "question_turn_ids": []},
    {"id": "q3", "type": "mixed", "content": "And?", "date": "soon"},
    {"id": "q4", "type": "type 3"},
]


def write(folder: Path, turns: list[Any], questions: list[Any], prefix: str = "travel_") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in (("turns", turns), ("questions", questions)):
        text = "\n".join(json.dumps(line) for line in lines)
        (folder / f"{prefix}{name}.jsonl").write_text(text + "\n", encoding="utf-8")
    (folder / f"{prefix}meta.json").write_text(json.dumps({"dataset_name": "travel"}), encoding="utf-8")
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return load_corpus("came_bench", write(tmp_path / "sets", TURNS, QUESTIONS))


def test_a_time_at_the_end_of_a_text_becomes_the_time_of_the_turn(corpus: Corpus) -> None:
    turns = corpus.trajectories[0].turns
    assert [t.text for t in turns] == [
        "Find a hotel for day 1.",
        "It is priced at around 76.22.",
        "I object.",
        "Book it.",
        "Later.",
    ]
    assert [t.time for t in turns[:3]] == [
        datetime(2025, 5, 15, 8, 0, tzinfo=UTC),
        datetime(2025, 5, 15, 8, 1, tzinfo=UTC),
        datetime(2025, 6, 1, tzinfo=UTC),
    ]
    assert turns[3].time is None


def test_roles_beyond_user_and_assistant_are_speakers(corpus: Corpus) -> None:
    turns = corpus.trajectories[0].turns
    assert [(t.source_id, t.role, t.speaker) for t in turns] == [
        ("t1", "user", None),
        ("t2", "assistant", None),
        ("t2#2", "user", "Pro"),
        ("7", "user", None),
        ("t8", "user", None),
    ]


def test_gold_structure_stands_beside_the_turns_and_never_in_one(corpus: Corpus) -> None:
    trajectory = corpus.trajectories[0]
    assert trajectory.id == "travel"
    assert "SECRET" not in repr(trajectory.turns)
    gold = trajectory.gold["t1"]
    assert gold.scope == "SECRET day 1 / hotel"
    assert [(e.name, e.parent) for e in gold.events] == [("SECRET search hotel", "SECRET search")]


def test_questions_see_their_history_and_keep_the_evidence_inside_it(corpus: Corpus) -> None:
    first, second, third = corpus.questions
    assert (first.id, first.group, first.answer) == ("travel/q1", "type 2", "76.22")
    assert first.searchable_until == 4 and first.gold_turns == ("t2",)
    assert first.time == datetime(2025, 5, 15, 9, 0, tzinfo=UTC)
    assert (second.group, second.searchable_until, second.gold_turns) == ("type 1", None, ("7",))
    assert third.group == "mixed" and not third.has_evidence


def test_faults_are_counted(corpus: Corpus) -> None:
    assert corpus.problem_counts == {
        Fault.DUPLICATE_ID: 1,
        Fault.EMPTY_TURN: 1,
        Fault.BAD_TURN: 1,
        Fault.BAD_DATE: 2,
        Fault.BAD_QUESTION: 1,
        Fault.EVIDENCE_DANGLING: 1,
        Fault.EVIDENCE_NOT_BEFORE_QUESTION: 1,
        Fault.NO_EVIDENCE: 1,
    }


def test_a_folder_of_folders_gives_a_trajectory_each(tmp_path: Path) -> None:
    for name in ("traj-1", "traj-2"):
        write(tmp_path / name, TURNS[:2], QUESTIONS[:1], prefix="")
    corpus = load_corpus("came_bench", tmp_path)
    assert [t.id for t in corpus.trajectories] == ["traj-1", "traj-2"]
    assert [q.id for q in corpus.questions] == ["traj-1/q1", "traj-2/q1"]


def test_turns_without_their_questions_are_refused(tmp_path: Path) -> None:
    write(tmp_path, TURNS, QUESTIONS)
    (tmp_path / "travel_questions.jsonl").unlink()
    with pytest.raises(InputError, match=r"travel_questions\.jsonl: is missing"):
        load_corpus("came_bench", tmp_path)


@given(st.text(max_size=40))
def test_a_text_without_a_machine_time_is_left_as_it_is(text: str) -> None:
    kept, stamp = split_timestamp(text)
    assert kept == text if stamp is None else text.startswith(kept)
    assert split_timestamp(f"{text}----TIMESTAMP: 2025-05-15T08:00")[1] is not None


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.sampled_from([*TURNS[0], "timestamp_mapping"]), anything),
    st.dictionaries(st.sampled_from(list(QUESTIONS[0])), anything),
)
def test_no_field_of_another_shape_stops_it(
    tmp_path_factory: pytest.TempPathFactory, turn: dict[str, Any], question: dict[str, Any]
) -> None:
    turns, questions = [TURNS[0], {**TURNS[1], **turn}], [QUESTIONS[0], {**QUESTIONS[0], **question}]
    corpus = load_corpus("came_bench", write(tmp_path_factory.mktemp("odd"), turns, questions))
    assert corpus.trajectories[0].turns[0].source_id == "t1"
