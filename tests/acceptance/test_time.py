"""Group E: time."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import quick_memory

from intentmem.memory.errors import InputError
from intentmem.memory.memory import Memory
from intentmem.memory.types import NewTurn
from intentmem.memory.write.dates import query_range

NOW = datetime(2026, 3, 5, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with quick_memory(tmp_path_factory.mktemp("dated")) as made:
        made.add(
            [
                {"role": "user", "content": f"note of {when}", "time": when}
                for when in (
                    "2023-12-31T23:30:00Z",
                    "2024-01-01T00:00:00Z",
                    "2024-03-05T10:00:00Z",
                    "2024-03-06T00:00:00Z",
                )
            ],
            namespace="n",
        )
        yield made


def test_e01_yesterday_is_read_against_the_time_of_its_turn(memory: Memory) -> None:
    added = memory.add(
        [{"role": "user", "content": "I saw Ana yesterday.", "time": "2023-05-08T10:00:00Z"}], namespace="n"
    )
    turn = memory.get(added["results"][0]["id"], namespace="n")
    assert "2023-05-07" in str(turn["grounded"])
    assert turn["created_at"] == "2023-05-08T10:00:00+00:00"
    assert turn["time_source"] == "given"


def test_e01_a_turn_without_a_time_says_where_its_time_comes_from(memory: Memory) -> None:
    memory.add(
        [{"role": "user", "content": "one", "time": "2023-05-08T10:00:00Z"}, {"role": "user", "content": "two"}],
        namespace="n",
    )
    memory.add("three", namespace="n")
    found = [(turn["created_at"][:10], turn["time_source"]) for turn in memory.list(namespace="n")["results"]]
    assert found == [("2023-05-08", "given"), ("2023-05-08", "inherited"), ("2026-03-05", "clock")]


@pytest.mark.parametrize(
    "since",
    [
        "2024-01-01T00:00:00Z",
        "2024-01-01T00:00:00+00:00",
        "2024-01-01T01:00:00+01:00",
        "2024-01-01T00:00:00",
        "2024-01-01",
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 1),
        datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        1_704_067_200,
        1_704_067_200.0,
    ],
)
def test_e03_e04_e09_every_way_to_write_an_instant_filters_alike(dated: Memory, since: object) -> None:
    found = dated.search("note", namespace="n", since=since)["results"]  # type: ignore[arg-type]
    assert len(found) == 3
    assert dated.list(namespace="n", since=since)["total"] == 3  # type: ignore[arg-type]


def test_e04_a_naive_time_in_a_turn_of_the_callers_own_making_is_refused(memory: Memory) -> None:
    with pytest.raises(InputError, match="timezone"):
        memory.add(NewTurn("user", "hello", time=datetime(2024, 1, 1)), namespace="n")


@pytest.mark.parametrize(
    "question",
    [
        "Which service listens on port 9077?",
        "What changed in version 2023.1.4?",
        "Where is order 20240305-77?",
        "What did Jon say about the boat?",
        "What does May think of the plan?",
        "Who lives at 1984 Elm Street, room 12?",
        "How many of the 2000 tickets are left?",
    ],
)
def test_e05_numbers_and_names_are_not_dates(question: str) -> None:
    assert query_range(question, NOW) is None


@pytest.mark.parametrize(
    "question",
    [
        "What happened 100000 years ago?",
        "in the year 99999999",
        "5000000 weeks from now",
        "on 45 March 2024",
        "since -3 BC",
    ],
)
def test_e06_a_date_out_of_range_is_no_filter(dated: Memory, question: str) -> None:
    assert len(dated.search(question, namespace="n")["results"]) == 4


@settings(max_examples=60, deadline=None)
@given(
    number=st.integers(-(10**9), 10**12),
    unit=st.sampled_from(["seconds", "days", "weeks", "months", "years", "decades", "centuries"]),
    form=st.sampled_from(
        ["{n} {u} ago", "in {n} {u}", "the last {n} {u}", "since {n}", "before {n} March {n}", "{n}/{n}/{n}"]
    ),
)
def test_e06_no_date_in_a_question_raises(number: int, unit: str, form: str) -> None:
    query_range(f"What happened {form.format(n=number, u=unit)}?", NOW)


@pytest.mark.parametrize("now", [datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)])
@pytest.mark.parametrize("question", ["last week", "next year", "two years ago", "yesterday", "on Monday", "in May"])
def test_e06_questions_at_the_ends_of_the_calendar_do_not_raise(now: datetime, question: str) -> None:
    query_range(f"What happened {question}?", now)


def test_e07_a_day_stays_a_day() -> None:
    found = query_range("What did we decide on 5 March 2024?", NOW)
    assert found is not None
    assert (found[0], found[1]) == (datetime(2024, 3, 5, tzinfo=UTC), datetime(2024, 3, 6, tzinfo=UTC))


@pytest.mark.parametrize(
    ("said", "since", "until"),
    [
        ("after 2023", datetime(2024, 1, 1, tzinfo=UTC), None),
        ("since 2023", datetime(2023, 1, 1, tzinfo=UTC), None),
        ("before 2023", None, datetime(2023, 1, 1, tzinfo=UTC)),
        ("until 2023", None, datetime(2024, 1, 1, tzinfo=UTC)),
        ("in 2023", datetime(2023, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
    ],
)
def test_e10_the_bounds_of_after_since_before_until_and_in(
    said: str, since: datetime | None, until: datetime | None
) -> None:
    found = query_range(f"What did we do {said}?", NOW)
    assert found is not None
    assert (found[0], found[1]) == (since, until)


def test_e10_since_includes_until_excludes_and_as_of_includes(dated: Memory) -> None:
    day = "2024-01-01T00:00:00Z"
    assert dated.list(namespace="n", since=day)["total"] == 3
    assert dated.list(namespace="n", until=day)["total"] == 1
    assert dated.list(namespace="n", as_of=day)["total"] == 2


@pytest.mark.parametrize("when", ["tomorrow-ish", "5", "March 5", "10:30", [], True, float("nan"), 1e30, "99999-01-01"])
def test_a_time_that_is_none_is_refused_by_name(memory: Memory, when: object) -> None:
    with pytest.raises(InputError) as refused:
        memory.add([{"role": "user", "content": "x"}, {"role": "user", "content": "y", "time": when}], namespace="n")
    assert refused.value.field == "messages[1].time"
    assert memory.namespaces() == []


@pytest.mark.parametrize(
    "when",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_a_time_that_cannot_be_read_back_is_refused(memory: Memory, when: datetime) -> None:
    for message in (NewTurn("user", "x", time=when), {"role": "user", "content": "x", "time": when}):
        with pytest.raises(InputError, match="time"):
            memory.add(message, namespace="n")


@settings(max_examples=40, deadline=None)
@given(
    when=st.datetimes(datetime(2, 1, 3), datetime(9998, 12, 29)),
    offset=st.integers(-86_399, 86_399),
)
def test_any_other_time_comes_back_as_it_was_and_its_turn_can_be_deleted(
    dated: Memory, when: datetime, offset: int
) -> None:
    aware = when.replace(tzinfo=timezone(timedelta(seconds=offset)))
    added = dated.add(NewTurn("user", f"at {aware.isoformat()}", time=aware), namespace="t", wait=False)
    for turn in added["results"]:
        back = datetime.fromisoformat(dated.get(turn["id"], namespace="t")["created_at"])
        assert abs((back - aware).total_seconds()) < 0.001
        dated.delete(turn["id"], namespace="t")
    left = dated.store.database.read("SELECT count(*) FROM lexical_terms WHERE term LIKE '2q%'")[0][0]
    assert left == 0


def test_turns_out_of_order_are_kept_with_a_warning(memory: Memory) -> None:
    messages = [{"role": "user", "content": f"n{i}", "time": f"2024-01-{20 - i:02}"} for i in range(6)]
    result = memory.add(messages, namespace="n")
    assert result["status"] == "done"
    assert "before" in result["warnings"][0]
    assert [turn["seq"] for turn in memory.list(namespace="n")["results"]] == list(range(6))


def test_a_time_for_the_whole_call_is_that_of_turns_that_bring_none(memory: Memory) -> None:
    memory.add(
        [{"role": "user", "content": "a"}, {"role": "user", "content": "b", "time": "2021-01-01"}],
        namespace="n",
        time="2020-01-01",
    )
    assert [turn["created_at"][:4] for turn in memory.list(namespace="n")["results"]] == ["2020", "2021"]
