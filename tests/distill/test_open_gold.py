"""SGD as traces of events and entity types, and how answers to them are scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from intentmem.distill.evaluation.label_families import family
from intentmem.distill.evaluation.labels import evaluate, items_of, measure
from intentmem.distill.gold import label_seeds
from intentmem.distill.gold.label_examples import examples, options
from intentmem.distill.gold.label_seeds import seed_options
from intentmem.distill.gold.labels import A_SERVICE, label_traces
from intentmem.distill.splits import check_disjoint
from intentmem.distill.traces import LabelSet, Trace
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import InputError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.tasks import ENTITY_TYPES, EVENT, Decision, Task
from intentmem.memory.types import Label, NewTurn
from intentmem.memory.write.seeds import load_seeds
from intentmem.train_data.schemas import Card, Corpus, EventGold, Trajectory, TurnGold

OFFER = LabelSet(("price", "date", "day"), ("price: What it costs", "visit date: Date of it", "leaving date: Date too"))


def corpus(dialogues: int = 40, use: str = "train") -> Corpus:
    """Dialogues of two turns over eight services."""
    trajectories = []
    for number in range(dialogues):
        service = f"Buses_{number % 8}"
        split = "train" if number < dialogues - 4 else "dev"
        name = f"give date (book {service})"
        gold = {
            f"{number}:0": TurnGold(
                "s", service, None, (EventGold(name, "give date", "INFORM", service, None, "date"),), ("date",)
            ),
            f"{number}:1": TurnGold("s", service, None, (EventGold("say goodbye", "say goodbye", "GOODBYE", service),)),
        }
        turns = (
            NewTurn("user", f"on day {number}", source_id=f"{number}:0"),
            NewTurn("assistant", f"bye {number}", source_id=f"{number}:1"),
        )
        trajectories.append(Trajectory(f"{split}/{number}", turns, split, gold))
    names = sorted({event.name for t in trajectories for gold in t.gold.values() for event in gold.events})
    labels = [Label(f"event:{name}", "event", name, f"About {name}") for name in names]
    labels.append(Label("entity_type:date", "entity_type", "date", "Date of travel"))
    card = Card("sgd", "SGD", "CC", use, "")  # type: ignore[arg-type]
    return Corpus(card, tuple(trajectories), (), tuple(labels))


def test_each_turn_is_asked_with_what_was_said_before_and_all_labels_of_the_corpus() -> None:
    traces = [trace for trace in label_traces(corpus(), evaluation=True) if trace.conversation == "train/3"]
    assert [trace.task for trace in traces] == [EVENT.name, EVENT.name, ENTITY_TYPES.name, ENTITY_TYPES.name]
    first, second = traces[:2]
    assert first.fields == {"turn": "user: on day 3"}
    assert second.fields == {"turn": "assistant: bye 3", "before": ("user: on day 3",)}
    assert first.labels == ("give date (book Buses_3)",)
    assert len(first.options.ids) == 9
    assert traces[2].labels == ("date",)
    assert traces[3].labels == ()
    assert first.teacher == "gold:sgd"


def test_to_train_on_each_turn_is_asked_in_the_words_of_the_seed_vocabulary_too() -> None:
    traces = [t for t in label_traces(corpus()) if t.conversation == "train/3" and t.teacher == "gold:sgd-seeds"]
    assert [trace.labels for trace in traces] == [("give time or date",), ("say goodbye",), ("date",), ()]
    assert len({trace.key for trace in label_traces(corpus())}) == len(label_traces(corpus()))


def test_every_seed_label_that_an_act_or_slot_stands_for_exists() -> None:
    names = {seed.name for seed in load_seeds()}
    used = {*label_seeds._BY_ACT.values(), *(name for _, name in label_seeds._TYPES)}
    used |= {name for _, name in (*label_seeds._GIVEN, *label_seeds._ASKED)}
    assert used <= names
    assert {*seed_options(EVENT.name).ids, *seed_options(ENTITY_TYPES.name).ids} == used | {
        "request search",
        "request action",
    }


def test_there_are_examples_of_every_seed_label_and_of_no_other() -> None:
    for task in (EVENT, ENTITY_TYPES):
        used = {label for example in examples(task.name) for label in example.labels}
        assert used == set(options(task.name).ids)
        assert len({example.turn for example in examples(task.name)}) == len(examples(task.name))


def test_examples_of_ordinary_talk_are_trained_on_and_never_evaluated_on() -> None:
    traces = [trace for trace in label_traces(corpus()) if trace.teacher == "gold:examples"]
    assert {trace.meta["split"] for trace in traces} == {"train", "dev", "calibration"}
    by_turn: dict[tuple[str, str], set[str]] = {}
    for trace in traces:
        by_turn.setdefault((trace.task, str(trace.fields["turn"])), set()).add(trace.meta["split"])
    assert all(len(splits) == 1 for splits in by_turn.values())
    assert not [t for t in label_traces(corpus(), evaluation=True) if t.teacher == "gold:examples"]


def test_whole_services_are_kept_back_and_other_parts_are_never_trained_on() -> None:
    traces = [trace for trace in label_traces(corpus(200)) if trace.teacher != "gold:examples"]
    by_split: dict[str, set[str]] = {}
    services: dict[str, set[str]] = {}
    for trace in traces:
        by_split.setdefault(trace.meta["split"], set()).add(trace.conversation)
        services.setdefault(trace.meta["split"], set()).add(trace.meta["domain"])
    check_disjoint({name: tuple(inside) for name, inside in by_split.items()})
    assert set(by_split) == {"train", "dev", "calibration", "test"}
    assert services["dev"] | services["calibration"] <= {f"Buses_{number}" for number in range(8)}
    assert all(name.startswith("dev/") for name in by_split["test"])
    assert {trace.meta["group"] for trace in traces if trace.meta["domain"] == "Buses_5"} == {"unseen"}
    assert {trace.key for trace in traces} <= {trace.key for trace in label_traces(corpus(200))}


def test_a_part_that_is_only_measured_on_brings_no_examples_to_learn_from() -> None:
    assert {trace.meta["split"] for trace in label_traces(corpus(200).only("dev"))} == {"test"}


def test_no_service_is_learnt_from_in_more_dialogues_than_brings_much() -> None:
    taught = [trace for trace in label_traces(corpus(12 * A_SERVICE)) if trace.meta["split"] == "train"]
    by_service: dict[str, set[str]] = {}
    for trace in taught:
        if trace.teacher != "gold:examples":
            by_service.setdefault(trace.meta["domain"], set()).add(trace.conversation)
    assert by_service and all(len(dialogues) == A_SERVICE for dialogues in by_service.values())


def test_a_dialogue_that_stands_in_the_held_out_part_too_is_not_trained_on() -> None:
    whole = corpus()
    copy = replace(whole.trajectories[-1], id="train/copy", split="train")
    traces = label_traces(replace(whole, trajectories=(*whole.trajectories, copy)))
    assert not [trace for trace in traces if trace.conversation == "train/copy"]


def test_corpora_for_evaluation_only_are_refused_and_so_is_one_without_events() -> None:
    with pytest.raises(InputError, match="evaluation only"):
        label_traces(corpus(use="evaluation only"))
    assert label_traces(corpus(use="evaluation only"), evaluation=True)
    bare = replace(corpus(4), trajectories=(Trajectory("x", (NewTurn("user", "hi", source_id="1"),), "test", {}),))
    with pytest.raises(InputError, match="names no events"):
        label_traces(bare)


class Says:
    """Answers what it was told to."""

    name, reads_window = "says", False

    def __init__(self, *answers: Decision) -> None:
        self.answers = list(answers)

    def decide(self, task: Task, items: Sequence[object]) -> list[Decision]:
        return [self.answers.pop(0) for _ in items]


def answer(*labels: str, confidence: float = 0.5, **chances: float) -> Decision:
    return Decision(labels, {**dict.fromkeys(labels, confidence), **chances}, confidence, "says")


def asked(task: Task, *labels: str, number: int = 0) -> Trace:
    return Trace(task.name, task.hash, {"turn": f"user: {number}"}, labels, "t", f"c{number}", number, OFFER)


def test_traces_of_one_task_are_the_same_with_the_other_or_without() -> None:
    both = label_traces(corpus(), seed=3)
    for name in ("event", "entity_types"):
        alone = label_traces(corpus(), seed=3, tasks=(name,))
        assert alone == [trace for trace in both if trace.task == name] and alone


def figures(task: Task, traces: list[Trace], *answers: Decision, taught: Sequence[str] = ()) -> dict[str, float]:
    found = evaluate(Says(*answers), traces, taught=taught)
    return {f"{one.metric} {one.group}": one.value for one in found}


def test_the_first_of_a_turns_several_events_counts_and_five_likeliest() -> None:
    traces = [asked(EVENT, "price", "date", number=0), asked(EVENT, "day", number=1), asked(EVENT, "day", number=2)]
    answers = answer("date", confidence=0.9), answer("price", day=0.2), answer(price=0.4)
    found = figures(EVENT, traces, *answers, taught=("price", "visit date"))
    assert found["top1 all"] == pytest.approx(1 / 3)
    assert found["top5 all"] == pytest.approx(2 / 3)
    assert found["accuracy_70 all"] == pytest.approx(1 / 2)
    assert found["top1 unseen labels"] == 0.0


def test_labels_of_one_family_are_one_coarsely() -> None:
    traces = [asked(ENTITY_TYPES, "date", number=0), asked(ENTITY_TYPES, "price", number=1)]
    found = figures(ENTITY_TYPES, traces, answer("day"), answer("price"))
    assert found["micro_f1 all"] == 0.5
    assert found["coarse_micro_f1 all"] == 1.0


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("check in date: Start date for the reservation", "date"),
        ("pickup time: Time of rental car pickup", "time"),
        ("has wifi: Boolean flag indicating if the hotel has wifi", "property"),
        ("ride fare: Total fare for taxi ride", "money"),
        ("where to: Location of the house", "place"),
        ("number of adults: Number of people for the reservation", "count"),
        ("artist: Artist who performed the song", "name"),
        ("mood: how it felt", "other"),
    ],
)
def test_a_label_belongs_to_the_family_of_its_head_word(label: str, expected: str) -> None:
    assert family(label) == expected


def test_baselines_answer_the_same_items() -> None:
    traces = label_traces(corpus(8), evaluation=True)
    events = [trace for trace in traces if trace.task == EVENT.name]
    items = items_of(EVENT, events, HashEmbedder())
    assert len({id(item.candidates) for item in items}) == 1
    found = evaluate(BaselineDecider(), traces, HashEmbedder())
    assert {one.task for one in found} == {EVENT.name, ENTITY_TYPES.name}
    assert all(one.low <= one.value <= one.high for one in found if not np.isnan(one.low))


def test_traces_of_a_task_that_nobody_declared_are_refused() -> None:
    with pytest.raises(InputError, match="give the task"):
        evaluate(Says(), [replace(asked(EVENT), task="other")])
    with pytest.raises(InputError, match="are none"):
        evaluate(Says(), [])
    assert measure(EVENT, [], []) == []


def test_sgd_gives_traces_of_both_tasks(shared: Path) -> None:
    from intentmem.train_data import sgd

    traces = label_traces(sgd.load(shared / "data" / "sgd" / "dev" / "dialogues_001.json"))
    assert {trace.task for trace in traces} == {EVENT.name, ENTITY_TYPES.name}
    assert {trace.meta.get("group") for trace in traces} >= {"unseen"}
    assert max(len(trace.fields.get("before", ())) for trace in traces) == 6
