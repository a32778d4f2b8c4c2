"""How a long measurement tells how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told how far a stage is."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """`done` of `total` steps of a stage."""
        ...


def silent(stage: str, done: int, total: int) -> None:
    """Tell nobody."""
