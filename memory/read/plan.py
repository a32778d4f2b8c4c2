"""The question as a plan: how evidence must be gathered, and which facets it asks for, as probabilities.

Most wrong question-time labels cannot be told from the question alone (STITCH, appendix): a facet is never forced, it
is a distribution, and matching is soft.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from ..protocols import Decider
from ..store.lexical import fold, query_terms, terms
from ..tasks import ENTITY_TYPES, EVENT, PLAN, Decision, Item, Task
from ..types import Vector
from ..write.dates import query_range
from ..write.mentions import find_mentions
from ..write.vocabulary import Vocabulary
from .columns import Columns
from .kept import Kept
from .needs import Need

_LEAST = 0.02
_KEPT = 256


@dataclass(frozen=True, slots=True)
class Plan:
    """What the question asks for.

    groups: probabilities of the labels of the task `plan`, by group. events, entity_types: probabilities by label
    id. speakers: codes of the speakers named. terms: words to look up, names of speakers left out. names: those of the
    terms that belong to a name or number in the question. since, until: the span of time that the question names, a
    soft signal, None where it names none. calls: requests to a served model that the plan took. needs: requirements of
    the question, empty where it is not read in rounds.
    """

    groups: Mapping[str, Mapping[str, float]]
    events: Mapping[str, float]
    entity_types: Mapping[str, float]
    speakers: tuple[int, ...]
    terms: tuple[str, ...]
    names: frozenset[str]
    since: float | None
    until: float | None
    calls: int = 0
    needs: tuple[Need, ...] = ()

    def with_facets(self, event: bool, entity_types: bool) -> Plan:
        """The plan without those label facets that are off."""
        return replace(
            self, events=self.events if event else {}, entity_types=self.entity_types if entity_types else {}
        )

    def as_json(self, names: Mapping[str, str], speakers: list[str | None]) -> dict[str, object]:
        """The plan for a person to read."""
        best = {group: max(options, key=lambda name: options[name]) for group, options in self.groups.items()}
        return {
            **best,
            "probabilities": {group: dict(options) for group, options in self.groups.items()},
            "events": {names.get(k, k): round(p, 3) for k, p in self.events.items()},
            "entity_types": {names.get(k, k): round(p, 3) for k, p in self.entity_types.items()},
            "speakers": [speakers[code] for code in self.speakers],
            "terms": list(self.terms),
            "since": self.since,
            "until": self.until,
        }


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """What was decided about a question, and among which labels; calls: the requests to a served model that it took."""

    labels: Mapping[str, Vocabulary]
    groups: Mapping[str, Mapping[str, float]]
    events: Mapping[str, float]
    entity_types: Mapping[str, float]
    calls: int


class Planner:
    """Makes plans with whatever decides; what a served model answered is kept for as long as the labels stay."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._kept = Kept[tuple[str, int], _Answers](_KEPT)

    def plan(
        self,
        query: str,
        vector: Vector,
        vocabularies: Mapping[str, Vocabulary],
        columns: Columns,
        now: datetime | None,
    ) -> Plan:
        """The plan of a question.

        Args:
            vector: (D,), the question's.
            now: when it is asked; relative dates in it are left alone where that is unknown.
        """
        decided = self._decided(query, vector, vocabularies)
        spoken = named_speakers(query, columns)
        names = {term for code in spoken for term in terms(columns.speakers.names[code] or "")}
        wanted = [term for term in query_terms(query) if term not in names]
        span = query_range(query, now) if now is not None else None
        return Plan(
            groups=decided.groups,
            events=decided.events,
            entity_types=decided.entity_types,
            speakers=spoken,
            terms=tuple(wanted),
            names=frozenset(_named_terms(query)),
            since=span[0].timestamp() if span and span[0] else None,
            until=span[1].timestamp() if span and span[1] else None,
            calls=decided.calls,
        )

    def _decided(self, query: str, vector: Vector, vocabularies: Mapping[str, Vocabulary]) -> _Answers:
        key = (query, id(vocabularies))
        if (known := self._kept.get(key)) is not None:
            return replace(known, calls=0)
        plan = self._decider.decide(PLAN, [Item({"question": query}, vector=vector)])[0]
        event = self._labelled(EVENT, query, vector, vocabularies["event"])
        types = self._labelled(ENTITY_TYPES, query, vector, vocabularies["entity_type"])
        decisions = (plan, event, types)
        calls = sum(one.calls for one in decisions)
        made = _Answers(vocabularies, _grouped(plan), _likely(event), _likely(types), calls)
        # What stands in for a model that failed is asked anew; what takes no call is as cheap as before.
        if calls and all(one.calls or not one.unsure for one in decisions):
            self._kept.put(key, made)
        return made

    def _labelled(self, task: Task, query: str, vector: Vector, vocabulary: Vocabulary) -> Decision:
        item = Item({"turn": query}, vocabulary.candidates(), vector)
        decision = task.check(item, self._decider.decide(task, [item])[0])
        known = set(item.candidates.ids)
        return replace(decision, probabilities={k: p for k, p in decision.probabilities.items() if k in known})


def _likely(decision: Decision) -> dict[str, float]:
    return {label: share for label, share in decision.probabilities.items() if share > _LEAST}


def _named_terms(query: str) -> set[str]:
    """Terms of the entities and numbers that a question names."""
    found = {term for mention in find_mentions(query) for term in query_terms(mention.name)}
    return found | {term for term in query_terms(query) if any(c.isdigit() for c in term)}


def named_speakers(query: str, columns: Columns) -> tuple[int, ...]:
    """Codes of the speakers whose name, or a part of it, stands in the question."""
    words = set(terms(query))
    found = []
    for code, name in enumerate(columns.speakers.names):
        if name and fold(name) not in ("user", "assistant", "system", "tool") and set(terms(name)) & words:
            found.append(code)
    return tuple(found)


def facet_weights(plan: Plan, columns: Columns) -> NDArray[np.float32]:
    """Probability of each label code under the plan, (L + 1,); the last stands for padding and is 0."""
    weights = np.zeros(len(columns.label_codes.names) + 1, np.float32)
    for facets in (plan.events, plan.entity_types):
        for label, probability in facets.items():
            for code in columns.label_codes.of([label]):
                weights[code] = probability
    return weights


def _grouped(decision: Decision) -> dict[str, dict[str, float]]:
    return {
        group.name: {option.name: decision.probabilities.get(option.name, 0.0) for option in group.options}
        for group in PLAN.groups
    }
