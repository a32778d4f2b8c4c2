"""Runs of one goal are found again by what was said in them, where that tells; stored scopes stay as they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from intentmem.memory.memory import Memory
from intentmem.memory.read.columns import NO_SCOPE, ColumnCache, Columns
from intentmem.memory.read.goals import Goals
from intentmem.memory.read.likeness import alike, telling
from intentmem.memory.store.embeddings import TURN

SUBJECTS = {
    "garden": ["roses", "tulips", "compost", "spade", "hedge", "lawn", "watering", "seeds", "beds", "pruning"],
    "engine": ["piston", "valve", "gasket", "torque", "exhaust", "clutch", "gearbox", "carburettor", "spark", "oil"],
    "mortgage": [
        "interest",
        "instalment",
        "bank",
        "lender",
        "deposit",
        "valuation",
        "broker",
        "rate",
        "equity",
        "term",
    ],
    "kitchen": ["oven", "knife", "whisk", "dough", "saucepan", "recipe", "flour", "simmer", "ladle", "apron"],
}
SHORT = ("How much is it?", "Around ten.", "And when?", "At nine.")


def said(subject: str, run: int) -> list[str]:
    """Four turns about a subject, each in other of its words."""
    words = SUBJECTS[subject]
    return [" ".join(words[(run + at + step) % 10] for step in range(6)) for at in range(4)]


def talk(runs: int) -> list[list[str]]:
    """Runs about three subjects in turn."""
    return [said(tuple(SUBJECTS)[at % 3], at) for at in range(runs)]


def remembered(memory: Memory, runs: list[list[str]], trajectory: str = "t") -> Columns:
    """Columns of a talk of runs, every run placed in a scope of its own."""
    turns = [{"role": ("user", "assistant")[at % 2], "content": text} for run in runs for at, text in enumerate(run)]
    memory.add([{**turn, "session": "s"} for turn in turns], namespace="n", trajectory=trajectory)
    columns = ColumnCache(memory.store).get(memory.store.namespaces.ordinal("n"))
    columns.scope[:] = np.repeat(np.arange(len(columns) // 4), 4)
    return columns


def goals_of(memory: Memory, columns: Columns, goals: Goals | None = None) -> list[int]:
    """The goal of each run."""
    index = memory.store.embeddings.index(columns.namespace, TURN, memory.embedder.fingerprint)
    return (goals or Goals(memory.store)).of(columns, index)[::4].tolist()


def test_runs_that_say_alike_are_of_one_goal_although_each_was_placed_alone(quick: Memory) -> None:
    assert goals_of(quick, remembered(quick, talk(15))) == [0, 1, 2] * 5


def test_where_what_is_said_tells_nothing_scopes_stay_as_they_were_placed(quick: Memory) -> None:
    columns = remembered(quick, [[f"Now item {at}.", *SHORT[1:]] for at in range(15)])
    assert goals_of(quick, columns) == columns.scope[::4].tolist()


def test_few_runs_are_what_they_are(quick: Memory) -> None:
    columns = remembered(quick, [said("garden", 0), said("engine", 1), said("garden", 2)])
    assert goals_of(quick, columns) == [0, 1, 2]


def test_runs_of_several_trajectories_are_never_of_one_goal(quick: Memory) -> None:
    runs = talk(12)
    remembered(quick, runs, "one")
    found = goals_of(quick, remembered(quick, runs, "other"))
    assert len(set(found)) == 6 and not set(found[:12]) & set(found[12:])


def test_a_turn_without_a_scope_has_no_goal(quick: Memory) -> None:
    columns = remembered(quick, talk(12))
    columns.scope[4:8] = NO_SCOPE
    assert goals_of(quick, columns)[:4] == [0, NO_SCOPE, 2, 0]


def test_what_is_added_later_is_grouped_with_what_was_there(quick: Memory) -> None:
    goals, runs = Goals(quick.store), talk(12)
    before = goals_of(quick, remembered(quick, runs), goals)
    after = goals_of(quick, remembered(quick, [said("engine", 3), said("kitchen", 1)]), goals)
    assert before == [0, 1, 2] * 4 and after == [*before, 1, 3]


def test_of_many_runs_a_new_one_counts_to_the_goal_of_its_scope_until_all_are_grouped_again(quick: Memory) -> None:
    goals, runs = Goals(quick.store), talk(66)
    before = goals_of(quick, remembered(quick, runs), goals)
    columns = remembered(quick, [said("engine", 3), said("garden", 1)])
    columns.scope[-8:-4], columns.scope[-4:] = 1, 99
    assert before == [0, 1, 2] * 22 and goals_of(quick, columns, goals) == [*before, 1, 3]
    columns = remembered(quick, [said("engine", 5)])
    columns.scope[-12:-8], columns.scope[-8:-4] = 1, 99
    assert goals_of(quick, columns, goals) == [*before, 1, 0, 1]


def test_a_new_run_of_an_earlier_trajectory_leaves_those_of_later_ones_what_they_are(quick: Memory) -> None:
    goals = Goals(quick.store)
    remembered(quick, talk(66), "one")
    before = goals_of(quick, remembered(quick, talk(66), "other"), goals)
    columns = remembered(quick, [said("engine", 3)], "one")
    columns.scope[-4:] = 1
    assert goals_of(quick, columns, goals) == [*before, before[1]]


def test_halves_of_a_run_find_each_other_where_words_tell(quick: Memory) -> None:
    rng = np.random.default_rng(0)
    pieces = [np.arange(at, at + 4) for at in range(0, 80, 4)]
    alone = [[f"word{at // 4}", f"other{at}"] for at in range(80)]
    vectors = rng.normal(size=(80, 8)).astype(np.float32)
    assert telling(pieces, alone, np.zeros_like(vectors)) > 0.95
    assert 0.3 < telling(pieces, [[f"other{at}"] for at in range(80)], vectors) < 0.7
    assert telling(pieces[:3], alone, vectors) == 0.5


@pytest.mark.parametrize("change", [lambda m: m, lambda m: m[::-1]])
def test_likeness_is_symmetric_and_highest_with_itself(change: Callable[[list[int]], list[int]]) -> None:
    terms = [["a", "b"], ["a", "c"], ["d"], ["d", "a"]]
    pieces = [np.array(change([0, 1])), np.array([2]), np.array([3])]
    found = alike(pieces, terms, np.eye(4, dtype=np.float32))
    assert np.allclose(found, found.T) and (found.diagonal() >= found.max(axis=1) - 1e-6).all()
    assert found[0, 2] > found[0, 1] == 0
