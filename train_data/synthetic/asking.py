"""From what can be asked to questions in words: families and types take turns, wordings are of one split."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..questions.found import target_of
from ..questions.templates import Rewrite, Template, choose, fill, load_templates
from ..schemas import PlanGold, RequirementGold
from .examine import Asked, examine
from .kinds import SetSplit
from .simulate import Simulation

_FILE = "built"


@dataclass(frozen=True, slots=True)
class SetQuestion:
    """A question as it is written. `type` is that of CAME-Bench, 1 to 4."""

    text: str
    type: int
    answer: str
    evidence: tuple[str, ...]
    plan: PlanGold
    template: str
    requirements: tuple[RequirementGold, ...]

    def as_json(self, id: str, visible: Sequence[str]) -> dict[str, Any]:
        """The question in CAME-Bench's format; plan, template and requirements are further fields."""
        return {
            "id": id,
            "type": f"type {self.type}",
            "content": self.text,
            "answer": {"free_form_answer": self.answer},
            "question_turn_ids": list(visible),
            "answer_turn_ids": list(self.evidence),
            "answer_type": self.plan.target,
            "plan": self.plan.labels,
            "template": self.template,
            "requirements": [asdict(need) for need in self.requirements],
        }


class Asker:
    """Words questions about one world; each thing is asked once."""

    def __init__(self, world: Simulation, split: SetSplit, rng: random.Random, rewrite: Rewrite | None) -> None:
        self._world = world
        self._rng = rng
        self._rewrite = rewrite
        self._asked: set[str] = set()
        self._templates: dict[str, list[Template]] = defaultdict(list)
        for template in load_templates(_FILE):
            if (template.split == "test") == (split == "test"):
                self._templates[template.family].append(template)

    def questions(self, most: int) -> Iterator[SetQuestion]:
        """Up to `most` questions about the world as it is, the four types in turn, and the families of each in turn."""
        waiting: dict[int, dict[str, list[Asked]]] = defaultdict(lambda: defaultdict(list))
        for asked in examine(self._world.slots, self._world.kind, self._rng):
            waiting[int(asked.family[0])][asked.family].append(asked)
        made = 0
        while waiting and made < most:
            for type_ in sorted(waiting):
                if made >= most:
                    return
                family, entries = next(iter(waiting[type_].items()))
                del waiting[type_][family]
                question = self._word(entries.pop())
                if entries:
                    waiting[type_][family] = entries
                if not waiting[type_]:
                    del waiting[type_]
                if question is not None:
                    made += 1
                    yield question

    def _word(self, asked: Asked) -> SetQuestion | None:
        """The question in words; None where it has been asked before."""
        template = self._rng.choice(self._templates[asked.family])
        kind, slot = self._world.kind, asked.slots[0]
        gaps: Mapping[str, str] = {
            **kind.words,
            **asked.gaps,
            "noun": slot.kind.noun,
            "nouns": slot.kind.nouns,
            **{("slot", "slot2")[place]: self._world.label(one, self._rng) for place, one in enumerate(asked.slots)},
        }
        text = choose(fill(template.text, gaps), self._rng)
        text = text[:1].upper() + text[1:]
        key = f"{asked.family} {[one.goal for one in asked.slots]} {sorted(asked.gaps.items())}"
        if key in self._asked:
            return None
        self._asked.add(key)
        plan = template.plan
        needs: tuple[RequirementGold, ...] = ()
        if asked.attribute is not None:
            needs = (RequirementGold(asked.entity, asked.attribute, asked.attribute, asked.others),)
            if plan.target == "value":
                plan = replace(plan, target=target_of(asked.attribute) or plan.target)
        if self._rewrite is not None:
            text = self._rewrite(text)
        return SetQuestion(text, int(asked.family[0]), asked.answer, asked.evidence, plan, template.id, needs)
