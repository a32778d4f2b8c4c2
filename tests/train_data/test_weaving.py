"""Long trajectories from many dialogues."""

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.memory.errors import InputError
from intentmem.train_data import Trajectory, estimate_tokens, gold_records, hold_out, weave

from .toy import toy_corpus


def scopes(trajectory: Trajectory) -> list[str]:
    return [str(trajectory.gold[str(turn.source_id)].scope) for turn in trajectory.turns]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), live=st.integers(1, 6), tokens=st.integers(200, 1500))
def test_segments_begin_with_the_user_and_keep_each_dialogues_order(seed: int, live: int, tokens: int) -> None:
    (made,) = weave(toy_corpus(), seed=seed, tokens=tokens, dialogues_open=live).trajectories
    before, seen = None, defaultdict(list)
    for turn, scope in zip(made.turns, scopes(made), strict=True):
        if scope != before:
            assert turn.role == "user"
            assert made.gold[str(turn.source_id)].events[0].act != "THANK_YOU"
        seen[scope].append(turn.text)
        before = scope
    originals = {d.turns[0].text: [t.text for t in d.turns] for d in toy_corpus().trajectories}
    for texts in seen.values():
        assert texts == originals[texts[0]][: len(texts)]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), tokens=st.integers(400, 1800))
def test_the_length_is_the_one_asked_for(seed: int, tokens: int) -> None:
    (made,) = weave(toy_corpus(), seed=seed, tokens=tokens).trajectories
    assert tokens <= sum(estimate_tokens(turn.text) for turn in made.turns) <= tokens * 1.1 + 100


def test_equal_arguments_give_equal_trajectories_and_other_seeds_others() -> None:
    first, again, other = (weave(toy_corpus(), seed=seed, turns=80, trajectories=2) for seed in (1, 1, 2))
    assert first == again
    assert first.trajectories[0].turns != other.trajectories[0].turns
    assert first.hash != other.hash


def test_ids_and_sessions_do_not_tell_the_dialogue() -> None:
    (made,) = weave(toy_corpus(), seed=3, dialogues=6).trajectories
    assert [turn.source_id for turn in made.turns] == [f"woven-3-0:{i}" for i in range(len(made.turns))]
    for turn in made.turns:
        assert "train/" not in f"{turn.source_id} {turn.session}"
    assert len(made.turns) == 6 * 10


def test_a_goal_is_left_and_returned_to_and_services_meet_under_two_goals() -> None:
    (made,) = weave(toy_corpus(), seed=4, dialogues=40).trajectories
    order = scopes(made)
    returns = sum(a != b and b in order[:i] for i, (a, b) in enumerate(pairwise(order)))
    assert returns > 10
    places: dict[str, list[int]] = defaultdict(list)
    for place, scope in enumerate(order):
        places[scope].append(place)
    gaps = [b - a for at in places.values() for a, b in pairwise(at)]
    assert max(gaps) > 20
    service = {scope: made.gold[str(made.turns[at[0]].source_id)].domain for scope, at in places.items()}
    overlaps = sum(
        one != other and service[one] == service[other] and at[0] < places[other][0] < at[-1]
        for one, at in places.items()
        for other in places
    )
    assert overlaps > 3


def test_shift_marks_every_change_of_goal_and_none_at_the_start() -> None:
    (made,) = weave(toy_corpus(), seed=5, turns=60).trajectories
    golds = [made.gold[str(turn.source_id)] for turn in made.turns]
    assert golds[0].shift is None
    assert [g.shift for g in golds[1:]] == [a.scope != b.scope for a, b in pairwise(golds)]


@pytest.mark.parametrize(("policy", "most"), [("none", 0), ("one", 1), ("several", 99)])
def test_sessions_follow_the_policy_and_time_never_runs_back(policy: str, most: int) -> None:
    (made,) = weave(toy_corpus(), seed=6, turns=300, sessions=policy).trajectories  # type: ignore[arg-type]
    sessions = {turn.session for turn in made.turns if turn.session}
    assert len(sessions) <= most
    assert policy != "several" or len(sessions) > 2
    times = [turn.time for turn in made.turns if turn.time]
    assert times == sorted(times)
    assert len(times) == (0 if policy == "none" else len(made.turns))


def test_a_finer_grain_splits_goals() -> None:
    coarse, fine = (weave(toy_corpus(), seed=7, turns=60, grain=grain) for grain in ("dialogue", "intent"))
    assert set(scopes(coarse.trajectories[0])) == {s.split(",")[0] for s in scopes(fine.trajectories[0])}


def test_no_dialogue_is_used_twice_unless_asked_and_running_out_says_so() -> None:
    with pytest.raises(InputError, match="used up"):
        weave(toy_corpus(5), seed=1, tokens=5000)
    repeated = weave(toy_corpus(5), seed=1, tokens=5000, repeat=True)
    assert len(set(scopes(repeated.trajectories[0]))) > 5


def test_a_corpus_for_evaluation_only_is_refused() -> None:
    with pytest.raises(InputError, match="evaluation only"):
        weave(toy_corpus(use="evaluation only"), seed=1, turns=10)


@pytest.mark.parametrize(
    "arguments", [{}, {"turns": 5, "tokens": 5}, {"turns": 0}, {"turns": 5, "trajectories": 0}, {"dialogues": -1}]
)
def test_bad_lengths_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(InputError):
        weave(toy_corpus(), seed=1, **arguments)  # type: ignore[arg-type]


def test_services_can_be_held_apart() -> None:
    seen, unseen = hold_out(toy_corpus(), ["Films_1"])
    assert len(seen.trajectories) == 40
    assert {e.service for d in unseen.trajectories for g in d.gold.values() for e in g.events} == {"Films_1"}


def test_records_name_their_thing_and_their_turn() -> None:
    (made,) = weave(toy_corpus(), seed=8, turns=60).trajectories
    texts = {turn.source_id: turn.text for turn in made.turns}
    records = gold_records(made)
    assert any(record.property == "price" for record in records)
    for record in records:
        assert texts[record.turn][record.start : record.end] == record.value
        assert record.entity is not None
        assert record.entity in texts[record.turn]
