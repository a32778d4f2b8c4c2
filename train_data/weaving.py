"""The interleaver: segments of many annotated dialogues woven into long trajectories with gold scopes.

A trajectory continues a goal, returns to one that was left, or takes up a new one (STITCH, section 3.1). Two goals
over one service are often open at once, and some goals rest for a long while: what makes context interfere. Ids, times
and sessions are made anew, so that none of them tells which dialogue a turn came from.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from intentmem.memory.errors import InputError
from intentmem.memory.types import NewTurn

from .loom import Loom, Segment
from .schemas import Corpus, Trajectory, TurnGold

Sessions = Literal["none", "one", "several", "mixed"]
"""`none`: neither sessions nor times. `one`: one sitting. `several`: sittings days apart. `mixed`: one of these."""
Grain = Literal["dialogue", "service", "intent"]
"""What one gold scope is: all that a dialogue wants, one service of it, or one intent of it."""
CountTokens = Callable[[str], int]

_START = datetime(2024, 1, 8, 9, tzinfo=UTC)
_TOKENS_PER_WORD = 1.3
_SITTING = (20, 90)


def estimate_tokens(text: str) -> int:
    """Tokens of an English text: 1.3 a word, rounded up."""
    return math.ceil(len(text.split()) * _TOKENS_PER_WORD)


@dataclass(frozen=True, slots=True)
class _Length:
    """How long a trajectory is to be; exactly one of the three is given."""

    tokens: int | None
    turns: int | None
    dialogues: int | None

    def check(self) -> None:
        given = {k: v for k in ("tokens", "turns", "dialogues") if (v := getattr(self, k)) is not None}
        if len(given) != 1:
            raise InputError("tokens", "exactly one of tokens, turns and dialogues must be given", f"given: {given}")
        ((name, value),) = given.items()
        if value < 1:
            raise InputError(name, f"must be at least 1, got {value}")


def weave(
    corpus: Corpus,
    *,
    seed: int,
    tokens: int | None = None,
    turns: int | None = None,
    dialogues: int | None = None,
    trajectories: int = 1,
    dialogues_open: int = 4,
    sessions: Sessions = "several",
    grain: Grain = "dialogue",
    count_tokens: CountTokens = estimate_tokens,
    repeat: bool = False,
) -> Corpus:
    """Weave trajectories; equal arguments give equal trajectories.

    Args:
        corpus: annotated dialogues, one a trajectory, like SGD as loaded. No dialogue is used twice.
        seed: decides everything that is random.
        tokens: length of each trajectory, kept to within the last segment; or
        turns: the same in turns; or
        dialogues: weave so many dialogues, each to its end.
        trajectories: how many to make.
        dialogues_open: how many goals take turns; some more rest for a long while.
        sessions: see `Sessions`. A sitting begins where a segment does.
        grain: see `Grain`.
        count_tokens: tokens of a text.
        repeat: use dialogues again, as goals of their own, once all have been used; otherwise running out is an error.

    Returns:
        A corpus of the trajectories. `TurnGold.scope` is the goal, unique within its trajectory; `shift` tells of a
        change of goal; events, entity types and spans are the dialogue's own.

    Raises:
        InputError: the corpus may not be trained on or has too few dialogues; a length is missing or out of range.
    """
    length = _Length(tokens, turns, dialogues)
    length.check()
    for name, value in (("trajectories", trajectories), ("dialogues_open", dialogues_open)):
        if value < 1:
            raise InputError(name, f"must be at least 1, got {value}")
    source = corpus.for_training()
    rng = random.Random(f"weave {seed}")
    loom = Loom(source.trajectories, rng, dialogues_open, repeat)
    made = []
    for number in range(trajectories):
        segments = _cut(loom.segments(length.dialogues), length, count_tokens)
        policy: Sessions = rng.choice(("none", "one", "several")) if sessions == "mixed" else sessions
        made.append(_trajectory(f"woven-{seed}-{number}", segments, policy, grain, rng))
    used = hashlib.sha256("\n".join(d.text_key for d in source.trajectories).encode()).hexdigest()
    plan = f"{used} {seed} {length} {trajectories} {dialogues_open} {sessions} {grain} {repeat}"
    return replace(source, trajectories=tuple(made), questions=(), hash=hashlib.sha256(plan.encode()).hexdigest())


def hold_out(corpus: Corpus, services: Iterable[str]) -> tuple[Corpus, Corpus]:
    """The dialogues that touch none of the services, and those that touch no others; mixed ones are in neither."""
    held = frozenset(services)
    seen, unseen = [], []
    for dialogue in corpus.trajectories:
        touched = services_of(dialogue)
        if not touched & held:
            seen.append(dialogue)
        elif touched <= held:
            unseen.append(dialogue)
    return replace(corpus, trajectories=tuple(seen)), replace(corpus, trajectories=tuple(unseen))


def services_of(dialogue: Trajectory) -> frozenset[str]:
    """Every service that a dialogue acts upon."""
    golds = dialogue.gold.values()
    return frozenset(g.domain for g in golds if g.domain) | {e.service for g in golds for e in g.events}


def _cut(segments: Iterator[Segment], length: _Length, count_tokens: CountTokens) -> Iterator[Segment]:
    """Segments until the length is reached."""
    tokens = turns = 0
    for segment in segments:
        yield segment
        turns += len(segment.turns)
        tokens += sum(count_tokens(turn.text) for turn in segment.turns) if length.tokens else 0
        if (length.tokens and tokens >= length.tokens) or (length.turns and turns >= length.turns):
            return


def _trajectory(id: str, segments: Iterable[Segment], policy: Sessions, grain: Grain, rng: random.Random) -> Trajectory:
    clock = _Clock(policy, rng)
    turns: list[NewTurn] = []
    gold: dict[str, TurnGold] = {}
    split, before = "train", None
    for segment in segments:
        split = segment.split
        clock.segment()
        for turn in segment.turns:
            here = f"{id}:{len(turns)}"
            kept = segment.gold.get(turn.source_id or "", TurnGold())
            scope = _scope(segment, kept, grain)
            gold[here] = replace(kept, scope=scope, shift=scope != before if turns else None)
            session, time = clock.turn()
            turns.append(replace(turn, source_id=here, session=session, time=time))
            before = scope
    return Trajectory(id, tuple(turns), split, gold)


def _scope(segment: Segment, gold: TurnGold, grain: Grain) -> str:
    within = {"dialogue": None, "service": gold.domain, "intent": gold.scope}[grain]
    return f"goal {segment.goal}" + (f", {within}" if within else "")


class _Clock:
    """Sessions and times of turns in order."""

    def __init__(self, policy: Sessions, rng: random.Random) -> None:
        self._policy = policy
        self._rng = rng
        self._time = _START + timedelta(days=rng.randrange(300))
        self._sitting = 1
        self._left = rng.randint(*_SITTING)

    def segment(self) -> None:
        """A segment begins: the place where a new sitting may."""
        if self._policy == "several" and self._left <= 0:
            self._sitting += 1
            self._left = self._rng.randint(*_SITTING)
            later = timedelta(days=self._rng.choice((1, 1, 2, 3, 5, 8)), minutes=self._rng.randint(-90, 240))
            self._time = max(self._time + timedelta(hours=1), self._time.replace(hour=9, minute=0) + later)

    def turn(self) -> tuple[str | None, datetime | None]:
        """Session and time of the next turn."""
        if self._policy == "none":
            return None, None
        self._left -= 1
        self._time += timedelta(seconds=self._rng.randint(15, 90))
        return f"sitting {self._sitting}", self._time
