from __future__ import annotations

import numpy as np
import pytest

from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import DecisionError, InputError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.tasks import ENTITY_TYPES, EVENT, Candidates, Item, Space, Task
from intentmem.memory.write.seeds import load_seeds
from intentmem.memory.write.vocabulary import Vocabulary

HASHED = HashEmbedder(256)
DECIDER = BaselineDecider()


def seeded(kind: str) -> Vocabulary:
    vocabulary = Vocabulary("n", kind, lambda texts: HASHED.encode(texts, "label"))
    vocabulary.seed(load_seeds())
    return vocabulary


def items(vocabulary: Vocabulary, texts: list[str]) -> list[Item]:
    vectors = HASHED.encode(texts, "passage")
    return [Item({"turn": t}, vocabulary.candidates(), v) for t, v in zip(texts, vectors, strict=True)]


@pytest.mark.parametrize(
    ("text", "parent"),
    [
        ("user: How much does the ticket cost?", "ask"),
        ("user: Thank you so much!", "socialise"),
        ("user: I'm looking for a place to eat, can you help me?", "request"),
        ("assistant: Is there anything else I can help you with?", "socialise"),
        ("user: Please cancel my appointment.", "revise"),
    ],
)
def test_wording_leads_to_the_right_kind_of_operation(text: str, parent: str) -> None:
    vocabulary = seeded("event")
    (decision,) = DECIDER.decide(EVENT, items(vocabulary, [text]))
    above = vocabulary.parent_of(decision.labels[0])
    assert above is not None and above.name == parent


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("It costs $45 in all", "price"),
        ("See you at 7:30 pm", "time of day"),
        ("Write to me at ann@example.org", "email address"),
        ("What is the rating?", "rating"),
        ("About 20% of them came", "percentage"),
    ],
)
def test_surface_forms_lead_to_their_attribute(text: str, name: str) -> None:
    vocabulary = seeded("entity_type")
    (decision,) = DECIDER.decide(ENTITY_TYPES, items(vocabulary, [text]))
    assert name in [vocabulary.get(label).name for label in decision.labels]


def test_decisions_lie_in_the_label_space_and_in_their_bounds() -> None:
    texts = [
        "",
        "?",
        "Hello there",
        "ご予約はいくらですか？",
        "x" * 5000,
        "The price is $5 at 5 pm on Monday, 5%, a@b.co",
    ]
    for task, kind, most in ((EVENT, "event", 2), (ENTITY_TYPES, "entity_type", 5)):
        for item, decision in zip(asked := items(seeded(kind), texts), DECIDER.decide(task, asked), strict=True):
            task.check(item, decision)
            assert len(decision.labels) <= most
            assert all(0 <= p <= 1 for p in decision.probabilities.values())
            assert set(decision.labels) <= set(decision.probabilities)
            assert 0 <= decision.confidence <= 1 and decision.decided_by == "baseline"


def test_a_batch_gives_what_single_items_give_whatever_their_candidates() -> None:
    first, second = seeded("event"), Vocabulary("n", "event", lambda texts: HASHED.encode(texts, "label"))
    second.add("ask price", "Ask how much something costs.", coarse=True)
    mixed = [*items(first, ["How much is it?", "Bye!"]), *items(second, ["How much is it?"]), *items(first, ["Sorry."])]
    together = [(d.labels, pytest.approx(dict(d.probabilities))) for d in DECIDER.decide(EVENT, mixed)]
    alone = [(d.labels, dict(d.probabilities)) for item in mixed for d in DECIDER.decide(EVENT, [item])]
    assert together == alone


def test_nothing_is_chosen_where_nothing_fits_or_nothing_is_offered() -> None:
    far = Candidates(("a",), ("zebra",), np.eye(2, dtype=np.float32)[:1])
    item = Item({"turn": "hm"}, far, np.eye(2, dtype=np.float32)[1])
    assert DECIDER.decide(EVENT, [item])[0].labels == ()
    assert DECIDER.decide(ENTITY_TYPES, [item])[0].labels == ()
    assert DECIDER.decide(EVENT, [Item({"turn": "hm"})])[0].labels == ()
    assert DECIDER.decide(EVENT, []) == []


def test_a_missing_vector_and_an_unknown_task_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"event\.vector"):
        DECIDER.decide(EVENT, [Item({"turn": "hm"}, seeded("event").candidates())])
    with pytest.raises(InputError, match=r"event\.candidates"):
        DECIDER.decide(EVENT, [Item({"turn": "hm"}, Candidates(("a",), ("a",)), np.ones(2, np.float32))])
    with pytest.raises(DecisionError, match="mood"):
        DECIDER.decide(Task("mood", "?", (), Space.CLOSED), [])
