"""A question whose answer stands in several places is read widely, any other one in the order of its scores."""

from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from intentmem.memory.memory import Memory
from intentmem.memory.read.parts import ALL_PARTS
from intentmem.memory.read.wide import widely, width


def plan(every: float, **targets: float) -> dict[str, dict[str, float]]:
    named = dict.fromkeys(("list", "count", "value", "time", "explanation"), 0.0)
    return {"target": named | targets, "span": {"one": 1 - every, "all_matching": every}}


def test_a_question_is_read_widely_as_far_as_all_that_matches_is_needed_and_it_is_several() -> None:
    assert width(plan(0.9, list=1.0), 0.0) == 0.9
    assert width(plan(0.9, value=1.0), 0.0) == 0.0
    assert width(plan(0.01, list=1.0), 0.0) == 0.0


def test_where_many_goals_share_a_sitting_nothing_is_read_widely() -> None:
    assert width(plan(0.9, list=1.0), 1.0) == 0.0


def ranking(*turns: tuple[int, int, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places, scores and sittings of turns: five that stay first, far from the others, and those given."""
    found = [(1000 + 10 * n, 100 + n, 50.0 - n) for n in range(5)] + list(turns)
    places, sittings, scores = (np.array(part) for part in zip(*found, strict=True))
    return places, scores.astype(np.float32), sittings


def read_after_the_first(wide: float, *turns: tuple[int, int, float]) -> list[int]:
    places, scores, sittings = ranking(*turns)
    found: list[int] = places[widely(places, scores, sittings, wide)].tolist()
    assert found[:5] == places[:5].tolist()
    return found[5:]


def test_what_was_said_in_another_sitting_comes_before_the_neighbours_of_one_that_is_read() -> None:
    turns = ((10, 1, 5.0), (11, 1, 4.5), (9, 1, 4.4), (40, 4, 4.0))
    assert read_after_the_first(1.0, *turns) == [10, 40, 11, 9]
    assert read_after_the_first(0.1, *turns) == [10, 11, 9, 40]


def test_a_turn_beside_one_that_is_read_waits_longer_than_another_of_its_sitting() -> None:
    assert read_after_the_first(1.0, (10, 1, 5.0), (11, 1, 4.5), (15, 1, 4.2)) == [10, 15, 11]


@given(
    st.lists(st.tuples(st.floats(-50, 50, width=32), st.integers(0, 5)), max_size=40),
    st.floats(0, 1),
)
def test_every_turn_is_read_once_and_the_best_first(found: list[tuple[float, int]], wide: float) -> None:
    found = sorted(found, key=lambda one: -one[0])
    scores = np.array([score for score, _ in found], np.float32)
    order = widely(np.arange(len(found)), scores, np.array([sitting for _, sitting in found], np.int64), wide)
    assert sorted(order.tolist()) == list(range(len(found)))
    assert not found or scores[order[0]] == scores.max()


@given(st.lists(st.floats(-50, 50, width=32), max_size=40))
def test_without_width_the_order_is_that_of_the_scores(found: list[float]) -> None:
    scores = np.array(sorted(found, reverse=True), np.float32)
    order = widely(np.arange(len(found)), scores, np.zeros(len(found), np.int64), 0.0)
    assert order.tolist() == list(range(len(found)))


CITIES = ("Lima", "Oslo", "Cairo", "Quito", "Perth")


def filled(memory: Memory) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    classes = [f"Ana visited the pottery class, and pottery classes are what she likes, said {n}." for n in range(20)]
    others = [[f"Ana visited a pottery class in {city}.", "The weather was fine."] for city in CITIES]
    for day, texts in enumerate([classes, *others]):
        said = [{"role": "user", "content": text} for text in texts]
        memory.add(said, namespace="n", session=f"s{day}", time=start + timedelta(days=day))


def sittings(memory: Memory) -> tuple[list[str | None], list[str]]:
    """Sittings of the best 24 turns, and what the last round looked for."""
    found = memory.search("Which pottery classes did Ana visit?", namespace="n", explain=True, limit=24)
    rounds = found["reading"]["rounds"] if "reading" in found else [{"looked_for": []}]
    return [hit["session"] for hit in found["results"]], rounds[-1]["looked_for"]


def test_a_search_reads_widely_in_a_round_of_its_own(memory: Memory) -> None:
    filled(memory)
    wide, looked_for = sittings(memory)
    memory.searcher.parts = ALL_PARTS.without("rounds")
    narrow, _ = sittings(memory)
    assert looked_for == ["what else matches, elsewhere"]
    assert len(set(wide)) > len(set(narrow))
