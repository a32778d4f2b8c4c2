"""Conversations written by hand with the goal of each turn, to learn from how people really take a goal up again.

They lie as text in `conversations/`: a line `# goal` begins a stretch, each line after it is a turn, `user: ...` or
`assistant: ...`. Templates, however many, take goals up by their names; people allude, contrast and simply go on.
Language models wrote them; persons, shops and prices are invented. Licence: Apache-2.0, as the project.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from intentmem.memory.errors import InputError
from intentmem.memory.types import NewTurn, Role

from .schemas import Trajectory, TurnGold

WRITTEN = "written"
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_SPLITS = ("train", "train", "train", "train", "dev", "train", "train", "train", "calibration", "train")
"""By place in the order of names, round and round."""


def written_conversations() -> list[Trajectory]:
    """All that ship, in the order of their names, each with its split: train, dev or calibration."""
    found = sorted(
        (file for file in files(__package__).joinpath("conversations").iterdir() if file.name.endswith(".txt")),
        key=lambda file: file.name,
    )
    return [
        read_conversation(
            file.name.removesuffix(".txt"), file.read_text(encoding="utf-8"), _SPLITS[place % len(_SPLITS)]
        )
        for place, file in enumerate(found)
    ]


def read_conversation(name: str, text: str, split: str = "train") -> Trajectory:
    """A conversation from its text; `TurnGold.scope` is the goal of each turn.

    Raises:
        InputError: a line is neither a goal nor a turn, or a turn comes before the first goal; names the line.
    """
    turns: list[NewTurn] = []
    gold: dict[str, TurnGold] = {}
    for goal, role, said in _turns(name, text):
        id = f"{name}:{len(turns)}"
        turns.append(NewTurn(role, said, source_id=id))
        gold[id] = TurnGold(scope=goal)
    return Trajectory(f"{WRITTEN}-{name}", tuple(turns), split, gold)


def _turns(name: str, text: str) -> Iterator[tuple[str, Role, str]]:
    goal = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if line.startswith("#"):
            goal = line.lstrip("# ").strip()
            continue
        side, _, said = line.partition(":")
        if side not in _ROLES or not said.strip() or not goal:
            raise InputError(
                f"{name}, line {number}",
                f"{line[:40]!r} is no turn of a goal",
                "write '# GOAL' before its turns, and each of them on one line as 'user: ...' or 'assistant: ...'",
            )
        yield goal, _ROLES[side], said.strip()
