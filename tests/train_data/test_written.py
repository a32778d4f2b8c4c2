"""Conversations written by hand, as they ship and as text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.memory.errors import InputError
from intentmem.train_data.written import read_conversation, written_conversations

TALK = """# lamp
user: Which lamp: the brass one?
assistant: It is 49 euros.

# desk
user: And the desk
# lamp
user: the brass one then
"""


def test_each_turn_has_the_goal_of_the_line_above_its_stretch() -> None:
    made = read_conversation("home", TALK)
    assert [turn.text for turn in made.turns][:2] == ["Which lamp: the brass one?", "It is 49 euros."]
    assert [turn.role for turn in made.turns] == ["user", "assistant", "user", "user"]
    assert [made.gold[str(turn.source_id)].scope for turn in made.turns] == ["lamp", "lamp", "desk", "lamp"]


@pytest.mark.parametrize(
    ("text", "line"), [("user: no goal yet", 1), ("# a\nnarrator: once", 2), ("# a\nuser:", 2), ("# a\n\nhello", 3)]
)
def test_a_line_that_is_no_turn_of_a_goal_is_named(text: str, line: int) -> None:
    with pytest.raises(InputError, match="is no turn of a goal") as caught:
        read_conversation("home", text)
    assert caught.value.field == f"home, line {line}"


LINE = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(st.sampled_from(["tea", "day 2"]), st.sampled_from(["user", "assistant"]), LINE), min_size=1))
def test_what_is_written_down_is_what_is_read(said: list[tuple[str, str, str]]) -> None:
    made = read_conversation("x", "\n".join(f"# {goal}\n{role}: {text}" for goal, role, text in said))
    found = [(made.gold[str(turn.source_id)].scope, turn.role, turn.text) for turn in made.turns]
    assert found == [(goal, role, text.strip()) for goal, role, text in said]


def test_those_that_ship_alternate_between_goals_and_serve_every_split() -> None:
    shipped = written_conversations()
    assert {made.split for made in shipped} == {"train", "dev", "calibration"}
    for made in shipped:
        goals = [made.gold[str(turn.source_id)].scope for turn in made.turns]
        stretches = 1 + sum(a != b for a, b in pairwise(goals))
        assert len(goals) > 60 and len(set(goals)) > 5 and stretches > 1.5 * len(set(goals)), made.id
