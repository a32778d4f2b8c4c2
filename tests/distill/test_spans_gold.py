from __future__ import annotations

from dataclasses import replace

import pytest

from intentmem.distill.gold.spans import span_traces, spans_of, wider_properties
from intentmem.distill.splits import check_disjoint
from intentmem.distill.traces import belongs
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import RECORD_SPANS
from intentmem.memory.types import NewTurn
from intentmem.train_data.schemas import Corpus, EventGold, Trajectory, TurnGold, ValueSpan
from intentmem.train_data.sgd import CARD


def dialogue(number: int, service: str, split: str = "train") -> Trajectory:
    id = f"{split}/{number}"
    said = [f"Which city, {number}?", "In San Jose please", "Done"]
    turns = tuple(
        NewTurn("assistant" if place != 1 else "user", text, session=id, source_id=f"{id}:{place}")
        for place, text in enumerate(said)
    )
    spans = (ValueSpan(service, "pickup_city", "San Jose", 3, 11),)
    events = (EventGold("give pickup city", "give pickup city", "INFORM", service),)
    gold = {
        f"{id}:{place}": TurnGold(domain=service, events=events, spans=spans if place == 1 else ())
        for place in range(3)
    }
    return Trajectory(id, turns, split, gold)


def corpus(*trajectories: Trajectory) -> Corpus:
    return Corpus(CARD, trajectories)


@pytest.fixture
def mixed() -> Corpus:
    learnt = [dialogue(number, "RentalCars_1" if number % 9 else "Buses_1") for number in range(90)]
    return corpus(*learnt, dialogue(1000, "Alarm_1", "dev"))


def test_every_turn_is_a_trace_with_the_places_of_its_values(mixed: Corpus) -> None:
    traces = span_traces(mixed, evaluation=True)
    assert len(traces) == 3 * 91
    middle = next(trace for trace in traces if trace.seq == 1)
    text = str(middle.fields["text"])
    assert [(text[start:end], name) for start, end, name in spans_of(middle)] == [("San Jose", "pickup city")]
    assert middle.labels == ("pickup city",) and middle.fields["before"]
    assert all(not belongs(RECORD_SPANS, trace) for trace in traces)
    assert next(spans_of(trace) for trace in traces if trace.seq == 0) == []


def test_splits_are_by_dialogue_and_services_not_trained_on_are_unseen(mixed: Corpus) -> None:
    traces = span_traces(mixed)
    splits: dict[str, list[str]] = {}
    for trace in traces:
        splits.setdefault(trace.meta["split"], []).append(trace.conversation)
    check_disjoint(splits)
    assert set(splits) <= {"train", "dev", "calibration", "test"}
    assert {trace.meta["group"] for trace in traces if trace.meta["split"] == "train"} == {"seen"}
    held_out = span_traces(mixed, evaluation=True)
    assert {trace.meta["group"] for trace in held_out if trace.conversation == "dev/1000"} == {"unseen"}


def test_what_may_not_be_trained_on_is_refused(mixed: Corpus) -> None:
    closed = replace(mixed, card=replace(CARD, use="evaluation only"))
    with pytest.raises(InputError, match="evaluation only"):
        span_traces(closed)
    assert span_traces(closed, evaluation=True)


def test_wider_names_are_words_and_stand_once() -> None:
    names = wider_properties()
    assert len(names) == len(set(names)) > 100
    assert all(name == name.lower() and "_" not in name and "|" not in name for name in names)
