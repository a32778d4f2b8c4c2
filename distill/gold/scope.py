"""Corpora as traces of the task `scope`: conversations turn by turn, each with the goal that it serves."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import SCOPE
from intentmem.memory.types import NewTurn
from intentmem.train_data import Corpus, Trajectory, weave
from intentmem.train_data.synthetic.kinds import KINDS, SetSplit
from intentmem.train_data.synthetic.talk import simulated
from intentmem.train_data.weaving import Sessions
from intentmem.train_data.written import WRITTEN, written_conversations

from ..splits import GIVEN, SHARES
from ..traces import GOLD, LabelSet, Trace

GOAL = "goal"
"""Key of `Trace.meta`: the gold scope of the turn, whether or not it was among the candidates."""
HELD_OUT = "test"
"""The split of a corpus that is never trained on; its traces are for evaluation."""
_GIST = 160


BUILT = "built"
_LENGTHS = (300, 500, 60, 90, 130, 180, 90, 160, 600, 400, 800, 250, 120, 700, 1500, 2000)
"""Turns of the simulated conversations of each kind; things of one name in several groups in every second."""
_TAKEN_UP, _BEGINNING = 3, 6
_BUILT_SPLITS = {4: "dev", 6: "dev", 5: "calibration", 7: "calibration"}
"""By place in `_LENGTHS`."""


class _Weave(NamedTuple):
    """One way of interleaving: dialogues a trajectory, how many are open at once, and the sessions."""

    dialogues: int
    open: int
    sessions: Sessions


_WEAVES = (
    _Weave(8, 4, "none"),
    _Weave(8, 4, "one"),
    _Weave(8, 3, "several"),
    _Weave(16, 5, "mixed"),
    _Weave(5, 2, "mixed"),
    _Weave(32, 4, "several"),
)


def scope_traces(corpus: Corpus, seed: int = 0, evaluation: bool = False) -> list[Trace]:
    """The turns of a corpus as decisions of `gold:<corpus>`, in order within each conversation.

    Dialogues about one goal each (SGD) are woven into trajectories of several; of trajectories whose gold has no scopes
    but shifts (TIAGE), each shift opens a scope. Turns of assistants are part of the history: nobody decides them.

    Args:
        corpus: as loaded, or woven already.
        seed: of the weaving.
        evaluation: only to measure: corpora that may not be trained on are taken too, and every trajectory is woven
            alike, eight dialogues of which four are open at once, half of them without sessions and half as one.

    Raises:
        InputError: the corpus says nothing about scopes, or may be used for evaluation only.
    """
    if not evaluation:
        corpus.for_training()
    trajectories = corpus.trajectories
    if corpus.name == "sgd" and not any(t.id.startswith("woven-") for t in trajectories):
        trajectories = tuple(_woven(corpus, seed, _WEAVES[:2] if evaluation else _WEAVES))
    elif corpus.name == "realmem" and not evaluation:
        trajectories = (*trajectories, *map(_in_one_sitting, trajectories))
    traces = [trace for trajectory in trajectories for trace in trajectory_traces(corpus.name, trajectory, seed)]
    if not traces:
        raise InputError("corpus", f"{corpus.name} has no gold about scopes", "use sgd, realmem or tiage")
    return traces


def built_scope_traces(seed: int = 0, evaluation: bool = False) -> list[Trace]:
    """The turns of simulated conversations (`train_data.synthetic`) as decisions of `gold:built`.

    Args:
        seed: of the simulation.
        evaluation: in the wordings that are kept for tests, and fewer.
    """
    wording: SetSplit = "test" if evaluation else "train"
    traces: list[Trace] = []
    for number, turns in enumerate(_LENGTHS[:2] if evaluation else _LENGTHS):
        for kind in KINDS:
            made = simulated(kind, seed * len(_LENGTHS) + number, wording, turns, several_groups=number % 2 == 1)
            split = HELD_OUT if evaluation else _BUILT_SPLITS.get(number, "train")
            traces += trajectory_traces(BUILT, replace(made, split=split), seed)
    return traces


def written_scope_traces(seed: int = 0) -> list[Trace]:
    """The turns of the conversations written by hand (`train_data.written`) as decisions of `gold:written`."""
    return [trace for made in written_conversations() for trace in trajectory_traces(WRITTEN, made, seed)]


def _woven(corpus: Corpus, seed: int, weaves: Sequence[_Weave]) -> Iterator[Trajectory]:
    """Every dialogue in one trajectory at most, shared out evenly over the ways of interleaving and the splits."""
    by_split: dict[str, list[Trajectory]] = {}
    for dialogue in corpus.trajectories:
        by_split.setdefault(dialogue.split, []).append(dialogue)
    for split, dialogues in by_split.items():
        order = sorted(dialogues, key=lambda d: _draw(d.text_key, seed))
        share = len(order) // len(weaves)
        for number, way in enumerate(weaves):
            part = order[number * share : (number + 1) * share]
            count = len(part) // way.dialogues
            if not count:
                continue
            made = weave(
                replace(corpus, trajectories=tuple(part)),
                seed=seed * len(weaves) + number,
                dialogues=way.dialogues,
                trajectories=count,
                dialogues_open=way.open,
                sessions=way.sessions,
            )
            yield from (replace(t, id=f"{t.id}-{split}") for t in made.trajectories)


def _in_one_sitting(trajectory: Trajectory) -> Trajectory:
    """The beginnings of a trajectory's sessions one after another, as if they were one; what is never taken up again is
    left out. A session takes its goal up in the words of somebody who continues: of those there are few elsewhere.
    """
    goals = {
        session: trajectory.gold[str(turn.source_id)].scope for turn in trajectory.turns if (session := turn.session)
    }
    sittings = Counter(goals.values())
    said: Counter[str] = Counter()
    kept = []
    for turn in trajectory.turns:
        session = str(turn.session)
        said[session] += 1
        if sittings[goals.get(session)] >= _TAKEN_UP and said[session] <= _BEGINNING:
            kept.append(replace(turn, session=None, time=None))
    return replace(trajectory, id=f"{trajectory.id}-one-sitting", turns=tuple(kept))


def trajectory_traces(corpus: str, trajectory: Trajectory, seed: int) -> Iterator[Trace]:
    """The turns of one trajectory as decisions of `gold:<corpus>`; none where its gold says nothing about scopes."""
    goals = _goals(trajectory)
    if goals is None:
        return
    split = _split(corpus, trajectory, seed)
    known = LabelSet()
    for seq, (turn, goal) in enumerate(zip(trajectory.turns, goals, strict=True)):
        text = f"{turn.speaker or turn.role}: {turn.text}"
        meta = {"role": turn.role, GOAL: goal, GIVEN: split, "source": corpus}
        if turn.session is not None:
            meta["session"] = turn.session
        if turn.time is not None:
            meta["turn_time"] = turn.time.isoformat()
        chosen = (goal,) if goal in known.ids else ()
        yield Trace(SCOPE.name, SCOPE.hash, {"turn": text}, chosen, GOLD + corpus, trajectory.id, seq, known, meta=meta)
        if not chosen:
            known = LabelSet((*known.ids, goal), (*known.texts, _gist(turn)))


def _goals(trajectory: Trajectory) -> list[str] | None:
    """The gold scope of each turn; None where the corpus does not tell."""
    golds = [trajectory.gold.get(turn.source_id or "") for turn in trajectory.turns]
    if golds and all(gold is not None and gold.scope is not None for gold in golds):
        return [str(gold.scope) for gold in golds if gold is not None]
    if all(gold is None or gold.shift is None for gold in golds):
        return None
    goals, number = [], 0
    for gold in golds:
        number += bool(gold is not None and gold.shift)
        goals.append(f"topic {number}")
    return goals


def _split(corpus: str, trajectory: Trajectory, seed: int) -> str:
    """The split that a corpus gives; of its training part some is kept back for choosing and for calibration."""
    if trajectory.split != "train" or corpus in ("realmem", BUILT, WRITTEN):
        return trajectory.split
    drawn, reached = int(_draw(trajectory.id, seed)[:8], 16) / 2**32, 0.0
    for name, share in SHARES.items():
        reached += share
        if drawn < reached:
            return name
    return trajectory.split


def _gist(turn: NewTurn) -> str:
    return " ".join(turn.text.split())[:_GIST]


def _draw(name: str, seed: int) -> str:
    return hashlib.sha256(f"scope {seed} {name}".encode("utf-8", "surrogatepass")).hexdigest()
