import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.memory.errors import InputError
from intentmem.train_data import Fault, load_corpus
from intentmem.train_data.locomo import MONTHS, parse_evidence, parse_session_time


def sample() -> dict[str, Any]:
    """One conversation in the published form, with every fault that the format is known for."""
    return {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Bo",
            "session_10_date_time": "12:05 am on 2 March, 2021",
            "session_10": [{"speaker": "Bo", "dia_id": "D10:1", "text": "Back from the coast."}],
            "session_2_date_time": "1:56 pm on 8 May, 2020",
            "session_2": [
                {
                    "speaker": "Ada",
                    "dia_id": "D2:1",
                    "text": "Look at my kiln.",
                    "img_url": ["https://example.org/a.jpg", "https://example.org/b.jpg"],
                    "blip_caption": "a photo of a kiln",
                    "query": "kiln",
                    "re-download": True,
                },
                {"speaker": "Bo", "dia_id": "D2:2", "text": "", "blip_caption": "a photo of a bowl"},
                {"speaker": "Bo", "dia_id": "D2:3", "text": "  "},
                {"speaker": "Bo", "text": "no id"},
                {"speaker": "Bo", "dia_id": "D2:1", "text": "An id used twice."},
            ],
            "session_11_date_time": "noon on a Tuesday",
            "session_11": [{"speaker": "Ada", "dia_id": "D11:1", "text": "See you."}],
            "session_12_date_time": "1:00 pm on 1 April, 2021",
        },
        "qa": [
            {"question": "Who owns a kiln?", "answer": "Ada", "evidence": ["D2:1; D2:02"], "category": 4},
            {"question": "How many bowls?", "answer": 1, "evidence": ["D2:2", "D", "D9:9"], "category": 1},
            {"question": "Would she sell it?", "answer": "Unlikely", "evidence": [], "category": 3},
            {"question": "Where is Bo's kiln?", "adversarial_answer": "At home", "evidence": ["D:2:1"], "category": 5},
            {"answer": "no question", "evidence": ["D2:1"], "category": 1},
        ],
        "observation": {"session_2_observation": {"Ada": [["SECRET observation", "D2:1"]]}},
        "session_summary": {"session_2_summary": "SECRET summary"},
        "event_summary": {"events_session_2": {"Ada": ["SECRET event"]}},
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([sample()]), encoding="utf-8")
    return path


def test_sessions_come_in_the_order_of_their_numbers_with_the_time_of_the_session(file: Path) -> None:
    turns = load_corpus("locomo", file).trajectories[0].turns
    assert [t.source_id for t in turns] == ["D2:1", "D2:2", "D2:1#2", "D10:1", "D11:1"]
    assert [t.session for t in turns] == ["session_2"] * 3 + ["session_10", "session_11"]
    assert turns[0].time == turns[2].time == datetime(2020, 5, 8, 13, 56, tzinfo=UTC)
    assert turns[3].time == datetime(2021, 3, 2, 0, 5, tzinfo=UTC)
    assert turns[4].time is None
    assert {(t.role, t.speaker) for t in turns} == {("user", "Ada"), ("user", "Bo")}


def test_a_picture_is_an_attachment_with_its_caption_and_address(file: Path) -> None:
    first, second, *_ = load_corpus("locomo", file).trajectories[0].turns
    assert [(a.kind, a.uri, a.caption) for a in first.attachments] == [
        ("image", "https://example.org/a.jpg", "a photo of a kiln"),
        ("image", "https://example.org/b.jpg", None),
    ]
    assert dict(first.attachments[0].meta) == {"query": "kiln"}
    assert second.text == "" and second.attachments[0].caption == "a photo of a bowl"


def test_what_a_model_derived_never_reaches_a_turn(file: Path) -> None:
    assert "SECRET" not in repr(load_corpus("locomo", file))


def test_questions_keep_what_evidence_can_be_read_and_the_rest_is_counted(file: Path) -> None:
    corpus = load_corpus("locomo", file)
    assert [(q.group, q.gold_turns, q.gold_sessions) for q in corpus.questions] == [
        ("category 4", ("D2:1", "D2:2"), ("session_2",)),
        ("category 1", ("D2:2",), ("session_2",)),
        ("category 3", (), ()),
        ("category 5", ("D2:1",), ("session_2",)),
    ]
    assert corpus.problem_counts == {
        Fault.BAD_DATE: 1,
        Fault.DATE_WITHOUT_SESSION: 1,
        Fault.EMPTY_TURN: 1,
        Fault.BAD_TURN: 1,
        Fault.DUPLICATE_ID: 1,
        Fault.EVIDENCE_MALFORMED: 2,
        Fault.EVIDENCE_UNREADABLE: 1,
        Fault.EVIDENCE_DANGLING: 1,
        Fault.NO_EVIDENCE: 1,
        Fault.BAD_QUESTION: 1,
    }


def test_retrieval_groups_leave_out_questions_without_evidence(file: Path) -> None:
    corpus = load_corpus("locomo", file)
    assert {group: len(qs) for group, qs in corpus.by_group().items()} == {
        "all": 3,
        "category 1": 1,
        "category 4": 1,
        "category 5": 1,
    }
    assert len(corpus.by_group(evidence_only=False)["all"]) == 4


def test_the_right_answer_to_an_adversarial_question_is_to_abstain(file: Path) -> None:
    *others, trap = load_corpus("locomo", file).questions
    assert not trap.answerable and trap.answer is None and trap.wrong_answer == "At home"
    assert all(q.answerable and q.wrong_answer is None for q in others)
    assert others[1].answer == "1"


def test_a_folder_and_a_file_of_one_conversation_load_alike(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "conv-1.json").write_text(json.dumps(sample()), encoding="utf-8")
    assert load_corpus("locomo", folder).trajectories == load_corpus("locomo", file).trajectories


def test_it_may_not_be_trained_on(file: Path) -> None:
    with pytest.raises(InputError, match="evaluation only"):
        load_corpus("locomo", file).for_training()


def test_a_conversation_without_its_turns_is_refused_by_field(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text(json.dumps([{"conversation": "gone", "qa": []}]), encoding="utf-8")
    with pytest.raises(InputError, match=r"broken\.json\[0\]\.conversation"):
        load_corpus("locomo", path)


@pytest.mark.parametrize(
    ("entries", "ids", "malformed", "unreadable"),
    [
        (["D8:6"], ("D8:6",), 0, 0),
        (["D8:6; D9:17"], ("D8:6", "D9:17"), 1, 0),
        (["D9:1 D4:4 D4:6"], ("D9:1", "D4:4", "D4:6"), 1, 0),
        (["D:11:26"], ("D11:26",), 1, 0),
        (["D30:05"], ("D30:5",), 1, 0),
        (["D"], (), 0, 1),
        (["D1:2", "D1:2"], ("D1:2",), 0, 0),
        ("D1:2", ("D1:2",), 0, 0),
        (["D1:2 and so on"], ("D1:2",), 0, 1),
        ([None, 7, {}], (), 0, 3),
        (None, (), 0, 0),
    ],
)
def test_each_known_form_of_evidence_is_read(
    entries: object, ids: tuple[str, ...], malformed: int, unreadable: int
) -> None:
    read = parse_evidence(entries)
    assert (read.ids, read.malformed, read.unreadable) == (ids, malformed, unreadable)


json_values: st.SearchStrategy[object] = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just({}) | st.just(["D1:1"])
)
near_ids = st.text(alphabet="D:; ,0123456789d\t٣x", max_size=30)


@given(json_values | st.lists(json_values | near_ids, max_size=4))
def test_evidence_of_any_shape_is_read_without_an_error(entries: object) -> None:
    read = parse_evidence(entries)
    assert all(re.fullmatch(r"D(0|[1-9]\d*):(0|[1-9]\d*)", id, re.ASCII) for id in read.ids)
    assert len(set(read.ids)) == len(read.ids)


@given(
    st.lists(st.tuples(st.integers(0, 999), st.integers(0, 999)), min_size=1, max_size=8, unique=True),
    st.sampled_from(["; ", " ", ", ", ";", ",\t"]),
    st.booleans(),
    st.integers(0, 2),
)
def test_evidence_ids_joined_in_any_way_come_back(
    pairs: list[tuple[int, int]], separator: str, colon: bool, zeros: int
) -> None:
    joined = separator.join(f"D{':' if colon else ''}{a}:{'0' * zeros}{b}" for a, b in pairs)
    read = parse_evidence([joined])
    assert read.ids == tuple(f"D{a}:{b}" for a, b in pairs) and read.unreadable == 0


@given(st.datetimes(min_value=datetime(1000, 1, 1), max_value=datetime(9999, 1, 1)))
def test_every_session_time_comes_back(moment: datetime) -> None:
    months = [name.capitalize() for name in MONTHS]
    hour, half = moment.hour % 12 or 12, "am" if moment.hour < 12 else "pm"
    text = f"{hour}:{moment.minute:02} {half} on {moment.day} {months[moment.month - 1]}, {moment.year}"
    assert parse_session_time(text) == moment.replace(second=0, microsecond=0, tzinfo=UTC)


@settings(max_examples=50)
@given(st.text(max_size=40) | st.from_regex(r"\d{1,2}:\d{2} [ap]m on \d{1,2} [A-Za-z]{3,9}, \d{4}", fullmatch=True))
def test_no_text_makes_the_session_time_raise(text: str) -> None:
    time = parse_session_time(text)
    assert time is None or time.tzinfo is UTC


@pytest.mark.parametrize("text", ["13:00 pm on 1 May, 2020", "0:10 am on 1 May, 2020", "1:00 pm on 31 June, 2020", ""])
def test_an_impossible_session_time_is_none(text: str) -> None:
    assert parse_session_time(text) is None


def test_the_five_development_conversations_have_their_known_counts(shared: Path) -> None:
    corpus = load_corpus("locomo", shared / "data" / "locomo")
    assert [t.id for t in corpus.trajectories] == ["conv-26", "conv-30", "conv-41", "conv-42", "conv-43"]
    assert [len(t.turns) for t in corpus.trajectories] == [419, 369, 663, 629, 680]
    assert len(corpus.questions) == 999
    assert {group: len(qs) for group, qs in corpus.by_group().items()} == {
        "all": 997,
        "category 1": 142,
        "category 2": 156,
        "category 3": 44,
        "category 4": 418,
        "category 5": 237,
    }
    assert corpus.problem_counts == {
        Fault.DATE_WITHOUT_SESSION: 16,
        Fault.NO_EVIDENCE: 2,
        Fault.EVIDENCE_MALFORMED: 2,
        Fault.EVIDENCE_DANGLING: 1,
        Fault.EVIDENCE_UNREADABLE: 1,
    }
    assert sum(bool(t.attachments) for trajectory in corpus.trajectories for t in trajectory.turns) == 602
    assert all(t.time is not None for trajectory in corpus.trajectories for t in trajectory.turns)


def test_two_loads_of_the_development_conversations_are_equal(shared: Path) -> None:
    first, second = (load_corpus("locomo", shared / "data" / "locomo") for _ in range(2))
    assert first == second and first.hash == second.hash != ""
