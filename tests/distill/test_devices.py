"""Every recipe computes where its modules are.

There is no second device here: torch's `meta` device takes its place, which computes nothing but refuses to be mixed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from intentmem.distill.backbone import Backbone
from intentmem.distill.training import candidates, closed, open, sequence, spans
from intentmem.memory.tasks import ENTITY_TYPES, EVENT, PROPERTY_MATCH, RECORD_SPANS, SCOPE, SUPPORT

from . import (
    test_candidates_student,
    test_closed_student,
    test_open_training,
    test_scope_training,
    test_spans_student,
)
from .standin import MOOD, mood_traces


class Reached(Exception):
    """Training has come to its loop."""


Start = Callable[[Backbone], Any]
FAMILIES: dict[str, tuple[Any, Start]] = {
    "sequence": (
        sequence,
        lambda base: sequence.train([SCOPE], test_scope_training.traces(), base, test_scope_training.OPTIONS),
    ),
    "open": (
        open,
        lambda base: open.train(
            [EVENT, ENTITY_TYPES],
            [*test_open_training.traces(EVENT), *test_open_training.traces(ENTITY_TYPES)],
            base,
            test_open_training.TrainOptions(shape=test_open_training.SHAPE),
        ),
    ),
    "closed": (closed, lambda base: closed.train([MOOD], mood_traces(60), base, test_closed_student.QUICK)),
    "pairs": (
        closed,
        lambda base: closed.train([SUPPORT], test_closed_student.weighed(), base, test_closed_student.QUICK),
    ),
    "candidates": (
        candidates,
        lambda base: candidates.train(
            [PROPERTY_MATCH], test_candidates_student.asked(), base, test_candidates_student.QUICK
        ),
    ),
    "spans": (
        spans,
        lambda base: spans.train([RECORD_SPANS], test_spans_student.said(), base, test_spans_student.QUICK),
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_recipe_computes_its_loss_and_gradients_on_the_device_of_its_modules(
    tiny: Backbone, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from transformers import masking_utils

    family, start = FAMILIES[name]
    # It looks into a mask for padding, which `meta` has no values to tell.
    monkeypatch.setattr(masking_utils, "_ignore_bidirectional_mask_sdpa", lambda *_, **__: False)
    recipe = recipe_of(family, start, tiny, monkeypatch)
    recipe.loss(first_batch(recipe))  # what the frozen layers give is known from here on
    for module in recipe.modules.values():
        module.to("meta")
    loss = recipe.loss(first_batch(recipe))
    loss.backward()
    learning = [p for module in recipe.modules.values() for p in module.parameters() if p.requires_grad]
    assert loss.device.type == "meta" and all(p.device.type == "meta" for p in learning)
    assert any(p.grad is not None for p in learning)


def recipe_of(family: Any, start: Start, base: Backbone, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The recipe that a family hands to the loop."""
    caught: list[Any] = []

    def stop(recipe: Any, *_: Any) -> None:
        caught.append(recipe)
        raise Reached

    monkeypatch.setattr(family, "fit", stop)
    with pytest.raises(Reached):
        start(base)
    return caught[0]


def first_batch(recipe: Any) -> Any:
    """The same batch each time, words and all."""
    batch = next(iter(recipe.batches(0)))
    if hasattr(recipe, "_rng"):
        recipe._rng = random.Random(0)
    return batch
