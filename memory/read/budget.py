"""Where the reading of one question ends (EMIR2, section 3.3 and appendix)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """Where reading one question stops.

    rounds: the first included. candidates: turns that are looked at in all. tokens: of these turns, estimated.
    milliseconds: since the rounds began. calls: requests to a served model, those of the plan included. reranked: turns
    that are scored for their support of the question at the end, 0 for none.
    """

    rounds: int = 8
    candidates: int = 96
    tokens: int = 65_536
    milliseconds: float = 120.0
    calls: int = 32
    reranked: int = 0
