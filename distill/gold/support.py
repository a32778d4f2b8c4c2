"""Traces of the task `support`: questions with turns that state the answer, help to find it, or are unrelated.

Two sources: questions built over woven task dialogues, and the annotated memories and queries of RealMem. A turn of the
evidence `states` where it holds a part of the answer, and `helps` where the rest could not be told without it. The
unrelated ones are mostly hard: turns that share the question's rarest words, or stand beside the evidence.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from intentmem.memory.store.lexical import query_terms, terms
from intentmem.memory.tasks import SUPPORT
from intentmem.memory.types import NewTurn
from intentmem.train_data import Corpus, Question, Trajectory, weave
from intentmem.train_data.lookups import memory_lookups
from intentmem.train_data.questions import Split, ask

from ..traces import Trace

_ALIKE, _BESIDE, _RANDOM = 6, 2, 2
_MOST_EVIDENCE, _RAREST = 4, 16
_LONG_ANSWER = 12
"""Terms beyond which an answer is prose, no part of which is looked for in a turn."""
_DIALOGUES = 8


def support_traces(
    corpus: Corpus, *, seed: int = 0, n: int = 9000, split: Split | None = "train", trajectories: int = 24
) -> list[Trace]:
    """Traces of questions with turns; a trajectory is a conversation. Deterministic for a seed.

    Args:
        corpus: SGD, whose dialogues are woven first, or RealMem.
        n: how many at most, about ten a question; of RealMem, whose texts are long, half as many.
        split: "train" for personas to train on and for wordings of that split; another one for all other personas,
            where there are any, and for its own wordings.
        trajectories: how many to weave of SGD; fewer where the corpus is small.

    Raises:
        InputError: the corpus may not be trained on, or has nothing to ask about.
    """
    source = corpus.for_training()
    if any(trajectory.memories for trajectory in source.trajectories):
        chosen = _personas(source, split)
        asked = [chosen, memory_lookups(chosen, n // 40, seed)]
        n //= 2
    else:
        trajectories = max(1, min(trajectories, len(source.trajectories) // _DIALOGUES))
        woven = weave(source, seed=seed, dialogues=_DIALOGUES, trajectories=trajectories)
        asked = [ask(woven, seed=seed, split=split, per_trajectory=60)]
    return ranked_traces([(one, question) for one in asked for question in one.questions], seed)[:n]


def _personas(corpus: Corpus, split: Split | None) -> Corpus:
    """The personas to train on, or those that are not; all where that leaves none."""
    kept = {t.id for t in corpus.trajectories if (t.split == "train") == (split == "train")}
    if not kept or split is None:
        return corpus
    return replace(
        corpus,
        trajectories=tuple(t for t in corpus.trajectories if t.id in kept),
        questions=tuple(question for question in corpus.questions if question.trajectory in kept),
    )


def ranked_traces(asked: Sequence[tuple[Corpus, Question]], seed: int) -> list[Trace]:
    """Questions with their evidence and unrelated turns, in a random order of the questions.

    `Question.gold_turns` are the evidence; questions without any are left out.
    """
    rng = random.Random(f"support {seed}")
    places: dict[tuple[int, str], Place] = {}
    order = [pair for pair in asked if pair[1].gold_turns]
    rng.shuffle(order)
    found: list[Trace] = []
    for corpus, question in order:
        key = (id(corpus), question.trajectory)
        if key not in places:
            places[key] = Place.of(next(t for t in corpus.trajectories if t.id == question.trajectory))
        found += _of_question(question, places[key], corpus.name, rng)
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """A trajectory with what a search by words needs: terms in each turn, and the turns in which each term stands."""

    turns: Sequence[NewTurn]
    sizes: Sequence[int]
    holders: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, trajectory: Trajectory) -> Place:
        """The trajectory, its turns looked through once."""
        words = [set(terms(turn.text)) for turn in trajectory.turns]
        holders: dict[str, list[int]] = defaultdict(list)
        for place, found in enumerate(words):
            for term in found:
                holders[term].append(place)
        return cls(trajectory.turns, [len(found) for found in words], holders)

    def alike(self, text: str, until: int) -> list[int]:
        """Places of the turns before `until` that share the rarest words of a text, best first."""
        known = sorted({term for term in query_terms(text) if term in self.holders}, key=lambda t: (self._spread(t), t))
        scores: dict[int, float] = defaultdict(float)
        for term in known[:_RAREST]:
            weight = math.log(1 + len(self.turns) / self._spread(term))
            for place in self.holders[term]:
                if place < until:
                    scores[place] += weight / math.sqrt(8 + self.sizes[place])
        return sorted(scores, key=lambda place: (-scores[place], place))

    def _spread(self, term: str) -> int:
        return len(self.holders[term])


def _of_question(question: Question, place: Place, source: str, rng: random.Random) -> Iterator[Trace]:
    until = question.searchable_until or len(place.turns)
    known = {str(turn.source_id): number for number, turn in enumerate(place.turns[:until])}
    evidence = [known[turn] for turn in question.gold_turns if turn in known]
    if not evidence:
        return
    alike = [number for number in place.alike(question.text, until) if number not in evidence][: 3 * _ALIKE]
    beside = [number + step for number in evidence for step in (-1, 1) if 0 <= number + step < until]
    others = [*rng.sample(alike, min(len(alike), _ALIKE)), *rng.sample(beside, min(len(beside), _BESIDE))]
    others += [rng.randrange(until) for _ in range(_RANDOM)]
    shown = rng.sample(evidence, min(len(evidence), _MOST_EVIDENCE))
    for number in dict.fromkeys([*shown, *(other for other in others if other not in evidence)]):
        label = _label(question, place.turns[number].text) if number in evidence else "unrelated"
        yield Trace(
            task=SUPPORT.name,
            task_hash=SUPPORT.hash,
            fields={"question": question.text, "evidence": place.turns[number].text},
            labels=(label,),
            teacher=f"gold:{source}",
            conversation=question.trajectory,
            seq=number,
            turn=place.turns[number].source_id,
            meta={"source": source, "template": question.template or ""},
        )


def _label(question: Question, text: str) -> str:
    """`states` if a part of the answer stands in the turn, or if the answer is no short text; else `helps`."""
    if not question.answer or len(terms(question.answer)) > _LONG_ANSWER:
        return "states"
    folded = text.casefold()
    return "states" if any(part in folded for part in answer_parts(question.answer)) else "helps"


def answer_parts(answer: str) -> list[str]:
    """What an answer consists of, in lower case: the values of `name: value; name: value`."""
    parts = [part.rpartition(": ")[2].strip().casefold() for part in answer.split(";")]
    return [part for part in parts if part]
