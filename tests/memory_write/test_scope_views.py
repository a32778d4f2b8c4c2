"""What the tracker keeps of single turns of each scope, and that a restart keeps it too."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.memory.types import Role, Vector
from intentmem.memory.write.scope_words import ScopeWords, scope_clauses, scope_terms
from intentmem.memory.write.scopes import RECENT, USUAL, VIEWS, ScopeTracker, Step

START = datetime(2025, 5, 1, tzinfo=UTC)


def unit(place: int, size: int = 12) -> Vector:
    return np.eye(size, dtype=np.float32)[place]


def step(vector: Vector, role: Role = "user", row: int = 0) -> Step:
    return Step(vector, role, START + timedelta(minutes=row), None, "words")


def views(tracker: ScopeTracker) -> dict[str, Vector]:
    return dict(tracker.propose(step(unit(0))).candidates.views)


def test_each_scope_keeps_its_last_user_and_assistant_turn_and_its_opening() -> None:
    tracker = ScopeTracker("n", "t")
    tracker.open(step(unit(1)), "a", "a")
    tracker.place(step(unit(2), "assistant"), "a")
    tracker.open(step(unit(3)), "b", "b")
    tracker.place(step(unit(4)), "a")
    kept = views(tracker)
    assert set(kept) == set(VIEWS)
    assert kept["last_user"].argmax(axis=1).tolist() == [4, 3]
    assert kept["last_assistant"][0].argmax() == 2 and not kept["last_assistant"][1].any()
    assert kept["opening"].argmax(axis=1).tolist() == [1, 3]
    np.testing.assert_allclose(kept["mean"][0], (unit(1) + unit(2) + unit(4)) / 3, rtol=1e-6)


def test_the_recent_views_are_the_latest_turns_of_the_scope() -> None:
    tracker = ScopeTracker("n", "t")
    tracker.open(step(unit(0)), "a", "a")
    for place in range(1, 9):
        tracker.place(step(unit(place), "assistant" if place % 2 else "user"), "a")
    kept = views(tracker)
    assert {int(kept[f"recent_{place}"][0].argmax()) for place in range(RECENT)} == {5, 6, 7, 8}


def test_views_cannot_be_written_through_and_a_proposal_changes_nothing() -> None:
    tracker = ScopeTracker("n", "t")
    tracker.open(step(unit(1)), "a", "a")
    with pytest.raises(ValueError, match="read-only"):
        views(tracker)["opening"][0, 0] = 9
    tracker.place(step(unit(2)), "a")
    assert views(tracker)["last_user"][0].argmax() == 2


def test_it_is_told_whether_an_assistant_spoke_last() -> None:
    tracker = ScopeTracker("n", "t")
    tracker.open(step(unit(1)), "a", "a")
    assert tracker.propose(step(unit(1))).candidates.signals["after_assistant"].tolist() == [0]
    tracker.place(step(unit(2), "tool"), "a")
    assert tracker.propose(step(unit(1))).candidates.signals["after_assistant"].tolist() == [1]


def test_it_is_told_how_people_talk_here_by_the_users_turns_that_go_on() -> None:
    def said(text: str, place: int, role: Role = "user") -> Step:
        return Step(unit(place), role, START, None, text)

    def usual(tracker: ScopeTracker) -> list[float]:
        return [float(tracker.propose(step(unit(0))).candidates.signals[name][0]) for name in USUAL]

    tracker = ScopeTracker("n", "t")
    tracker.open(said("roses and tulips", 1), "a", "a")
    tracker.place(said("many words of an assistant, all of them new", 2, "assistant"), "a")
    tracker.open(said("engine oil", 3), "b", "b")
    assert usual(tracker) == [0, 0, 0]
    tracker.place(said("engine valve", 3), "b")
    words, overlap, likeness = before = usual(tracker)
    assert words == pytest.approx(np.log1p(2)) and 0 < overlap < 1 and likeness == pytest.approx(1)
    tracker.place(said("tulips", 1), "a")
    assert usual(tracker) == before


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 14), st.sampled_from(["user", "assistant"])), min_size=1, max_size=40), st.data()
)
def test_a_restored_tracker_offers_what_the_unbroken_one_does(
    turns: list[tuple[int, Role]], data: st.DataObject
) -> None:
    whole, broken = ScopeTracker("n", "t"), ScopeTracker("n", "t")
    at = data.draw(st.integers(0, len(turns)))
    rng = np.random.default_rng(len(turns))
    for row, (scope, role) in enumerate(turns):
        if row == at:
            broken = through_json(broken)
        turn = step(np.float32(rng.normal(size=6)), role, row)
        for tracker in (whole, broken):
            if f"s{scope}" in tracker.scopes:
                tracker.place(turn, f"s{scope}")
            else:
                tracker.open(turn, f"s{scope}", "name")
    last = step(np.float32(rng.normal(size=6)), "user", 99)
    one, other = whole.propose(last).candidates, broken.propose(last).candidates
    assert one.ids == other.ids
    for name in VIEWS:
        np.testing.assert_array_equal(one.views[name], other.views[name])
    for name, values in one.signals.items():
        np.testing.assert_array_equal(values, other.signals[name])


def test_words_that_a_scope_has_said_before_are_counted_by_how_few_others_say_them() -> None:
    words = ScopeWords()
    words.add(0, scope_terms("user: a quiet hotel in Chiang Mai"))
    words.add(1, scope_terms("user: a quiet place to study history"))
    words.add(0, scope_terms("assistant: the hotel Rosewood costs 40 a night"))
    said, last, *_ = words.overlap(scope_terms("user: Rosewood sounds quiet"))
    assert said[0] > said[1] > 0 and last[0] > last[1]
    opening = words.overlap(scope_terms("user: as quiet a place as Rosewood")).opening
    assert opening[1] > opening[0] > 0
    said, last, opening, *_ = words.overlap(scope_terms("zebra"))
    assert not said.any() and not last.any() and not opening.any()
    again = ScopeWords.restore(json.loads(json.dumps(words.state())))
    for one, other in zip(words.overlap(["hotel"]), again.overlap(["hotel"]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_clause_that_names_a_scope_as_it_was_opened_counts_whatever_else_the_turn_says() -> None:
    words = ScopeWords()
    words.add(0, scope_terms("user: Let us plan dinner on day 1. What about the Anchor?"))
    words.add(1, scope_terms("user: Now lunch on day 1. Could Little Marigold work?"))
    text = "user: Back to dinner on day 1. How far is Little Marigold?"
    found = words.overlap(scope_terms(text), scope_clauses(text))
    assert found.lead[0] > found.lead[1] and found.clause.max() <= 1
    assert found.clause[1] > found.lead[1], "another clause names what opened the other"
    assert scope_clauses("user: Hello! 你好。晚餐。") == [["hello"], ["你好"], ["晚餐"]]


def through_json(tracker: ScopeTracker) -> ScopeTracker:
    state: dict[str, Any] = tracker.state()
    arrays = {name: state.pop(name) for name in ("totals", "turns_kept")}
    return ScopeTracker.restore({**json.loads(json.dumps(state)), **arrays})
