from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from intentmem.distill.backbone import Backbone
from intentmem.distill.encoding import AdaptedEncoder
from intentmem.distill.students.base import Encodings
from intentmem.distill.students.candidates import CandidatesStudent
from intentmem.distill.traces import LabelSet, Trace
from intentmem.distill.training.candidates import shown, target, train
from intentmem.distill.training.loop import LoopConfig
from intentmem.distill.training.outcome import Trained, TrainOptions
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import PROPERTY_MATCH, Candidates, Item, Space

from .standin import MOOD, WORDS

QUICK = TrainOptions(seed=1, loop=LoopConfig(epochs=20, rate=5e-3, head_rate=2e-2, patience=8))


def asked(n: int = 160) -> list[Trace]:
    """The right candidate repeats the word that is asked for; in every fourth trace it is absent."""
    found = []
    for number in range(n):
        place = number * 7 % 40
        others = [WORDS[(place + shift) % 60] for shift in (5, 11, 20)]
        names = others if number % 4 == 0 else [*others, WORDS[place]]
        options = LabelSet(tuple(f"id-{name}" for name in names), tuple(f"{name} {name}" for name in names))
        labels = () if number % 4 == 0 else (f"id-{WORDS[place]}",)
        found.append(
            Trace(
                PROPERTY_MATCH.name,
                PROPERTY_MATCH.hash,
                {"requirement": WORDS[place]},
                labels,
                "teacher",
                f"c{number % 40}",
                number,
                options,
            )
        )
    return found


@pytest.fixture(scope="module")
def made(tiny: Backbone) -> Trained:
    return train([PROPERTY_MATCH], asked(), tiny, QUICK)[0]


@pytest.fixture(scope="module")
def encodings(tiny: Backbone, made: Trained) -> Encodings:
    return Encodings(AdaptedEncoder(tiny, (made.adapter,)), ())


def test_the_right_candidate_is_chosen_and_none_where_it_is_absent(made: Trained, encodings: Encodings) -> None:
    decisions = made.student.decide([trace.item() for trace in asked()], encodings)
    right = [decision.labels == trace.labels for decision, trace in zip(decisions, asked(), strict=True)]
    assert np.mean(right) > 0.7
    assert {one.metric for one in made.measured} >= {"top1", "none_f1", "ece"}


def test_probabilities_are_over_the_candidates_and_none(made: Trained, encodings: Encodings) -> None:
    (decision,) = made.student.decide([asked()[1].item()], encodings)
    assert sum(decision.probabilities.values()) == pytest.approx(1)
    assert set(decision.probabilities) == {*asked()[1].options.ids, "none"}


def test_without_candidates_the_answer_is_none(made: Trained, encodings: Encodings) -> None:
    (decision,) = made.student.decide([Item({"requirement": "w1"}, Candidates())], encodings)
    assert decision.labels == () and decision.probabilities == {"none": 1.0}


def test_a_candidate_never_seen_costs_an_encode_and_no_training(made: Trained, encodings: Encodings) -> None:
    item = Item({"requirement": "w50"}, Candidates(("a", "b"), ("w50 w50", "w3 w3")))
    (decision,) = made.student.decide([item], encodings)
    assert decision.probabilities["a"] > decision.probabilities["b"]


def test_the_student_comes_back_from_its_head_and_options(made: Trained, encodings: Encodings) -> None:
    items = [trace.item() for trace in asked(12)]
    again = CandidatesStudent.from_head(
        PROPERTY_MATCH, made.student.adapter, made.student.head(), made.student.options()
    )
    for first, second in zip(made.student.decide(items, encodings), again.decide(items, encodings), strict=True):
        assert first.labels == second.labels
        assert first.confidence == pytest.approx(second.confidence, abs=1e-5)


def test_optional_fields_change_nothing(made: Trained, encodings: Encodings) -> None:
    bare = asked()[1].item()
    more = replace(bare, fields={**bare.fields, "entity": "w9", "question": "w1 w2 w3"})
    assert made.student.decide([bare], encodings) == made.student.decide([more], encodings)


def test_a_part_of_many_candidates_keeps_the_right_one() -> None:
    import random

    options = LabelSet(tuple(f"i{n}" for n in range(90)), tuple(f"t{n}" for n in range(90)))
    trace = replace(asked()[1], options=options, labels=("i77",))
    for seed in range(20):
        places = shown(trace, random.Random(seed))
        assert 77 in places and places == sorted(set(places)) and len(places) < 90


def test_teacher_probabilities_leave_the_rest_to_none() -> None:
    trace = replace(asked()[1], probabilities={asked()[1].options.ids[0]: 0.7})
    assert target(trace, [0, 1]) == pytest.approx([0.7, 0.0, 0.3])


def test_a_task_without_candidates_is_refused(tiny: Backbone) -> None:
    with pytest.raises(InputError, match="has no candidates"):
        train([MOOD], asked(), tiny, QUICK)
    with pytest.raises(InputError, match="has no candidates"):
        train([replace(PROPERTY_MATCH, space=Space.OPEN)], asked(), tiny, QUICK)


def test_traces_that_never_choose_are_refused(tiny: Backbone) -> None:
    with pytest.raises(InputError, match="never choose"):
        train([PROPERTY_MATCH], [replace(trace, labels=()) for trace in asked()], tiny, QUICK)


def test_a_label_that_was_not_offered_is_refused(tiny: Backbone) -> None:
    with pytest.raises(InputError, match="were not offered"):
        train([PROPERTY_MATCH], [*asked(), replace(asked()[1], labels=("ghost",))], tiny, QUICK)


def test_a_scale_that_is_not_positive_is_refused(made: Trained) -> None:
    head = {**made.student.head(), "scale": np.array([0.0], np.float32)}
    with pytest.raises(InputError, match="scale"):
        CandidatesStudent.from_head(PROPERTY_MATCH, "x", head, made.student.options())
