"""By which words scopes were named: who takes a matter up again says its name, and one number tells it from its like.

A vector puts "lunch on day 3" beside "lunch on day 4". Words do not, if a name is held against the whole of the other:
what shares most of a name is most often another thing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .numbered import number_of

_AGAIN = 4
_FEW = 8


class Named(NamedTuple):
    """How far a turn names each scope, (N,) each.

    opening: share of the terms by which the scope was named first that the turn says, by how few scopes are named so,
    in [0, 1]. again: the same of the best of the clauses with which it was last taken up again. mutual: that share of
    any of its names, times the share of the turn's own naming clause that is in the same name, of what is in any first
    name; the best, in [0, 1]. numbered: of the things that turn and first name number, 1 where they agree and -1 where
    only the number differs, on average, in [-1, 1].
    """

    opening: NDArray[np.float64]
    again: NDArray[np.float64]
    mutual: NDArray[np.float64]
    numbered: NDArray[np.float64]


class ScopeNames:
    """The names of the scopes of one trajectory; rows are scopes in the order of opening.

    A name is the first clause of more than one term with which a scope was opened or taken up again. The first is kept
    for good, of the others the last four: a scope is known by more than one name, and some are given by mistake.
    """

    def __init__(self) -> None:
        self._names: list[list[tuple[str, ...]]] = []
        self._rows: dict[str, dict[int, None]] = {}
        self._first: set[str] = set()

    def add(self, row: int, clauses: Sequence[Sequence[str]]) -> None:
        """Note how a scope was opened or taken up again; row may be one past the last."""
        if row == len(self._names):
            self._names.append([])
        name, names = _name(clauses), self._names[row]
        if not names:
            self._first.update(name)
        names.append(name)
        if len(names) > 1 + _AGAIN:
            del names[1]
        for term in name:
            self._rows.setdefault(term, {})[row] = None

    def named(self, clauses: Sequence[Sequence[str]]) -> Named:
        """How far a turn of these clauses names each scope."""
        opening, again, mutual, numbered = np.zeros((4, len(self._names)))
        said, weights = {term for clause in clauses for term in clause}, dict[str, float]()
        own = [term for term in _name(clauses) if term in self._first and self._weight(term, weights)]
        for row in {row for term in said if self._weight(term, weights) for row in self._rows.get(term, ())}:
            shares = [self._share(name, said, weights) for name in self._names[row]]
            opening[row], again[row] = shares[0], max(shares[1:], default=0.0)
            both = [
                share * self._share(own, name, weights) for share, name in zip(shares, self._names[row], strict=True)
            ]
            mutual[row] = max(both)
        numbers = dict(pair for term in said if (pair := number_of(term)))
        for row in {row for kind in numbers for row in self._rows.get(kind, ())}:
            numbered[row] = _agreement(numbers, self._names[row][0])
        return Named(opening, again, mutual, numbered)

    def _share(self, name: Sequence[str], said: Collection[str], weights: dict[str, float]) -> float:
        total = sum(self._weight(term, weights) for term in name)
        return sum(weights[term] for term in name if term in said) / total if total else 0.0

    def _weight(self, term: str, known: dict[str, float]) -> float:
        """Inverse scope frequency among names; 0 for what more than half of many are named by."""
        if term not in known:
            count, holds = len(self._names), len(self._rows.get(term, ()))
            usual = holds > max(_FEW, count // 2)
            known[term] = 0.0 if usual else math.log(1 + (count - holds + 0.5) / (holds + 0.5))
        return known[term]

    def state(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "names": [[list(name) for name in names] for names in self._names],
            "rows": {term: list(rows) for term, rows in self._rows.items()},
            "first": sorted(self._first),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> ScopeNames:
        """The names that `state` was taken of."""
        made = cls()
        made._names = [[tuple(name) for name in names] for names in state["names"]]
        made._first = set(state["first"])
        made._rows = {term: dict.fromkeys(rows) for term, rows in state["rows"].items()}
        return made


def _name(clauses: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(next((clause for clause in clauses if len(clause) > 1), clauses[0] if clauses else ()))


def _agreement(numbers: Mapping[str, str], name: Sequence[str]) -> float:
    found: dict[str, set[str]] = {}
    for term in name:
        if pair := number_of(term):
            found.setdefault(pair[0], set()).add(pair[1])
    judged = [1.0 if number in found[kind] else -1.0 for kind, number in numbers.items() if kind in found]
    return sum(judged) / len(judged) if judged else 0.0
