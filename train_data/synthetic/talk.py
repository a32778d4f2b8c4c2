"""Simulated conversations with their goals, to learn scopes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from intentmem.memory.types import NewTurn, Role

from ..schemas import Trajectory, TurnGold
from .kinds import SetSplit, load_kind
from .simulate import SetTurn, Simulation

_SIDES = ("user", "assistant")


def simulated(kind: str, seed: int, split: SetSplit, turns: int, several_groups: bool) -> Trajectory:
    """A conversation of a kind, of at least so many turns, without dates; its goals are those of `data build`.

    Args:
        split: the wordings to use.
        several_groups: whether things of the same name are told apart by what they belong to.

    Raises:
        InputError: there is no such kind.
    """
    said = list(talk(undated_world(kind, f"scopes {seed}", split, several_groups), turns))
    gold = {turn.id: TurnGold(scope=" / ".join(turn.partition)) for turn in said}
    return Trajectory(f"{kind}-{split}-{seed}-{turns}", tuple(map(new_turn, said)), split, gold)


def undated_world(kind: str, seed: str, split: SetSplit, several_groups: bool) -> Simulation:
    """A world whose turns bear no dates.

    Raises:
        InputError: there is no such kind.
    """
    return Simulation(replace(load_kind(kind), stamps=False), seed, split, several_groups)


def talk(world: Simulation, turns: int) -> Iterator[SetTurn]:
    """The next turns of a world, in whole segments, at least so many."""
    said = 0
    while said < turns:
        for turn in world.segment():
            said += 1
            yield turn


def new_turn(turn: SetTurn) -> NewTurn:
    """A simulated turn as it is remembered; who is neither side of an assistant's talk is a speaker of their own."""
    role: Role = "assistant" if turn.role == "assistant" else "user"
    return NewTurn(role, turn.content, None if turn.role in _SIDES else turn.role, source_id=turn.id)
