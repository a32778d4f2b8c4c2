"""Reading in rounds: look, see what is still missing, look for that (EMIR2, section 3.3), without a model.

The first round is the ranking of the whole question. Each later one probes for the requirements that the best turns so
far do not cover, and for what an earlier answer has named; along links it looks at what a found episode led to. It
stops when everything is covered, when two rounds brought nothing new, or at the budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Protocol

import numpy as np

from ..store.lexical import fold
from .budget import Budget
from .columns import Floats, Ints
from .needs import Coverage, Need, Verdict, bridged

CANDIDATES = 32
"""Turns of a ranking that are looked at (EMIR2, appendix)."""
TOKENS_A_TERM = 1.4
"""Tokens of a turn for each of its terms: an estimate, as counting them would take longer than a round."""
_BROUGHT = 8
"""Turns of a probe that are moved up: what it was for stands among its best, and more would crowd out the rest."""
_BRIDGES = 3
_ANCHORS = 5
_IDLE = 2


class Sources(Protocol):
    """Where later rounds look, in one pool."""

    def probe(self, needs: Sequence[Need]) -> Iterator[Floats]:
        """Scores (P,) of the pool for each of some requirements, minus infinity where a turn may not be returned: their
        texts are encoded together, the scores made one by one as they are taken.
        """

    def names(self, places: Ints) -> list[str]:
        """Names that some turns mention, or refer to, the most frequent first."""

    def linked(self, places: Ints) -> Ints:
        """Places that links lead to from some places."""


@dataclass(frozen=True, slots=True)
class Found:
    """Turns that were looked for. sure: they are known to say something, so that bringing none is no reason to stop."""

    text: str
    places: Ints
    sure: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """One round: what was looked for, how many of the candidates it brought, and the verdicts after it."""

    looked_for: tuple[str, ...]
    brought: int
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """Places of a pool in the order to read them, each with the round and the requirement that brought it.

    hidden: whether an answer to one requirement names what another is about, so that its words need not stand anywhere.
    """

    places: Ints
    brought_by: dict[int, tuple[int, str]]
    needs: tuple[Need, ...]
    rounds: tuple[Round, ...]
    hidden: bool = False

    @property
    def answerable(self) -> Verdict:
        """The worst verdict of the last round; "partial" at worst where something is hidden."""
        last = self.rounds[-1].verdicts
        worst: Verdict = "missing" if "missing" in last else "partial" if "partial" in last else "covered"
        return "partial" if self.hidden and worst == "missing" else worst

    def then(self, looked_for: str, places: Sequence[int]) -> Reading:
        """The reading with a round more, which moved these places up; what is covered stays."""
        found = {place: (len(self.rounds) + 1, looked_for) for place in places}
        last = Round((looked_for,), len(found), self.rounds[-1].verdicts)
        return replace(self, brought_by=found | self.brought_by, rounds=(*self.rounds, last))


def read(
    order: Ints,
    coverages: Sequence[Coverage],
    sources: Sources,
    bridge: bool,
    budget: Budget,
    tokens: Floats,
) -> Reading:
    """Read in rounds.

    Args:
        order: places of the first ranking, best first. coverages: of each requirement. bridge: whether an answer to one
            requirement names what another is about. tokens: (P,), of the turns of the pool.
    """
    started = time.perf_counter()
    needs = tuple(coverage.need for coverage in coverages)
    rankings = [order]
    brought: dict[int, tuple[int, str]] = {}
    held = _fitting(order[:CANDIDATES], order[:0], tokens, budget)
    rounds = [Round(("the question",), len(held), _verdicts(coverages, held))]
    waiting = _steps(coverages, lambda: held, sources, bridge)
    idle = 0
    while len(rounds) < budget.rounds and idle < _IDLE and not _spent(started, held, tokens, budget):
        asked = next(waiting, None)
        if asked is None:
            break
        found = asked.places[:_BROUGHT]
        new = found[~np.isin(found, held)]
        fresh = _fitting(new, held, tokens, budget)
        if len(fresh) < len(new):
            found = found[~np.isin(found, new[len(fresh) :])]
        for place in fresh.tolist():
            brought.setdefault(place, (len(rounds) + 1, asked.text))
        if not asked.sure:
            idle = 0 if len(fresh) else idle + 1
        rankings.append(found)
        held = np.concatenate([held, fresh])
        rounds.append(Round((asked.text,), len(fresh), _verdicts(coverages, held)))
    return Reading(_interleaved(rankings), brought, needs, tuple(rounds), bridge)


def _spent(started: float, held: Ints, tokens: Floats, budget: Budget) -> bool:
    """Whether the time is over, or there is no room for another turn."""
    late = (time.perf_counter() - started) * 1000 > budget.milliseconds
    return late or len(held) >= budget.candidates or float(tokens[held].sum()) >= budget.tokens


def _fitting(places: Ints, held: Ints, tokens: Floats, budget: Budget) -> Ints:
    """The first of some places, as many as there is room for beside those held; there is always room for one turn."""
    total = float(tokens[held].sum()) + np.cumsum(tokens[places])
    count = min(int((total <= budget.tokens).sum()), max(0, budget.candidates - len(held)))
    return places[: count if len(held) else max(1, count)]


def _steps(
    coverages: Sequence[Coverage], holding: Callable[[], Ints], sources: Sources, bridge: bool
) -> Iterator[Found]:
    """What to look for next: what records point to, what is not covered, each requirement by itself, then what earlier
    answers name. Each step is made when the one before it was not enough. holding: the places held by then.
    """
    for coverage in coverages:
        if len(coverage.recorded):
            yield Found(f"records: {coverage.need.text}", coverage.recorded, sure=True)
    held = holding()
    if len(coverages) > 1:
        worst = sorted(coverages, key=lambda one: one.of(held))
        yield from _probed([one.need for one in worst if one.verdict(held) != "covered"], sources)
    if not bridge:
        return
    for coverage in coverages:
        asked = fold(coverage.need.text)
        said = coverage.said if coverage.need.after is None else coverages[coverage.need.after].said
        best = held[np.argsort(-said[held], kind="stable")[:_BRIDGES]]
        found = [name for name in sources.names(best) if fold(name) not in asked]
        yield from _probed([bridged(coverage.need, name) for name in found[:_BRIDGES]], sources)
    yield Found("what is linked to it", sources.linked(holding()[:_ANCHORS]))


def _probed(needs: Sequence[Need], sources: Sources) -> Iterator[Found]:
    for need, scores in zip(needs, sources.probe(needs) if needs else (), strict=True):
        yield Found(need.text, _best(scores))


def _best(scores: Floats) -> Ints:
    order = np.argsort(-scores, kind="stable")[:_BROUGHT]
    return order[np.isfinite(scores[order])]


def _verdicts(coverages: Sequence[Coverage], held: Ints) -> tuple[Verdict, ...]:
    return tuple(coverage.verdict(held) for coverage in coverages)


_FIRST = 2
"""Turns of the question's own ranking for each one of a probe's."""


def _interleaved(rankings: Sequence[Ints]) -> Ints:
    """The first ranking and, in between, each probe's in turn; every place once, at its first."""
    first, *probes = [ranking.tolist() for ranking in rankings]
    if not probes:
        return rankings[0]
    waiting = cycle([iter(ranking) for ranking in probes])
    mixed: list[int] = []
    for place in range(0, len(first), _FIRST):
        mixed += first[place : place + _FIRST]
        mixed += islice(next(waiting), 1)
    return np.array(list(dict.fromkeys(mixed)), np.int64)
