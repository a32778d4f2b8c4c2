"""What each part of the read path is worth: the quality benchmark asked again with one part switched off at a time.

Everything is ingested once; only reading differs. A difference is that of the same questions, so that its interval is
of the paired difference. A part that searches make no use of is named as such and never scored.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np

from intentmem.memory.errors import InputError
from intentmem.memory.memory import Memory
from intentmem.memory.read.parts import ALL_PARTS, PARTS, Parts
from intentmem.memory.read.request import parse_recipe
from intentmem.memory.types import Vector
from intentmem.train_data import Corpus, Question

from . import corpora
from .bootstrap import intervals
from .progress import Progress, silent
from .quality import (
    FAILURES,
    TOKENS_A_TURN,
    Examiner,
    Outcome,
    QualityPlan,
    alike,
    evaluate,
    grouped,
    prepared,
    question_figures,
)
from .report import Report, Row, header
from .schemes import Scheme

FULL = "full"
DIFFERENCE = "difference "
"""Before the name of a metric: that of the subject less that of the full system, on the same questions."""


@dataclass(frozen=True, slots=True)
class AblationPlan(QualityPlan):
    """What to measure: as for the quality benchmark, with one recipe.

    parts: those to switch off, one at a time.
    """

    recipes: Sequence[str] = ("fused",)
    parts: Sequence[str] = PARTS

    def __post_init__(self) -> None:
        QualityPlan.__post_init__(self)
        if len(self.recipes) != 1:
            raise InputError("recipe", f"is {', '.join(self.recipes)}", "one recipe")
        for part in self.parts:
            ALL_PARTS.without(part)
        if not self.parts:
            raise InputError("parts", "is empty", f"some of {', '.join(PARTS)}")

    @property
    def subjects(self) -> dict[str, Parts]:
        """The full system, then it without each part, by name."""
        return {FULL: ALL_PARTS} | {without(part): ALL_PARTS.without(part) for part in self.parts}


def without(part: str) -> str:
    """The subject that lacks a part."""
    return f"without {part}"


def run(plan: AblationPlan, memory: Memory, command: str = "", progress: Progress = silent) -> Report:
    """Measure a corpus on an empty memory.

    Raises:
        InputError: the data cannot be read, it has no questions, a part or recipe is unknown.
        MissingExtraError: the benchmarks' packages are not installed.
    """
    start = time.perf_counter()
    corpus, questions = prepared(plan)
    used: set[str] = set()

    def examiner(stored: corpora.Stored, scheme: Scheme) -> Examiner:
        return PartsExaminer(plan, memory, stored, scheme, used)

    outcome = evaluate(plan, memory, corpus, questions, progress, examiner)
    configuration = {
        **{key: value for key, value in asdict(plan).items() if key not in ("path", "corpus")},
        "tokens_a_turn": TOKENS_A_TURN,
        "tokenizer": memory.embedder.fingerprint.name,
        "embedder": str(memory.embedder.fingerprint),
        "decider": memory.states_decider.name if memory.states_decider else None,
        "block": corpora.BLOCK,
    }
    more = {
        "questions": question_figures(corpus, questions),
        "not_in_use": [part for part in plan.parts if part not in used],
        "errors": outcome.errors,
    }
    seconds = time.perf_counter() - start
    rows = summarise(plan, corpus, questions, outcome, used)
    return Report(header("ablation", configuration, command, seconds, outcome.failures, corpus.hash, **more), rows)


class PartsExaminer(Examiner):
    """Asks each question of the full system and of it without each part that is in use here.

    used: extended by the parts that searches of this trajectory make use of.
    """

    def __init__(
        self, plan: AblationPlan, memory: Memory, stored: corpora.Stored, scheme: Scheme, used: set[str]
    ) -> None:
        super().__init__(plan, memory, stored, scheme)
        (self._recipe,) = plan.recipes
        ordinal = memory.store.namespaces.ordinal(stored.trajectory.id)
        self._used = memory.searcher.parts_in_use(ordinal, parse_recipe(self._recipe))
        used |= self._used
        self._subjects = plan.subjects

    def ask(self, question: Question, vector: Vector, outcome: Outcome) -> None:
        """Score one question for every subject; where a part has no use, so far, the full system's answer is its own.

        A subject that fails on a question has no score on it, nor a difference.
        """
        full: dict[str, float] | None = None
        for subject, parts in self._subjects.items():
            part = subject.removeprefix(without(""))
            if subject != FULL and part not in self._used:
                if full is not None:
                    outcome.scores.setdefault(subject, {})[question.id] = full
                continue
            try:
                with switched(self._memory, parts):
                    ranked = self._search(question, self._recipe)
            except FAILURES as error:
                if isinstance(error, InputError) and error.field != "query":
                    raise  # a fault of the benchmark's call, not of this question
                outcome.failed(subject, f"{type(error).__name__}: {error}")
                continue
            scores = self._score(ranked, question)
            outcome.scores.setdefault(subject, {})[question.id] = scores
            full = scores if subject == FULL else full


@contextmanager
def switched(memory: Memory, parts: Parts) -> Iterator[None]:
    """Within it, searches of a memory use these parts alone."""
    before, memory.searcher.parts = memory.searcher.parts, parts
    try:
        yield
    finally:
        memory.searcher.parts = before


def summarise(
    plan: AblationPlan, corpus: Corpus, questions: Sequence[Question], outcome: Outcome, used: Collection[str]
) -> list[Row]:
    """Means, and their differences to the full system, with intervals, by group and metric; only of parts in use."""
    full = outcome.scores.get(FULL, {})
    rows: list[Row] = []
    for subject in (FULL, *(without(part) for part in plan.parts if part in used)):
        scores = outcome.scores.get(subject, {})
        asked = [q for q in questions if q.id in scores and (subject == FULL or q.id in full)]
        for group, members in grouped(corpus, asked).items():
            for metrics, scored in alike(scores, members):
                names = list(metrics)
                values = np.array([[scores[q.id][metric] for metric in metrics] for q in scored])
                if subject != FULL:
                    names += [DIFFERENCE + metric for metric in metrics]
                    whole = np.array([[full[q.id][metric] for metric in metrics] for q in scored])
                    values = np.hstack([values, values - whole])
                found = zip(names, intervals(values, plan.samples, plan.seed), strict=True)
                rows += [
                    Row(corpus.name, subject, group, name, one.mean, one.low, one.high, len(scored))
                    for name, one in found
                ]
    return rows
