import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.memory.errors import InputError
from intentmem.train_data import Corpus, Fault, load_corpus
from intentmem.train_data.realmem import parse_day, scope_of


def turn(speaker: str, content: str, **gold: Any) -> dict[str, Any]:
    return {"speaker": speaker, "content": content, "is_query": False, "query_id": None} | gold


def session(
    identifier: str, uuid: str, day: str, turns: list[Any], memories: list[Any] | None = None
) -> dict[str, Any]:
    return {
        "session_identifier": identifier,
        "session_uuid": uuid,
        "current_time": day,
        "dialogue_turns": turns,
        "extracted_memory": memories or [],
    }


def memory(content: str, source_turn: int, snapshot: str) -> dict[str, Any]:
    return {"content": content, "type": "Dynamic", "source_turn": source_turn, "source_content_snapshot": snapshot}


NOTED = "Noted 【SECRET_Fitness_1:S1_01-schedule-2】 as `SECRET_Travel_2-DM-S1_01-02`, of Fitness_1."


def persona() -> dict[str, Any]:
    """A persona in the published form: two projects, a distractor, and the faults that the format is known for."""
    query = {"is_query": True, "query_id": "Q-1", "topic": "SECRET topic", "category_name": "Dynamic Updating"}
    used = [{"session_uuid": "aa", "content": "SECRET lifts on Mondays"}, {"session_uuid": "bb", "content": "unknown"}]
    return {
        "_metadata": {"person_name": "Nia_Vale", "total_sessions": 5, "total_tokens": 1},
        "dialogues": [
            session(
                "SECRET_Fitness_1:S1",
                "aa",
                "2026-01-05 (Monday)",
                [turn("User", "I lift on Mondays."), turn("Assistant", NOTED)],
                [
                    memory("SECRET lifts on Mondays", 1, "I lift on Mondays."),
                    memory("SECRET noted", 1, NOTED),
                    memory("SECRET cut", 2, NOTED + " And more that was cut"),
                    memory("SECRET nowhere", 9, ""),
                ],
            ),
            session(
                "Enhanced:S1001",
                "bb",
                "2026-01-05 (Monday)",
                [turn("User", "What is a kiln?"), turn("Assistant", "", memory_session_uuids=["aa"]), "not a turn"],
            ),
            session("SECRET_Travel_2:S1", "cc", "2026-01-04 (Monday)", [turn("User", "Book Oslo.")]),
            session("SECRET_Fitness_1:S2", "aa", "someday", [turn("Assistant", "An id used twice.")]),
            session(
                "SECRET_Fitness_1:S3",
                "dd",
                "2026-01-06 (Tuesday)",
                [
                    turn("User", "Hello again."),
                    turn("Assistant", "Hello!"),
                    turn("User", "Which day do I lift?", **query),
                    turn("User", "And is it still Monday?"),
                    turn("Assistant", "Monday.", memory_used=used, memory_session_uuids=["aa", "bb", "dd", "zz"]),
                    turn("User", "And now?", **query | {"category_name": "Temporal-reasoning"}),
                ],
            ),
        ],
    }


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    (tmp_path / "Nia_Vale_dialogues_256k.json").write_text(json.dumps(persona()), encoding="utf-8")
    return load_corpus("realmem", tmp_path)


def test_turns_keep_the_order_of_the_file_and_get_distinct_times_of_their_day(corpus: Corpus) -> None:
    turns = corpus.trajectories[0].turns
    assert [t.source_id for t in turns] == ["aa:0", "aa:1", "bb:0", "cc:0", "aa#2:0", *(f"dd:{i}" for i in range(6))]
    assert [t.time for t in turns[:4]] == [
        datetime(2026, 1, 5, tzinfo=UTC),
        datetime(2026, 1, 5, 0, 0, 1, tzinfo=UTC),
        datetime(2026, 1, 5, 0, 0, 2, tzinfo=UTC),
        datetime(2026, 1, 4, tzinfo=UTC),
    ]
    assert turns[4].time is None
    assert [t.role for t in turns[:3]] == ["user", "assistant", "user"]


def test_gold_never_reaches_a_turn(corpus: Corpus) -> None:
    (trajectory,) = corpus.trajectories
    assert "SECRET" not in repr(trajectory.turns)
    assert all(not t.meta and not t.attachments and t.speaker is None for t in trajectory.turns)


def test_identifiers_of_gold_that_a_reply_quotes_are_cut_out(corpus: Corpus) -> None:
    assert corpus.trajectories[0].turns[1].text == "Noted  as ``, of Fitness_1."


def test_only_sessions_before_the_querys_own_may_be_searched(corpus: Corpus) -> None:
    (trajectory,) = corpus.trajectories
    first, second = corpus.questions
    assert [t.session for t in first.searchable(trajectory)] == ["aa", "aa", "bb", "cc", "aa#2"]
    assert [t.source_id for t in first.context] == ["dd:0", "dd:1"]
    assert [t.source_id for t in second.context] == [f"dd:{i}" for i in range(5)]
    assert first.id == "Nia_Vale/dd:2" and first.text == "Which day do I lift?"
    assert first.time == datetime(2026, 1, 6, 0, 0, 2, tzinfo=UTC)


def test_gold_stands_on_the_next_assistant_turn_and_only_what_lies_before_counts(corpus: Corpus) -> None:
    first, second = corpus.questions
    assert first.gold_sessions == ("aa", "bb") and first.gold_turns == ("aa:0",) and first.answer == "Monday."
    assert not second.has_evidence
    assert {group: len(qs) for group, qs in corpus.by_group().items()} == {"all": 1, "Dynamic Updating": 1}


def test_a_memory_is_traced_to_its_turn_by_its_snapshot_first(corpus: Corpus) -> None:
    memories = corpus.trajectories[0].memories
    assert [m.turn for m in memories] == ["aa:0", "aa:1", "aa:1", None]


def test_the_scope_is_the_project_and_each_distractor_its_own(corpus: Corpus) -> None:
    gold = corpus.trajectories[0].gold
    assert gold["aa:0"].scope == gold["dd:0"].scope == "SECRET_Fitness_1"
    assert gold["bb:0"].scope == "Enhanced:S1001"
    assert scope_of("no colon") == "no colon"


def test_every_fault_is_counted(corpus: Corpus) -> None:
    assert corpus.problem_counts == {
        Fault.EMPTY_TURN: 1,
        Fault.BAD_TURN: 1,
        Fault.BAD_DATE: 1,
        Fault.DUPLICATE_ID: 1,
        Fault.WEEKDAY_MISMATCH: 1,
        Fault.DATE_OUT_OF_ORDER: 1,
        Fault.MEMORY_WITHOUT_SOURCE: 1,
        Fault.EVIDENCE_DANGLING: 1,
        Fault.EVIDENCE_NOT_BEFORE_QUESTION: 1,
        Fault.NO_EVIDENCE: 1,
        Fault.GOLD_IN_TEXT: 1,
        Fault.GOLD_WITHOUT_QUESTION: 1,
    }


def test_a_question_refuses_the_turns_of_another_trajectory(corpus: Corpus) -> None:
    (trajectory,) = corpus.trajectories
    other = type(trajectory)("other", trajectory.turns)
    with pytest.raises(InputError, match="the question asks about 'Nia_Vale'"):
        corpus.questions[0].searchable(other)


def test_splits_are_by_persona(corpus: Corpus) -> None:
    assert corpus.only("test") == corpus
    with pytest.raises(InputError, match=r"splits here: \['test'\]"):
        corpus.only("train")


@given(st.dates(), st.booleans())
def test_every_day_comes_back(day: date, named: bool) -> None:
    text = f"{day:%Y}".zfill(4) + f"-{day.month:02}-{day.day:02}"
    names = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    assert parse_day(text + (f" ({names[day.weekday()]})" if named else "")) == (day, True)
    assert parse_day(f"{text} ({names[day.weekday() - 1]})") == (day, False)


@settings(max_examples=50)
@given(st.text(max_size=40) | st.from_regex(r"\d{4}-\d{2}-\d{2} \(\w+\)", fullmatch=True))
def test_no_text_makes_the_day_raise(text: str) -> None:
    parsed = parse_day(text)
    assert parsed is None or isinstance(parsed[0], date)


@pytest.fixture(scope="module")
def personas(shared: Path) -> Corpus:
    return load_corpus("realmem", shared / "data" / "realmem")


def test_the_five_development_personas_have_their_known_counts(personas: Corpus) -> None:
    asked = {t.id: sum(q.trajectory == t.id for q in personas.questions) for t in personas.trajectories}
    assert asked == {
        "Adeleke_Okonjo": 124,
        "Ethan_Hunt": 162,
        "Kenta_Tanaka": 153,
        "Kim_Ji_young": 168,
        "Liam_O_Connor": 121,
    }
    assert [t.split for t in personas.trajectories] == ["train", "train", "train", "dev", "test"]
    assert {group: len(qs) for group, qs in personas.by_group().items()} == {
        "all": 728,
        "Dynamic Incremental": 555,
        "Dynamic Updating": 71,
        "Implicit Preference": 92,
        "Temporal-reasoning": 10,
    }
    assert sum(bool(q.gold_turns) for q in personas.questions) == 687
    assert personas.problem_counts == {
        Fault.DATE_OUT_OF_ORDER: 53,
        Fault.EMPTY_TURN: 2,
        Fault.EVIDENCE_NOT_BEFORE_QUESTION: 1,
        Fault.GOLD_IN_TEXT: 59,
        Fault.GOLD_WITHOUT_QUESTION: 24,
        Fault.MEMORY_WITHOUT_SOURCE: 102,
    }


def test_gold_of_the_development_personas_is_searchable_and_kept_out_of_the_turns(personas: Corpus) -> None:
    by_id = {t.id: t for t in personas.trajectories}
    for trajectory in personas.trajectories:
        assert len({t.source_id for t in trajectory.turns}) == len(trajectory.turns)
        assert all(not t.meta and not t.attachments for t in trajectory.turns)
        names = {g.scope for g in trajectory.gold.values()}
        assert not any(name in t.text for name in names if name for t in trajectory.turns)
    for question in personas.questions:
        searchable = question.searchable(by_id[question.trajectory])
        assert set(question.gold_sessions) <= {t.session for t in searchable}
        assert set(question.gold_turns) <= {t.source_id for t in searchable}
        assert not {t.session for t in question.context} & {t.session for t in searchable}


def test_two_loads_of_a_development_persona_are_equal(shared: Path) -> None:
    file = shared / "data" / "realmem" / "Kim_Ji_young_dialogues_256k.json"
    first, second = load_corpus("realmem", file), load_corpus("realmem", file)
    assert first == second and first.hash == second.hash != ""
