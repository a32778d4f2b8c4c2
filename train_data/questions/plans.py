"""Questions for the task `plan`: how people ask about remembered conversations, with the plan that each asks for.

There is no conversation behind them: what they ask about is drawn at random. Nothing of a benchmark went into them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from intentmem.memory.errors import InputError

from ..schemas import Question
from .templates import Fillers, Rewrite, Split, Template, load_templates

_FILES = ("personal", "errands")
_OPENINGS = ("Quick question: ", "Remind me, ", "I forgot, ", "Hey, ", "One more thing: ", "Just checking, ")
_RELATIVES = ("my sister", "my brother", "my mom", "my boss", "my friend", "my neighbour", "my roommate", "my cousin")
_TRIES = 50


def plan_templates(split: Split | None = None) -> tuple[Template, ...]:
    """The templates that plan questions are made of; of one split, or all."""
    found = [template for name in _FILES for template in load_templates(name)]
    return tuple(template for template in found if split in (None, template.split))


def plan_questions(
    seed: int, n: int, split: Split | None = "train", *, rewrite: Rewrite | None = None
) -> tuple[Question, ...]:
    """Distinct questions with `plan` and `template` set, no trajectory and no evidence. Deterministic for a seed.

    Args:
        seed: decides templates, fillers and wording.
        n: how many; reasoning types are about even, families within a type, and templates within a family likewise.
        split: templates of this split only; None for all.
        rewrite: puts each question in other words.

    Raises:
        InputError: `n` is below 1, or more than the templates can give.
    """
    if n < 1:
        raise InputError("n", f"must be at least 1, got {n}")
    rng = random.Random(f"plan questions {seed} {split}")
    fillers = Fillers(rng)
    by_reasoning: dict[str, dict[str, list[Template]]] = defaultdict(lambda: defaultdict(list))
    for template in plan_templates(split):
        by_reasoning[template.plan.reasoning][template.family].append(template)
    kinds = sorted(by_reasoning)
    made: dict[str, Question] = {}
    for number in range(n):
        families = by_reasoning[kinds[number % len(kinds)]]
        for _ in range(_TRIES):
            template = _pick(families, rng)
            text = _spoken(fillers.fill(template.text)[0], rng)
            text = rewrite(text) if rewrite else text
            if text not in made:
                break
        else:
            raise InputError("n", f"no more than {len(made)} questions differ", "ask for fewer")
        id = f"plan-{split or 'all'}-{seed}-{number}"
        made[text] = Question(id, text, "", template.plan.reasoning, plan=template.plan, template=template.id)
    return tuple(made.values())


def _pick(families: dict[str, list[Template]], rng: random.Random) -> Template:
    """A template; a family weighs as the root of its templates, so that large ones do not drown the small."""
    names: Sequence[str] = sorted(families)
    (name,) = rng.choices(names, [len(families[name]) ** 0.5 for name in names])
    return rng.choice(families[name])


def _spoken(text: str, rng: random.Random) -> str:
    """As people type: now and then a relative for a name, an opening, no capitals or no question mark."""
    named = [name for name in Fillers.people() if name in text]
    if named and rng.random() < 0.12:
        text = text.replace(rng.choice(named), rng.choice(_RELATIVES))
        text = text[0].upper() + text[1:]
    if rng.random() < 0.08:
        opening = rng.choice(_OPENINGS)
        text = opening + (text[0].lower() + text[1:] if text.split(" ")[0] not in named and text[:2] != "I " else text)
    if rng.random() < 0.07:
        text = text.lower()
    return text.rstrip("?") if rng.random() < 0.07 else text
