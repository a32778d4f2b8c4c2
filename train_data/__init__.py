"""Examples with gold: loaders of public corpora, which read published files, and what is made of them."""

from .records import gold_records
from .registry import CARDS, load_corpus
from .schemas import (
    Card,
    Corpus,
    EventGold,
    Fault,
    MemoryGold,
    PlanGold,
    Problem,
    Question,
    RecordGold,
    RequirementGold,
    Trajectory,
    TurnGold,
    ValueSpan,
)
from .weaving import estimate_tokens, hold_out, weave

__all__ = [
    "CARDS",
    "Card",
    "Corpus",
    "EventGold",
    "Fault",
    "MemoryGold",
    "PlanGold",
    "Problem",
    "Question",
    "RecordGold",
    "RequirementGold",
    "Trajectory",
    "TurnGold",
    "ValueSpan",
    "estimate_tokens",
    "gold_records",
    "hold_out",
    "load_corpus",
    "weave",
]
