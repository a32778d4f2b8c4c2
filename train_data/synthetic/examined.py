"""Simulated conversations with questions about them, without writing files."""

from __future__ import annotations

import random

from ..schemas import Question, Trajectory
from .asking import Asker
from .kinds import SetSplit
from .talk import new_turn, talk, undated_world


def examined(kind: str, seed: int, split: SetSplit, turns: int, questions: int) -> tuple[Trajectory, list[Question]]:
    """A conversation of a kind, of at least so many turns, and at most so many questions asked after its last turn.

    Questions carry evidence, plan, requirements and answer; things of one name are told apart by what they belong to
    in every second seed.

    Args:
        split: the wordings to use, of turns and of questions.

    Raises:
        InputError: there is no such kind.
    """
    world = undated_world(kind, f"examined {seed}", split, several_groups=seed % 2 == 1)
    made = tuple(map(new_turn, talk(world, turns)))
    name = f"{kind}-{split}-examined-{seed}"
    asker = Asker(world, split, random.Random(f"examined {kind} {seed} {split}"), None)
    asked = [
        Question(
            id=f"{name}:q{number}",
            text=one.text,
            trajectory=name,
            group=one.plan.reasoning,
            gold_turns=one.evidence,
            answer=one.answer,
            plan=one.plan,
            template=one.template,
            requirements=one.requirements,
        )
        for number, one in enumerate(asker.questions(questions))
    ]
    return Trajectory(name, made, split), asked
