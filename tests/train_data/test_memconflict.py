import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.train_data import Corpus, Fault, load_corpus


def session(number: int, text: str, questions: list[dict[str, Any]] | None = None, **gold: Any) -> dict[str, Any]:
    dialogue = {
        "dialogue_turn_10": [{"role": "assistant", "content": f"Noted, {number}."}],
        "dialogue_turn_2": [{"role": "user", "content": text}],
    }
    return {
        "Session_ID": number,
        "Date": f"2024-01-{number + 1:02d}",
        "Session_Type": "SECRET update",
        "Session_Outline": "SECRET outline",
        "Session_Dialogue": dialogue,
        "Session_Questions": questions or [],
        **gold,
    }


def asked(kind: str, text: str, answer: str = "so") -> dict[str, Any]:
    return {"question_id": "Q_001", "question": text, "answer": answer, "conflict_type": kind}


def point(conflict: str, role: str, **more: Any) -> dict[str, Any]:
    return {"Conflict_ID": conflict, "Role": role, **more}


def persona() -> dict[str, Any]:
    static, conditional = "Static_Conflict_Information", "Conditional_Conflict_Information"
    rules = [point("C1", "Point_A", Item="tea"), point("C2", "Point_A", Item="trains")]
    later = [point("C1", "Point_B", Item="coffee"), point("C2", "Point_B", Item="planes")]
    chain = [
        session(0, "I was born in Lyon.", **{static: [point("S1", "Point_A")], conditional: rules[:1]}),
        session(1, "I love trains for holidays.", **{conditional: rules[1:]}),
        session(
            2,
            "I moved to Turin.",
            [asked("dynamic", "Where do they live?")],
            Updated_Attributes=[{"Attribute": "Residence"}],
        ),
        session(
            3,
            "I was born in Nice.",
            [asked("static", "Where were they born?"), asked("static", "")],
            **{static: [point("S1", "Point_B"), point("S9", "Distractor")]},
        ),
        session(
            4,
            "Coffee at work.",
            [asked("conditional", "What do they drink at home?")],
            **{conditional: later[:1]},
        ),
        session(
            5,
            "Planes for work.",
            [asked("conditional", "When trains?"), asked("conditional", "And?")],
            **{conditional: later},
        ),
    ]
    chain[5]["Session_Dialogue"]["dialogue_turn_11"] = [
        {"assistant": {"content": "A role as a key."}},
        {"role": "assistant"},
        {"content": "nobody"},
        {"user": "content", "content": "Beside it."},
    ]
    return {"ID": "P1", "Fixed_Profile": {"Name": "SECRET"}, "Full_Session_Chain": chain}


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    text = json.dumps(persona()) + '\n{"ID": "P2"}\n'
    (tmp_path / "Step4_4.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "Step1_1.jsonl").write_text("{}", encoding="utf-8")
    return load_corpus("memconflict", tmp_path)


def test_turns_come_in_the_order_of_their_numbers_with_the_date_of_their_session(corpus: Corpus) -> None:
    turns = corpus.trajectories[0].turns
    assert [(t.source_id, t.role, t.text) for t in turns[:2]] == [
        ("0:0", "user", "I was born in Lyon."),
        ("0:1", "assistant", "Noted, 0."),
    ]
    assert turns[2].time == datetime(2024, 1, 2, tzinfo=UTC) and turns[2].session == "1"


def test_a_message_whose_role_is_a_key_is_read_all_the_same(corpus: Corpus) -> None:
    assert [(t.role, t.text) for t in corpus.trajectories[0].turns[-2:]] == [
        ("assistant", "A role as a key."),
        ("user", "Beside it."),
    ]


def test_nothing_of_how_the_benchmark_was_made_reaches_a_turn(corpus: Corpus) -> None:
    assert "SECRET" not in repr(corpus.trajectories)


def test_gold_is_told_by_released_ids(corpus: Corpus) -> None:
    assert [(q.id, q.group, q.gold_sessions, q.searchable_until) for q in corpus.questions] == [
        ("P1/2/Q_001", "dynamic", ("2",), 6),
        ("P1/3/Q_001", "static", ("0",), 8),
        ("P1/4/Q_001", "conditional", ("0",), 10),
        ("P1/5/Q_001", "conditional", ("1",), None),
        ("P1/5/Q_001#2", "conditional", (), None),
    ]


def test_faults_are_counted(corpus: Corpus) -> None:
    assert corpus.problem_counts == {Fault.BAD_TURN: 3, Fault.BAD_QUESTION: 1, Fault.NO_EVIDENCE: 1}


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["Role", "question", "x"]), inner),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(list(persona()["Full_Session_Chain"][3])), anything))
def test_no_field_of_another_shape_stops_it(tmp_path_factory: pytest.TempPathFactory, changed: dict[str, Any]) -> None:
    made = persona()
    made["Full_Session_Chain"][3] |= changed
    path = tmp_path_factory.mktemp("odd") / "Step4_4.jsonl"
    path.write_text(json.dumps(made), encoding="utf-8")
    assert load_corpus("memconflict", path).questions[0].gold_sessions == ("2",)
