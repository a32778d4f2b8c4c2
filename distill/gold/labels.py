"""Corpora as traces of `event` and `entity_types`: each turn with the labels of its annotation.

An event is named by act, slot and goal ("prompt for departure date (find bus)"), an entity type by its slot. All fine
labels that occur in the corpus are offered, with what its schema says of them.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import ENTITY_TYPES, EVENT, Task
from intentmem.memory.types import NewTurn
from intentmem.memory.write.labelling import BEFORE
from intentmem.memory.write.vocabulary import label_text
from intentmem.train_data import Corpus, Trajectory
from intentmem.train_data.schemas import TurnGold

from ..splits import GIVEN
from ..traces import GOLD, LabelSet, Trace
from .label_examples import example_traces
from .label_seeds import seed_names, seed_options

HELD_OUT = "test"
"""The split of a corpus that is never trained on; its traces are for evaluation."""
SEEN, UNSEEN = "seen", "unseen"
"""Groups of traces: whether the turn's service is one that is trained on."""
SEEDED = "-seeds"
"""What the name of a teacher ends with whose labels are those of the seed vocabulary."""
DOMAIN = "domain"
"""Key of `Trace.meta`: the service that the turn is about."""
_KINDS = {EVENT.name: "event", ENTITY_TYPES.name: "entity_type"}
_KEPT_BACK = 0.1
"""Share of the training dialogues whose services are kept back whole, to choose and calibrate on labels never seen."""
_BESIDE = 0.08
"""Share of the other training dialogues that are kept back beside them."""
A_SERVICE = 120
"""Dialogues of each service to learn from, where there are so many: more of the same services bring little."""
SGD_TRAINING = frozenset(
    f"{name}_{number}"
    for name, numbers in {
        "Banks": "1", "Buses": "12", "Calendar": "1", "Events": "12", "Flights": "12", "Homes": "1", "Hotels": "123",
        "Media": "1", "Movies": "1", "Music": "12", "RentalCars": "12", "Restaurants": "1", "RideSharing": "12",
        "Services": "123", "Travel": "1", "Weather": "1",
    }.items()
    for number in numbers
)  # fmt: skip
"""Services of the published training split of SGD."""


def label_traces(
    corpus: Corpus, seed: int = 0, evaluation: bool = False, tasks: Collection[str] = tuple(_KINDS)
) -> list[Trace]:
    """Every annotated turn of a corpus, once for each of the tasks, of teacher `gold:<corpus>`.

    To train on SGD, each is asked once more in the words of the seed vocabulary, of teacher `gold:sgd-seeds`, and
    examples of ordinary talk are added, of teacher `gold:examples`, as the vocabulary in service is general. Of the
    training part, whole services and some other dialogues are kept back for choosing and calibrating, half each, and
    of the rest no more dialogues a service than `A_SERVICE` are learnt from; all other parts are `test`. A dialogue
    that stands there too is left out of training.

    Args:
        corpus: as loaded.
        seed: of what is kept back.
        evaluation: only to measure: corpora that may not be trained on are taken too.
        tasks: `event`, `entity_types`, or both; the traces of one are the same with the other or without.

    Raises:
        InputError: the corpus names no events, or may be used for evaluation only.
    """
    if not evaluation:
        corpus.for_training()
    split_of, kept_back = service_splits(corpus, seed)
    if not evaluation:
        learnt = [one for one in corpus.trajectories if split_of.get(one.id) == "train"]
        for name in {one.id for one in learnt} - {one.id for one in balanced(learnt, seed)}:
            del split_of[name]
    wanted = [task for task in (EVENT, ENTITY_TYPES) if task.name in tasks]
    options = {task.name: _options(corpus, task.name) for task in wanted}
    teaches = not evaluation and corpus.name == "sgd" and any(split != HELD_OUT for split in split_of.values())
    seeds = {task.name: seed_options(task.name) for task in wanted} if teaches else None
    traces = [
        _placed(trace, split_of[trajectory.id], kept_back)
        for trajectory in corpus.trajectories
        if trajectory.id in split_of
        for task in wanted
        for vocabulary, seeded in ((options, False), *([(seeds, True)] if seeds else []))
        for trace in _traces(corpus.name, trajectory, task, vocabulary[task.name], seeded)
    ]
    if not traces:
        raise InputError("corpus", f"{corpus.name} names no events", "use sgd")
    return [*traces, *(one for one in example_traces(seed) if one.task in tasks)] if seeds else traces


def _options(corpus: Corpus, task: str) -> LabelSet:
    golds = [gold for trajectory in corpus.trajectories for gold in trajectory.gold.values()]
    used = {name for gold in golds for name in _names(gold, task)}
    labels = {label.name: label_text(label) for label in corpus.labels if label.kind == _KINDS[task]}
    names = sorted(used & set(labels))
    return LabelSet(tuple(names), tuple(labels[name] for name in names))


def _names(gold: TurnGold, task: str) -> tuple[str, ...]:
    if task == EVENT.name:
        return tuple(dict.fromkeys(event.name for event in gold.events))
    return gold.entity_types


def _traces(corpus: str, trajectory: Trajectory, task: Task, options: LabelSet, seeded: bool) -> Iterator[Trace]:
    offered = set(options.ids)
    teacher = GOLD + corpus + (SEEDED if seeded else "")
    said = [_rendered(turn) for turn in trajectory.turns]
    for seq, turn in enumerate(trajectory.turns):
        gold = trajectory.gold.get(turn.source_id or "")
        if gold is None or not gold.events:
            continue
        fields: dict[str, str | tuple[str, ...]] = {"turn": said[seq]}
        if seq:
            fields["before"] = tuple(said[max(0, seq - BEFORE) : seq])
        names = seed_names(gold, turn.role, task.name) if seeded else _names(gold, task.name)
        labels = tuple(name for name in names if name in offered)
        meta = {"role": turn.role, "source": corpus}
        if gold.domain is not None:
            meta[DOMAIN] = gold.domain
        yield Trace(task.name, task.hash, fields, labels, teacher, trajectory.id, seq, options, meta=meta)


def _placed(trace: Trace, split: str, kept_back: set[str]) -> Trace:
    """The trace with its split, and whether its service is one that is trained on."""
    meta = {**trace.meta, GIVEN: split}
    if (domain := meta.get(DOMAIN)) is not None:
        unseen = domain in kept_back or (meta["source"] == "sgd" and domain not in SGD_TRAINING)
        meta["group"] = UNSEEN if unseen else SEEN
    return replace(trace, meta=meta)


def _rendered(turn: NewTurn) -> str:
    return f"{turn.speaker or turn.role}: {turn.text}"


def service_splits(corpus: Corpus, seed: int) -> tuple[dict[str, str], set[str]]:
    """The split of each trajectory by id, none of training dialogues that stand elsewhere too; services kept back."""
    learnt = [trajectory for trajectory in corpus.trajectories if trajectory.split == "train"]
    found = {trajectory.id: HELD_OUT for trajectory in corpus.trajectories if trajectory.split != "train"}
    elsewhere = {trajectory.text_key for trajectory in corpus.trajectories if trajectory.split != "train"}
    learnt = [trajectory for trajectory in learnt if trajectory.text_key not in elsewhere]
    services = {trajectory.id: _services(trajectory) for trajectory in learnt}
    kept_back = _kept_back(services, seed)
    for trajectory in learnt:
        half = "dev" if draw(f"half {trajectory.id}", seed) < 0.5 else "calibration"
        beside = draw(f"beside {trajectory.id}", seed) < _BESIDE
        found[trajectory.id] = half if services[trajectory.id] & kept_back or beside else "train"
    return found, kept_back


def _kept_back(services: dict[str, frozenset[str]], seed: int) -> set[str]:
    """Services, drawn until their dialogues are a tenth of all; one that would take more than that is passed over."""
    by_service = defaultdict(set)
    for trajectory, names in services.items():
        for name in names:
            by_service[name].add(trajectory)
    taken: set[str] = set()
    kept: set[str] = set()
    for name in sorted(by_service, key=lambda name: draw(f"service {name}", seed)):
        if len(taken | by_service[name]) <= _KEPT_BACK * len(services):
            taken |= by_service[name]
            kept.add(name)
    return kept


def _services(trajectory: Trajectory) -> frozenset[str]:
    return frozenset(event.service for gold in trajectory.gold.values() for event in gold.events)


def balanced(trajectories: Sequence[Trajectory], seed: int) -> list[Trajectory]:
    """Dialogues drawn until each service has `A_SERVICE` or all of its own; one of several services may bring more."""
    found, counts = [], Counter[str]()
    for trajectory in sorted(trajectories, key=lambda one: draw(f"taken {one.id}", seed)):
        services = _services(trajectory)
        if any(counts[name] < A_SERVICE for name in services):
            counts.update(services)
            found.append(trajectory)
    return found


def draw(name: str, seed: int) -> float:
    """A number in [0, 1) that a name and a seed alone decide."""
    digest = hashlib.sha256(f"labels {seed} {name}".encode("utf-8", "surrogatepass")).hexdigest()
    return int(digest[:12], 16) / 16.0**12
