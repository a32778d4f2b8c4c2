"""Students that read values from turns: which words are one, and which property each is a value of.

Words are tagged as beginning, inside or outside a value. A value's property is the name of a vocabulary that its
vector, with those of its turn and topic, comes closest to. Names are texts as the base encodes them, so that any may be
added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import InputError
from intentmem.memory.protocols import ReadSpan
from intentmem.memory.tasks import Decision, Item, Task
from intentmem.memory.types import Vector

from ..encoding import PLAIN
from .base import Encodings
from .closed import UNSURE, softmax, unit
from .spans_reading import HINTS, Passage, before_of, passages

BEGIN, INSIDE, OUTSIDE = range(3)
Floats = NDArray[np.float64]
_BATCH = 256
_ARRAYS = ("tags", "tag_bias", "values", "names", "center")


class SpansStudent:
    """Values of turns, each with its place and property.

    Args:
        adapter: name of its adapter.
        head: `tags` (3, D + H) and `tag_bias` (3,) score begin, inside and outside of a word and its hints; `values`
            (K, 3D + H) projects a value's mean, its window's, the topic and its hints, `names` (K, D) a property's
            name; `center` (2, D) is what topics are standardised by.
        options: `properties`, the names it knows, and `wider`, those it was not trained on; `scale` of cosines;
            `margin` that a wider name has to be ahead by; `outside`, added to the score of outside; `yields`, how far
            behind the first name another may be for a rule to decide for it; `naming`, the probability below which a
            rule decides whatever it says; `limit`, tokens of a window.

    Raises:
        InputError: arrays that do not fit one another, or no property.
    """

    def __init__(self, task: Task, adapter: str, head: Mapping[str, Vector], options: Mapping[str, object]) -> None:
        self.task, self.adapter = task, adapter
        self._head = {name: np.asarray(head[name], np.float16).astype(np.float32) for name in _ARRAYS}
        values: Mapping[str, Any] = options
        self._options = dict(values)
        self._known = [str(name) for name in values["properties"]]
        self.properties = [*self._known, *(str(name) for name in values["wider"])]
        self._scale, self._outside = float(values["scale"]), float(values["outside"])
        self._margin, self._naming = float(values["margin"]), float(values["naming"])
        self._yields = float(values["yields"])
        self._limit = int(values["limit"])
        self._vectors: Vector | None = None
        width = self._head["names"].shape
        wanted = (width[0], 3 * width[1] + HINTS), (3, width[1] + HINTS)
        if (self._head["values"].shape, self._head["tags"].shape) != wanted:
            raise InputError("head", "has arrays of sizes that do not fit one another", "train the student again")
        if not self._known:
            raise InputError("options.properties", "are none", "train the student again")

    @classmethod
    def from_head(
        cls, task: Task, adapter: str, head: Mapping[str, Vector], options: Mapping[str, object]
    ) -> SpansStudent:
        """The student that `head()` and `options()` describe."""
        return cls(task, adapter, head, options)

    def head(self) -> Mapping[str, Vector]:
        """Its arrays, in half precision."""
        return {name: array.astype(np.float16) for name, array in self._head.items()}

    def options(self) -> Mapping[str, object]:
        """Plain values; see the class."""
        return self._options

    def decide(self, items: Sequence[Item], encodings: Encodings) -> list[Decision]:
        """The properties that each item's text gives values of, likeliest first; results in order.

        Only properties that an item offers are chosen; one that offers none is answered from the own vocabulary.
        """
        texts, before = [], []
        for item in items:
            self.task.render(item)  # for its checks
            texts.append(str(item.fields["text"]))
            before.append(before_of(item.fields))
        return [
            self.decision(item, spans) for item, spans in zip(items, self.read(texts, before, encodings), strict=True)
        ]

    def read(
        self, texts: Sequence[str], before: Sequence[Sequence[str]], encodings: Encodings
    ) -> list[tuple[ReadSpan, ...]]:
        """Values of texts in order, none overlapping.

        Args:
            before: what was said before each, oldest first.
        """
        names = self.names(encodings)
        found = (self.spans(passage, states, names) for passage, states in self.encoded(texts, before, encodings))
        return [
            tuple(span for span in spans if any(map(str.isalnum, text[span.start : span.end])))
            for text, spans in zip(texts, found, strict=True)
        ]

    def encoded(
        self, texts: Sequence[str], before: Sequence[Sequence[str]], encodings: Encodings
    ) -> Iterator[tuple[Passage, list[Vector]]]:
        """Texts as words, with the token states of their windows."""
        for start in range(0, len(texts), _BATCH):
            rows = slice(start, start + _BATCH)
            found = passages(encodings.encoder.base, texts[rows], before[rows], self._limit)
            windows = [window for passage in found for window in passage.windows]
            states = iter(encodings.encoder.states([window.ids for window in windows], self.adapter))
            for passage in found:
                yield passage, [next(states) for _ in passage.windows]

    def spans(self, passage: Passage, states: Sequence[Vector], names: Vector) -> tuple[ReadSpan, ...]:
        """Values of one text. names: what `names` gives."""
        if not passage.windows:
            return ()
        words, around = word_states(passage, states)
        hints = passage.hints[: len(words)]
        scores = np.asarray(np.hstack([words, hints]) @ self._head["tags"].T + self._head["tag_bias"], np.float64)
        scores[:, OUTSIDE] += self._outside
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        spans = tagged(np.log(shares + 1e-12))
        if not spans:
            return ()
        center, spread = self._head["center"]
        topic = (passage.topic - center) / spread
        asked = np.stack(
            [np.concatenate([words[a:b].mean(axis=0), around[a], topic, hints[a:b].mean(axis=0)]) for a, b in spans]
        )
        logits = self._scale * np.asarray(unit(asked @ self._head["values"].T) @ names.T, np.float64)
        logits[:, len(self._known) :] -= self._margin
        made = []
        for (first, last), row in zip(spans, logits, strict=True):
            named = softmax(row)
            best = int(named.argmax())
            sure = float(np.exp(np.log(1 - shares[first:last, OUTSIDE] + 1e-12).mean()))
            start, end = passage.words[first][0], passage.words[last - 1][1]
            also = tuple(self.properties[at] for at in np.flatnonzero(row > row[best] - self._yields) if at != best)
            made.append(ReadSpan(start, end, self.properties[best], sure, float(named[best]) >= self._naming, also))
        return tuple(made)

    def names(self, encodings: Encodings) -> Vector:
        """(N, K) of the properties it knows, in their order."""
        if self._vectors is None:
            pooled = np.stack([one.pooled for one in encodings.texts(self.properties, PLAIN)])
            self._vectors = unit(pooled @ self._head["names"].T)
        return self._vectors

    def decision(self, item: Item, spans: Sequence[ReadSpan]) -> Decision:
        """The properties of an item whose values were read."""
        offered = set(item.candidates.ids) or set(self.properties)
        shares: dict[str, float] = {}
        for span in spans:
            if span.property in offered:
                shares[span.property] = max(shares.get(span.property, 0.0), span.confidence)
        labels = tuple(sorted(shares, key=lambda name: -shares[name]))
        confidence = min(shares.values(), default=1.0)
        return Decision(labels, shares, confidence, self.adapter, unsure=confidence < UNSURE)


def word_states(passage: Passage, states: Sequence[Vector]) -> tuple[Vector, Vector]:
    """(W, D) mean token state of each word, and (W, D) mean of the window that it was read in.

    A word that stands in two windows is read where it is farther from their ends.
    """
    count = max(window.first + len(window.words) for window in passage.windows)
    dimension = states[0].shape[1]
    words, around = np.zeros((count, dimension), np.float32), np.zeros((count, dimension), np.float32)
    inside = np.full(count, -1)
    for window, hidden in zip(passage.windows, states, strict=True):
        mean = hidden.mean(axis=0)
        for number, (start, end) in enumerate(window.words):
            place = window.first + number
            depth = min(number + (0 if window.first else count), len(window.words) - number)
            if depth > inside[place] and start < end:
                inside[place] = depth
                words[place], around[place] = hidden[start:end].mean(axis=0), mean
    return words, around


def tagged(scores: Floats) -> list[tuple[int, int]]:
    """Spans (first, last + 1) of the likeliest tags of W words, in which inside follows begin or inside alone.

    Args:
        scores: (W, 3) logarithms of probabilities.
    """
    best = scores[0].copy()
    best[INSIDE] = -np.inf
    back = np.zeros(scores.shape, np.int64)
    for place in range(1, len(scores)):
        before = int(best.argmax())
        inner = BEGIN if best[BEGIN] >= best[INSIDE] else INSIDE
        back[place] = before, inner, before
        best = scores[place] + best[back[place]]
    tag, tags = int(best.argmax()), []
    for place in range(len(scores) - 1, -1, -1):
        tags.append(tag)
        tag = int(back[place, tag])
    tags.reverse()
    starts = [place for place, one in enumerate(tags) if one == BEGIN]
    found = []
    for start in starts:
        end = start + 1
        while end < len(tags) and tags[end] == INSIDE:
            end += 1
        found.append((start, end))
    return found
