from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.tasks import PLAN, Item

DECIDER = BaselineDecider()


def labels(question: str) -> tuple[str, ...]:
    return DECIDER.decide(PLAN, [Item({"question": question})])[0].labels


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When did she move to Paris?", ("temporal", "time", "one", "direct")),
        ("How many books have we read so far?", ("aggregation", "count", "all_matching", "direct")),
        ("Who is the owner of the shop?", ("point", "entity", "one", "direct")),
        ("Where does he work?", ("point", "location", "one", "direct")),
        ("List all the places we considered", ("aggregation", "list", "all_matching", "direct")),
        ("他什么时候去北京？", ("temporal", "time", "one", "direct")),
        ("彼はどこに住んでいますか？", ("point", "location", "one", "direct")),
        ("언제 만났어?", ("temporal", "time", "one", "direct")),
        ("왜 그만뒀어?", ("point", "explanation", "one", "direct")),
    ],
)
def test_a_plain_question_word_settles_the_plan(question: str, expected: tuple[str, ...]) -> None:
    assert labels(question) == expected


def test_joined_questions_are_decomposed() -> None:
    assert labels("Which city was the hotel in, and who booked it?")[0] == "compositional"
    assert labels("Which city was the hotel in, and who booked it?")[3] == "decompose"
    assert labels("Would Ann enjoy the concert?")[1] == "likelihood"


@given(st.text(max_size=300))
def test_any_text_gets_one_label_of_each_group_with_probabilities_that_sum_to_one(question: str) -> None:
    item = Item({"question": question})
    (decision,) = DECIDER.decide(PLAN, [item])
    PLAN.check(item, decision)
    for group in PLAN.groups:
        assert sum(decision.probabilities[o.name] for o in group.options) == pytest.approx(1)
    assert 0 < decision.confidence <= 1
