import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.train_data import Corpus, Fault, load_corpus
from intentmem.train_data.beam import parse_anchor


def said(id: Any, role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "id": id, "content": content, **more}


def chat() -> list[Any]:
    """Two batches in the published form, with the mark of the generator and the faults that are known."""
    first = [
        [
            said(0, "user", "My sprint ends on March 29. ->-> 1,1", time_anchor="March-15-2024", index="SECRET"),
            said(1, "assistant", "Noted.", question_type="SECRET"),
        ],
        [said(2, "user", "And the API? ->-> 1,2"), said(3, "narrator", "x"), said(4, "user", " ->-> 1,3")],
    ]
    second = [[said(5, "user", "Now 250 ms.", time_anchor="April-02-2024"), said(5, "assistant", "Good.")]]
    return [{"batch_number": 1, "turns": first}, {"batch_number": 2, "turns": second, "time_anchor": "one day"}]


PROBES: dict[str, Any] = {
    "abstention": [{"question": "Which car?", "ideal_response": "Nothing is said.", "rubric": []}],
    "information_extraction": [
        {"question": "When does it end?", "answer": "March 29", "source_chat_ids": [0, 0]},
        {"question": "", "source_chat_ids": [0]},
    ],
    "knowledge_update": [
        {"question": "How fast?", "source_chat_ids": {"original_info": [2], "updated_info": [5, 99, "x"]}}
    ],
}


def write(folder: Path, data: Any, probes: Any = PROBES) -> Path:
    (folder / "probing_questions").mkdir(parents=True)
    (folder / "chat.json").write_text(json.dumps(data), encoding="utf-8")
    (folder / "probing_questions" / "probing_questions.json").write_text(json.dumps(probes), encoding="utf-8")
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    write(tmp_path / "100K" / "1", chat())
    return load_corpus("beam", tmp_path / "100K")


def test_turns_are_clean_and_follow_the_date_of_their_batch(corpus: Corpus) -> None:
    trajectory = corpus.trajectories[0]
    assert trajectory.id == "1"
    assert [(t.source_id, t.session, t.text) for t in trajectory.turns] == [
        ("0", "batch 1", "My sprint ends on March 29."),
        ("1", "batch 1", "Noted."),
        ("2", "batch 1", "And the API?"),
        ("5", "batch 2", "Now 250 ms."),
        ("5#2", "batch 2", "Good."),
    ]
    assert [t.time for t in trajectory.turns[2:4]] == [
        datetime(2024, 3, 15, 0, 0, 2, tzinfo=UTC),
        datetime(2024, 4, 2, tzinfo=UTC),
    ]
    assert "SECRET" not in repr(trajectory)


def test_evidence_is_read_in_either_shape_and_a_shared_id_names_no_turn(corpus: Corpus) -> None:
    assert [(q.group, q.gold_turns, q.answerable) for q in corpus.questions] == [
        ("abstention", (), False),
        ("information_extraction", ("0",), True),
        ("knowledge_update", ("2",), True),
    ]
    assert corpus.questions[0].answer == "Nothing is said."


def test_faults_are_counted(corpus: Corpus) -> None:
    assert corpus.problem_counts == {
        Fault.GOLD_IN_TEXT: 2,
        Fault.BAD_TURN: 1,
        Fault.EMPTY_TURN: 1,
        Fault.BAD_DATE: 1,
        Fault.DUPLICATE_ID: 1,
        Fault.BAD_QUESTION: 1,
        Fault.NO_EVIDENCE: 1,
        Fault.EVIDENCE_AMBIGUOUS: 1,
        Fault.EVIDENCE_DANGLING: 1,
        Fault.EVIDENCE_UNREADABLE: 1,
    }


def test_the_plans_of_the_longest_chats_are_unwrapped(tmp_path: Path) -> None:
    folder = write(tmp_path / "10M" / "1", [{"plan-0": chat()[:1]}, {"plan-1": chat()[1:]}])
    turns = load_corpus("beam", folder / "chat.json").trajectories[0].turns
    assert [(t.source_id, t.session) for t in turns] == [
        *((name, "batch 1") for name in "012"),
        *((name, "batch 2") for name in ("5", "5#2")),
    ]


@pytest.mark.parametrize(
    ("text", "day"),
    [("March-15-2024", datetime(2024, 3, 15, tzinfo=UTC)), ("Mars-15-2024", None), ("June-31-2024", None), ("", None)],
)
def test_its_dates_are_read(text: str, day: datetime | None) -> None:
    assert parse_anchor(text) == day


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "question", "x"]), inner),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(anything, anything)
def test_no_field_of_another_shape_stops_it(tmp_path_factory: pytest.TempPathFactory, turns: Any, listed: Any) -> None:
    data = [*chat(), {"batch_number": 3, "turns": turns, "time_anchor": turns}]
    folder = write(tmp_path_factory.mktemp("odd") / "c", data, {"information_extraction": listed, "x": [listed]})
    assert load_corpus("beam", folder).trajectories[0].turns[0].source_id == "0"
