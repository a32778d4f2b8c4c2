"""The question builder: questions with evidence, plan, requirements and answer about woven task dialogues."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from intentmem.memory.errors import InputError

from ..schemas import Corpus, Question, Trajectory
from .found import Finding, findings
from .templates import Rewrite, Split, Template, choose, fill, load_templates
from .threads import read_threads

_FILE = "woven"
_DESCRIBED = 0.4


def ask(
    woven: Corpus, *, seed: int, per_trajectory: int = 60, split: Split | None = "train", rewrite: Rewrite | None = None
) -> Corpus:
    """The woven corpus with questions of all four reasoning types.

    `group` is the reasoning type. The evidence is every turn that states what is asked, and those without which it
    cannot be told which thing is meant. Of a requirement, `property` is worded by the schema's name or description.

    Args:
        woven: as `weave` gives it.
        seed: decides what is asked, and how.
        per_trajectory: the most questions for each trajectory; reasoning types, and families in one, take turns.
        split: wordings of this split only; None for all.
        rewrite: puts each question in other words.

    Raises:
        InputError: `per_trajectory` is below 1.
    """
    if per_trajectory < 1:
        raise InputError("per_trajectory", f"must be at least 1, got {per_trajectory}")
    descriptions = {label.name: label.description for label in woven.labels if label.kind == "entity_type"}
    templates: dict[str, list[Template]] = defaultdict(list)
    for template in load_templates(_FILE):
        if split in (None, template.split):
            templates[template.family].append(template)
    questions: list[Question] = []
    for trajectory in woven.trajectories:
        rng = random.Random(f"ask {seed} {split} {trajectory.id}")
        chosen = _select(trajectory, templates, per_trajectory, rng)
        for number, finding in enumerate(chosen):
            template = rng.choice(templates[finding.family])
            asked = _worded(finding, template, descriptions, rng)
            text = rewrite(asked.text) if rewrite else asked.text
            questions.append(replace(asked, id=f"{trajectory.id}:q{number}", text=text, trajectory=trajectory.id))
    return replace(woven, questions=tuple(questions))


def _select(
    trajectory: Trajectory, templates: Mapping[str, Sequence[Template]], most: int, rng: random.Random
) -> list[Finding]:
    """Findings, one reasoning type after the other and in each one family after the other."""
    times = {str(turn.source_id): turn.time for turn in trajectory.turns}
    waiting: dict[str, dict[str, list[Finding]]] = defaultdict(lambda: defaultdict(list))
    for finding in findings(read_threads(trajectory), times):
        if finding.family in templates:
            reasoning = templates[finding.family][0].plan.reasoning
            waiting[reasoning][finding.family].append(finding)
    for families in waiting.values():
        for found in families.values():
            rng.shuffle(found)
    chosen: list[Finding] = []
    while waiting and len(chosen) < most:
        for reasoning in sorted(waiting):
            families = waiting[reasoning]
            family = next(iter(families))
            chosen.append(families[family].pop())
            found = families.pop(family)
            if found:
                families[family] = found
            if not families:
                del waiting[reasoning]
    return chosen[:most]


def _worded(finding: Finding, template: Template, descriptions: Mapping[str, str], rng: random.Random) -> Question:
    values, requirements = dict(finding.values), finding.requirements
    name = values.get("property")
    described = descriptions.get(name or "", "").rstrip(".")
    if name and described and rng.random() < _DESCRIBED:
        values["property"] = described[0].lower() + described[1:]
        requirements = tuple(replace(need, property=values["property"]) for need in requirements)
    plan = template.plan
    if finding.target is not None and plan.target == "value":
        temporal = plan.reasoning == "point" and finding.target == "time"
        plan = replace(plan, target=finding.target, reasoning="temporal" if temporal else plan.reasoning)
    text = fill(choose(template.text, rng), values)
    return Question(
        id="",
        text=text[0].upper() + text[1:],
        trajectory="",
        group=plan.reasoning,
        gold_turns=finding.evidence,
        answer=finding.answer,
        plan=plan,
        template=template.id,
        requirements=requirements,
    )
