"""Splits by conversation: what a student is trained, chosen and calibrated on never shares a conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from intentmem.memory.errors import InputError

from .traces import Trace

SHARES: Mapping[str, float] = {"train": 0.8, "dev": 0.1, "calibration": 0.1}
"""What is learnt from, what stops training and chooses between students, what calibrates the one that is kept."""
GIVEN = "split"
"""Key of `Trace.meta` by which a trace may name its split itself."""


def split_conversations(
    conversations: Iterable[str], seed: int, shares: Mapping[str, float] = SHARES
) -> dict[str, tuple[str, ...]]:
    """Conversations by split, each in exactly one, in an order that depends on the seed and their names alone.

    Every split gets one at least.

    Raises:
        InputError: fewer conversations than splits, or shares that are not positive.
    """
    if any(share <= 0 for share in shares.values()):
        raise InputError("shares", f"holds a share that is not positive: {dict(shares)}")
    order = sorted(set(conversations), key=lambda name: _draw(name, seed))
    if len(order) < len(shares):
        raise InputError(
            "traces",
            f"come from {len(order)} conversations, too few for {', '.join(shares)}",
            f"collect traces of at least {len(shares)} conversations",
        )
    whole, found, start, reached = sum(shares.values()), {}, 0, 0.0
    for left, (name, share) in zip(range(len(shares) - 1, -1, -1), shares.items(), strict=True):
        reached += share / whole
        end = len(order) if not left else min(max(start + 1, round(reached * len(order))), len(order) - left)
        found[name] = tuple(sorted(order[start:end]))
        start = end
    return found


def split_traces(
    traces: Sequence[Trace], seed: int, shares: Mapping[str, float] = SHARES
) -> tuple[dict[str, list[Trace]], dict[str, tuple[str, ...]]]:
    """Traces by split, and the conversations of each; a trace's own `meta["split"]` is kept to where all have one.

    Raises:
        InputError: a conversation in two splits, or as for `split_conversations`.
    """
    named = {trace.meta.get(GIVEN) for trace in traces}
    if None in named or not named:
        splits = split_conversations((trace.conversation for trace in traces), seed, shares)
    else:
        splits = {name: tuple(sorted({t.conversation for t in traces if t.meta[GIVEN] == name})) for name in shares}
        if other := named - set(shares):
            raise InputError("traces.meta.split", f"is {sorted(map(str, other))[0]!r}", f"one of {', '.join(shares)}")
        check_disjoint(splits)
        if empty := [name for name, inside in splits.items() if not inside]:
            raise InputError("traces.meta.split", f"never is {empty[0]!r}", "give each split a conversation, or none")
    where = {conversation: name for name, inside in splits.items() for conversation in inside}
    parts: dict[str, list[Trace]] = {name: [] for name in splits}
    for trace in traces:
        parts[where[trace.conversation]].append(trace)
    return parts, splits


def check_disjoint(splits: Mapping[str, Sequence[str]]) -> None:
    """Pass splits of which no two share a conversation.

    Raises:
        InputError: two do; names one conversation and both splits.
    """
    where: dict[str, str] = {}
    for name, inside in splits.items():
        for conversation in inside:
            if where.setdefault(conversation, name) != name:
                raise InputError(
                    "splits",
                    f"conversation {conversation!r} is in {where[conversation]!r} and in {name!r}",
                    "a split by conversation keeps what is measured apart from what was learnt",
                )


def digest(conversations: Iterable[str]) -> str:
    """Digest of a set of conversations: equal sets have equal ones."""
    return hashlib.sha256("\x1e".join(sorted(set(conversations))).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _draw(name: str, seed: int) -> str:
    return hashlib.sha256(f"{seed}\x1e{name}".encode("utf-8", "surrogatepass")).hexdigest()
