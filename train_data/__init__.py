"""Examples with gold: loaders of public corpora, which read the published files from a path."""

from .registry import CARDS, load_corpus
from .schemas import (
    Card,
    Corpus,
    EventGold,
    Fault,
    MemoryGold,
    Problem,
    Question,
    Trajectory,
    TurnGold,
    ValueSpan,
)

__all__ = [
    "CARDS",
    "Card",
    "Corpus",
    "EventGold",
    "Fault",
    "MemoryGold",
    "Problem",
    "Question",
    "Trajectory",
    "TurnGold",
    "ValueSpan",
    "load_corpus",
]
