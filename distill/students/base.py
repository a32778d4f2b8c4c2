"""What every student offers at run time, and the encodings that they share."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from intentmem.memory.tasks import Decision, Item, Task
from intentmem.memory.types import Vector

from ..encoding import AdaptedEncoder, Encoded

_KEPT = 4096
_KEPT_TOKENS = 512
"""Texts whose token states are kept too: those of a long turn take as much room as a hundred pooled vectors."""


class Encodings:
    """Texts by adapter, each text encoded once: the tasks of one turn, or of one question, share a pass; labels are
    kept.

    Args:
        groups: adapters that are asked at once, as what is asked of one is about to be asked of the others. An adapter
            of several groups brings those of the first; the others' find it done.
        with_tokens: those of them whose students read the states of single tokens.
    """

    def __init__(
        self, encoder: AdaptedEncoder, groups: Sequence[Sequence[str]] = (), with_tokens: Sequence[str] = ()
    ) -> None:
        self.encoder = encoder
        self._together = {name: tuple(group) for group in reversed(groups) for name in group}
        self._with_tokens = frozenset(with_tokens)
        self._turns: OrderedDict[str, dict[str, Encoded]] = OrderedDict()
        self._tokens: deque[str] = deque()
        self._texts: dict[str, OrderedDict[str, Encoded]] = {}

    def turns(self, texts: Sequence[str], adapter: str, tokens: bool = False) -> list[Encoded]:
        """Turns or questions by one adapter, and by all of its group on the way.

        Args:
            tokens: whether the states of their tokens are needed.
        """
        if adapter not in self._together:
            return self.encoder.encode(texts, [adapter], [adapter])[adapter] if tokens else self.texts(texts, adapter)
        found = {text: self._turns[text][adapter] for text in texts if adapter in self._turns.get(text, ())}
        if tokens:
            found = {text: one for text, one in found.items() if one.tokens is not None}
        fresh = [text for text in dict.fromkeys(texts) if text not in found]
        if fresh:
            group = self._together[adapter]
            made = self.encoder.encode(fresh, group, [name for name in group if name in self._with_tokens])
            for row, text in enumerate(fresh):
                self._turns[text] = self._turns.get(text, {}) | {name: made[name][row] for name in group}
                found[text] = self._turns[text][adapter]
            self._forget_some(fresh)
        return [found[text] for text in texts]

    def _forget_some(self, fresh: Sequence[str]) -> None:
        if self._with_tokens:
            self._tokens.extend(fresh)
        while len(self._tokens) > _KEPT_TOKENS:
            old = self._tokens.popleft()
            if old in self._turns and old not in self._tokens:
                self._turns[old] = {name: Encoded(one.pooled) for name, one in self._turns[old].items()}
        while len(self._turns) > _KEPT:
            self._turns.popitem(last=False)

    def texts(self, texts: Sequence[str], adapter: str) -> list[Encoded]:
        """Other texts, such as labels, by one adapter; pooled only."""
        known = self._texts.setdefault(adapter, OrderedDict())
        found = {text: known[text] for text in texts if text in known}
        fresh = [text for text in dict.fromkeys(texts) if text not in found]
        if fresh:
            for text, encoded in zip(fresh, self.encoder.encode(fresh, [adapter])[adapter], strict=True):
                found[text] = known[text] = encoded
            while len(known) > _KEPT:
                known.popitem(last=False)
        return [found[text] for text in texts]


class Student(Protocol):
    """One task's head.

    Its constructor is `from_head(task, adapter, head, options)`: the name of its adapter, its arrays by name as they
    are stored (safetensors), and plain values (numbers, texts, lists) as they stand in the manifest.
    """

    task: Task
    adapter: str

    def decide(self, items: Sequence[Item], encodings: Encodings) -> list[Decision]:
        """Decide items; results in order, with calibrated confidence; the caller sets `decided_by` and `seconds`."""
        ...

    def head(self) -> Mapping[str, Vector]:
        """Its arrays by name."""
        ...

    def options(self) -> Mapping[str, object]:
        """Its plain values: thresholds, temperature, feature names, kind of head."""
        ...
