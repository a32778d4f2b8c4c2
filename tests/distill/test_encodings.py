"""Which adapters a text passes, and how often."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

from intentmem.distill.encoding import AdaptedEncoder, Encoded
from intentmem.distill.students.base import Encodings


class Counting:
    """An encoder that writes down what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    def encode(
        self, texts: Sequence[str], names: Sequence[str], with_tokens: Sequence[str] = ()
    ) -> dict[str, list[Encoded]]:
        self.asked.append((tuple(texts), tuple(names)))
        states = np.ones((2, 3), np.float32)
        return {name: [Encoded(states[0], states if name in with_tokens else None) for _ in texts] for name in names}


@pytest.fixture
def encoder() -> Counting:
    return Counting()


def encodings(encoder: Counting) -> Encodings:
    groups = (("labels", "scope"), ("plan", "labels"))
    return Encodings(cast(AdaptedEncoder, encoder), groups, ("labels",))


def test_a_question_passes_its_plan_and_its_labels_at_once_and_no_scope(encoder: Counting) -> None:
    shared = encodings(encoder)
    shared.turns(["Where?"], "plan")
    (found,) = shared.turns(["Where?"], "labels", tokens=True)
    assert encoder.asked == [(("Where?",), ("plan", "labels"))]
    assert found.tokens is not None


def test_a_turn_passes_its_labels_and_its_scope_at_once_and_no_plan(encoder: Counting) -> None:
    shared = encodings(encoder)
    shared.turns(["Hello."], "labels", tokens=True)
    shared.turns(["Hello."], "scope")
    assert encoder.asked == [(("Hello.",), ("labels", "scope"))]


def test_what_was_asked_as_a_question_first_is_encoded_for_what_it_lacks_as_a_turn(encoder: Counting) -> None:
    shared = encodings(encoder)
    shared.turns(["Where?"], "plan")
    shared.turns(["Where?", "Hello."], "scope")
    shared.turns(["Where?"], "plan")
    assert encoder.asked == [(("Where?",), ("plan", "labels")), (("Where?", "Hello."), ("labels", "scope"))]


def test_an_adapter_of_no_group_is_asked_alone(encoder: Counting) -> None:
    shared = encodings(encoder)
    shared.turns(["price"], "property")
    shared.texts(["price"], "property")
    assert encoder.asked == [(("price",), ("property",))]
