"""Retrieval quality: does a search return the turns or sessions that hold the evidence?

Every trajectory is ingested whole through `Memory.add`, into a namespace of its own; every question with evidence is
then asked with every recipe and of every baseline. A question that fails is counted and has no score.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intentmem.memory.errors import InputError, IntentMemError
from intentmem.memory.memory import Memory
from intentmem.memory.read.request import parse_recipe
from intentmem.memory.types import Vector
from intentmem.train_data import Corpus, Question
from intentmem.train_data.schemas import ALL

from . import corpora
from .baselines import BASELINES, Baselines, Ranking, best_first
from .bootstrap import intervals
from .metrics import within_budget
from .progress import Progress, silent
from .report import Report, Row, header
from .schemes import Limits, Ranked, Scheme, scheme_of

if TYPE_CHECKING:
    from intentmem.serving.llm.port import ModelClient

    from .conflict_reader import ConflictReader

TOKENS_A_TURN = 8
"""Counted for each turn on top of its text: speaker, date and id cost a reader tokens too."""

BY_PERSONA = frozenset(["realmem"])
"""Corpora whose figures are given for each trajectory too."""

FAILURES = (IntentMemError, sqlite3.Error, OSError, RuntimeError)
"""What a question may fail with: it is counted, and the others are asked."""


@dataclass(frozen=True, slots=True)
class QualityPlan:
    """What to measure.

    Args:
        corpus: its name; path: its file or folder.
        recipes: to ask every question with.
        budgets: tokens, for turns; k: turns, for recall at a fixed number; cutoffs: ranks, for sessions and for what
            is published at ranks; None takes those of the corpus.
        limit_questions: only the first so many with evidence, and only their trajectories.
        samples: bootstrap resamples; seed: of the bootstrap.
    """

    corpus: str
    path: Path
    recipes: Sequence[str] = ("dense", "lexical", "stitch", "fused")
    budgets: Sequence[int] = (1024, 4096)
    k: int = 10
    cutoffs: Sequence[int] | None = None
    limit_questions: int | None = None
    samples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("recipes", "budgets", "cutoffs"):
            if getattr(self, name) is not None and not getattr(self, name):
                raise InputError(name, "is empty")
        for name, number in (("k", self.k), ("samples", self.samples), ("limit_questions", self.limit_questions)):
            if number is not None and number < 1:
                raise InputError(name, f"is {number}", "at least 1")
        if any(cutoff < 1 for cutoff in self.cutoffs or ()):
            raise InputError("cutoffs", f"{self.cutoffs} holds a rank below 1", "at least 1")
        for recipe in self.recipes:
            parse_recipe(recipe)

    @property
    def limits(self) -> Limits:
        """Where figures are taken."""
        return Limits(self.k, self.budgets, self.cutoffs)


@dataclass(slots=True)
class Outcome:
    """Scores by subject and question id; what failed, by subject, with an example of each kind of error."""

    scores: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)
    ingested: list[corpora.Ingested] = field(default_factory=list)

    def failed(self, subject: str, error: str, count: int = 1) -> None:
        """Count failures and keep the first error of a subject."""
        self.failures[subject] += count
        self.errors.setdefault(subject, error)


def run(
    plan: QualityPlan,
    memory: Memory,
    command: str = "",
    progress: Progress = silent,
    client: ModelClient | None = None,
) -> Report:
    """Measure a corpus on an empty memory.

    Args:
        client: a served model that answers the questions of MemConflict too, so that answers are graded.

    Raises:
        InputError: the data cannot be read, it has no questions, a recipe is unknown, nothing grades its answers.
        MissingExtraError: the baselines' packages are not installed.
        ModelError: the model cannot be asked for its name.
    """
    start = time.perf_counter()
    corpus, questions = prepared(plan)
    scheme = scheme_of(corpus.name)
    reader = _reader(corpus, memory, client) if client is not None else None

    def examiner(stored: corpora.Stored, scheme: Scheme) -> Examiner:
        return Examiner(plan, memory, stored, scheme, reader)

    outcome = evaluate(plan, memory, corpus, questions, progress, examiner)
    rows = summarise(plan, corpus, questions, outcome)
    configuration = {
        **{key: value for key, value in asdict(plan).items() if key not in ("path", "corpus")},
        "cutoffs": plan.cutoffs or scheme.cutoffs,
        "tokens_a_turn": TOKENS_A_TURN,
        "tokenizer": memory.embedder.fingerprint.name,
        "embedder": str(memory.embedder.fingerprint),
        "block": corpora.BLOCK,
        **(reader.configuration if reader is not None else {}),
    }
    more = {
        "questions": question_figures(corpus, questions),
        "ingest": _ingest_figures(outcome.ingested),
        "errors": outcome.errors,
        "corpus_problems": {str(fault): count for fault, count in sorted(corpus.problem_counts.items())},
    }
    seconds = time.perf_counter() - start
    return Report(header("quality", configuration, command, seconds, outcome.failures, corpus.hash, **more), rows)


def prepared(plan: QualityPlan) -> tuple[Corpus, list[Question]]:
    """The corpus, and its questions that have evidence, as many as are wanted.

    Raises:
        InputError: the data cannot be read, or it has none.
    """
    corpus = corpora.load(plan.corpus, plan.path)
    gold = scheme_of(corpus.name).gold
    questions = [q for q in corpus.questions if gold(q)][: plan.limit_questions]
    if not questions:
        raise InputError("corpus", f"{corpus.name} has no questions with evidence here", "use locomo or realmem")
    return corpus, questions


def _reader(corpus: Corpus, memory: Memory, client: ModelClient) -> ConflictReader:
    from .conflict_reader import CORPUS, ConflictReader

    if corpus.name != CORPUS:
        raise InputError("reader", f"grades no answers of {corpus.name}", f"only those of {CORPUS}")
    return ConflictReader(memory, client)


def question_figures(corpus: Corpus, asked: Sequence[Question]) -> dict[str, int]:
    """How many questions there are, how many have no evidence, how many were asked."""
    gold = scheme_of(corpus.name).gold
    without = sum(1 for q in corpus.questions if not gold(q))
    return {"total": len(corpus.questions), "without_evidence": without, "asked": len(asked)}


def evaluate(
    plan: QualityPlan,
    memory: Memory,
    corpus: Corpus,
    questions: Sequence[Question],
    progress: Progress,
    examiner_of: Callable[[corpora.Stored, Scheme], Examiner],
) -> Outcome:
    """Ingest the trajectories that are asked about, and ask by an examiner of each."""
    outcome = Outcome()
    asked = {q.trajectory for q in questions}
    trajectories = [t for t in corpus.trajectories if t.id in asked]
    total, done = sum(len(t.turns) for t in trajectories), 0
    answered = 0
    for trajectory in trajectories:

        def on_turns(count: int) -> None:
            nonlocal done
            done += count
            progress("ingest", done, total)

        result = corpora.ingest(memory, trajectory.id, trajectory.turns, on_turns)
        outcome.ingested.append(result)
        if result.failed:
            outcome.failed("ingest", result.errors[0], result.failed)
        examiner = examiner_of(corpora.stored(memory, trajectory), scheme_of(corpus.name))
        for question, vector in _encoded(memory, [q for q in questions if q.trajectory == trajectory.id]):
            examiner.ask(question, vector, outcome)
            answered += 1
            progress("ask", answered, len(questions))
    return outcome


class Examiner:
    """Asks and scores the questions about one trajectory, of the memory and of the baselines."""

    def __init__(
        self,
        plan: QualityPlan,
        memory: Memory,
        stored: corpora.Stored,
        scheme: Scheme,
        reader: ConflictReader | None = None,
    ) -> None:
        self._plan, self._memory, self._stored, self._scheme = plan, memory, stored, scheme
        self._reader = reader
        turns = stored.trajectory.turns
        texts = [corpora.text_of(turn) for turn in turns]
        passages = [corpora.passage_of(turn) for turn in turns]
        self._baselines = Baselines(passages, corpora.turn_vectors(memory, stored.trajectory))
        tokens = memory.embedder.count_tokens(texts)
        self._costs = {str(turn.source_id): count + TOKENS_A_TURN for turn, count in zip(turns, tokens, strict=True)}
        self._sittings = {str(turn.source_id): turn.session for turn in turns}
        # No ranking of more turns can put more of them inside a budget.
        most = max(within_budget(sorted(self._costs.values()), budget) for budget in plan.budgets)
        self._most_sessions = max(plan.cutoffs or scheme.cutoffs, default=1)
        self._most_turns = max(plan.k, self._most_sessions, most + 1)

    def ask(self, question: Question, vector: Vector, outcome: Outcome) -> None:
        """Score one question, with vector (D,), for every subject."""
        for recipe in self._plan.recipes:
            try:
                ranked = self._search(question, recipe)
            except FAILURES as error:
                if isinstance(error, InputError) and error.field != "query":
                    raise  # a fault of the benchmark's call, not of this question
                outcome.failed(recipe, f"{type(error).__name__}: {error}")
                continue
            scores = self._score(ranked, question)
            if self._reader is not None:
                scores |= self._graded(self._reader, question, recipe, outcome)
            outcome.scores.setdefault(recipe, {})[question.id] = scores
        rankings = self._baselines.rank(question.text, vector, question.searchable_until)
        for subject, ranking in rankings.items():
            outcome.scores.setdefault(subject, {})[question.id] = self._score(self._named(ranking), question)

    def _graded(self, reader: ConflictReader, question: Question, recipe: str, outcome: Outcome) -> dict[str, float]:
        try:
            return reader.score(question, self._options(question, recipe))
        except FAILURES as error:
            outcome.failed(f"answers from {recipe}", f"{type(error).__name__}: {error}")
            return {}

    def _options(self, question: Question, recipe: str) -> dict[str, Any]:
        options: dict[str, Any] = {
            "namespace": self._stored.trajectory.id,
            "recipe": recipe,
            "query_time": question.time,
        }
        before = self._stored.before(question.searchable_until)
        return options if before is None else {**options, "before": before}

    def _search(self, question: Question, recipe: str) -> Ranked:
        options = self._options(question, recipe)
        turns: list[str] = []
        sessions: list[str] = []
        if self._scheme.turns:
            hits = self._memory.search(question.text, limit=self._most_turns, **options)["results"]
            turns = [str(hit["source_id"]) for hit in hits]
        if self._scheme.sessions:
            groups = self._memory.search(question.text, group_by="session", limit=self._most_sessions, **options)
            sessions = [str(group["id"]) for group in groups["results"]]
        return self._ranked(turns, sessions)

    def _named(self, ranking: Ranking) -> Ranked:
        turns = [self._stored.trajectory.turns[int(place)] for place in ranking]
        return self._ranked([str(t.source_id) for t in turns], best_first(t.session for t in turns))

    def _ranked(self, turns: list[str], sessions: list[str]) -> Ranked:
        costs = [self._costs[source] for source in turns]
        return Ranked(turns, costs, [self._sittings[source] for source in turns], sessions)

    def _score(self, ranked: Ranked, question: Question) -> dict[str, float]:
        return self._scheme.score(ranked, question, self._plan.limits)


def summarise(plan: QualityPlan, corpus: Corpus, questions: Sequence[Question], outcome: Outcome) -> list[Row]:
    """Means with their intervals, by subject, group and metric."""
    rows = []
    for subject in (*plan.recipes, *BASELINES):
        scores = outcome.scores.get(subject, {})
        for group, members in grouped(corpus, [q for q in questions if q.id in scores]).items():
            for metrics, scored in alike(scores, members):
                values = np.array([[scores[q.id][metric] for metric in metrics] for q in scored])
                for metric, found in zip(metrics, intervals(values, plan.samples, plan.seed), strict=True):
                    rows.append(
                        Row(corpus.name, subject, group, metric, found.mean, found.low, found.high, len(scored))
                    )
    return rows


def alike(
    scores: Mapping[str, Mapping[str, float]], questions: Sequence[Question]
) -> Iterator[tuple[list[str], list[Question]]]:
    """Metrics with the questions that have them, those of the same questions together."""
    having: dict[str, list[Question]] = {}
    for question in questions:
        for metric in scores[question.id]:
            having.setdefault(metric, []).append(question)
    together: dict[tuple[str, ...], list[str]] = {}
    for metric, scored in having.items():
        together.setdefault(tuple(q.id for q in scored), []).append(metric)
    for metrics in together.values():
        yield metrics, having[metrics[0]]


def grouped(corpus: Corpus, questions: Sequence[Question]) -> dict[str, list[Question]]:
    """All questions, those of each of the corpus' own groups, and of each persona where figures are given for it."""
    names = [ALL, *sorted({q.group for q in questions})]
    if corpus.name in BY_PERSONA:
        names += [f"persona {t.id}" for t in corpus.trajectories]
    groups: dict[str, list[Question]] = {name: [] for name in names}
    for question in questions:
        for name in (ALL, question.group, f"persona {question.trajectory}"):
            if name in groups:
                groups[name].append(question)
    return {name: members for name, members in groups.items() if members}


def _encoded(memory: Memory, questions: Sequence[Question]) -> Iterator[tuple[Question, Vector]]:
    vectors = memory.embedder.encode([q.text for q in questions], "query")
    yield from zip(questions, vectors, strict=True)


def _ingest_figures(ingested: Sequence[corpora.Ingested]) -> dict[str, Any]:
    totals = {name: sum(getattr(i, name) for i in ingested) for name in ("turns", "duplicates", "suppressed", "failed")}
    return {**totals, "seconds": round(sum(i.seconds for i in ingested), 3)}
