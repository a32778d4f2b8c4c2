"""What a question needs, aligned to what the namespace has records about (EnSIMem, section 4.1; EMIR2, section 3.3).

A question is split by what it names, or by a writer that can split questions where the plan says so. Each requirement
is then addressed: the entity that it is about, by its keys, and those of that entity's properties that it asks for, by
their words, else by the task `property_match`. Where records name what a requirement's answer is, the next hop starts
from there. Nothing is recorded here: a question meets the records that are there.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from ..errors import DecisionError, ModelError
from ..protocols import Decider, Decomposer
from ..store import Store
from ..store.lexical import query_terms
from ..store.record_index import ALL, Known
from ..tasks import PROPERTY_MATCH, Candidates, Item
from .catalogue import EMPTY, Catalogue, CatalogueCache
from .columns import Ints
from .kept import Kept
from .needs import MOST, Need, Property, Span, bridged, needs_of, things_of
from .plan import Plan

MOST_TURNS = 32
"""Turns of the records of one requirement."""
_KEPT = 256
_OFFERED = 16
"""Properties of an entity among which `property_match` chooses, those that share a word with the question first."""
_VALUES = 3
_EARLIER = re.compile(r"\{(\d)\}")
_log = logging.getLogger(__name__)

Needs = tuple[Need, ...]


class Requirements:
    """Makes the requirements of questions.

    Args:
        store: where records are.
        decider: asked for `property_match`; one that cannot answer it leaves matching to words.
        decomposer: splits a question where its plan says so; None leaves that to what the question names.
    """

    def __init__(self, store: Store, decider: Decider, decomposer: Decomposer | None = None) -> None:
        self._store = store
        self._decider = decider
        self._decomposer = decomposer
        self._catalogues = CatalogueCache(store)
        self._kept = Kept[tuple[object, ...], Needs](_KEPT)

    def known(self, namespace: int) -> bool:
        """Whether there are records to align to."""
        return bool(self._catalogues.get(namespace).entities)

    def of(
        self,
        namespace: int,
        question: str,
        plan: Plan,
        now: datetime,
        *,
        known: Known = ALL,
        records: bool = True,
        split: bool = True,
    ) -> tuple[Needs, int]:
        """Requirements of a question, one at least, and the calls of a served model that they took.

        They are kept until something else than a turn is added to the namespace. A model that fails is logged, and the
        question is split and matched by its words.

        Args:
            known: the turns whose values may be read. records: whether to align them to the records of the namespace.
            split: whether the writer may be asked.
        """
        catalogue = self._catalogues.get(namespace) if records else EMPTY
        splits = split and self._decomposer is not None and plan.groups["gate"]["decompose"] >= 0.5
        version = catalogue.version or (self._store.namespaces.epoch(namespace),)
        span: Span = "all_matching" if plan.groups["span"]["all_matching"] >= 0.5 else "one"
        key = (namespace, version, question, splits and now.date(), span, plan.since, plan.until, known)
        if (kept := self._kept.get(key)) is not None:
            return kept, 0
        needs, calls, whole = self._split(question, now) if splits else (needs_of(question), 0, True)
        needs = tuple(replace(need, span=span, since=plan.since, until=plan.until) for need in needs)
        if catalogue.entities:
            needs, more = self._matched(catalogue, question, [_placed(catalogue, need) for need in needs])
            needs, calls = self._hops(namespace, catalogue, question, needs, known), calls + more
        needs = tuple(need if need.after is None else replace(need, text=_without_hole(need.text)) for need in needs)
        if whole:
            self._kept.put(key, needs)
        return needs, calls

    def _split(self, question: str, now: datetime) -> tuple[Needs, int, bool]:
        """Requirements by the writer; with the calls they took, and whether it did not fail."""
        assert self._decomposer is not None
        try:
            texts = self._decomposer.sub_questions(question, now)[:MOST]
        except ModelError as error:
            _log.warning("the question is split by its words: %s", error)
            return needs_of(question), 1, False
        if len(texts) < 2:
            return needs_of(question), 1, True
        return tuple(_part(text, number) for number, text in enumerate(texts)), 1, True

    def _matched(self, catalogue: Catalogue, question: str, needs: Sequence[Need]) -> tuple[Needs, int]:
        """The requirements with the properties that they ask for in other words than the index does."""
        open_ = [at for at, need in enumerate(needs) if need.entity and not need.properties and _beside(need)]
        if not open_:
            return tuple(needs), 0
        found, offered = list(needs), [_offered(catalogue, needs[at]) for at in open_]
        items = [
            Item({"requirement": needs[at].text, "question": question, "entity": needs[at].entity}, candidates)
            for at, candidates in zip(open_, offered, strict=True)
        ]
        try:
            decisions = self._decider.decide(PROPERTY_MATCH, items)
        except (DecisionError, ModelError):
            return tuple(needs), 0
        for at, item, decision in zip(open_, items, decisions, strict=True):
            chosen = () if decision.unsure else PROPERTY_MATCH.check(item, decision).labels
            named = {one.name: one for one in catalogue.properties[needs[at].entity]}
            found[at] = replace(needs[at], properties=tuple(named[name] for name in chosen))
        return tuple(found), sum(decision.calls for decision in decisions)

    def _hops(self, namespace: int, catalogue: Catalogue, question: str, needs: Needs, known: Known) -> Needs:
        """The requirements with what records say that earlier ones answer, and the hops that records open up."""
        made: list[Need] = []
        for need in needs:
            if need.after is not None:
                names = self._answers(namespace, made[need.after], made[need.after].properties, known)
                if names:
                    text = _without_hole(need.text.replace(f"{{{need.after + 1}}}", names[0]))
                    need = _placed(catalogue, replace(need, text=text, terms=tuple(query_terms(text)), about=names[0]))
            made.append(need)
        words = set(query_terms(question))
        for number, need in enumerate(tuple(made)):
            for one in need.properties:
                for name in self._answers(namespace, need, (one,), known):
                    entity = catalogue.entity(name)
                    asked = catalogue.asked(entity, words - one.asked_by(words)) if entity else ()
                    if asked and entity != need.entity and len(made) < MOST:
                        hop = replace(bridged(need, name), about=name, entity=entity, properties=asked, after=number)
                        made.append(hop)
        return tuple(made)

    def _answers(self, namespace: int, need: Need, properties: Sequence[Property], known: Known) -> list[str]:
        """What records say about some properties of a requirement's entity, the latest first."""
        if not need.entity or not properties:
            return []
        keys = [key for one in properties for key in one.keys]
        names = self._store.records.names_of(namespace, need.entity)
        return self._store.record_index.values(namespace, names, keys, known)[:_VALUES]


def record_turns(store: Store, namespace: int, need: Need) -> Ints:
    """Rows of the turns behind the records that a requirement asks for, superseded ones among them, at most
    `MOST_TURNS`: those of its time first, then the latest said, or the earliest where all that match are asked for.

    Empty where the requirement has no entity or property, or nothing was recorded: nothing is recorded here.
    """
    if not need.entity or not need.properties:
        return np.zeros(0, np.int64)
    keys = [key for one in need.properties for key in one.keys]
    found = store.record_index.evidence(namespace, store.records.names_of(namespace, need.entity), keys)
    if need.span == "one":
        found.reverse()
    found.sort(key=lambda one: not one.falls_in(need.since, need.until))
    return np.array(list(dict.fromkeys(one.row for one in found))[:MOST_TURNS], np.int64)


def _part(text: str, number: int) -> Need:
    """A part of a question as a requirement; of what it stands for, its hole is kept."""
    earlier = [int(found) - 1 for found in _EARLIER.findall(text)]
    after = max((at for at in earlier if 0 <= at < number), default=None)
    bare = _without_hole(text)
    return Need(bare if after is None else text, tuple(query_terms(bare)), next(iter(things_of(bare)), ""), after=after)


def _without_hole(text: str) -> str:
    return " ".join(_EARLIER.sub(" ", text).split())


def _placed(catalogue: Catalogue, need: Need) -> Need:
    """A requirement with its entity and with the properties that it names. Of several entities the first with such a
    property is meant, else the first.
    """
    own = catalogue.entity(need.about)
    named = [own] if own else catalogue.named_in(need.text)
    asked = {entity: catalogue.asked(entity, _beside(need, entity)) for entity in named}
    entity = next((one for one in named if asked[one]), next(iter(named), ""))
    return replace(need, entity=entity, properties=asked.get(entity, ()))


def _beside(need: Need, entity: str = "") -> set[str]:
    """Words of a requirement beside the name of an entity, its own where none is given."""
    return set(need.terms) - set(query_terms(entity or need.entity))


def _offered(catalogue: Catalogue, need: Need) -> Candidates:
    words = _beside(need)
    known = catalogue.properties[need.entity]
    shared = sorted(known, key=lambda one: not any(wording & words for wording in one.wordings))[:_OFFERED]
    names = tuple(one.name for one in shared)
    return Candidates(names, names)
