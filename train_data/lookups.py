"""Look-up questions: short ones, whose answer stands in one turn among many like it.

From annotated memories (`memory_lookups`): the first words of what annotators drew from a turn; its gold is that turn.
From interleaved task dialogues (`build_lookups`):

Several dialogues of the Schema-Guided Dialogue corpus are open at once and take turns, so that the same attribute of
the same kind of thing is asked for again and again under different goals. A question names the thing and the attribute;
its gold is the turn that gives the value. Questions that could mean several turns have all of them as gold.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from intentmem.memory.store.lexical import query_terms
from intentmem.memory.types import Label, NewTurn

from .schemas import Corpus, Question, Trajectory, TurnGold, ValueSpan

_PEOPLE = ["Maria", "Oscar", "Lena", "Victor", "Priya", "Hugo", "Nadia", "Felix", "Ingrid", "Tomas", "Amara", "Dmitri"]
_OPEN = 4
_SITTING = 24
_START = datetime(2024, 1, 8, 9, tzinfo=UTC)
_MOST_QUESTIONS = 150
_OPENING = 6


@dataclass(slots=True)
class _Thread:
    """One dialogue under way: its turns left, the thing in focus, what its user asked for."""

    turns: list[NewTurn]
    gold: dict[str, TurnGold]
    focus: str | None = None
    wanted: dict[str, str] = field(default_factory=dict)


def build_lookups(corpus: Corpus, trajectories: int, dialogues: int, seed: int) -> Corpus:
    """Interleave dialogues into trajectories with questions. Deterministic for a seed.

    Args:
        corpus: SGD, as loaded.
        trajectories: how many to make, with other dialogues each.
        dialogues: how many go into one.

    Raises:
        InputError: the corpus may not be trained on.
    """
    source = corpus.for_training()
    rng = random.Random(seed)
    pool = list(source.trajectories)
    rng.shuffle(pool)
    made, questions = [], []
    for number in range(min(trajectories, len(pool) // dialogues)):
        part = pool[number * dialogues : (number + 1) * dialogues]
        trajectory, asked = _woven(f"lookups-{seed}-{number}", part, source.labels, rng, named=number % 2 == 0)
        made.append(trajectory)
        questions += asked
    return replace(source, trajectories=tuple(made), questions=tuple(questions))


def memory_lookups(corpus: Corpus, most: int, seed: int) -> Corpus:
    """Look-ups of what annotators drew from single turns, up to `most` a trajectory. Deterministic for a seed.

    Raises:
        InputError: the corpus may not be trained on.
    """
    source = corpus.for_training()
    questions: list[Question] = []
    for trajectory in source.trajectories:
        rng = random.Random(f"{seed} {trajectory.id}")
        drawn = sorted({(_opening(m.content), m.turn) for m in trajectory.memories if m.turn})
        for number, (text, turn) in enumerate(rng.sample(drawn, min(most, len(drawn)))):
            name = f"{trajectory.id}:memory {number}"
            questions.append(Question(name, text, trajectory.id, "memory", gold_turns=(str(turn),)))
    return replace(source, questions=tuple(questions))


def _opening(content: str) -> str:
    """The first words of a memory, without the heading that annotators gave it, until enough of them say something."""
    words = re.sub(r"^【[^】]*】\s*", "", content).split()
    kept: list[str] = []
    for word in words:
        kept.append(word)
        if len(query_terms(" ".join(kept))) >= _OPENING:
            break
    return " ".join(kept)


def _woven(
    name: str, dialogues: Sequence[Trajectory], labels: Sequence[Label], rng: random.Random, named: bool
) -> tuple[Trajectory, list[Question]]:
    """One trajectory; with `named`, two people speak, else a user and an assistant."""
    descriptions = {label.name: label.description for label in labels if label.kind == "entity_type"}
    people = rng.sample(_PEOPLE, 2)
    waiting = [_Thread(list(d.turns), dict(d.gold)) for d in dialogues]
    live: list[_Thread] = []
    turns: list[NewTurn] = []
    asked: dict[str, list[str]] = defaultdict(list)
    while waiting or live:
        while waiting and len(live) < _OPEN:
            live.append(waiting.pop())
        thread = rng.choice(live)
        for _ in range(min(2 * rng.randint(1, 4), len(thread.turns))):
            turn = thread.turns.pop(0)
            gold = thread.gold.get(turn.source_id or "", TurnGold())
            here = f"{name}:{len(turns)}"
            who = people[0] if named else "the user"
            for question in _questions(thread, turn, gold, descriptions, who, rng):
                asked[question].append(here)
            turns.append(_placed(turn, here, len(turns), people if named else None))
        live = [t for t in live if t.turns]
    kept = rng.sample(sorted(asked), min(len(asked), _MOST_QUESTIONS))
    questions = [
        Question(f"{name}:q{i}", text, name, "look-up", gold_turns=tuple(asked[text])) for i, text in enumerate(kept)
    ]
    return Trajectory(name, tuple(turns), "train"), questions


def _placed(turn: NewTurn, here: str, position: int, people: list[str] | None) -> NewTurn:
    sitting = position // _SITTING
    return replace(
        turn,
        source_id=here,
        session=f"sitting {sitting}",
        time=_START + timedelta(days=3 * sitting, minutes=position % _SITTING),
        role="user" if people else turn.role,
        speaker=people[turn.role != "user"] if people else None,
    )


def _questions(
    thread: _Thread, turn: NewTurn, gold: TurnGold, descriptions: dict[str, str], who: str, rng: random.Random
) -> list[str]:
    """Questions that this turn answers; the thread remembers what they refer to."""
    found = []
    for span in gold.spans:
        slot = span.slot.replace("_", " ")
        asked_as = _wording(span, descriptions, rng)
        if turn.role == "user":
            other = [(s, v) for s, v in thread.wanted.items() if s != span.slot and v != span.value]
            if other and rng.random() < 0.35:
                found.append(f"What {asked_as} did {who} ask for {rng.choice(other)[1]}?")
            thread.wanted[span.slot] = span.value
        elif _names_a_thing(span.slot):
            thread.focus = span.value
            place = next((v for s, v in thread.wanted.items() if "city" in s or s in ("location", "area")), None)
            if place and rng.random() < 0.4:
                found.append(f"Which {slot} in {place} was suggested to {who}?")
        elif thread.focus:
            found.append(f"What is the {asked_as} of {thread.focus}?")
    return found


def _names_a_thing(slot: str) -> bool:
    return slot.endswith("_name") or slot in ("title", "track", "address")


def _wording(span: ValueSpan, descriptions: dict[str, str], rng: random.Random) -> str:
    slot = span.slot.replace("_", " ")
    return descriptions.get(slot, slot).rstrip(".").lower() if rng.random() < 0.5 else slot
