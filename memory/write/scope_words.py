"""Which words were said in which scope: names and numbers tie a turn to its goal where a vector blurs them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..deciders.cues import strip_speaker
from ..store.lexical import query_terms

_K1, _B = 1.2, 0.3
_FEW = 8


def scope_terms(text: str) -> list[str]:
    """Distinct terms of a turn's text, without its speaker and, beside others, without function words."""
    return query_terms(strip_speaker(text))


class ScopeWords:
    """An inverted index over the scopes of one trajectory, as it grows; rows are scopes in the order of opening.

    Terms count once a turn. What few scopes have said weighs more (inverse scope frequency, as in BM25); what more than
    half of many have said tells nothing and is passed over.
    """

    def __init__(self) -> None:
        self._postings: dict[str, dict[int, int]] = {}
        self._lengths: list[int] = []
        self._last: list[frozenset[str]] = []

    def add(self, row: int, terms: Sequence[str]) -> None:
        """Count a turn to a scope; row may be one past the last."""
        if row == len(self._lengths):
            self._lengths.append(0)
            self._last.append(frozenset())
        self._lengths[row] += len(terms)
        self._last[row] = frozenset(terms)
        for term in terms:
            counts = self._postings.setdefault(term, {})
            counts[row] = counts.get(row, 0) + 1

    def overlap(self, terms: Iterable[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How much of a turn each scope has said before, and each scope's last turn: two (N,) arrays.

        The first is BM25 over the most that terms of one occurrence can reach, in [0, 1 + k1); the second the share of
        the turn's terms, by weight, in [0, 1].
        """
        count = len(self._lengths)
        said, last = np.zeros(count), np.zeros(count)
        if not count:
            return said, last
        mean = max(1.0, sum(self._lengths) / count)
        total = 0.0
        for term in terms:
            found = self._postings.get(term, {})
            if len(found) > max(_FEW, count // 2):
                continue
            weight = math.log(1 + (count - len(found) + 0.5) / (len(found) + 0.5))
            total += weight
            for row, times in found.items():
                said[row] += weight * times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * self._lengths[row] / mean))
                if term in self._last[row]:
                    last[row] += weight
        return (said / total, last / total) if total else (said, last)

    def state(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "postings": {term: [list(pair) for pair in counts.items()] for term, counts in self._postings.items()},
            "lengths": list(self._lengths),
            "last": [sorted(terms) for terms in self._last],
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
        return made
