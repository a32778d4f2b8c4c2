"""Closed episodes to links (EMIR2, section 3.1): candidate pairs by rule, each decided on its own, once.

A pair is looked at when the later one of the two is linked: what it shares entities with within seven days, what is of
its scope before and after it, and a few of the same kind of operation. Their number is bounded, so that linking costs
the same for each episode however many there are.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ..deciders.relation_rule import NONE, stated
from ..errors import DecisionError
from ..protocols import Decider
from ..store import Store
from ..tasks import RELATION, Decision, Item
from ..types import Episode, Link, Trust
from .episode_views import EpisodeView, view
from .recording import FAILURES, MOST_ATTEMPTS

REACH = 7 * 86_400.0
"""Seconds between the beginnings of two episodes that may hang together, but for those of one scope."""
MOST_PAIRS = 8
_ALIKE = 2
"""Pairs at most, of those, that share a kind of operation and nothing else."""
_COUNTED = 64
_SHARED = 8
_KEPT_VIEWS = 256
_BY_SCOPE = "scope"
_OPPOSITE = {
    "caused_by": "causes",
    "contributed_by": "contributes_to",
    "has_context": "context_for",
    "enabled_by": "enables",
    "has_part": "part_of",
    "followed_up_by": "follow_up_of",
}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two episodes to be related: the later one is the source. said: turn ids and sentences of each end."""

    source: EpisodeView
    target: EpisodeView
    shared: tuple[str, ...]
    said: tuple[list[tuple[str, str]], list[tuple[str, str]]]

    @property
    def texts(self) -> tuple[str, str]:
        return self.source.text(self.said[0]), self.target.text(self.said[1])

    @property
    def evidence(self) -> tuple[str, ...]:
        """Turns that name what both share, else those at which the two are closest."""
        ends = (self.source.turns[0], self.target.turns[-1])
        found = [[turn for turn, _ in said] or [end.id] for said, end in zip(self.said, ends, strict=True)]
        return tuple(dict.fromkeys(turn for turns in found for turn in turns))


class Linker:
    """Links episodes that have closed. The caller holds the namespace's worker lock.

    Args:
        store: where episodes and links are.
        decider: answers the task `relation`; one that cannot leaves what follows from scopes alone.
    """

    def __init__(self, store: Store, decider: Decider) -> None:
        self._store = store
        self._decider = decider

    def catch_up(self, namespace: int) -> None:
        """Link every closed episode of a namespace that is not yet; what fails is tried again the next time."""
        views = _Views(self._store, namespace)
        for episode in self._store.links.unlinked(namespace, MOST_ATTEMPTS):
            try:
                self._link(namespace, episode, views)
            except FAILURES as error:
                _log.warning("links of %s could not be made, its turns stay searchable: %s", episode.id, error)
                with self._store.database.write() as connection:
                    self._store.links.failed(connection, namespace, episode.id)

    def _link(self, namespace: int, episode: Episode, views: _Views) -> None:
        epoch, started = self._store.namespaces.epoch(namespace), time.perf_counter()
        views.keep_to(epoch)
        mine = views.of(episode)
        if mine is None:
            return  # its turns were deleted meanwhile, and it is going with them
        links, chained = self._returns(namespace, mine, views)
        pairs = self._pairs(namespace, mine, chained, views)
        decided = self._decided(pairs)
        links += [link for pair, decision in decided if (link := _link(pair, decision)) is not None]
        with self._store.database.write() as connection:
            if self._store.namespaces.epoch(namespace) != epoch:
                return  # turns were removed or labelled by hand meanwhile: judged again at the next call
            self._store.links.put(connection, namespace, links)
            keys = [*mine.entity_keys, *mine.event_keys, *mine.scope_keys]
            self._store.links.linked(connection, namespace, episode.id, keys, mine.time, mine.place)
            if decided:
                self._store.operations.charge(
                    *(connection, namespace, "", RELATION.name, decided[0][1].decided_by, len(decided)),
                    *(time.perf_counter() - started, sum(decision.calls for _, decision in decided)),
                )

    def _returns(self, namespace: int, mine: EpisodeView, views: _Views) -> tuple[list[Link], set[str]]:
        """What follows from the scope: an episode takes up the one before it, and the one after it takes it up."""
        near = self._store.links.near(namespace, mine.scope_keys, mine.time, mine.place, math.inf, 1)
        links = []
        for other in views.all([found.episode for found in near]):
            later, earlier = (mine, other) if mine.order > other.order else (other, mine)
            evidence = (later.turns[0].id, earlier.turns[-1].id)
            sure = min(1.0, later.belief * earlier.belief)
            links.append(_made(later, earlier, "follow_up_of", sure, "derived", evidence, _BY_SCOPE))
        return links, {found.episode for found in near}

    def _pairs(self, namespace: int, mine: EpisodeView, left_out: set[str], views: _Views) -> list[_Pair]:
        """The pairs to decide on: those that share the most and the rarest entities, then the nearest."""
        place = (mine.time, mine.place, REACH)
        weight: dict[str, float] = defaultdict(float)
        apart: dict[str, float] = {}
        for near in self._store.links.near(namespace, mine.entity_keys, *place, MOST_PAIRS):
            frequency = self._store.links.frequency(namespace, near.key, _COUNTED)
            weight[near.episode] += 1 / math.log2(2 + frequency)
            apart[near.episode] = abs(near.time - mine.time)
        ranked = sorted(weight, key=lambda one: (-weight[one], apart[one], one))
        alike = [n.episode for n in self._store.links.near(namespace, mine.event_keys, *place, _ALIKE)]
        fresh = [one for one in dict.fromkeys(alike) if one not in weight][:_ALIKE]
        chosen = [one for one in (*ranked, *fresh) if one not in left_out | {mine.episode.id}][:MOST_PAIRS]
        return [_pair(mine, other) for other in views.all(chosen)]

    def _decided(self, pairs: Sequence[_Pair]) -> list[tuple[_Pair, Decision]]:
        """Each pair with its decision; none where the decider does not know the task."""
        items = []
        for pair in pairs:
            source, target = pair.texts
            fields = {"source": source, "target": target, "shared": list(pair.shared)}
            items.append(Item(fields, turn=pair.source.turns[-1]))
        if not items:
            return []
        try:
            found = self._decider.decide(RELATION, items)
        except DecisionError:
            return []
        return [
            (pair, RELATION.check(item, decision)) for pair, item, decision in zip(pairs, items, found, strict=True)
        ]


class _Views:
    """Views of episodes looked at last; all of one state of the namespace."""

    def __init__(self, store: Store, namespace: int) -> None:
        self._store, self._namespace = store, namespace
        self._epoch = -1
        self._kept: OrderedDict[str, EpisodeView | None] = OrderedDict()

    def keep_to(self, epoch: int) -> None:
        """Forget what was seen before a change by hand or a removal."""
        if epoch != self._epoch:
            self._kept.clear()
            self._epoch = epoch

    def of(self, episode: Episode) -> EpisodeView | None:
        """The view of one."""
        if episode.id not in self._kept:
            self._kept[episode.id] = view(self._store, self._namespace, episode)
            while len(self._kept) > _KEPT_VIEWS:
                self._kept.popitem(last=False)
        return self._kept[episode.id]

    def all(self, ids: Sequence[str]) -> list[EpisodeView]:
        """The views of those that are there, in the order asked for."""
        known = self._store.links.episodes(self._namespace, [one for one in ids if one not in self._kept])
        found = [self._kept.get(one) if one not in known else self.of(known[one]) for one in dict.fromkeys(ids)]
        return [one for one in found if one is not None]


def _pair(mine: EpisodeView, other: EpisodeView) -> _Pair:
    source, target = (mine, other) if mine.order > other.order else (other, mine)
    shared = tuple(name for key, name in source.names.items() if key in target.names)[:_SHARED]
    return _Pair(source, target, shared, (source.said_of(shared), target.said_of(shared)))


def _link(pair: _Pair, decision: Decision) -> Link | None:
    """The link of a decision; one that is unsure sets none."""
    label = decision.labels[0]
    if label == NONE or decision.unsure:
        return None
    trust: Trust = "explicit" if label in stated(*pair.texts, pair.shared) else "inferred"
    ends = (pair.target, pair.source) if label in _OPPOSITE else (pair.source, pair.target)
    kind = _OPPOSITE.get(label, label)
    return _made(*ends, kind, decision.confidence, trust, pair.evidence, decision.decided_by)


def _made(
    source: EpisodeView,
    target: EpisodeView,
    kind: str,
    confidence: float,
    trust: Trust,
    evidence: tuple[str, ...],
    decided_by: str,
) -> Link:
    ends = (source.episode.id, target.episode.id)
    digest = hashlib.sha256("\0".join((*ends, kind)).encode()).hexdigest()[:16]
    return Link(f"link_{digest}", *ends, kind, float(confidence), trust, evidence, decided_by)
