"""Reading in rounds: look, see what is still missing, look for that (EMIR2, section 3.3), without a model.

The first round is the ranking of the whole question. Each later one probes for the requirements that the best turns so
far do not cover, and for what an earlier answer has named; along links it looks at what a found episode led to. It
stops when everything is covered, when two rounds brought nothing new, or at the budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np

from ..store.lexical import fold
from .columns import Floats, Ints
from .needs import Coverage, Need, Verdict, bridged

CANDIDATES = 32
"""Turns of a ranking that are looked at (EMIR2, appendix)."""
MAX_ROUNDS = 8
_BROUGHT = 8
"""Turns of a probe that are moved up: what it was for stands among its best, and more would crowd out the rest."""
_BRIDGES = 3
_ANCHORS = 5
_IDLE = 2

Probe = Callable[[Need], Floats]
"""Scores (P,) of a pool for a requirement, minus infinity where a turn may not be returned."""
Names = Callable[[Ints], list[str]]
"""Names that some turns of a pool mention."""
Follow = Callable[[Ints], Ints]
"""Places that links lead to from some places."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Where reading stops: rounds, and milliseconds since it began."""

    rounds: int = MAX_ROUNDS
    milliseconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Round:
    """One round: what was looked for, how many of the candidates it brought, and the verdicts after it."""

    looked_for: tuple[str, ...]
    brought: int
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """Places of a pool in the order to read them, each with the round and the requirement that brought it.

    answerable: "covered" where every requirement is, "missing" where one is, else "partial".
    """

    places: Ints
    brought_by: dict[int, tuple[int, str]]
    needs: tuple[Need, ...]
    rounds: tuple[Round, ...]

    @property
    def answerable(self) -> Verdict:
        """The worst verdict of the last round."""
        last = self.rounds[-1].verdicts
        return "missing" if "missing" in last else "partial" if "partial" in last else "covered"


def read(
    order: Ints,
    coverages: Sequence[Coverage],
    probe: Probe,
    names: Names,
    follow: Follow,
    bridge: bool,
    budget: Budget,
) -> Reading:
    """Read in rounds.

    Args:
        order: places of the first ranking, best first. coverages: of each requirement. bridge: whether an answer to one
            requirement names what another is about.
    """
    started = time.perf_counter()
    needs = tuple(coverage.need for coverage in coverages)
    rankings = [order]
    brought: dict[int, tuple[int, str]] = {}
    held = order[:CANDIDATES]
    rounds = [Round(("the question",), len(held), _verdicts(coverages, held))]
    waiting = _probes(coverages, held, names, bridge)
    idle = 0
    while len(rounds) < budget.rounds and idle < _IDLE:
        if (time.perf_counter() - started) * 1000 > budget.milliseconds:
            break
        asked = next(waiting, None)
        if asked is None:
            break
        found = _best(probe(asked)) if asked.terms else follow(held[:_ANCHORS])[:_BROUGHT]
        fresh = found[~np.isin(found, held)]
        for place in fresh.tolist():
            brought.setdefault(place, (len(rounds) + 1, asked.text))
        idle = 0 if len(fresh) else idle + 1
        rankings.append(found)
        held = np.unique(np.concatenate([held, found]))
        rounds.append(Round((asked.text,), len(fresh), _verdicts(coverages, held)))
    return Reading(_interleaved(rankings), brought, needs, tuple(rounds))


LINKED = Need("what is linked to it", ())
"""Asks for what links lead to, instead of for words."""


def _probes(coverages: Sequence[Coverage], held: Ints, names: Names, bridge: bool) -> Iterator[Need]:
    """What to look for next: what is not covered, each requirement by itself, then what earlier answers name."""
    if len(coverages) > 1:
        for coverage in sorted(coverages, key=lambda one: one.of(held)):
            if coverage.verdict(held) != "covered":
                yield coverage.need
    if not bridge:
        return
    for coverage in coverages:
        asked = fold(coverage.need.text)
        best = held[np.argsort(-coverage.said[held], kind="stable")[:_BRIDGES]]
        found = [name for name in names(best) if fold(name) not in asked]
        for name in found[:_BRIDGES]:
            yield bridged(coverage.need, name)
    yield LINKED


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
