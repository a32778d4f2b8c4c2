"""Decisions with no model beyond the encoder: the floor that a trained one must beat, and the default without one."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import DecisionError, InputError
from ..tasks import ENTITY_TYPES, EVENT, PLAN, RELATION, SCOPE, Candidates, Decision, Item, Task
from .label_rule import Chosen, EventWeights, LabelScorer, TypeWeights, choose_events, choose_types
from .plan_rules import plan
from .relation_rule import relate
from .scope_rule import NONE, ScopeWeights, choose_scope

_KEPT_SCORERS = 8
_UNSURE = 0.5


class BaselineDecider:
    """Answers `scope`, `event`, `entity_types`, `plan` and `relation` by rules and cosines.

    Each answer is final as it stands: continuity and the floors are part of the rules, so `unsure` (confidence below
    one half) asks for a second opinion where there is one, not for another default.
    """

    name = "baseline"
    reads_window = False

    def __init__(
        self,
        scope: ScopeWeights | None = None,
        event: EventWeights | None = None,
        types: TypeWeights | None = None,
    ) -> None:
        self._scope = scope or ScopeWeights()
        self._event = event or EventWeights()
        self._types = types or TypeWeights()
        self._scorers: OrderedDict[tuple[str, int], LabelScorer] = OrderedDict()

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        """Decide each item; results in order. Items that share one `Candidates` object are scored together.

        Raises:
            DecisionError: the task is not one of the five.
            InputError: a turn has no vector, or the candidates have none.
        """
        started = time.perf_counter()
        if task.name == SCOPE.name:
            chosen = [self._choose_scope(item) for item in items]
        elif task.name in (EVENT.name, ENTITY_TYPES.name):
            chosen = self._choose_labels(task.name, items)
        elif task.name == PLAN.name:
            chosen = [plan(str(item.fields["question"])) for item in items]
        elif task.name == RELATION.name:
            chosen = [_relation(item) for item in items]
        else:
            raise DecisionError(f"{self.name} cannot answer the task {task.name!r}")
        seconds = (time.perf_counter() - started) / max(1, len(items))
        return [
            Decision(labels, shares, confidence, self.name, seconds, confidence < _UNSURE)
            for labels, shares, confidence in chosen
        ]

    def _choose_scope(self, item: Item) -> Chosen:
        scope, shares = choose_scope(item, self._scope)
        return ((scope,), shares, shares[scope]) if scope is not None else ((), shares, shares[NONE])

    def _choose_labels(self, kind: str, items: Sequence[Item]) -> list[Chosen]:
        groups: dict[int, list[int]] = {}
        for index, item in enumerate(items):
            groups.setdefault(id(item.candidates), []).append(index)
        chosen: dict[int, Chosen] = {}
        for indices in groups.values():
            chosen.update(zip(indices, self._choose_together(kind, [items[i] for i in indices]), strict=True))
        return [chosen[index] for index in range(len(items))]

    def _choose_together(self, kind: str, items: Sequence[Item]) -> list[Chosen]:
        if not len(items[0].candidates):
            return [((), {}, 1.0) for _ in items]
        scorer = self._scorer(kind, items[0].candidates)
        turns = np.stack([_vector(kind, item) for item in items])
        texts = [str(item.fields["turn"]) for item in items]
        if kind == EVENT.name:
            event = self._event
            return [choose_events(scorer, row, event) for row in scorer.scores(turns, texts, event.parent, event.cue)]
        types = self._types
        return [choose_types(scorer, row, types) for row in scorer.scores(turns, texts, types.parent, types.cue)]

    def _scorer(self, kind: str, candidates: Candidates) -> LabelScorer:
        # The scorer holds its candidates, so that their id cannot be taken by another object while it is kept.
        key = (kind, id(candidates))
        if key not in self._scorers:
            if candidates.vectors is None:
                raise InputError(f"{kind}.candidates", "have no vectors", "encode the labels first")
            self._scorers[key] = LabelScorer(candidates, candidates.vectors, kind)
            while len(self._scorers) > _KEPT_SCORERS:
                self._scorers.popitem(last=False)
        self._scorers.move_to_end(key)
        return self._scorers[key]


def _relation(item: Item) -> Chosen:
    shared = item.fields.get("shared") or ()
    return relate(str(item.fields["source"]), str(item.fields["target"]), [str(name) for name in shared])


def _vector(kind: str, item: Item) -> NDArray[np.float32]:
    if item.vector is None:
        raise InputError(f"{kind}.vector", "is missing", "encode the turn first")
    return item.vector
