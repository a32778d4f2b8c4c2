"""Which words were said in which scope: names and numbers tie a turn to its goal where a vector blurs them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..deciders.cues import strip_speaker
from .numbered import numbered_terms

_CLAUSE = re.compile(r"(?<=[.!?;:。！？；：])\s+|\n+|(?<=[。！？；：])")
_CLAUSES = 4
_K1, _B = 1.2, 0.3
_FEW = 8


def scope_terms(text: str) -> list[str]:
    """Distinct terms of a turn's text, without its speaker and, beside others, without function words."""
    return numbered_terms(strip_speaker(text))


def scope_clauses(text: str) -> list[list[str]]:
    """The terms of a turn's first clauses, those without terms left out."""
    parts = (numbered_terms(part) for part in _CLAUSE.split(strip_speaker(text)))
    return list(islice((terms for terms in parts if terms), _CLAUSES))


class Overlap(NamedTuple):
    """How much of a turn each scope has said before, (N,) each.

    said: all of its turns, as BM25 over the most that terms of one occurrence can reach, in [0, 1 + k1). The others are
    shares of the turn's terms, by weight, in [0, 1]. last: said by the scope's last turn. opening: by its first. lead,
    clause: of the first clause of the turn, and of the one it holds best for, said by the scope's first turn: who takes
    a matter up again often names it as it was named first, and says more besides.
    """

    said: NDArray[np.float64]
    last: NDArray[np.float64]
    opening: NDArray[np.float64]
    lead: NDArray[np.float64]
    clause: NDArray[np.float64]


class ScopeWords:
    """An inverted index over the scopes of one trajectory, as it grows; rows are scopes in the order of opening.

    Terms count once a turn. What few scopes have said weighs more (inverse scope frequency, as in BM25); what more than
    half of many have said tells nothing and is passed over.
    """

    def __init__(self) -> None:
        self._postings: dict[str, dict[int, int]] = {}
        self._lengths: list[int] = []
        self._last: list[frozenset[str]] = []
        self._openings: dict[str, list[int]] = {}

    def add(self, row: int, terms: Sequence[str]) -> None:
        """Count a turn to a scope; row may be one past the last."""
        if row == len(self._lengths):
            self._lengths.append(0)
            self._last.append(frozenset())
            for term in dict.fromkeys(terms):
                self._openings.setdefault(term, []).append(row)
        self._lengths[row] += len(terms)
        self._last[row] = frozenset(terms)
        for term in terms:
            counts = self._postings.setdefault(term, {})
            counts[row] = counts.get(row, 0) + 1

    def overlap(self, terms: Iterable[str], clauses: Sequence[Sequence[str]] = ()) -> Overlap:
        """How much of a turn each scope has said before; `clauses` are the terms of each part of the turn."""
        count = len(self._lengths)
        said, last, opening, lead, best = np.zeros((5, count))
        if not count:
            return Overlap(said, last, opening, lead, best)
        mean = max(1.0, sum(self._lengths) / count)
        weights = {term: weight for term in terms if (weight := self._weight(term))}
        for term, weight in weights.items():
            for row, times in self._postings.get(term, {}).items():
                said[row] += weight * times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * self._lengths[row] / mean))
                if term in self._last[row]:
                    last[row] += weight
        total = sum(weights.values()) or 1.0
        for place, clause in enumerate(clauses):
            share = self._opened(clause)
            lead = share if place == 0 else lead
            best = np.maximum(best, share)
        return Overlap(said / total, last / total, self._opened(list(weights)), lead, best)

    def said_in(self, row: int, terms: Iterable[str]) -> float:
        """Share of a turn's terms, by weight, that one scope has said before, in [0, 1]."""
        weights = {term: weight for term in terms if (weight := self._weight(term))}
        held = sum(weight for term, weight in weights.items() if row in self._postings.get(term, ()))
        return held / (sum(weights.values()) or 1.0)

    def _weight(self, term: str) -> float:
        """Inverse scope frequency; 0 for what too many have said."""
        count, holds = len(self._lengths), len(self._postings.get(term, ()))
        return 0.0 if holds > max(_FEW, count // 2) else math.log(1 + (count - holds + 0.5) / (holds + 0.5))

    def _opened(self, terms: Sequence[str]) -> NDArray[np.float64]:
        """Share of terms, by weight, that each scope's first turn says."""
        found, total = np.zeros(len(self._lengths)), 0.0
        for term in dict.fromkeys(terms):
            if weight := self._weight(term):
                total += weight
                for row in self._openings.get(term, ()):
                    found[row] += weight
        return found / total if total else found

    def state(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "postings": {term: [list(pair) for pair in counts.items()] for term, counts in self._postings.items()},
            "lengths": list(self._lengths),
            "last": [sorted(terms) for terms in self._last],
            "openings": {term: list(rows) for term, rows in self._openings.items()},
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> ScopeWords:
        """The index that `state` was taken of."""
        made = cls()
        made._postings = {
            term: {int(row): int(times) for row, times in found} for term, found in state["postings"].items()
        }
        made._lengths = list(state["lengths"])
        made._last = [frozenset(terms) for terms in state["last"]]
        made._openings = {term: [int(row) for row in rows] for term, rows in state["openings"].items()}
        return made
