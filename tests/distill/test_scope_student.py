"""The scope student: its features, its choices, and that it keeps switching however long a conversation gets."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from intentmem.distill.evaluation.scope import measure
from intentmem.distill.evaluation.scope_runs import Run, walk
from intentmem.distill.students.sequence import SequenceStudent
from intentmem.distill.students.sequence_features import CANDIDATE, MAPS, TURN, Matching, features
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import EVENT, SCOPE, Candidates, Item
from intentmem.memory.types import Role, Vector
from intentmem.memory.write.scopes import ScopeTracker, Step

START = datetime(2025, 5, 1, tzinfo=UTC)
SIZE = 32
WORDS = "please find something about that for me"


def unit(vector: Vector) -> Vector:
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def plain_maps(size: int = SIZE) -> dict[str, Vector]:
    count = len(MAPS)
    blank = {name: np.zeros((count, size, 1), np.float32) for name in ("left", "right")}
    flat = {name: np.zeros(size, np.float32) for name in ("stay", "opens")}
    return {"scale": np.ones(count, np.float32), **blank, "bias": np.zeros((count, size), np.float32), **flat}


def run(seed: int, goals: int = 5, turns: int = 60, length: int = 6, spread: float = 0.8) -> Run:
    """Goals that take turns, each around a centre of its own."""
    rng = np.random.default_rng(seed)
    centres = [unit(rng.normal(size=SIZE)) for _ in range(goals)]
    steps, gold = [], []
    for row in range(turns):
        goal = (row // length) % goals
        role: Role = "user" if row % 2 == 0 else "assistant"
        vector = unit(centres[goal] + spread * unit(rng.normal(size=SIZE)))
        steps.append(Step(vector, role, START + timedelta(minutes=row), None, WORDS))
        gold.append(f"goal {goal}")
    return Run(f"run {seed}", "gold:made", tuple(steps), tuple(gold))


@cache
def student() -> SequenceStudent:
    pytest.importorskip("torch")
    from intentmem.distill.training.sequence_head import train_head

    arrays = plain_maps()
    trained, _ = train_head(Matching.of(arrays), arrays, [run(seed, 2 + seed % 6) for seed in range(30)], 0, rounds=2)
    return trained


class Decider:
    name, reads_window = "student", False

    def decide(self, task: object, items: list[Item]) -> list[object]:
        return list(student().decide(items))


def tracked(count: int, seed: int = 0) -> tuple[ScopeTracker, Step]:
    """A tracker of so many scopes, and a turn that fits the third."""
    rng = np.random.default_rng(seed)
    tracker = ScopeTracker("n", "t")
    centres = [unit(rng.normal(size=SIZE)) for _ in range(count)]
    for row, centre in enumerate(centres):
        tracker.open(Step(centre, "user", START + timedelta(minutes=row), None, WORDS), f"s{row}", "name")
        tracker.place(Step(centre, "assistant", START + timedelta(minutes=row), None, WORDS), f"s{row}")
    return tracker, Step(centres[2], "user", START + timedelta(hours=9), None, WORDS)


def test_two_thousand_turns_of_alternating_goals_never_end_in_one_scope() -> None:
    long = run(99, goals=6, turns=2000, length=10)
    (walked,) = walk(Decider(), [long], forced=False)  # type: ignore[arg-type]
    late = walked.placed[1500:]
    assert 5 <= len(set(walked.placed)) <= 18
    assert sum(a != b for a, b in pairwise(late)) > 30
    assert max(map(late.count, set(late))) < 0.4 * len(late)


def test_it_places_new_trajectories_well_online_and_its_confidence_is_a_probability() -> None:
    pytest.importorskip("sklearn")
    figures = {m.metric: m.value for m in measure(Decider(), [run(s) for s in range(100, 110)], resamples=0)}  # type: ignore[arg-type]
    assert figures["online_ari"] > 0.6 and figures["exact"] > 0.8
    assert 0.6 < figures["scopes_ratio"] < 1.6
    tracker, turn = tracked(6)
    (decision,) = student().decide([tracker.propose(turn)])
    assert sum(decision.probabilities.values()) == pytest.approx(1)
    assert set(decision.probabilities) == {*tracker.scopes, "none"}


def test_an_assistant_stays_where_it_is_and_a_first_turn_opens_a_scope() -> None:
    tracker, turn = tracked(4)
    reply = Step(turn.vector, "assistant", turn.time, None, WORDS)
    assert student().decide([tracker.propose(reply)])[0].labels == ("s3",)
    assert student().decide([ScopeTracker("n", "t").propose(turn)])[0].labels == ()


def test_a_head_goes_through_its_arrays_and_options_unchanged() -> None:
    first = student()
    again = SequenceStudent.from_head(SCOPE, "scope", first.head(), first.options())
    tracker, turn = tracked(9)
    item = tracker.propose(turn)
    assert again.decide([item]) == first.decide([item])
    assert again.options() == first.options()


def test_biases_move_the_choice_but_not_the_probabilities() -> None:
    tracker, turn = tracked(4)
    item = tracker.propose(turn)
    stubborn = SequenceStudent.from_head(SCOPE, "scope", student().head(), {**student().options(), "stay_bias": 100.0})
    (moved,), (free,) = stubborn.decide([item]), student().decide([item])
    assert moved.labels == ("s3",) != free.labels
    assert moved.probabilities == free.probabilities
    assert moved.confidence == pytest.approx(moved.probabilities["s3"])


def test_features_are_named_and_finite_and_do_not_count_candidates() -> None:
    matching = Matching.of(plain_maps())
    tracker, turn = tracked(5)
    found, of_turn = features(tracker.propose(turn), matching)
    assert found.shape == (5, len(CANDIDATE)) and of_turn.shape == (len(TURN),)
    assert np.isfinite(found).all() and np.isfinite(of_turn).all()
    best = found[:, CANDIDATE.index("assistant")].argmax()
    assert best == 2 and found[2, CANDIDATE.index("assistant_lead")] > 0
    assert found[:, CANDIDATE.index("previous")].tolist() == [0, 0, 0, 0, 1]
    grown, _ = features(tracked(40)[0].propose(turn), matching)
    assert "count" not in " ".join((*CANDIDATE, *TURN)) and len(grown) == 40


def test_unusable_heads_and_items_are_refused_by_name() -> None:
    first, (tracker, turn) = student(), tracked(3)
    with pytest.raises(InputError, match="decides 'scope'"):
        SequenceStudent.from_head(EVENT, "scope", first.head(), first.options())
    with pytest.raises(InputError, match="not those of this version"):
        SequenceStudent.from_head(SCOPE, "scope", first.head(), {**first.options(), "turn_features": ["x"]})
    with pytest.raises(InputError, match=r"head\.inner"):
        SequenceStudent.from_head(SCOPE, "scope", {**first.head(), "inner": np.zeros((3, 3))}, first.options())
    with pytest.raises(InputError, match=r"head\.stay"):
        Matching.of({name: value for name, value in first.head().items() if name != "stay"})
    other = Step(np.ones(7, np.float32), "user", turn.time, None, WORDS)
    with pytest.raises(InputError, match="has shape"):
        first.decide([Item({"turn": WORDS}, tracker.propose(turn).candidates, other.vector)])
    with pytest.raises(InputError, match="is missing"):
        first.decide([Item({"turn": WORDS}, Candidates(("a",), ("a",)))])


def test_a_decision_among_140_scopes_takes_less_than_a_millisecond() -> None:
    tracker, turn = tracked(140)
    item = tracker.propose(turn)
    student().decide([item])
    spent = []
    for _ in range(30):
        started = time.process_time()
        student().decide([item])
        spent.append(time.process_time() - started)
    assert min(spent) < 1e-3
