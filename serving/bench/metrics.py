"""Retrieval metrics of one question. Pure functions over ids in rank order.

Every gain is binary. A repeated id counts once, at its first rank. A question without gold has no score: leave it out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate

import numpy as np

from intentmem.memory.errors import MissingExtraError


def recall(found: Collection[str], gold: Collection[str]) -> float:
    """Share of the gold that was found, in [0, 1].

    Raises:
        ValueError: there is no gold.
    """
    wanted = _checked(gold)
    return len(wanted & set(found)) / len(wanted)


def any_found(found: Collection[str], gold: Collection[str]) -> float:
    """1 where at least one of the gold was found, else 0 (`recall_any` of LongMemEval and RealMem)."""
    return float(recall(found, gold) > 0)


def all_found(found: Collection[str], gold: Collection[str]) -> float:
    """1 where all of the gold was found, else 0 (`recall_all` of LongMemEval and RealMem)."""
    return float(_checked(gold) <= set(found))


def ndcg(ranked: Sequence[str], gold: Collection[str], k: int, discount: Callable[[int], float] | None = None) -> float:
    """Discounted cumulative gain of the first `k`, over that of an ideal ranking with min(k, gold) hits; in [0, 1].

    The discount is the one of Järvelin and Kekäläinen (2002) with base 2, which LongMemEval and RealMem report: the
    first two ranks count in full, rank i from there 1 / log2(i). Another `discount` takes ranks from 0.

    Raises:
        ValueError: there is no gold, or `k` is less than 1.
    """
    wanted = _checked(gold)
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    worth = discount or _published
    first = {item: rank for rank, item in reversed(list(enumerate(ranked[:k])))}
    gain = sum(worth(rank) for item, rank in first.items() if item in wanted)
    return gain / sum(worth(rank) for rank in range(min(k, len(wanted))))


def within_budget(costs: Sequence[int], budget: int) -> int:
    """How many of the leading items fit a budget together; packing stops at the first that does not fit."""
    return next((i for i, total in enumerate(accumulate(costs)) if total > budget), len(costs))


def turn_scores(
    ranked: Sequence[str], costs: Sequence[int], gold: Collection[str], k: int, budgets: Sequence[int]
) -> dict[str, float]:
    """`R@k`, and `R@Btok` and `all@Btok` for each budget of `B` tokens; `costs` are tokens, one a ranked turn."""
    scores = {f"R@{k}": recall(ranked[:k], gold)}
    packed = {budget: ranked[: within_budget(costs, budget)] for budget in budgets}
    scores |= {f"R@{budget}tok": recall(inside, gold) for budget, inside in packed.items()}
    return scores | {f"all@{budget}tok": all_found(inside, gold) for budget, inside in packed.items()}


def session_scores(ranked: Sequence[str], gold: Collection[str], cutoffs: Sequence[int]) -> dict[str, float]:
    """`any@k`, `all@k`, `NDCG@k` at each cut-off; `NDCG-steep@k` discounts from the second rank on: 1 / log2(i + 1)."""
    scores = {f"any@{k}": any_found(ranked[:k], gold) for k in cutoffs}
    scores |= {f"all@{k}": all_found(ranked[:k], gold) for k in cutoffs}
    scores |= {f"NDCG@{k}": ndcg(ranked, gold, k) for k in cutoffs}
    return scores | {f"NDCG-steep@{k}": ndcg(ranked, gold, k, _steep) for k in cutoffs}


def _published(rank: int) -> float:
    return 1 / max(1.0, math.log2(rank + 1))


def _steep(rank: int) -> float:
    return 1 / math.log2(rank + 2)


def _checked(gold: Collection[str]) -> set[str]:
    if not gold:
        raise ValueError("a question without gold has no score")
    return set(gold)


def rand_index(found: Sequence[str], gold: Sequence[str]) -> float:
    """See `distill.evaluation.grouping.rand_index`.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    from intentmem.distill.evaluation.grouping import rand_index as index

    return index(found, gold, "bench")


def exact_matching(found: Sequence[str], gold: Sequence[str]) -> float:
    """Share of things in the right group, groups matched one to one so that it is largest.

    Raises:
        ValueError: nothing is grouped.
        MissingExtraError: scipy, which scikit-learn brings, is not installed.
    """
    if not gold:
        raise ValueError("nothing is grouped")
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "bench") from error
    mine, true = sorted(set(found)), sorted(set(gold))
    together = np.zeros((len(mine), len(true)))
    for one, other in zip(found, gold, strict=True):
        together[mine.index(one), true.index(other)] += 1
    rows, columns = linear_sum_assignment(-together)
    return float(together[rows, columns].sum() / len(gold))
