"""Where the rounds of a reading look: a pool, the records and the links of its namespace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..store import Store
from .columns import Floats, Ints
from .needs import Need
from .request import SearchRequest
from .requirements import record_turns
from .searcher import Ranked, Searcher
from .words import Pool


@dataclass(frozen=True, slots=True)
class PoolSources:
    """The sources of one question, which was ranked by `searcher` over `pool`."""

    store: Store
    searcher: Searcher
    request: SearchRequest
    ranked: Ranked
    pool: Pool

    def probe(self, needs: Sequence[Need]) -> Iterator[Floats]:
        """See `rounds.Sources`."""
        return self.searcher.again(self.request, self.ranked, needs)

    def names(self, places: Ints) -> list[str]:
        """See `rounds.Sources`."""
        snippets = self.store.labels.snippets(self.request.namespace, self.pool.rows[places].tolist()).values()
        counts: dict[str, int] = {}
        for snippet in snippets:
            for name in (*(m.name for m in snippet.mentions), *(r.target for r in snippet.references)):
                counts[name] = counts.get(name, 0) + 1
        return sorted(counts, key=lambda name: -counts[name])

    def recorded(self, need: Need) -> Ints:
        """Places of the turns behind the records that a requirement asks for, best first, if they may be returned."""
        places, _ = self.pool.places(record_turns(self.store, self.request.namespace, need))
        return places[self.pool.eligible[places]]

    def linked(self, places: Ints) -> Ints:
        """The best turn of each episode that links lead to from some places."""
        if not self.request.parts.links:
            return np.zeros(0, np.int64)
        pool, ranked = self.pool, self.ranked
        near = self.store.links.neighbours(self.request.namespace, pool.rows[places].tolist())
        rank_of = np.full(len(pool), len(ranked.places), np.int64)
        rank_of[ranked.places] = np.arange(len(ranked.places))
        seq, trajectories = pool.columns.seq[pool.positions], pool.columns.trajectory[pool.positions]
        found = []
        for one in near:
            (trajectory,) = pool.columns.trajectories.of([one.trajectory]) or [-1]
            inside = np.flatnonzero(
                (trajectories == trajectory) & (seq >= one.first_seq) & (seq <= one.last_seq) & pool.eligible
            )
            if len(inside):
                found.append(int(inside[rank_of[inside].argmin()]))
        return np.array(list(dict.fromkeys(found)), np.int64)
