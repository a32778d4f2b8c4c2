from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from intentmem.distill.backbone import Backbone
from intentmem.distill.encoding import PLAIN, AdaptedEncoder
from intentmem.distill.students.base import Encodings
from intentmem.distill.students.closed import ClosedStudent, one_text, two_texts
from intentmem.distill.traces import Trace
from intentmem.distill.training.closed import head_kind, train
from intentmem.distill.training.closed_targets import label_weights, targets
from intentmem.distill.training.loop import LoopConfig
from intentmem.distill.training.outcome import Trained, TrainOptions
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import PLAN, SUPPORT, Candidates, Field, Group, Item, Option, Space, Task

from .standin import MOOD, WORDS, mood_traces

QUICK = TrainOptions(seed=1, loop=LoopConfig(epochs=8, rate=5e-3, head_rate=2e-2, patience=4))


@pytest.fixture(scope="module")
def mood(tiny: Backbone) -> Trained:
    return train([MOOD], mood_traces(240), tiny, QUICK)[0]


def encodings(tiny: Backbone, made: Trained) -> Encodings:
    return Encodings(AdaptedEncoder(tiny, (made.adapter,)), ())


def weighed(n: int = 20) -> list[Trace]:
    """Questions of one word; the turn that repeats it states the answer, the one that has the next word helps."""
    found = []
    for number in range(n):
        place = number % 18
        for shift, label in ((0, "states"), (1, "helps"), (30, "unrelated"), (35, "unrelated")):
            turn = f"{WORDS[(place + shift) % 60]} {WORDS[(place + shift) % 60]}"
            fields = {"question": WORDS[place], "evidence": turn}
            found.append(Trace(SUPPORT.name, SUPPORT.hash, fields, (label,), "teacher", f"c{number}", shift))
    return found


def test_a_student_of_a_user_s_task_learns_from_its_traces(tiny: Backbone, mood: Trained) -> None:
    fresh = mood_traces(90, seed=7)
    given = mood.student.decide([trace.item() for trace in fresh], encodings(tiny, mood))
    assert np.mean([d.labels == t.labels for d, t in zip(given, fresh, strict=True)]) > 0.75


def test_probabilities_sum_to_one_in_each_group_and_confidence_is_calibrated(tiny: Backbone, mood: Trained) -> None:
    decisions = mood.student.decide([trace.item() for trace in mood_traces(30, seed=3)], encodings(tiny, mood))
    assert all(abs(sum(d.probabilities.values()) - 1) < 1e-6 for d in decisions)
    assert all(d.unsure == (d.confidence < 0.5) for d in decisions)
    assert {one.metric for one in mood.measured} >= {"macro_f1", "exact", "ece"}


def test_the_student_comes_back_from_its_head_and_options(tiny: Backbone, mood: Trained) -> None:
    items = [trace.item() for trace in mood_traces(10, seed=5)]
    again = ClosedStudent.from_head(MOOD, mood.student.adapter, mood.student.head(), mood.student.options())
    shared = encodings(tiny, mood)
    assert again.decide(items, shared) == mood.student.decide(items, shared)


def test_l10_labels_in_another_order_are_refused(mood: Trained) -> None:
    options = {**mood.student.options(), "labels": ["cold", "warm", "flat"]}
    with pytest.raises(InputError, match="train the student again"):
        ClosedStudent.from_head(MOOD, "mood", mood.student.head(), options)


def test_l09_a_head_of_another_number_of_labels_is_refused(mood: Trained) -> None:
    head = {name: array[:2] for name, array in mood.student.head().items()}
    with pytest.raises(InputError, match="2 rows for 3 labels"):
        ClosedStudent.from_head(MOOD, "mood", head, mood.student.options())


def test_training_twice_with_one_seed_gives_the_same(tiny: Backbone) -> None:
    short = replace(QUICK, loop=LoopConfig(epochs=1, rate=5e-3))
    first, second = (train([MOOD], mood_traces(60), tiny, short)[0] for _ in range(2))
    assert np.allclose(first.student.head()["weights"], second.student.head()["weights"], atol=1e-6)
    assert [m.value for m in first.measured] == pytest.approx([m.value for m in second.measured], abs=1e-6)


def test_splits_share_no_conversation(mood: Trained) -> None:
    sets = [set(inside) for inside in mood.splits.values()]
    assert sum(map(len, sets)) == len(set().union(*sets))


def test_a_label_without_an_example_is_named(tiny: Backbone) -> None:
    traces = [trace for trace in mood_traces() if trace.labels != ("flat",)]
    with pytest.raises(InputError, match="no example of 'flat'"):
        train([MOOD], traces, tiny, QUICK)


def test_traces_of_another_version_are_refused(tiny: Backbone) -> None:
    with pytest.raises(InputError, match="another version of 'mood'"):
        train([MOOD], [replace(trace, task_hash="0" * 16) for trace in mood_traces()], tiny, QUICK)


def test_an_unknown_label_is_refused(tiny: Backbone) -> None:
    with pytest.raises(InputError, match="not one of each group"):
        train([MOOD], [*mood_traces(), replace(mood_traces()[0], labels=("hot",))], tiny, QUICK)


def test_an_open_task_is_refused(tiny: Backbone) -> None:
    with pytest.raises(InputError, match="not a closed task"):
        train([replace(MOOD, space=Space.OPEN, groups=())], mood_traces(), tiny, QUICK)


def test_teacher_probabilities_become_soft_targets() -> None:
    (trace,) = mood_traces(1)
    soft = replace(trace, probabilities={"warm": 0.6, "cold": 0.4})
    assert targets(MOOD, [soft])[0] == pytest.approx([0.587, 0.397, 0.017], abs=1e-3)


def test_rare_labels_weigh_more() -> None:
    (trace,) = mood_traces(1)
    weights = label_weights(MOOD, [replace(trace, labels=(name,)) for name in ["warm"] * 8 + ["cold", "flat"]])
    assert weights[0] < 1 < weights[1] == weights[2]


def test_a_single_text_is_read_bare_and_several_by_name() -> None:
    task = Task("t", "?", (Field("turn", ""), Field("before", "", many=True, required=False)), Space.CLOSED,
                (Group("g", (Option("a", ""), Option("b", ""))),))  # fmt: skip
    assert one_text(task, Item({"turn": "hello"})) == "hello"
    assert one_text(task, Item({"turn": "hello", "before": ["x", "y"]})) == "turn: hello\nbefore:\n- x\n- y"


def test_only_a_task_that_ranks_is_answered_by_pairs() -> None:
    assert (head_kind(PLAN), head_kind(SUPPORT)) == ("text", "pair")
    assert two_texts(SUPPORT, Item({"question": "q", "evidence": "e", "before": ["b"]})) == ("q", "e")


def test_pairs_learn_which_text_answers_which(tiny: Backbone) -> None:
    made = train([SUPPORT], weighed(), tiny, replace(QUICK, loop=LoopConfig(epochs=10, rate=5e-3, head_rate=2e-2)))[0]
    fresh = [trace for trace in weighed() if trace.conversation == "c3"]
    decisions = made.student.decide([trace.item() for trace in fresh], encodings(tiny, made))
    shares = [decision.probabilities["unrelated"] for decision in decisions]
    assert max(shares[:2]) < min(shares[2:])
    assert {one.metric for one in made.measured} >= {"ndcg"}


def test_stored_vectors_of_a_pair_are_not_encoded_again(tiny: Backbone) -> None:
    made = train([SUPPORT], weighed(), tiny, replace(QUICK, loop=LoopConfig(epochs=1, rate=5e-3)))[0]
    shared = encodings(tiny, made)
    texts = ["w3", "w3 w3"]
    first, second = (one.pooled for one in shared.encoder.encode(texts, [PLAIN])[PLAIN])
    bare = Item({"question": texts[0], "evidence": texts[1]})
    given = replace(bare, vector=first, candidates=Candidates(("e",), (texts[1],), second[None]))
    (expected,), (found,) = made.student.decide([bare], shared), made.student.decide([given], shared)
    assert found.probabilities == pytest.approx(expected.probabilities, abs=1e-6)
    elsewhere = replace(given, candidates=Candidates(("e",), (texts[1],), -second[None]))
    (moved,) = made.student.decide([elsewhere], shared)
    assert moved.probabilities != pytest.approx(expected.probabilities, abs=1e-6)
