"""Traces of the task `coverage`: what a question needs, with turns that give all of it, a part of it or nothing.

The questions are those that are built over simulated conversations and over woven task dialogues. Their evidence is
every turn that states what is asked, and those without which it cannot be told which thing is meant. All of it covers
the requirement; of a part, the answer decides, and where it does not the turns are left out. Turns that are no evidence
are mostly hard: they share the question's rarest words.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from intentmem.memory.tasks import COVERAGE
from intentmem.memory.types import NewTurn
from intentmem.train_data import Corpus, Question, Trajectory, weave
from intentmem.train_data.questions import Split, ask
from intentmem.train_data.schemas import RequirementGold
from intentmem.train_data.synthetic import KINDS, SetSplit, examined

from ..traces import GOLD, Trace
from .support import Place, answer_parts

COVERED, PARTIAL, MISSING = (option.name for option in COVERAGE.groups[0].options)
BUILT = "built"
_MOST_EVIDENCE, _MOST_OTHERS, _ALIKE = 8, 4, 12
_NAMED = 0.5
"""Share of the requirements that are worded as a property of a thing, where the question needs just one."""
_TURNS, _QUESTIONS, _DIALOGUES = 160, 48, 8
_A_QUESTION = 3


def built_coverage_traces(seed: int = 0, n: int = 6000, split: SetSplit = "train") -> list[Trace]:
    """Traces about simulated conversations, of teacher `gold:built`; a conversation of the simulation is one.

    Args:
        n: how many at most, about two and a half a question.
        split: the wordings of turns and questions.
    """
    found: list[Trace] = []
    for number in range(-(-n // (len(KINDS) * _QUESTIONS * 2))):
        for kind in KINDS:
            trajectory, questions = examined(kind, seed * 1000 + number, split, _TURNS, _QUESTIONS)
            found += _of_trajectory(trajectory, questions, BUILT, seed)
    return _drawn(found, n, seed)


def coverage_traces(
    corpus: Corpus, *, seed: int = 0, n: int = 3000, split: Split | None = "train", trajectories: int = 24
) -> list[Trace]:
    """Traces about woven task dialogues; a trajectory is a conversation. Deterministic for a seed.

    Args:
        corpus: SGD.
        n: how many at most.
        split: of the questions' wordings.
        trajectories: how many to weave; fewer where the corpus is small.

    Raises:
        InputError: the corpus may not be trained on, or has nothing to ask about.
    """
    source = corpus.for_training()
    trajectories = max(1, min(trajectories, len(source.trajectories) // _DIALOGUES))
    woven = weave(source, seed=seed, dialogues=_DIALOGUES, trajectories=trajectories)
    asked = ask(woven, seed=seed, split=split, per_trajectory=-(-n // (2 * trajectories)))
    found: list[Trace] = []
    for trajectory in woven.trajectories:
        mine = [question for question in asked.questions if question.trajectory == trajectory.id]
        found += _of_trajectory(trajectory, mine, corpus.name, seed)
    return _drawn(found, n, seed)


def _drawn(traces: list[Trace], n: int, seed: int) -> list[Trace]:
    random.Random(f"coverage {seed}").shuffle(traces)
    return traces[:n]


def _of_trajectory(trajectory: Trajectory, questions: Sequence[Question], source: str, seed: int) -> Iterator[Trace]:
    rng, place = random.Random(f"coverage {seed} {trajectory.id}"), Place.of(trajectory)
    for number, question in enumerate(questions):
        need = _one_thing(question) if rng.random() < _NAMED else None
        wanted = question.text if need is None else f"{need.property} of {need.entity}"
        for label, rows in _shown(question, place, need is not None, rng):
            yield Trace(
                task=COVERAGE.name,
                task_hash=COVERAGE.hash,
                fields={
                    "requirement": wanted,
                    "question": question.text,
                    "evidence": tuple(_said(place.turns[row]) for row in sorted(rows)),
                },
                labels=(label,),
                teacher=GOLD + source,
                conversation=trajectory.id,
                seq=_A_QUESTION * number + (COVERED, PARTIAL, MISSING).index(label),
                meta={"source": source, "template": question.template or ""},
            )


def _one_thing(question: Question) -> RequirementGold | None:
    """The property of one thing, stated in one place, that a question needs, None where it needs anything else."""
    needs = question.requirements
    simple = len(needs) == 1 and question.plan is not None and question.plan.span == "one"
    return needs[0] if simple and needs[0].entity and len(answer_parts(question.answer or "")) == 1 else None


def _shown(question: Question, place: Place, named: bool, rng: random.Random) -> Iterator[tuple[str, list[int]]]:
    """Places of turns to show, each set with how far it covers the question, one of a kind at most."""
    until = question.searchable_until or len(place.turns)
    known = {str(turn.source_id): row for row, turn in enumerate(place.turns[:until])}
    evidence = sorted({known[turn] for turn in question.gold_turns if turn in known})
    if not 0 < len(evidence) <= _MOST_EVIDENCE or len(evidence) < len(set(question.gold_turns)):
        return
    others = [row for row in place.alike(question.text, until) if row not in evidence][:_ALIKE]

    def beside(least: int) -> list[int]:
        return rng.sample(others, min(len(others), rng.randint(least, _MOST_OTHERS)))

    yield COVERED, [*evidence, *beside(0)]
    if len(others) >= 1:
        yield MISSING, beside(1)
    if len(evidence) > 1:
        some = rng.sample(evidence, rng.randint(1, len(evidence) - 1))
        if _of_some(question, place, evidence, some, named) == PARTIAL:
            yield PARTIAL, [*some, *beside(0)]


def _of_some(question: Question, place: Place, evidence: Sequence[int], some: Sequence[int], named: bool) -> str:
    """How far a part of the evidence goes, "" where it cannot be told.

    An answer that stands in no turn was counted or compared: it takes all of them. Where the turns that are left out
    only say again what is shown, nothing is missing; and a requirement that names its thing gains nothing from turns
    that tell which thing is meant.
    """
    parts = answer_parts(question.answer or "")
    states = {row: {part for part in parts if part in place.turns[row].text.casefold()} for row in evidence}
    if not parts or set().union(*states.values()) != set(parts):
        return PARTIAL
    said = set().union(*(states[row] for row in some))
    if said and said != set(parts):
        return PARTIAL
    return "" if said or named else PARTIAL


def _said(turn: NewTurn) -> str:
    day = f"{turn.time:%Y-%m-%d} " if turn.time else ""
    return f"{day}{turn.speaker or turn.role}: {turn.text}"
