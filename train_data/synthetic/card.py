"""The data card of a set: what it is, how it came about, what it is good for and what not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .files import BuiltSet

_TYPES = {
    "type 1": "incremental revision",
    "type 2": "context-aware recall",
    "type 3": "several hops",
    "type 4": "synthesis",
}
_SIMULATED = """Turns and questions come from templates and a seeded generator. Contents are invented: names are drawn
from lists, a likeness to anything real is chance, and nothing in them is advice."""
_WOVEN = """The turns are those of the corpus, woven by a seeded generator; the questions come from templates that are
filled from its annotations."""


def data_card(made: BuiltSet) -> str:
    """The card as Markdown."""
    lengths = "\n".join(f"| {name} | {tokens} |" for name, tokens in sorted(made.tokens.items()))
    types = "\n".join(f"| {name}: {_TYPES.get(name, name)} | {n} |" for name, n in sorted(made.questions.items()))
    source = "".join(f"- {name}: {value}\n" for name, value in made.source.items())
    return f"""# {made.title}

- kind: {made.kind}
- seed: {made.seed}
- wordings: {made.split}
- licence: {made.licence}
{source}
| trajectory | tokens (1.3 a word unless another counter was given) |
| --- | --- |
{lengths}

{made.turns} turns under {made.scopes} goals.

| questions | n |
| --- | --- |
{types}

## How it was made
{_WOVEN if made.source else _SIMULATED}
Equal arguments give equal files. Evidence (`answer_turn_ids`) is the least that suffices: the turn that states the
answer and, where that says only "it" or gives a number in a list, the turn that tells which thing is meant.

## Use
Measuring retrieval and answers where goals interleave, and training on the other wordings. The format is that of
CAME-Bench. `partition`, `action` and `action_object` of a turn, and `plan`, `template` and `requirements` of a
question, are gold: they must not reach the system that is measured.

## Limits
The language is plainer and more regular than that of people. A system tuned to these wordings will look better than it
is: report the split, and measure on other sets too.
"""
