"""Average linkage: what is grouped, and what never is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from intentmem.memory.read.columns import Floats, Ints
from intentmem.memory.read.linkage import grouped

MATRIX = st.integers(1, 12).flatmap(
    lambda n: arrays(np.float32, (n, n), elements=st.floats(0, 1, width=32)).map(lambda half: half + half.T)
)


def means(alike: Floats, groups: Ints) -> dict[tuple[int, int], float]:
    """Mean likeness of each two groups."""
    names = np.unique(groups)
    return {
        (int(a), int(b)): float(alike[np.ix_(groups == a, groups == b)].mean()) for a in names for b in names if a < b
    }


def test_two_pairs_that_are_alike_are_two_groups() -> None:
    alike = np.full((4, 4), 0.1, np.float32)
    alike[0, 2] = alike[2, 0] = alike[1, 3] = alike[3, 1] = 0.9
    assert grouped(alike, 0.5).tolist() == [0, 1, 0, 1]
    assert grouped(alike, 0.95).tolist() == [0, 1, 2, 3]
    assert grouped(alike, 0.05).tolist() == [0, 0, 0, 0]


def test_a_chain_is_not_one_group_as_its_ends_are_not_alike() -> None:
    alike = np.zeros((3, 3), np.float32)
    alike[0, 1] = alike[1, 0] = 0.8
    alike[1, 2] = alike[2, 1] = 0.7
    assert grouped(alike, 0.5).tolist() == [0, 0, 1]


def test_none_and_one_are_groups_by_themselves() -> None:
    assert grouped(np.zeros((0, 0), np.float32), 0.5).tolist() == []
    assert grouped(np.ones((1, 1), np.float32), 0.5).tolist() == [0]


@given(MATRIX, st.floats(0.1, 1.9))
def test_no_two_groups_are_left_that_are_alike_enough(alike: Floats, least: float) -> None:
    found = grouped(alike, least)
    assert all(mean < least + 1e-5 for mean in means(alike, found).values())
    assert found[0] == 0 and set(found.tolist()) == set(range(int(found.max()) + 1))


@given(MATRIX, st.data())
def test_what_must_be_apart_is_never_together(alike: Floats, data: st.DataObject) -> None:
    side = np.array(data.draw(st.lists(st.booleans(), min_size=len(alike), max_size=len(alike))))
    found = grouped(np.where(side[:, None] == side[None], alike, -np.inf).astype(np.float32), 0.0)
    for group in np.unique(found):
        assert len(set(side[found == group].tolist())) == 1
