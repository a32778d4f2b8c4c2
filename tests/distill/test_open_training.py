"""Training of open students on a tiny encoder: what is learnt, and what is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from intentmem.distill.backbone import Backbone
from intentmem.distill.encoding import AdaptedEncoder
from intentmem.distill.evaluation.labels import evaluate
from intentmem.distill.students.base import Encodings
from intentmem.distill.students.open import ONE, OpenStudent
from intentmem.distill.traces import LabelSet, Trace
from intentmem.distill.training import open as family
from intentmem.distill.training.adapting import AdaptingEncoder, LoraShape
from intentmem.distill.training.loop import LoopConfig
from intentmem.distill.training.open_calibrating import shared_items
from intentmem.distill.training.open_examples import lesson
from intentmem.distill.training.open_recipe import OpenRecipe
from intentmem.distill.training.open_wording import reworded
from intentmem.distill.training.outcome import Trained, TrainOptions
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import ENTITY_TYPES, EVENT, SCOPE, Decision, Field, Space, Task

from .standin import WORDS

LABELS = LabelSet(("a", "b", "c"), tuple(f"{WORDS[20 * n]} {WORDS[20 * n + 1]} {WORDS[20 * n + 2]}" for n in range(3)))
SHAPE = LoraShape(rank=8, alpha=16, layers=2, dropout=0.0)
LOOP = LoopConfig(epochs=8, rate=2e-2, head_rate=2e-2, patience=8)


def traces(task: Task = EVENT, conversations: int = 30, field: str = "turn", seed: int = 0) -> list[Trace]:
    """Turns whose words tell their label; every third turn says nothing by itself and continues the one before."""
    rng = random.Random(f"{seed} {task.name}")
    found = []
    for number in range(conversations):
        topic, before = rng.randrange(3), ""
        for seq in range(6):
            bare = seq % 3 == 2 and field == "turn"
            words = [WORDS[19], WORDS[39]] if bare else rng.sample(WORDS[20 * topic : 20 * topic + 5], 3)
            fields: dict[str, str | tuple[str, ...]] = {field: " ".join(words)}
            if before and field == "turn":
                fields["before"] = (before,)
            before = " ".join(words)
            found.append(Trace(task.name, task.hash, fields, ("abc"[topic],), "t", f"c{number}", seq, LABELS))
            if seq % 3 == 2:
                topic = rng.randrange(3)
    return found


@cache
def trained_on(base: Backbone) -> list[Trained]:
    both = [*traces(EVENT), *traces(ENTITY_TYPES)]
    return family.train([EVENT, ENTITY_TYPES], both, base, TrainOptions(seed=1, loop=LOOP, shape=SHAPE))


class Alone:
    """A student as a decider."""

    name, reads_window = "student", False

    def __init__(self, base: Backbone, made: Trained) -> None:
        assert isinstance(made.student, OpenStudent)
        self.student = made.student
        tokens = (made.adapter.name,) if made.student.settings.tokens else ()
        self.encodings = Encodings(AdaptedEncoder(base, (made.adapter,)), ((made.adapter.name,),), tokens)

    def decide(self, task: Task, items: object) -> list[Decision]:
        return self.student.decide(items, self.encodings)  # type: ignore[arg-type]


def figures(base: Backbone, made: Trained, fresh: list[Trace]) -> dict[str, float]:
    return {one.metric: one.value for one in evaluate(Alone(base, made), fresh) if one.group == "all"}


def test_both_tasks_are_learnt_on_one_adapter(tiny: Backbone) -> None:
    event, types = trained_on(tiny)
    assert event.adapter is types.adapter
    assert event.adapter.name == "labels"
    assert figures(tiny, event, traces(EVENT, seed=9))["top1"] > 0.6
    assert figures(tiny, types, traces(ENTITY_TYPES, seed=9))["micro_f1"] > 0.5


def test_conversations_of_the_splits_are_disjoint_and_the_artifact_can_state_everything(tiny: Backbone) -> None:
    for made in trained_on(tiny):
        inside = [set(part) for part in made.splits.values()]
        assert sum(map(len, inside)) == len(set().union(*inside))
        assert made.judged
        assert made.reliability
        assert {one.metric for one in made.measured} >= {"micro_f1", "ece"}
        assert all(len(item.candidates) <= 8 for item in made.canary)
        assert made.data == {"t": made.data["t"]}
        assert isinstance(made.student, OpenStudent)
        assert set(made.student.settings.taught) <= {text.partition(": ")[0] for text in LABELS.texts}


def test_training_twice_with_one_seed_gives_the_same_student(tiny: Backbone) -> None:
    few = traces(EVENT, 12)
    options = TrainOptions(seed=3, loop=replace(LOOP, epochs=1), shape=SHAPE)
    first, second = (family.train([EVENT], few, tiny, options)[0] for _ in range(2))
    for name, array in first.student.head().items():
        np.testing.assert_allclose(array, second.student.head()[name], atol=1e-4)
    assert first.student.options() == second.student.options()


def test_what_is_learnt_is_what_answers(tiny: Backbone) -> None:
    encoder = AdaptingEncoder(tiny, SHAPE, 0)
    asked = traces(ENTITY_TYPES, 3)
    recipe = OpenRecipe(encoder, {"entity_types": lesson(ENTITY_TYPES, asked)}, ["c0", "c1"], ["c2"], 0)
    for batch in recipe.batches(0):
        recipe.loss(batch).backward()
    import torch

    with torch.no_grad():
        for parameter in encoder.module.parameters():
            if parameter.requires_grad:
                parameter += 0.05 * torch.ones_like(parameter)
    plain = family.OpenOptions("several", family.UNCALIBRATED["several"])
    student = OpenStudent(ENTITY_TYPES, "labels", family.scoring(recipe.heads["entity_types"]), plain)
    encodings = Encodings(AdaptedEncoder(tiny, (encoder.adapter("labels"),)), (("labels",),), ("labels",))
    found, _ = student.scores(shared_items(asked), encodings)
    one = recipe.lessons["entity_types"]
    readings = [example.reading for part in one.examples.values() for example in part]
    with torch.no_grad():
        texts = [text for reading in readings for text in (reading.text, *reading.before)]
        encoded = recipe._encode([*texts, *one.texts])
        labels = encoded.vectors[[encoded.rows[text] for text in one.texts]]
        expected = recipe._scores("entity_types", readings, encoded, labels)
    np.testing.assert_allclose(found, expected.numpy(), atol=0.05)


def test_a_task_of_ones_own_is_trained_without_code(tiny: Backbone) -> None:
    ticket = Task("ticket", "What about?", (Field("text", "It."),), Space.OPEN, metric="top1")
    options = TrainOptions(seed=1, loop=LOOP, shape=SHAPE)
    made = family.train([ticket], traces(ticket, field="text"), tiny, options)[0]
    assert made.adapter.name == "ticket"
    assert made.student.head().keys() == trained_on(tiny)[0].student.head().keys()
    assert isinstance(made.student, OpenStudent)
    assert made.student.settings.kind == ONE
    found = evaluate(Alone(tiny, made), traces(ticket, field="text", seed=5), task=ticket)
    assert {one.metric: one.value for one in found}["top1"] > 0.6


def test_labels_that_were_not_offered_are_no_negatives() -> None:
    other = LabelSet(("x",), ("w5 w6: w7",))
    both = [*traces(EVENT, 2), Trace(EVENT.name, EVENT.hash, {"turn": "w5"}, ("x",), "t", "c9", 0, other)]
    one = lesson(EVENT, both)
    assert one.offers.tolist() == [[True] * 3 + [False], [False] * 3 + [True]]


@pytest.mark.parametrize(
    ("task", "given", "message"),
    [
        (SCOPE, [], "label space"),
        (EVENT, [replace(t, task_hash="old") for t in traces(EVENT, 4)], "another version"),
        (EVENT, [replace(t, labels=()) for t in traces(EVENT, 4)], "give no label"),
        (EVENT, [replace(t, labels=("none",)) for t in traces(EVENT, 4)], "not offered"),
        (EVENT, traces(ENTITY_TYPES, 4), "give its task too"),
        (EVENT, traces(EVENT, 2), "too few"),
    ],
)
def test_traces_that_cannot_teach_are_refused(tiny: Backbone, task: Task, given: list[Trace], message: str) -> None:
    some = given or traces(SCOPE, 4)
    with pytest.raises(InputError, match=message):
        family.train([task], some, tiny, TrainOptions(shape=SHAPE, loop=LOOP))


def test_other_words_for_a_label_keep_what_it_is_about() -> None:
    rng = random.Random(0)
    said = {reworded("ask for phone number (find provider): Phone number of the salon", rng) for _ in range(200)}
    assert "ask for phone number (find provider)" in said
    assert "Phone number of the salon" in said
    assert all("phone number" in text.lower() for text in said)
    assert len(said) > 5
