from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.distill.splits import SHARES, check_disjoint, digest, split_conversations, split_traces
from intentmem.memory.errors import InputError

from .standin import mood_traces


@given(names=st.sets(st.text(max_size=8), min_size=3, max_size=200), seed=st.integers(0, 9))
def test_l14_every_conversation_is_in_exactly_one_split(names: set[str], seed: int) -> None:
    found = split_conversations(names, seed)
    check_disjoint(found)
    assert sorted(name for inside in found.values() for name in inside) == sorted(names)
    assert all(found.values())
    assert found == split_conversations(sorted(names, reverse=True), seed)


def test_shares_are_kept_and_seeds_differ() -> None:
    names = [f"c{number}" for number in range(1000)]
    found = split_conversations(names, 0)
    assert {name: len(inside) for name, inside in found.items()} == {"train": 800, "dev": 100, "calibration": 100}
    assert found != split_conversations(names, 1)


def test_too_few_conversations_are_refused() -> None:
    with pytest.raises(InputError, match="come from 2 conversations, too few for train, dev, calibration"):
        split_conversations(["a", "b"], 0)


def test_traces_follow_their_conversation() -> None:
    traces = mood_traces(90, 30)
    parts, splits = split_traces(traces, 3)
    assert sum(map(len, parts.values())) == 90
    for name, part in parts.items():
        assert {trace.conversation for trace in part} == set(splits[name])


def test_splits_that_traces_name_are_kept_to() -> None:
    names = list(SHARES)
    traces = [replace(trace, meta={"split": names[int(trace.conversation[1:]) % 3]}) for trace in mood_traces(90, 30)]
    _, splits = split_traces(traces, 0)
    assert {name: len(inside) for name, inside in splits.items()} == dict.fromkeys(names, 10)


def test_one_conversation_in_two_splits_is_refused() -> None:
    traces = [replace(trace, meta={"split": "train"}) for trace in mood_traces(60, 20)]
    traces += [replace(traces[0], meta={"split": "dev"}), replace(traces[1], meta={"split": "calibration"})]
    with pytest.raises(InputError, match="conversation 'c0' is in 'train' and in 'dev'"):
        split_traces(traces, 0)
    with pytest.raises(InputError, match="one of train, dev, calibration"):
        split_traces([replace(trace, meta={"split": "holdout"}) for trace in traces], 0)


def test_a_digest_tells_sets_apart_whatever_their_order() -> None:
    assert digest(["a", "b"]) == digest(["b", "a", "a"]) != digest(["a"])
