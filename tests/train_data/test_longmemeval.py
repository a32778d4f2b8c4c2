import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.train_data import Corpus, Fault, load_corpus
from intentmem.train_data.longmemeval import parse_time


def entries() -> list[dict[str, Any]]:
    """Two questions in the published form, and what is known to go wrong in it."""
    told = [
        {"role": "user", "content": "I bought a kayak in May.", "has_answer": True},
        {"role": "assistant", "content": "Enjoy the river!", "has_answer": False},
    ]
    chat = [{"role": "user", "content": "Any good soup?"}, {"role": "assistant", "content": "Try leek."}]
    faulty = [{"role": "narrator", "content": "?"}, {"role": "user"}, {"role": "user", "content": " "}, chat[0]]
    first = {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "When did I buy the kayak?",
        "answer": 2023,
        "question_date": "2023/12/18 (Mon) 04:17",
        "haystack_session_ids": ["answer_4dac_1", "ultrachat_7", "sharegpt_9"],
        "haystack_dates": ["2023/06/02 (Fri) 10:00", "2023/05/01 (Mon) 09:30", "someday"],
        "haystack_sessions": [told, chat, faulty],
        "answer_session_ids": ["answer_4dac_1", "answer_gone"],
    }
    abstaining = {**first, "question_id": "q2_abs", "question_date": "late"}
    return [first, abstaining, {"question_id": "q3", "haystack_sessions": []}]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    (tmp_path / "longmemeval_s.json").write_text(json.dumps(entries()), encoding="utf-8")
    return load_corpus("longmemeval", tmp_path)


def test_each_question_has_a_haystack_of_its_own_in_the_order_of_its_dates(corpus: Corpus) -> None:
    assert [t.id for t in corpus.trajectories] == ["q1", "q2_abs"]
    turns = corpus.trajectories[0].turns
    assert [(t.source_id, t.session, t.role) for t in turns] == [
        ("1:0", "1", "user"),
        ("1:1", "1", "assistant"),
        ("2:3", "2", "user"),
        ("0:0", "0", "user"),
        ("0:1", "0", "assistant"),
    ]
    assert turns[0].time == datetime(2023, 5, 1, 9, 30, tzinfo=UTC) and turns[2].time is None


def test_nothing_that_a_system_sees_tells_where_the_answer_is(corpus: Corpus) -> None:
    seen = repr([trajectory.turns for trajectory in corpus.trajectories])
    assert "answer" not in seen and "ultrachat" not in seen


def test_gold_is_the_evidence_sessions_and_the_marked_turns(corpus: Corpus) -> None:
    question = corpus.questions[0]
    assert (question.gold_sessions, question.gold_turns) == (("0",), ("0:0",))
    assert question.group == "single-session-user" and question.answer == "2023"
    assert question.time == datetime(2023, 12, 18, 4, 17, tzinfo=UTC)
    assert question.searchable_until is None


def test_a_question_to_abstain_from_counts_in_no_retrieval_figure(corpus: Corpus) -> None:
    question = corpus.questions[1]
    assert not question.answerable and not question.has_evidence


def test_faults_are_counted(corpus: Corpus) -> None:
    assert corpus.problem_counts == {
        Fault.BAD_QUESTION: 1,
        Fault.BAD_DATE: 3,
        Fault.BAD_TURN: 4,
        Fault.EMPTY_TURN: 2,
        Fault.EVIDENCE_DANGLING: 1,
    }


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2023/12/18 (Mon) 04:17", datetime(2023, 12, 18, 4, 17, tzinfo=UTC)),
        ("2023/5/1", datetime(2023, 5, 1, tzinfo=UTC)),
        ("2023/13/01 (Mon) 04:17", None),
        ("18.12.2023", None),
        ("", None),
    ],
)
def test_its_times_are_read(text: str, time: datetime | None) -> None:
    assert parse_time(text) == time


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "x"]), inner),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from([*entries()[0], "x"]), anything))
def test_no_field_of_another_shape_stops_it(tmp_path_factory: pytest.TempPathFactory, changed: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("odd") / "longmemeval_s.json"
    path.write_text(json.dumps([entries()[0], {**entries()[0], **changed}]), encoding="utf-8")
    assert load_corpus("longmemeval", path).questions[0].id == "q1"
