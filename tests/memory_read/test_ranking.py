"""Signals, pools and groups on their own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.memory.memory import Memory
from intentmem.memory.read.rank import group_scores, length_share, shipped_weights
from intentmem.memory.read.signals import SIGNALS, centroids, standardise


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=40), st.data())
def test_standardised_signals_have_mean_0_and_deviation_1_or_are_0(values: list[float], data: st.DataObject) -> None:
    array = np.array(values, np.float32)
    eligible = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    found = standardise(array, eligible)[eligible]
    assert not len(found) or np.allclose(found, 0) or (abs(found.mean()) < 1e-2 and abs(found.std() - 1) < 1e-2)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_centroids_are_those_of_a_plain_mean_whatever_the_order(groups: list[int]) -> None:
    rng = np.random.default_rng(len(groups))
    vectors = rng.normal(size=(len(groups), 8)).astype(np.float32)
    found = centroids(np.array(groups), vectors, 6)
    for group in range(6):
        members = vectors[np.array(groups) == group]
        if len(members):
            total = members.sum(axis=0)
            assert np.allclose(found[group], total / np.linalg.norm(total), atol=1e-4)
        else:
            assert not found[group].any()


def test_several_good_turns_beat_one_that_is_as_good() -> None:
    scores = np.array([2.0, 2.0, 2.0, 0.0], np.float32)
    found = group_scores(scores, np.array([0, 1, 1, 2]), np.eye(3, dtype=np.float32), kin=0.0)
    assert found[1] > found[0] > found[2]


def test_a_group_gains_by_likeness_to_a_good_one() -> None:
    middle = np.array([[1, 0], [0.9, 0.435], [-1, 0]], np.float32)
    found = group_scores(np.array([3.0, 0.0, 0.0], np.float32), np.arange(3), middle, kin=0.4)
    assert found[0] > found[1] > found[2]


def test_the_shipped_weights_weigh_known_signals_and_none_negatively() -> None:
    weights = shipped_weights()
    vectors = (weights.lookup, weights.background, weights.threads)
    assert {name for vector in vectors for name in vector} <= set(SIGNALS)
    assert min(weight for vector in vectors for weight in vector.values()) >= 0
    assert {"labels", "dense", "lexical_around", "entity", "time"} <= set(weights.lookup) | set(weights.background)
    assert {"recency"} <= set(weights.background) and {"scope_opening"} <= set(weights.threads)


def test_a_question_of_few_words_is_a_look_up_and_a_long_message_is_not() -> None:
    assert (length_share(0), length_share(6), length_share(12), length_share(500)) == (0, 0, 1, 1)


def test_shares_of_an_explained_hit_add_up_to_its_score(memory: Memory) -> None:
    memory.add("a note about the garden", namespace="n", time="2024-01-01")
    memory.add("the price of the roof is 900 euros", namespace="n", time="2024-01-02")
    memory.add("what does the roof cost?", namespace="n", time="2024-01-03")
    for hit in memory.search("price of the roof", namespace="n", explain=True)["results"]:
        assert hit["score"] == pytest.approx(sum(hit["explain"]["shares"].values()), abs=1e-2)
        assert set(hit["explain"]["signals"]) == set(SIGNALS)


def test_what_is_added_later_is_found_beside_what_was_ranked_before(memory: Memory) -> None:
    memory.add("the roof costs 900 euros", namespace="n")
    assert len(memory.search("roof", namespace="n")["results"]) == 1
    memory.add("the roof of the shed costs 90 euros", namespace="n", session="later")
    assert len(memory.search("roof", namespace="n")["results"]) == 2
    (first, *_) = memory.search("roof of the shed", namespace="n")["results"]
    assert "shed" in first["memory"]
