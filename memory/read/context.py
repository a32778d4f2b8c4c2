"""Original turns as quoted text for a model, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..protocols import Embedder
from ..rendering import fence, quote
from ..types import Turn

FRAME_TOKENS = 40
"""Kept back for the fence around the block and its headings."""
_MIN_CUT = 24


@dataclass(frozen=True, slots=True)
class Assembled:
    """The text and what it is made of. `reasons` says for each turn, in text order, why it is there."""

    text: str
    turns: tuple[Turn, ...]
    reasons: tuple[str, ...]
    tokens: int
    truncated: bool


def assemble(
    chosen: Iterable[tuple[Turn, str]],
    namespace: str,
    budget: int,
    embedder: Embedder,
    heading: Callable[[Turn], str],
) -> Assembled:
    """Fill the budget with turns in the order given, then lay them out by heading in time order.

    A turn that does not fit is left out and smaller ones after it may still enter; if the very first does not fit, it
    is cut to the budget and marked.

    Args:
        chosen: turns, most useful first, each with why it was chosen.
        heading: the episode (or other group) that a turn stands under.
    """
    room = max(1, budget - FRAME_TOKENS)
    kept: list[tuple[Turn, str, str]] = []
    titles: set[str] = set()
    spent, truncated, misses = 0, False, 0
    for turn, reason in chosen:
        line = render_turn(turn)
        title = heading(turn)
        above = [] if title in titles else [f"## {quote(_one_line(title))}"]
        cost = sum(embedder.count_tokens([line, *above])) + 1
        if spent + cost <= room:
            kept.append((turn, line, reason))
            titles.add(title)
            spent += cost
            continue
        truncated = True
        if not kept and room >= _MIN_CUT:
            cut = _cut(line, room, embedder)
            return _laid_out([(turn, cut, reason)], namespace, embedder, heading, True)
        misses += 1
        if misses >= 8 or room - spent < _MIN_CUT:
            break
    made = _laid_out(kept, namespace, embedder, heading, truncated)
    # In time order a heading may come again: what is least useful gives way.
    while made.tokens > budget and kept:
        kept.pop()
        made = _laid_out(kept, namespace, embedder, heading, True)
    return made


def render_turn(turn: Turn) -> str:
    """One turn as a line: date, speaker, id, quoted text with captions."""
    who = turn.speaker or turn.role
    # Every line but the first is indented: none can pass for a turn or a heading of ours.
    text = "\n    ".join(quote(turn.searchable_text).splitlines())
    return f"[{turn.time:%Y-%m-%d %H:%M}] {quote(_one_line(who))} ({turn.id}): {text}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _laid_out(
    kept: Sequence[tuple[Turn, str, str]],
    namespace: str,
    embedder: Embedder,
    heading: Callable[[Turn], str],
    truncated: bool,
) -> Assembled:
    ordered = sorted(kept, key=lambda entry: (entry[0].time, entry[0].trajectory, entry[0].seq))
    lines: list[str] = []
    current: str | None = None
    for turn, line, _ in ordered:
        title = heading(turn)
        if title != current:
            lines.append(f"## {quote(_one_line(title))}")
            current = title
        lines.append(line)
    text = fence("\n".join(lines), namespace) if lines else ""
    tokens = embedder.count_tokens([text])[0] if text else 0
    return Assembled(text, tuple(e[0] for e in ordered), tuple(e[2] for e in ordered), tokens, truncated)


def _cut(line: str, room: int, embedder: Embedder) -> str:
    """The longest beginning of a line that fits, marked as cut."""
    low, high = 0, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        if embedder.count_tokens([line[:middle]])[0] + 4 <= room:
            low = middle
        else:
            high = middle - 1
    return line[:low] + " […]"
