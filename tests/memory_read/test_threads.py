"""Goals that alternate within one sitting: answers are found by the turns that opened their goal."""

import numpy as np
import pytest

from intentmem.memory.memory import Memory
from intentmem.memory.read.columns import ColumnCache
from intentmem.memory.read.threads import alternation, interleaving, meaning_signals, threads_of, word_signals
from intentmem.memory.read.words import Pool, PostingCache, frequencies, make_pool

TALK = (
    ("lunch", "Now lunch on day 1. What about the Anchor?"),
    ("lunch", "When does it open?"),
    ("lunch", "At nine."),
    ("dinner", "Let us plan dinner on day 2. Could the Anchor work?"),
    ("dinner", "When does it open?"),
    ("dinner", "At ten."),
    ("lunch", "Back to lunch on day 1. Is it far?"),
    ("lunch", "No."),
    ("dinner", "About dinner on day 2 again: is it far?"),
    ("dinner", "Yes."),
)
LUNCH, DINNER = 0, 1


@pytest.fixture
def pool(memory: Memory) -> Pool:
    memory.add(
        [{"role": ("user", "assistant")[at % 2], "content": text, "session": "s"} for at, (_, text) in enumerate(TALK)],
        namespace="n",
    )
    columns = ColumnCache(memory.store).get(memory.store.namespaces.ordinal("n"))
    columns.scope[:] = [("lunch", "dinner").index(goal) for goal, _ in TALK]
    columns.scopes.names = ["lunch", "dinner"]
    every = np.arange(len(columns))
    return make_pool(columns, every, every)


def signals_of(memory: Memory, pool: Pool, *terms: str) -> dict[str, np.ndarray]:
    text, _ = frequencies(pool, list(terms), PostingCache(memory.store))
    return dict(word_signals(pool, threads_of(pool), text))


def test_turns_of_one_goal_that_follow_one_another_are_a_run(pool: Pool) -> None:
    threads = threads_of(pool)
    assert threads.opening.tolist() == [0, 3, 6, 8]
    assert threads.run.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    assert threads.by_turn.tolist() == pool.goal.tolist()
    assert interleaving(pool, threads) == alternation(pool, threads) == pytest.approx(2 / 5)


def test_goals_that_are_never_returned_to_alternate_but_are_not_told_apart(pool: Pool) -> None:
    pool.goal[:] = [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    threads = threads_of(pool)
    assert interleaving(pool, threads) == 0 and alternation(pool, threads) == pytest.approx(2 / 5)

    pool.goal[:] = [0, 0, 0, 1, 1, 1, 0, 0, 3, 3]
    assert interleaving(pool, threads_of(pool)) == 0

    pool.goal[:] = [0, 1, 0, 1, 0, 1, 0, 2, 0, 1]
    half = threads_of(pool)
    assert 0 < interleaving(pool, half) <= alternation(pool, half)


def test_a_turn_is_lent_what_opened_its_goal_whenever_it_was_taken_up(memory: Memory, pool: Pool) -> None:
    found = signals_of(memory, pool, "lunch", "day", "1")
    goal = pool.columns.scope
    for name in ("scope_opening", "scope_words"):
        assert found[name][goal == LUNCH].min() > found[name][goal == DINNER].max(), name
    assert found["run_opening"][1] == found["run_opening"][2] > found["run_opening"][9]


def test_what_an_opening_says_once_weighs_less_than_what_each_says(memory: Memory, pool: Pool) -> None:
    name, once = signals_of(memory, pool, "dinner"), signals_of(memory, pool, "let")
    assert name["scope_opening"].max() > once["scope_opening"].max() > 0


def test_turns_without_a_goal_are_threads_of_their_own(pool: Pool) -> None:
    pool.goal[:] = -1
    threads = threads_of(pool)
    assert threads.opening.tolist() == [0] and interleaving(pool, threads) == 0


def test_the_best_opening_speaks_for_all_runs_of_a_goal(pool: Pool) -> None:
    cosine = np.linspace(0, 1, len(pool)).astype(np.float32)
    found = meaning_signals(threads_of(pool), cosine)
    assert set(found["scope_opening_dense"][pool.columns.scope == LUNCH]) == {cosine[6]}
    assert found["run_opening_dense"][2] == cosine[0]
