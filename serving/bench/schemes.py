"""How each corpus scores a ranking: what its gold is, what is ranked, and by which metrics.

- LoCoMo, CAME-Bench, BEAM: turns; recall at k turns, recall and all-found inside token budgets.
- RealMem: sessions; `any@k`, `all@k`, `NDCG@k`.
- LongMemEval: sessions and turns; `recall_any@k`, `recall_all@k`, `NDCG@k`, those of turns after `turn_`. Turns of the
  assistant are searched and count as evidence too, while the benchmark's own script indexes those of the user alone.
- MemConflict: turns against a gold session; `SEH@K`, 1 where one of the first K turns is of it, and `SRS`,
  1 / log2(rank + 1) of the first such turn among the first `SRS_WITHIN`, else 0. The session is told by released ids,
  where the benchmark's own script has a language model judge the texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from intentmem.train_data import Question

from .metrics import all_found, any_found, ndcg, session_scores, turn_scores

SRS_WITHIN = 3
"""Memories among which MemConflict looks for the gold one, its primary K."""

_CONFLICT_CUTOFFS = (2, 3, 5)


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a subject found, best first: ids of turns, their token counts and sessions, and ids of sessions."""

    turns: Sequence[str] = ()
    costs: Sequence[int] = ()
    turn_sessions: Sequence[str | None] = ()
    sessions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """k: turns; budgets: tokens; cutoffs: sessions, None for those that the corpus is published with."""

    k: int
    budgets: Sequence[int]
    cutoffs: Sequence[int] | None = None


class Scheme(Protocol):
    """How a corpus is scored."""

    @property
    def turns(self) -> bool:
        """Whether turns are ranked."""
        ...

    @property
    def sessions(self) -> bool:
        """Whether sessions are ranked."""
        ...

    @property
    def cutoffs(self) -> tuple[int, ...]:
        """The ranks at which its figures are published."""
        ...

    def gold(self, question: Question) -> tuple[str, ...]:
        """What must be found; a question without any is left out."""
        ...

    def score(self, ranked: Ranked, question: Question, limits: Limits) -> dict[str, float]:
        """Figures by metric, in [0, 1]; a metric that the question has no gold for is left out."""
        ...


@dataclass(frozen=True, slots=True)
class TurnScheme:
    """Turns inside budgets."""

    turns: bool = True
    sessions: bool = False
    cutoffs: tuple[int, ...] = ()

    def gold(self, question: Question) -> tuple[str, ...]:
        """Evidence turns."""
        return question.gold_turns

    def score(self, ranked: Ranked, question: Question, limits: Limits) -> dict[str, float]:
        """`R@k`, `R@Btok`, `all@Btok`."""
        return turn_scores(ranked.turns, ranked.costs, question.gold_turns, limits.k, limits.budgets)


@dataclass(frozen=True, slots=True)
class SessionScheme:
    """Sessions at cut-offs."""

    turns: bool = False
    sessions: bool = True
    cutoffs: tuple[int, ...] = (5, 10, 20)

    def gold(self, question: Question) -> tuple[str, ...]:
        """Evidence sessions."""
        return question.gold_sessions

    def score(self, ranked: Ranked, question: Question, limits: Limits) -> dict[str, float]:
        """`any@k`, `all@k`, `NDCG@k`."""
        return session_scores(ranked.sessions, question.gold_sessions, limits.cutoffs or self.cutoffs)


@dataclass(frozen=True, slots=True)
class BothScheme:
    """Sessions and turns at cut-offs."""

    turns: bool = True
    sessions: bool = True
    cutoffs: tuple[int, ...] = (5, 10, 20)

    def gold(self, question: Question) -> tuple[str, ...]:
        """Evidence sessions."""
        return question.gold_sessions

    def score(self, ranked: Ranked, question: Question, limits: Limits) -> dict[str, float]:
        """`recall_any@k`, `recall_all@k`, `NDCG@k`, and those of turns."""
        found: dict[str, float] = {}
        for prefix, ids, gold in (
            ("", ranked.sessions, question.gold_sessions),
            ("turn_", ranked.turns, question.gold_turns),
        ):
            for k in (limits.cutoffs or self.cutoffs) if gold else ():
                found[f"{prefix}recall_any@{k}"] = any_found(ids[:k], gold)
                found[f"{prefix}recall_all@{k}"] = all_found(ids[:k], gold)
                found[f"{prefix}NDCG@{k}"] = ndcg(ids, gold, k)
        return found


@dataclass(frozen=True, slots=True)
class ConflictScheme:
    """The rank of the first turn of the session that holds."""

    turns: bool = True
    sessions: bool = False
    cutoffs: tuple[int, ...] = _CONFLICT_CUTOFFS

    def gold(self, question: Question) -> tuple[str, ...]:
        """The session that holds the memory in force."""
        return question.gold_sessions

    def score(self, ranked: Ranked, question: Question, limits: Limits) -> dict[str, float]:
        """`SEH@K` and `SRS`."""
        gold = set(question.gold_sessions)
        rank = next((at for at, session in enumerate(ranked.turn_sessions, 1) if session in gold), math.inf)
        found = {f"SEH@{k}": float(rank <= k) for k in limits.cutoffs or self.cutoffs}
        return found | {"SRS": 1 / math.log2(rank + 1) if rank <= SRS_WITHIN else 0.0}


_TURNS = TurnScheme()
_OTHERS: Mapping[str, Scheme] = {
    "realmem": SessionScheme(),
    "longmemeval": BothScheme(),
    "memconflict": ConflictScheme(),
}


def scheme_of(corpus: str) -> Scheme:
    """How a corpus is scored, by its name; one without rules of its own by its evidence turns."""
    return _OTHERS.get(corpus, _TURNS)
