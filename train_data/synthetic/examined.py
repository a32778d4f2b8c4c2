"""Simulated conversations with questions about them, without writing files."""

from __future__ import annotations

import random
from dataclasses import replace

from intentmem.memory.types import NewTurn, Role

from ..schemas import Question, Trajectory
from .asking import Asker
from .kinds import SetSplit, load_kind
from .simulate import Simulation

_SIDES = ("user", "assistant")


def examined(kind: str, seed: int, split: SetSplit, turns: int, questions: int) -> tuple[Trajectory, list[Question]]:
    """A conversation of a kind, of at least so many turns, and at most so many questions asked after its last turn.

    Questions carry evidence, plan, requirements and answer; things of one name are told apart by what they belong to
    in every second seed.

    Args:
        split: the wordings to use, of turns and of questions.

    Raises:
        InputError: there is no such kind.
    """
    world = Simulation(replace(load_kind(kind), stamps=False), f"examined {seed}", split, several_groups=seed % 2 == 1)
    made: list[NewTurn] = []
    while len(made) < turns:
        for turn in world.segment():
            role: Role = "assistant" if turn.role == "assistant" else "user"
            speaker = None if turn.role in _SIDES else turn.role
            made.append(NewTurn(role, turn.content, speaker, source_id=turn.id))
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
    return Trajectory(name, tuple(made), split), asked
