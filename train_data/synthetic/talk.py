"""Simulated conversations with their goals, to learn scopes from."""

from __future__ import annotations

from dataclasses import replace

from intentmem.memory.types import NewTurn, Role

from ..schemas import Trajectory, TurnGold
from .kinds import SetSplit, load_kind
from .simulate import Simulation

_SIDES = ("user", "assistant")


def simulated(kind: str, seed: int, split: SetSplit, turns: int, several_groups: bool) -> Trajectory:
    """A conversation of a kind, of at least so many turns, without dates; its goals are those of `data build`.

    Args:
        split: the wordings to use.
        several_groups: whether things of the same name are told apart by what they belong to.

    Raises:
        InputError: there is no such kind.
    """
    world = Simulation(replace(load_kind(kind), stamps=False), f"scopes {seed}", split, several_groups)
    made: list[NewTurn] = []
    gold: dict[str, TurnGold] = {}
    while len(made) < turns:
        for turn in world.segment():
            named = turn.role not in _SIDES
            role: Role = "assistant" if turn.role == "assistant" else "user"
            made.append(NewTurn(role, turn.content, turn.role if named else None, source_id=turn.id))
            gold[turn.id] = TurnGold(scope=" / ".join(turn.partition))
    return Trajectory(f"{kind}-{split}-{seed}-{turns}", tuple(made), split, gold)
