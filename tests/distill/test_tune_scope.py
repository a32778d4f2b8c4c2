from __future__ import annotations

import random
from itertools import pairwise

import pytest

from intentmem.distill.tune_scope import Run, calibrate, place, score, weave
from intentmem.memory.deciders import ScopeWeights
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.types import NewTurn
from intentmem.train_data import Trajectory


def dialogues() -> list[Trajectory]:
    topics = ["garden roses tulips", "engine motorcycle repair", "mortgage bank interest", "violin concert music"]
    return [
        Trajectory(
            topic,
            tuple(
                NewTurn("user" if i % 2 == 0 else "assistant", f"{topic} {topic}", source_id=f"{topic}{i}")
                for i in range(20)
            ),
        )
        for topic in topics
    ]


def woven_run(seed: int = 0) -> Run:
    from intentmem.distill.tune_scope import _steps

    turns, gold = zip(*weave(dialogues(), random.Random(seed)), strict=True)
    return Run(_steps(turns, HashEmbedder(256).encode([turn.text for turn in turns], "passage")), gold)


def test_weaving_keeps_every_turn_in_its_dialogues_order_and_cuts_at_user_turns() -> None:
    woven = weave(dialogues(), random.Random(1))
    assert woven == weave(dialogues(), random.Random(1))
    for dialogue in dialogues():
        assert [turn for turn, gold in woven if gold == dialogue.id] == list(dialogue.turns)
    assert all(woven[i][0].role == "user" for i in range(len(woven)) if i == 0 or woven[i][1] != woven[i - 1][1])
    assert sum(a[1] != b[1] for a, b in pairwise(woven)) > 3


def test_clear_goals_are_placed_as_gold_says_and_a_collapse_scores_nothing() -> None:
    pytest.importorskip("sklearn")
    run = woven_run()
    assert score([run], ScopeWeights(opens=0.0)).ari > 0.6
    collapsed = ScopeWeights(continuity=100.0)
    assert len(set(place(run, collapsed))) == 1
    assert score([run], collapsed).ari == 0 and score([run], collapsed).value < -0.1


def test_calibration_softens_weights_that_are_too_sure() -> None:
    sharp = ScopeWeights(weight=80.0, continuity=40.0)
    assert calibrate([woven_run()], sharp) > 1
