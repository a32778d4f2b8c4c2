"""Training of the scope student, whole, on a base of two layers with random weights."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from intentmem.distill.backbone import Backbone
from intentmem.distill.encoding import AdaptedEncoder
from intentmem.distill.evaluation.scope_runs import Run, runs_of
from intentmem.distill.gold.scope import scope_traces
from intentmem.distill.students.base import Encodings
from intentmem.distill.students.sequence import Weigher
from intentmem.distill.students.sequence_features import CANDIDATE, TURN
from intentmem.distill.traces import Trace
from intentmem.distill.training.adapting import AdaptingEncoder, LoraShape
from intentmem.distill.training.loop import LoopConfig
from intentmem.distill.training.outcome import Trained, TrainOptions
from intentmem.distill.training.sequence import TURNS, stacked, train
from intentmem.distill.training.sequence_head import Owners, _start, averaged
from intentmem.distill.training.sequence_windows import windows
from intentmem.distill.training.trunk import FrozenTrunk
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import EVENT, SCOPE
from intentmem.memory.types import NewTurn
from intentmem.train_data import Corpus, Trajectory
from intentmem.train_data.schemas import Card, TurnGold

from .standin import WORDS

OPTIONS = TrainOptions(seed=1, loop=LoopConfig(epochs=1), shape=LoraShape(rank=4, alpha=8, layers=1, max_tokens=16))


@cache
def traces() -> tuple[Trace, ...]:
    """Dialogues that each have words of their own, woven."""
    rng = random.Random(0)
    dialogues = []
    for number in range(240):
        own = rng.sample(WORDS, 6)
        spoken = tuple(
            NewTurn("user" if row % 2 == 0 else "assistant", " ".join(rng.sample(own, 4)), source_id=f"{number}:{row}")
            for row in range(8)
        )
        gold = {str(turn.source_id): TurnGold(scope="s", domain=own[0]) for turn in spoken}
        dialogues.append(Trajectory(f"d{number}", spoken, "train", gold))
    return tuple(scope_traces(Corpus(Card("sgd", "sgd", "none", "train", ""), tuple(dialogues))))


@pytest.fixture(scope="module")
def made(tiny: Backbone) -> Trained:
    pytest.importorskip("peft")
    return train([SCOPE], traces(), tiny, OPTIONS)[0]


def runs() -> list[Run]:
    return runs_of(traces(), lambda texts: np.zeros((len(texts), 1), np.float32))


def sessions_run(count: int = 12) -> Run:
    turns = tuple(
        NewTurn("user" if row % 2 == 0 else "assistant", f"w{row % 50}", session=f"s{row // 6}", source_id=f"t:{row}")
        for row in range(6 * count)
    )
    gold = {f"t:{row}": TurnGold(scope=f"p{row // 6 % 3}") for row in range(6 * count)}
    corpus = Corpus(Card("realmem", "r", "none", "train", ""), (Trajectory("t", turns, "train", gold),))
    return runs_of(scope_traces(corpus), lambda texts: np.zeros((len(texts), 1), np.float32))[0]


def test_a_student_comes_out_with_all_that_its_artifact_states(made: Trained) -> None:
    assert made.student.task is SCOPE and made.adapter.name == made.student.adapter == "scope"
    assert {m.metric for m in made.measured} >= {"macro_f1", "exact", "online_ari", "scopes_ratio", "ece"}
    assert len(made.judged) == sum(n for *_, n in made.reliability)
    assert {label for pair in made.confusion for label in pair} == {"continue", "return", "new"}
    sets = [set(inside) for inside in made.splits.values()]
    assert all(sets) and not sets[0] & sets[1] | sets[0] & sets[2] | sets[1] & sets[2]


def test_one_seed_gives_one_student(made: Trained, tiny: Backbone) -> None:
    again = train([SCOPE], traces(), tiny, OPTIONS)[0]
    for name, array in made.student.head().items():
        np.testing.assert_allclose(array, again.student.head()[name], atol=1e-5)
    assert [m.value for m in again.measured] == pytest.approx([m.value for m in made.measured], abs=1e-6)


def test_items_of_a_trace_are_decided_without_vectors_at_hand(made: Trained, tiny: Backbone) -> None:
    encodings = Encodings(AdaptedEncoder(tiny, [made.adapter]), [["scope"]])
    items = [trace.item() for trace in traces()[:20]]
    for item, decision in zip(items, made.student.decide(items, encodings), strict=True):
        SCOPE.check(item, decision)
        assert sum(decision.probabilities.values()) == pytest.approx(1)


def test_unusable_traces_are_refused_before_any_training(tiny: Backbone) -> None:
    with pytest.raises(InputError, match="trains 'scope' alone"):
        train([EVENT], traces(), tiny, OPTIONS)
    stale = [Trace(**{**_values(trace), "task_hash": "0"}) for trace in traces()[:3]]
    with pytest.raises(InputError, match="another version"):
        train([SCOPE], stale, tiny, OPTIONS)
    with pytest.raises(InputError, match="too few"):
        train(
            [SCOPE], [Trace(**{**_values(t), "meta": {}, "conversation": "one"}) for t in traces()[:3]], tiny, OPTIONS
        )


def test_head_and_encoder_learn_from_different_trajectories_where_there_are_enough() -> None:
    for_encoder, for_head = stacked(runs(), 0)
    assert for_head and not {run.id for run in for_encoder} & {run.id for run in for_head}
    few = runs()[:3]
    assert {run.id for run in stacked(few, 0)[0]} == {run.id for run in stacked(few, 0)[1]}


def test_windows_cover_a_trajectory_once_and_point_at_turns_before_the_one_decided() -> None:
    for run in runs()[:4]:
        found = list(windows(run, 24, random.Random(1)))
        assert sum(len(window.texts) for window in found) <= len(run.steps)
        for window in found:
            for places in (window.last_assistant, window.last_user, window.opening):
                assert (places < window.query[:, None]).all()
            assert (window.target <= window.here.shape[1]).all()
            known = window.target < window.here.shape[1]
            assert window.here[np.flatnonzero(known), window.target[known]].all()


def test_sessions_of_one_goal_are_drawn_from_all_over() -> None:
    (first, *_) = windows(sessions_run(), 24, random.Random(0))
    assert 0 < len(first.texts) <= 24


def test_averaged_nets_score_as_the_mean_of_each() -> None:
    rng = np.random.default_rng(0)
    nets = [{**_start(seed), "offset": np.array([seed], np.float32)} for seed in (1, 2, 3)]
    candidates = rng.normal(size=(5, len(CANDIDATE))).astype(np.float32)
    turn, previous = rng.normal(size=len(TURN)).astype(np.float32), np.arange(5) == 2
    each = [Weigher.of(net).scores(candidates, turn, previous) for net in nets]
    found = Weigher.of(averaged(nets)).scores(candidates, turn, previous)
    np.testing.assert_allclose(found, np.mean(each, axis=0), atol=1e-4)


def test_the_head_gets_the_simulated_conversations_that_an_epoch_of_the_encoder_leaves() -> None:
    made = [replace(one, source="gold:built") for one in runs()] * 30
    for_encoder, for_head = stacked(made, 0)
    assert TURNS * 0.8 < sum(len(one.steps) for one in for_encoder) <= TURNS
    assert sum(len(one.steps) for one in for_head) > 2 * TURNS
    assert len(for_encoder) + len(for_head) <= len(made)


def test_what_was_written_by_hand_is_all_for_the_head() -> None:
    written = [replace(one, id=f"w{at}", source="gold:written") for at, one in enumerate(runs() * 4)]
    for_encoder, for_head = stacked([*runs(), *written], 0)
    assert not any(one.source == "gold:written" for one in for_encoder)
    assert {one.id for one in written} <= {one.id for one in for_head}


def test_a_scope_that_mixes_goals_belongs_to_the_one_of_most_of_its_late_turns() -> None:
    owners = Owners()
    for goal in ("a", "a", "a"):
        owners.add("s0", goal)
    assert owners.right(["s0"], "a").tolist() == [True, False]
    assert owners.right(["s0"], "b").tolist() == [False, True]
    for _ in range(8):
        owners.add("s0", "b")
    assert owners.right(["s0"], "b").tolist() == [True, False]
    assert owners.right(["s0"], "a").tolist() == [False, True]


def test_the_trunk_gives_what_the_whole_encoder_gives(tiny: Backbone) -> None:
    pytest.importorskip("peft")
    encoder = AdaptingEncoder(tiny, OPTIONS.shape or LoraShape(), 0)
    texts = ["w1 w2 w3", "w4", "w9 w8 w7 w6 w5 w4"]
    encoder.module.eval()
    found = FrozenTrunk(encoder).pooled(texts).detach().numpy()
    np.testing.assert_allclose(found, encoder.pooled(encoder.token_ids(texts)).detach().numpy(), atol=2e-2)


def _values(trace: Trace) -> dict[str, object]:
    names: Sequence[str] = trace.__slots__  # type: ignore[attr-defined]
    return {name: getattr(trace, name) for name in names}
