"""What a hit needs beside it to be understood: the turn it replies to, and others of its scope while there is room."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .columns import NO_SCOPE, Columns, Floats, Ints

SHORT = 6
"""Terms up to which a turn is taken for a fragment ("Yes, the second one") that its predecessor explains."""
_REACH = 2


def in_reading_order(
    columns: Columns, eligible: Ints, scores: Floats, depth: int, scope: bool = True
) -> Iterator[tuple[int, str]]:
    """Positions to read, most useful first, each with why it is there: "hit", "neighbour" or "scope".

    The best `depth` turns come first, each fragment among them followed by what it replies to; then neighbours of the
    hits; then the scope-mates of the best hit, unless `scope` is off.

    Args:
        eligible, scores: (E,) positions that may be read, and their scores.
    """
    order = eligible[np.argsort(-scores, kind="stable")]
    hits = order[:depth]
    allowed = set(eligible.tolist())
    seen: set[int] = set()

    def fresh(position: int) -> bool:
        if position in seen or position not in allowed:
            return False
        seen.add(position)
        return True

    for hit in hits.tolist():
        if fresh(hit):
            yield hit, "hit"
        before = hit - 1
        if columns.length[hit] <= SHORT and _same_sitting(columns, hit, before) and fresh(before):
            yield before, "neighbour"
    for hit in hits[: max(1, depth // 4)].tolist():
        for step in range(1, _REACH + 1):
            for neighbour in (hit - step, hit + step):
                if _same_sitting(columns, hit, neighbour) and fresh(neighbour):
                    yield neighbour, "neighbour"
    mates = _scope_mates(columns, order, hits) if scope else []
    yield from ((position, "scope") for position in mates if fresh(position))


def _same_sitting(columns: Columns, position: int, other: int) -> bool:
    return 0 <= other < len(columns) and bool(columns.session[position] == columns.session[other])


def _scope_mates(columns: Columns, order: Ints, hits: Ints) -> list[int]:
    if not len(hits) or columns.scope[hits[0]] == NO_SCOPE:
        return []
    mates: list[int] = order[columns.scope[order] == columns.scope[hits[0]]].tolist()
    return mates
