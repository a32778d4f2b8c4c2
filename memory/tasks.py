"""What the pipeline asks: each decision declared once.

From a `Task` follow its prompt and schema, its traces, its student's head, its evaluation and its row in the
benchmarks. A task's label space is one of three: *closed* (one or more groups of fixed labels, one label chosen from
each), *candidates* (one of the candidates that come with the item, or none), *open* (any number of labels of a
vocabulary that grows).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .errors import DecisionError, InputError
from .types import Turn, Vector


class Space(StrEnum):
    """The kind of label space."""

    CLOSED = "closed"
    CANDIDATES = "candidates"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Field:
    """One input of a task. `many` means a sequence of texts, rendered one a line."""

    name: str
    description: str
    many: bool = False
    required: bool = True


@dataclass(frozen=True, slots=True)
class Option:
    """One label of a closed space."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Group:
    """Labels of which exactly one holds. Names are unique over all groups of a task."""

    name: str
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The options that come with an item, shared by many items where they are the same.

    ids, texts: N each. vectors: (N, D) or None. signals: further numbers a candidate, each (N,). views: further
    vectors a candidate, each (N, D), zeros where a candidate lacks it; valid until what offers them changes.
    """

    ids: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    vectors: Vector | None = None
    signals: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    views: Mapping[str, Vector] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to decide: the task's fields, its candidates, and the (D,) vector of its main field where known.

    `turn` is the stored turn that it is decided for, None where there is none, as for a question.
    """

    fields: Mapping[str, str | Sequence[str]]
    candidates: Candidates = Candidates()
    vector: Vector | None = None
    turn: Turn | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer to a task.

    labels: chosen, best first; one a group for a closed space; empty means none of the candidates, or no label.
    probabilities: of the labels considered; they sum to 1 within a group, or over candidates with none.
    confidence: probability that `labels` is right as a whole. unsure: below what the task asks to act upon.
    calls: requests to a served model that it took.
    """

    labels: tuple[str, ...]
    probabilities: Mapping[str, float]
    confidence: float
    decided_by: str
    seconds: float = 0.0
    unsure: bool = False
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of decision.

    Args:
        name: identifier, used in traces, artifacts and reports.
        question: what is asked, as an instruction to a reader who sees the rendered fields.
        fields: inputs; the first is the main one, which `Item.vector` encodes.
        space: kind of label space.
        groups: the labels of a closed space.
        metric: how answers are scored.
        unsure: what the pipeline does with a doubtful answer.
        source: paper and section.
    """

    name: str
    question: str
    fields: tuple[Field, ...]
    space: Space
    groups: tuple[Group, ...] = ()
    metric: str = "macro_f1"
    unsure: str = ""
    source: str = ""

    @property
    def hash(self) -> str:
        """Identity of the declaration: traces and artifacts of another one are refused."""
        return _declared(self)

    def render(self, item: Item) -> str:
        """The fields as text, in their order: `name: value`, lists one a line.

        Raises:
            InputError: a required field is absent, or an unknown one is present.
        """
        unknown = set(item.fields) - {f.name for f in self.fields}
        if unknown:
            raise InputError(f"{self.name}.{sorted(unknown)[0]}", "is not a field of this task")
        lines = []
        for spec in self.fields:
            value = item.fields.get(spec.name)
            if value is None:
                if spec.required:
                    raise InputError(f"{self.name}.{spec.name}", "is required")
                continue
            if spec.many != (not isinstance(value, str)):
                raise InputError(
                    f"{self.name}.{spec.name}", "must be a list of texts" if spec.many else "must be a text"
                )
            lines.append(f"{spec.name}:" + ("".join(f"\n- {v}" for v in value) if spec.many else f" {value}"))
        return "\n".join(lines)

    def check(self, item: Item, decision: Decision) -> Decision:
        """Return the decision if it lies in the label space.

        Raises:
            DecisionError: it does not.
        """
        labels = decision.labels
        if self.space is Space.CLOSED:
            if len(labels) != len(self.groups) or any(
                label not in {o.name for o in group.options} for label, group in zip(labels, self.groups, strict=True)
            ):
                raise DecisionError(f"{self.name}: {labels!r} is not one label of each group")
        elif set(labels) - set(item.candidates.ids):
            raise DecisionError(f"{self.name}: {sorted(set(labels) - set(item.candidates.ids))!r} was not offered")
        elif self.space is Space.CANDIDATES and len(labels) > 1:
            raise DecisionError(f"{self.name}: one candidate at most, got {len(labels)}")
        return decision


@lru_cache(maxsize=256)
def _declared(task: Task) -> str:
    """Digest of a declaration; remembered, as each of many traces states it."""
    return hashlib.sha256(json.dumps(asdict(task), sort_keys=True).encode()).hexdigest()[:16]


def _group(name: str, **options: str) -> Group:
    return Group(name, tuple(Option(key, text) for key, text in options.items()))


_TURN = Field("turn", "The turn, with its speaker.")
_GOAL = Field("scope", "The goal that the turn serves.", required=False)
_BEFORE = Field("before", "Turns of its session directly before it, each with its speaker.", many=True, required=False)

SCOPE = Task(
    name="scope",
    question="Which goal does this turn serve? Choose the scope it continues or returns to, none for a new one.",
    fields=(
        _TURN,
        Field("window", "Up to 50 turns before it, each with its scope.", many=True, required=False),
        Field("previous", "Scope of the turn before it.", required=False),
        Field("gist", "Running gist of that scope.", required=False),
    ),
    space=Space.CANDIDATES,
    metric="online_ari",
    unsure="continue the previous scope",
    source="STITCH, section 3.1",
)

EVENT = Task(
    name="event",
    question="What kind of operation is this turn? Choose the event types that name it; none if no candidate fits.",
    fields=(_TURN, _GOAL, _BEFORE),
    space=Space.OPEN,
    metric="top1",
    unsure="keep the closest coarse event type",
    source="STITCH, section 3.1",
)

ENTITY_TYPES = Task(
    name="entity_types",
    question="Which kinds of attribute does this turn give or ask for (price, rating, date), not their values?",
    fields=(_TURN, _GOAL, _BEFORE),
    space=Space.OPEN,
    metric="micro_f1",
    unsure="keep no entity type",
    source="STITCH, section 3.1",
)

PLAN = Task(
    name="plan",
    question="How must evidence for this question be gathered?",
    fields=(Field("question", "The question."),),
    space=Space.CLOSED,
    groups=(
        _group(
            "reasoning",
            point="one fact, stated in one place",
            temporal="when something happened, how long, in what order, or what held at a time",
            compositional="facts from several places must be joined, or one fact leads to the next",
            aggregation="every matching fact must be found, then listed, counted or compared",
        ),
        _group(
            "target",
            time="a date, time, or duration",
            value="the value of an attribute",
            entity="a person, organisation or thing",
            location="a place",
            count="a number of things",
            list="several items",
            boolean="yes or no",
            likelihood="what is likely, from indirect evidence",
            explanation="a reason, a manner or a description",
        ),
        _group(
            "span",
            one="one passage suffices",
            all_matching="all passages that match are needed",
        ),
        _group(
            "gate",
            direct="the question can be searched as it stands",
            decompose="the question must be split into two to four parts first",
        ),
    ),
    metric="macro_f1",
    unsure="search the question as it stands, with probabilities as weights",
    source="EnSIMem, section 4.1; EMIR2, section 3.3",
)

PROPERTY_MATCH = Task(
    name="property_match",
    question="Which property of the index does this requirement ask about? None if no candidate means the same.",
    fields=(
        Field("requirement", "The property as the question words it."),
        Field("question", "The whole question.", required=False),
        Field("entity", "The entity whose property is asked.", required=False),
    ),
    space=Space.CANDIDATES,
    metric="top1",
    unsure="match by similarity alone",
    source="EnSIMem, section 4.2",
)

COVERAGE = Task(
    name="coverage",
    question="Does the evidence found so far answer this requirement of the question?",
    fields=(
        Field("requirement", "What must be found."),
        Field("question", "The whole question.", required=False),
        Field("evidence", "Turns found so far, each with its date and speaker.", many=True),
    ),
    space=Space.CLOSED,
    groups=(
        _group(
            "coverage",
            covered="the evidence states all that the requirement asks for",
            partial="the evidence states a part of it, or leaves it uncertain",
            missing="the evidence does not state it",
        ),
    ),
    unsure="search one more round",
    source="EMIR2, section 3.3; EnSIMem, section 4.3",
)

SUPPORT = Task(
    name="support",
    question="How far does this turn support an answer to the question?",
    fields=(
        Field("question", "The question."),
        Field("evidence", "The turn, with its date and speaker."),
        Field("before", "Turns directly before it.", many=True, required=False),
    ),
    space=Space.CLOSED,
    groups=(
        _group(
            "support",
            states="the turn states the answer, or a part of it that is needed",
            helps="the turn states no part of it, yet is needed to understand or find the answer",
            unrelated="the question can be answered as well without it",
        ),
    ),
    metric="ndcg",
    unsure="rank by the probability of `states`, then of `helps`",
    source="EMIR2, section 3.3",
)

STATE_OPERATION = Task(
    name="state_operation",
    question="What does the new claim do to the fact of the same key that is held to be true?",
    fields=(
        Field("claim", "The new claim, with its date and speaker."),
        Field("fact", "The current fact of the same key, with its date."),
        Field("key", "Subject, dimension and aspect that the two have in common.", required=False),
        Field("turn", "The turn that makes the claim.", required=False),
    ),
    space=Space.CLOSED,
    groups=(
        _group(
            "operation",
            reinforce="the claim says the same again",
            add="the claim adds another value that holds beside the present one",
            replace="the claim gives the new value, and the present one no longer holds",
            retract="the claim says that the present value does not hold, and gives no other",
            pending="the claim is hypothetical, planned, doubtful or not about the same thing",
        ),
    ),
    unsure="keep the claim pending and the canonical state as it is",
    source="EMIR2, section 3.2",
)

RELATION = Task(
    name="relation",
    question="How are the two episodes related?",
    fields=(
        Field("source", "Summary of the source episode, with its dates."),
        Field("target", "Summary of the target episode, with its dates."),
        Field("shared", "Entities that both name.", many=True, required=False),
    ),
    space=Space.CLOSED,
    groups=(
        _group(
            "relation",
            causes="the source brings the target about",
            caused_by="the target brings the source about",
            contributes_to="the source is one of several reasons for the target",
            contributed_by="the target is one of several reasons for the source",
            context_for="the source is background for understanding the target",
            has_context="the target is background for understanding the source",
            enables="the source makes the target possible, without bringing it about",
            enabled_by="the target makes the source possible, without bringing it about",
            part_of="the source is a part of the target",
            has_part="the target is a part of the source",
            follow_up_of="the source takes up the matter of the target again, later",
            followed_up_by="the target takes up the matter of the source again, later",
            same_event="both tell of one and the same event",
            none="none of these: they merely share words, people or time",
        ),
    ),
    unsure="set no link",
    source="EMIR2, section 3.1",
)

SAME_ENTITY = Task(
    name="same_entity",
    question="Do the two names stand for one and the same entity?",
    fields=(
        Field("first", "A name, with the text around it."),
        Field("second", "Another name, with the text around it."),
    ),
    space=Space.CLOSED,
    groups=(_group("identity", same="one and the same entity", different="two entities, or it cannot be told"),),
    metric="f1",
    unsure="keep them apart: a wrong merge costs more than a missed one",
    source="EnSIMem, section 4.2; EMIR2, section 3.1",
)

RECORD_SPANS = Task(
    name="record_spans",
    question="Of which properties does this turn give a value in its own words? None if it gives none.",
    fields=(
        Field("text", "The words of the turn."),
        Field("before", "What was said directly before it, oldest first.", many=True, required=False),
    ),
    space=Space.OPEN,
    metric="property_f1",
    unsure="name a value as the rules do",
    source="EnSIMem, section 3",
)

ASKED_OF_QUESTIONS = (PLAN, EVENT, ENTITY_TYPES)
"""What a plan is made of: all of them are asked of every question, one after another."""

TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        *(SCOPE, EVENT, ENTITY_TYPES, RECORD_SPANS, PLAN, PROPERTY_MATCH),
        *(COVERAGE, SUPPORT, STATE_OPERATION, RELATION, SAME_ENTITY),
    )
}
"""Built-in tasks by name."""
