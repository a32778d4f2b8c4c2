"""Building a set: a simulated world that grows, or woven dialogues, written with questions about what was said."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from intentmem.memory.errors import InputError

from ..questions.ask import ask
from ..questions.templates import Rewrite, Split
from ..schemas import Corpus, Question, Trajectory
from ..weaving import CountTokens, estimate_tokens, weave
from .asking import Asker, SetQuestion
from .files import BuiltSet, SetWriter, finish, new_folder
from .kinds import SetSplit, load_kind
from .simulate import SetTurn, Simulation, stamped

Progress = Callable[[int, int], None]
"""Told how many tokens of how many are done."""

_CUTS = (0.5, 0.75, 1.0)
"""Where in a trajectory questions are asked, as a share of its tokens; the last share gets half of them."""
_LEAST = 1_000
_LICENCE = "Apache-2.0, as the generator; simulated, nothing is copied from a corpus"


def build(
    kind: str,
    *,
    tokens: int,
    seed: int,
    out: Path,
    trajectories: int = 1,
    questions: int = 60,
    split: SetSplit = "test",
    force: bool = False,
    count_tokens: CountTokens = estimate_tokens,
    rewrite: Rewrite | None = None,
    progress: Progress = lambda done, total: None,
) -> BuiltSet:
    """Simulate trajectories of a kind and write them with their questions.

    The folder appears when all of it is written, or not at all.

    Args:
        kind: one of `KINDS`.
        tokens: length of each trajectory, kept to within a few turns.
        seed: decides everything that is random.
        out: folder to make.
        trajectories: how many.
        questions: the most for each, the four types in equal shares where there is enough to ask.
        split: the wordings to use, of turns and of questions: those kept for `test`, or the others.
        force: replace a set that is there already.
        count_tokens: tokens of a text.
        rewrite: puts each question in other words.
        progress: told how far it is.

    Raises:
        InputError: an argument is out of range, or the folder holds something already.
    """
    world = load_kind(kind)
    _check(tokens, trajectories, questions, split)
    made = BuiltSet(out, kind, split, seed, _LICENCE, world.title, tokens)
    with new_folder(out, force) as folder:
        for number in range(trajectories):
            simulation = Simulation(world, f"{seed} {number}", split, several_groups=tokens > world.one_group_tokens)
            asker = Asker(simulation, split, random.Random(f"questions {kind} {seed} {number} {split}"), rewrite)
            writer = SetWriter(folder, f"{kind}-{seed}-{number}", made)
            with closing(writer):
                for done in _fill(writer, simulation, asker, tokens, questions, count_tokens):
                    progress(min(done, tokens) + number * tokens, trajectories * tokens)
        finish(folder, made)
    return made


def _fill(
    writer: SetWriter, world: Simulation, asker: Asker, tokens: int, questions: int, count_tokens: CountTokens
) -> Iterator[int]:
    """Write the turns and questions of one trajectory; yields how many tokens it has."""
    for place, cut in enumerate(_CUTS):
        while writer.tokens < tokens * cut:
            for turn in world.segment():
                writer.turn(turn, count_tokens(turn.content))
            yield writer.tokens
        last = place == len(_CUTS) - 1
        for question in asker.questions(questions - writer.asked if last else questions // 4):
            writer.question(question)
    writer.scopes = len(world.slots)


def build_woven(
    corpus: Corpus,
    *,
    tokens: int,
    seed: int,
    out: Path,
    trajectories: int = 1,
    questions: int = 60,
    split: SetSplit = "test",
    force: bool = False,
    count_tokens: CountTokens = estimate_tokens,
    rewrite: Rewrite | None = None,
    progress: Progress = lambda done, total: None,
) -> BuiltSet:
    """Weave annotated dialogues and write them in the same format; arguments as for `build`.

    Dialogues are used again, as goals of their own, where there are too few. `split` is that of the questions'
    wordings; the turns are the corpus' own.

    Raises:
        InputError: as for `build`, or the corpus may not be trained on.
    """
    _check(tokens, trajectories, questions, split)
    wordings: Split = split
    made = BuiltSet(out, "woven", split, seed, corpus.card.licence, f"{corpus.card.title}, woven", tokens)
    made.source.update(corpus=corpus.card.title, home=corpus.card.home, hash=corpus.hash)
    with new_folder(out, force) as folder:
        woven = weave(
            corpus, seed=seed, tokens=tokens, trajectories=trajectories, count_tokens=count_tokens, repeat=True
        )
        asked = ask(woven, seed=seed, per_trajectory=questions, split=wordings, rewrite=rewrite)
        for number, trajectory in enumerate(asked.trajectories):
            writer = SetWriter(folder, trajectory.id, made)
            with closing(writer):
                about = [question for question in asked.questions if question.trajectory == trajectory.id]
                _write(writer, trajectory, about, count_tokens)
            progress((number + 1) * tokens, trajectories * tokens)
        finish(folder, made)
    return made


_TYPES = {"temporal": 1, "point": 2, "compositional": 3, "aggregation": 4}
"""The type of CAME-Bench that is closest to a reasoning type."""


def _write(writer: SetWriter, trajectory: Trajectory, questions: list[Question], count_tokens: CountTokens) -> None:
    places: dict[str | None, str] = {}
    for place, turn in enumerate(trajectory.turns):
        places[turn.source_id] = str(place)
        gold = trajectory.gold[str(turn.source_id)]
        event = gold.events[0] if gold.events else None
        action, thing = (event.act.lower(), event.slot or event.intent or "") if event else ("", "")
        text = stamped(turn.text, turn.time) if turn.time else turn.text
        made = SetTurn(str(place), turn.role, text, [str(gold.scope)], action, thing)
        writer.turn(made, count_tokens(turn.text))
    writer.scopes = len({gold.scope for gold in trajectory.gold.values()})
    for question in questions:
        assert question.plan is not None and question.template is not None
        writer.question(
            SetQuestion(
                text=question.text,
                type=_TYPES[question.plan.reasoning],
                answer=str(question.answer),
                evidence=tuple(places[turn] for turn in question.gold_turns),
                plan=question.plan,
                template=question.template,
                requirements=question.requirements,
            )
        )


def _check(tokens: int, trajectories: int, questions: int, split: str) -> None:
    at_least = {"tokens": (tokens, _LEAST), "trajectories": (trajectories, 1), "questions": (questions, 1)}
    for name, (value, least) in at_least.items():
        if value < least:
            raise InputError(name, f"must be at least {least}, got {value}")
    if split not in ("train", "test"):
        raise InputError("split", f"{split!r} is no split", "known: train, test")
