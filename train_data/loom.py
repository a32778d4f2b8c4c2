"""Which dialogue speaks next: the order in which goals are opened, left, rested and taken up again."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from intentmem.memory.errors import InputError
from intentmem.memory.types import NewTurn

from .schemas import Trajectory, TurnGold

_OPEN_NEW = 0.3
_SAME_SERVICE = 0.4
_REST = 0.12
_MEAN_REST = 120
_SOCIAL = frozenset({"THANK_YOU", "GOODBYE", "NEGATE_INTENT", "REQ_MORE", "NEGATE"})
_EXCHANGES = (1, 1, 2, 2, 3, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of turns of one goal. `gold` is that of the whole dialogue, by the turns' own `source_id`."""

    goal: int
    turns: tuple[NewTurn, ...]
    gold: Mapping[str, TurnGold]
    split: str


@dataclass(slots=True)
class _Thread:
    """A dialogue under way: the turns that are left, and until which turn of the trajectory it rests."""

    goal: int
    dialogue: Trajectory
    left: list[NewTurn]
    rests_until: int = 0


class Loom:
    """Hands out dialogues of one pool to trajectory after trajectory."""

    def __init__(self, dialogues: Sequence[Trajectory], rng: random.Random, most_open: int, repeat: bool) -> None:
        self._dialogues = [d for d in dialogues if any(turn.role == "user" for turn in d.turns)]
        if not self._dialogues:
            raise InputError("corpus", "has no dialogues to weave")
        self._rng = rng
        self._most_open = most_open
        self._repeat = repeat
        self._pool = _Pool(self._dialogues, rng)

    def segments(self, dialogues: int | None) -> Iterator[Segment]:
        """Segments of a new trajectory: of so many dialogues, else without end.

        Raises:
            InputError: every dialogue has been used, and none may be used again.
        """
        run = _Run(self._rng, self._most_open)
        while dialogues is None or run.opened < dialogues or run.threads:
            may_open = dialogues is None or run.opened < dialogues
            if may_open and run.wants_another():
                run.open(self._next(run.services()))
            yield run.advance()

    def _next(self, services: Sequence[str]) -> Trajectory:
        if not len(self._pool):
            if not self._repeat:
                raise InputError(
                    "corpus",
                    f"all {len(self._dialogues)} dialogues are used up",
                    "ask for less, load more of it, or let dialogues repeat",
                )
            self._pool = _Pool(self._dialogues, self._rng)
        wanted = self._rng.choice(services) if services and self._rng.random() < _SAME_SERVICE else None
        return self._pool.take(wanted)


class _Pool:
    """Dialogues in random order, to be taken once each; also by the service they begin with."""

    def __init__(self, dialogues: Sequence[Trajectory], rng: random.Random) -> None:
        order = list(dialogues)
        rng.shuffle(order)
        self._left = {d.id: d for d in order}
        self._queues: dict[str | None, list[str]] = defaultdict(list)
        for dialogue in reversed(order):
            self._queues[None].append(dialogue.id)
            self._queues[first_service(dialogue)].append(dialogue.id)

    def __len__(self) -> int:
        return len(self._left)

    def take(self, service: str | None) -> Trajectory:
        """The next dialogue that begins with a service; the next of all where there is none."""
        for name in (service, None):
            queue = self._queues.get(name, [])
            while queue:
                if (found := self._left.pop(queue.pop(), None)) is not None:
                    return found
        raise AssertionError("a pool is asked only while it holds something")


@dataclass(slots=True)
class _Run:
    """The state of one trajectory."""

    rng: random.Random
    most_open: int
    threads: list[_Thread] = field(default_factory=list)
    opened: int = 0
    position: int = 0
    last: _Thread | None = None
    fresh: _Thread | None = None

    def wants_another(self) -> bool:
        """Whether a new goal is taken up now."""
        awake = [thread for thread in self.threads if thread.rests_until <= self.position]
        return not awake or (len(awake) < self.most_open and self.rng.random() < _OPEN_NEW)

    def services(self) -> list[str]:
        """Services of the goals that are open, resting ones among them."""
        return [name for thread in self.threads if (name := first_service(thread.dialogue))]

    def open(self, dialogue: Trajectory) -> None:
        """Take up a dialogue, from its first user turn."""
        first = next(i for i, turn in enumerate(dialogue.turns) if turn.role == "user")
        self.opened += 1
        self.fresh = _Thread(self.opened, dialogue, list(dialogue.turns[first:]))
        self.threads.append(self.fresh)

    def advance(self) -> Segment:
        """The next segment."""
        thread = self._choose()
        size = _segment_size(thread, self.rng)
        taken, thread.left = tuple(thread.left[:size]), thread.left[size:]
        self.position += size
        self.last, self.fresh = thread, None
        if not thread.left:
            self.threads.remove(thread)
        elif self.rng.random() < _REST:
            thread.rests_until = self.position + 20 + int(self.rng.expovariate(1 / _MEAN_REST))
        return Segment(thread.goal, taken, thread.dialogue.gold, thread.dialogue.split)

    def _choose(self) -> _Thread:
        if self.fresh is not None:
            return self.fresh
        awake = [t for t in self.threads if t.rests_until <= self.position]
        others = [t for t in awake or self.threads if t is not self.last]
        return self.rng.choice(others) if others else self.threads[0]


def first_service(dialogue: Trajectory) -> str | None:
    """The service that a dialogue begins with."""
    return next((gold.domain for gold in dialogue.gold.values() if gold.domain), None)


def _segment_size(thread: _Thread, rng: random.Random) -> int:
    """Turns to take: some exchanges, up to a user turn that says more than thanks; else all that is left."""
    exchanges = rng.choice(_EXCHANGES)
    starts = [i for i, turn in enumerate(thread.left) if i and turn.role == "user"]
    for start in starts[exchanges - 1 :]:
        if not _social(thread, thread.left[start]):
            return start
    return len(thread.left)


def _social(thread: _Thread, turn: NewTurn) -> bool:
    """Whether a turn is nothing but manners: after another goal nobody could tell which one it belongs to."""
    events = thread.dialogue.gold.get(turn.source_id or "", TurnGold()).events
    return bool(events) and all(event.act in _SOCIAL and event.slot is None for event in events)
