"""What a corpus loader yields: turns as the system may see them, and the gold kept apart from them.

A `NewTurn` of a loader carries only what a person or agent said, when, and in which session. Everything that was
annotated or derived afterwards stands in `TurnGold`, `MemoryGold` and `Question`, keyed by `source_id`, so that it
cannot reach the system by accident. Faults of a corpus are counted as `Problem`s; loading never stops at one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Literal

from intentmem.memory.errors import InputError
from intentmem.memory.types import Label, NewTurn

Use = Literal["evaluation only", "train"]
ALL = "all"
"""The group that every question belongs to beside its own."""


class Fault(StrEnum):
    """Kinds of fault met in published corpora."""

    BAD_TURN = "a turn without its required fields, left out"
    EMPTY_TURN = "a turn without text, left out"
    DUPLICATE_ID = "an id used twice, made unique"
    BAD_DATE = "a date that cannot be read"
    DATE_WITHOUT_SESSION = "a date of a session that does not exist"
    DATE_OUT_OF_ORDER = "a session dated before the one it follows; the order of the file is kept"
    WEEKDAY_MISMATCH = "a weekday that is not that of its date"
    BAD_QUESTION = "a question without its required fields, left out"
    NO_EVIDENCE = "a question without evidence, left out of retrieval figures"
    EVIDENCE_MALFORMED = "an evidence id in another form, read all the same"
    EVIDENCE_UNREADABLE = "an evidence id that cannot be read"
    EVIDENCE_DANGLING = "evidence that names no existing turn or session"
    EVIDENCE_AMBIGUOUS = "an evidence id that several turns bear"
    EVIDENCE_NOT_BEFORE_QUESTION = "evidence that is not before the question's own session"
    GOLD_IN_TEXT = "a gold identifier inside the text of a turn, taken out of it"
    GOLD_WITHOUT_QUESTION = "gold on a turn that answers no question"
    MEMORY_WITHOUT_SOURCE = "an annotated memory whose source turn cannot be told"
    BAD_SPAN = "a value span outside its turn"
    BAD_LABEL = "a label outside the label set"
    UNLABELLED = "a file or dialogue that carries no labels"
    NUMBERING = "turn numbers that do not count up by one"


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault and where it was met. `where` holds ids only, never text of the corpus."""

    fault: Fault
    where: str


@dataclass(frozen=True, slots=True)
class Card:
    """What a corpus is. `title`, `licence` and `home` are what a model card has to state for attribution."""

    name: str
    title: str
    licence: str
    use: Use
    home: str


@dataclass(frozen=True, slots=True)
class EventGold:
    """An event of a turn. `name` is the fine label, `parent` the coarse one."""

    name: str
    parent: str
    act: str
    service: str
    intent: str | None = None
    slot: str | None = None


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """A slot value with its evidence: `turn.text[start:end] == value`; character offsets."""

    service: str
    slot: str
    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RecordGold:
    """A claim of one turn: `text[start:end] == value` in the turn whose `source_id` is `turn`.

    `entity` is the thing that the claim is about, None where nothing has been named yet; of a name, it is the name.
    `property` is in lower-case words.
    """

    turn: str
    entity: str | None
    property: str
    value: str
    start: int
    end: int
    service: str
    scope: str | None
    by_user: bool


@dataclass(frozen=True, slots=True)
class TurnGold:
    """Gold of one turn. None and empty mean that the corpus does not say.

    `shift` tells whether the turn leaves the topic or goal of the turn before it; None also at the first turn.
    `domain` is coarser than `scope` (the service, where the scope is one of its intents).
    """

    scope: str | None = None
    domain: str | None = None
    shift: bool | None = None
    events: tuple[EventGold, ...] = ()
    entity_types: tuple[str, ...] = ()
    spans: tuple[ValueSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryGold:
    """A memory that annotators drew from a session; `turn` is its source, None where it cannot be told."""

    content: str
    kind: str
    session: str
    turn: str | None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Turns in the order in which they must be ingested; `gold` by `source_id`. Every `source_id` is unique."""

    id: str
    turns: tuple[NewTurn, ...]
    split: str = "test"
    gold: Mapping[str, TurnGold] = field(default_factory=dict)
    memories: tuple[MemoryGold, ...] = ()

    @property
    def text_key(self) -> str:
        """Digest of the texts alone: equal for one dialogue that stands in two files under two ids."""
        return hashlib.sha256(
            "\x1e".join(turn.text.strip() for turn in self.turns).encode("utf-8", "surrogatepass")
        ).hexdigest()


@dataclass(frozen=True, slots=True)
class PlanGold:
    """How evidence for a question must be gathered: one label of each group of the task `plan`."""

    reasoning: str
    target: str
    span: str
    gate: str

    @property
    def labels(self) -> dict[str, str]:
        """The labels by group, in the order of the task."""
        return {"reasoning": self.reasoning, "target": self.target, "span": self.span, "gate": self.gate}


@dataclass(frozen=True, slots=True)
class RequirementGold:
    """What a question needs to know: a property of an entity.

    entity: as the trajectory names it, None where the question does not say and nothing has been named.
    property: the property as the question words it. match: the name that the corpus has for it.
    distractors: other properties that are recorded for that entity or its kind.
    """

    entity: str | None
    property: str
    match: str
    distractors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its gold.

    Args:
        id: unique in the corpus.
        text: what is asked.
        trajectory: id of the trajectory that is asked about.
        group: the corpus' own kind of question.
        time: when it is asked; None where the corpus does not say (then: after the last turn).
        searchable_until: only `trajectory.turns[:searchable_until]` may be searched; None means all of them.
        context: earlier turns of the sitting in which it is asked; may be read, not searched.
        gold_turns: `source_id`s of the evidence, existing and searchable ones only.
        gold_sessions: sessions of the evidence, likewise.
        answer: gold answer; None where there is none.
        wrong_answer: for an unanswerable question, the answer that a misled system gives.
        answerable: False where the right response is to abstain.
        plan: how its evidence must be gathered; None where the corpus does not say.
        template: id of the wording that it was made from; questions of one template belong to one split.
        requirements: what it needs to know.
    """

    id: str
    text: str
    trajectory: str
    group: str
    time: datetime | None = None
    searchable_until: int | None = None
    context: tuple[NewTurn, ...] = ()
    gold_turns: tuple[str, ...] = ()
    gold_sessions: tuple[str, ...] = ()
    answer: str | None = None
    wrong_answer: str | None = None
    answerable: bool = True
    plan: PlanGold | None = None
    template: str | None = None
    requirements: tuple[RequirementGold, ...] = ()

    @property
    def has_evidence(self) -> bool:
        """Whether it counts in retrieval figures."""
        return bool(self.gold_turns or self.gold_sessions)

    def searchable(self, trajectory: Trajectory) -> tuple[NewTurn, ...]:
        """The turns that may be searched for it.

        Raises:
            InputError: `trajectory` is not the one it asks about.
        """
        if trajectory.id != self.trajectory:
            raise InputError("trajectory", f"is {trajectory.id!r}, the question asks about {self.trajectory!r}")
        return trajectory.turns[: self.searchable_until]


@dataclass(frozen=True, slots=True)
class Corpus:
    """A loaded corpus. `hash` is the sha256 over its source files; equal files give equal corpora."""

    card: Card
    trajectories: tuple[Trajectory, ...]
    questions: tuple[Question, ...] = ()
    labels: tuple[Label, ...] = ()
    problems: tuple[Problem, ...] = ()
    hash: str = ""

    @property
    def name(self) -> str:
        """Name under which it is loaded."""
        return self.card.name

    @property
    def licence(self) -> str:
        """Licence of the data."""
        return self.card.licence

    @property
    def use(self) -> Use:
        """What the licence, as this project reads it, allows."""
        return self.card.use

    @property
    def problem_counts(self) -> Counter[Fault]:
        """How often each fault was met."""
        return Counter(problem.fault for problem in self.problems)

    def by_group(self, evidence_only: bool = True) -> dict[str, tuple[Question, ...]]:
        """Questions by group, `all` first, then sorted; `evidence_only` keeps those that retrieval figures count."""
        kept = [q for q in self.questions if q.has_evidence or not evidence_only]
        groups = sorted({q.group for q in kept})
        return {ALL: tuple(kept)} | {g: tuple(q for q in kept if q.group == g) for g in groups}

    def only(self, split: str) -> Corpus:
        """The trajectories of one split with their questions.

        Raises:
            InputError: no trajectory is of that split.
        """
        kept = tuple(t for t in self.trajectories if t.split == split)
        if not kept:
            known = sorted({t.split for t in self.trajectories})
            raise InputError("split", f"{self.name} has no trajectory of split {split!r}", f"splits here: {known}")
        return self._keep(kept)

    def without(self, held_out: Corpus) -> Corpus:
        """This corpus less every dialogue whose texts also stand in `held_out`, under whatever id."""
        taken = {t.text_key for t in held_out.trajectories}
        return self._keep(tuple(t for t in self.trajectories if t.text_key not in taken))

    def for_training(self) -> Corpus:
        """This corpus, if it may be trained on.

        Raises:
            InputError: its licence allows evaluation only.
        """
        if self.use != "train":
            raise InputError(
                "corpus", f"{self.card.title} is {self.licence}: evaluation only", "train on another corpus"
            )
        return self

    def _keep(self, trajectories: tuple[Trajectory, ...]) -> Corpus:
        ids = {t.id for t in trajectories}
        questions = tuple(q for q in self.questions if q.trajectory in ids)
        return replace(self, trajectories=trajectories, questions=questions)
