"""Turns as words that a student of spans can point at: token ids in windows, and where each word stands in its text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args
from unicodedata import combining

import numpy as np

from intentmem.memory.types import Vector
from intentmem.memory.write.mentions import find_mentions
from intentmem.memory.write.value_spans import ValueKind, find_values

from ..backbone import Backbone

BEFORE = 2
"""Turns before the present one that are read with it, as far as they fit."""
AROUND, FADING = 12, 0.85
"""Turns before the present one whose words tell what the talk is about, and what one counts beside the next."""
HISTORY, HISTORY_OF_LONG = 3 / 8, 1 / 8
"""Most of a window that the turns before may take; less beside a turn that takes several windows."""
MOST_WINDOWS = 24
"""Windows of one turn that are read; what follows is left to rules."""
_OVERLAP = 3 / 16
"""Least share of a window that is read again in the next."""
KINDS: tuple[ValueKind, ...] = get_args(ValueKind)
HINTS = 2 * (len(KINDS) + 1) + 2
"""Numbers that rules give of a word: begins and goes on for each kind and for names, upper case, a digit."""
_UNREADABLE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a turn as the encoder takes it.

    ids: special ones included. first: place of its first word among those of the turn. words: (start, end) places in
    `ids` of each of its words.
    """

    ids: tuple[int, ...]
    first: int
    words: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """A turn to be read.

    words: (start, end) of each, in characters of its own text, in order. hints: (W, `HINTS`), what rules see in each.
    topic: (D,), the words of the turn and of those before it, as the base embeds them without reading them.
    """

    words: tuple[tuple[int, int], ...]
    windows: tuple[Window, ...]
    hints: Vector
    topic: Vector


def before_of(fields: Mapping[str, object]) -> list[str]:
    """What an item of `record_spans` says was said before its text, oldest first."""
    near: Any = fields.get("before", ())
    return [near] if isinstance(near, str) else list(near)


def passages(base: Backbone, texts: Sequence[str], before: Sequence[Sequence[str]], limit: int) -> list[Passage]:
    """Turns with the turns before each, oldest first, in windows of at most `limit` tokens.

    A turn that fits takes one window; a longer one takes several that overlap, each after the end of what was said
    before it. Offsets are those of the texts as they were given, whatever the tokenizer normalises.
    """
    known = list(dict.fromkeys([*texts, *(text for near in before for text in near[-AROUND:])]))
    bodies = dict(zip(known, base.bodies([kept_in_length(text) for text in known]), strict=True))
    embedded = _embedded(base, bodies)
    encoded = base.tokenizer.encode_batch([kept_in_length(text) for text in texts], add_special_tokens=False)
    found = []
    for text, one, near in zip(texts, encoded, before, strict=True):
        history: list[int] = []
        for said in near[-BEFORE:]:
            history += [*bodies[said], *base.closing]
        words = list(_words(text, one.word_ids, one.offsets))
        windows = tuple(_windows(base, one.ids, [tokens for _, tokens in words], history, limit))
        places = tuple(place for place, _ in words)
        topic = _topic([embedded[said] for said in (*near[-AROUND:], text)])
        found.append(Passage(places, windows, hints(text, places), topic))
    return found


def _embedded(base: Backbone, bodies: Mapping[str, Sequence[int]]) -> dict[str, Vector]:
    """(D,) of each text: the mean embedding of its distinct tokens; zeros for none."""
    import torch

    table, found = base.module.get_input_embeddings().weight, {}
    with torch.inference_mode():
        for text, body in bodies.items():
            rows = torch.tensor(sorted(set(body)), dtype=torch.long, device=table.device)
            mean = table[rows].float().mean(dim=0) if len(rows) else torch.zeros(table.shape[1])
            found[text] = np.asarray(mean.cpu().numpy(), np.float32)
    return found


def _topic(said: Sequence[Vector]) -> Vector:
    """The mean of turns, oldest first, in which older ones fade."""
    weights = FADING ** np.arange(len(said) - 1, -1, -1, dtype=np.float32)
    return np.asarray(np.average(np.stack(said), axis=0, weights=weights), np.float32)


def hints(text: str, words: Sequence[tuple[int, int]]) -> Vector:
    """(W, `HINTS`) of a text: whether a word begins or goes on with a typed value of each kind, or a name; its case."""
    found = np.zeros((len(words), HINTS), np.float32)
    spans = [(one.start, one.end, KINDS.index(one.kind)) for one in find_values(text)]
    spans += [(one.start, one.end, len(KINDS)) for one in find_mentions(text)]
    starts = [start for start, _ in words]
    for start, end, kind in spans:
        for number in range(max(0, bisect_right(starts, start) - 1), bisect_left(starts, end)):
            if words[number][1] > start:
                begins = words[number][0] <= start
                found[number, 2 * kind + (not begins)] = 1
    for number, (start, end) in enumerate(words):
        found[number, -2:] = text[start].isupper(), any(c.isdigit() for c in text[start:end])
    return found


def kept_in_length(text: str) -> str:
    """The text as the tokenizer can take it, character for character: half of a surrogate pair becomes U+FFFD."""
    return _UNREADABLE.sub("\ufffd", text).replace("\0", " ")


def _words(
    text: str, word_ids: Sequence[int | None], offsets: Sequence[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Characters and tokens of each word, in order; what stands for no character is passed over."""
    start = 0
    for place in range(1, len(word_ids) + 1):
        if place < len(word_ids) and word_ids[place] == word_ids[start] and word_ids[place] is not None:
            continue
        first, last = offsets[start][0], offsets[place - 1][1]
        while last < len(text) and combining(text[last]):  # accents that the tokenizer took off
            last += 1
        if first < last:
            yield (first, last), (start, place)
        start = place


def _windows(
    base: Backbone, ids: Sequence[int], words: Sequence[tuple[int, int]], history: Sequence[int], limit: int
) -> Iterator[Window]:
    free = limit - len(base.opening) - len(base.closing)
    fits = len(ids) <= free - min(len(history), int(HISTORY * limit))
    kept = int((HISTORY if fits else HISTORY_OF_LONG) * limit)
    head = [*base.opening, *history[len(history) - min(kept, len(history)) :]]
    room = max(1, limit - len(head) - len(base.closing))
    first = 0
    for _ in range(MOST_WINDOWS):
        if first >= len(words):
            return
        start, last = words[first][0], first
        while last < len(words) and words[last][1] - start <= room:
            last += 1
        last = max(last, first + 1)  # a word of more tokens than there is room for is read by its beginning
        end = min(words[last - 1][1], start + room)
        places = tuple((a - start + len(head), min(b, end) - start + len(head)) for a, b in words[first:last])
        yield Window((*head, *ids[start:end], *base.closing), first, places)
        if last >= len(words):
            return
        again = last
        while again - 1 > first and words[last - 1][1] - words[again - 1][0] <= _OVERLAP * limit:
            again -= 1
        first = again
