"""A sample trajectory: a trip, a work project and a recipe, planned over eight days in one chat."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

QUESTIONS = (
    "To which hotel did we change for day 1?",
    "How much is dinner on day 2?",
    "When is the cut-over of the Heron database?",
    "What did the chart of the failed dry run show?",
    "How much salt should go into the focaccia next time?",
)
"""Asked of the sample by `intentmem demo`; each needs what was said in one place and not in another like it."""


def sample_messages() -> list[dict[str, Any]]:
    """The sample as OpenAI-style messages, each with its own id, time and session."""
    text = files(__package__ or __name__).joinpath("trip.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
