import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from intentmem.memory.errors import InputError
from intentmem.train_data import Corpus, Fault, Problem, ValueSpan, load_corpus
from intentmem.train_data.sgd import iter_trajectories
from intentmem.train_data.sgd_labels import load_schema, unseen_services, words

SCHEMA = [
    {
        "service_name": "Cafes_1",
        "description": "Find cafes",
        "slots": [{"name": "cafe_name", "description": "Name of the cafe"}, {"name": "city", "description": "City"}],
        "intents": [{"name": "FindCafe", "description": "Find a cafe in a city"}],
    },
    {
        "service_name": "Rides_2",
        "description": "Order rides",
        "slots": [{"name": "number_of_seats", "description": "Seats"}, {"name": "city", "description": "Where to"}],
        "intents": [{"name": "GetRide", "description": "Order"}, {"name": "CancelRide", "description": "Cancel"}],
    },
]


def act(name: str, slot: str = "", *values: str) -> dict[str, Any]:
    return {"act": name, "slot": slot, "values": list(values), "canonical_values": list(values)}


def frame(
    service: str, actions: list[Any], intent: str | None = None, slots: list[Any] | None = None
) -> dict[str, Any]:
    made: dict[str, Any] = {"service": service, "actions": actions, "slots": slots or []}
    return made | ({"state": {"active_intent": intent}} if intent else {})


def turn(speaker: str, utterance: str, *frames: Any) -> dict[str, Any]:
    return {"speaker": speaker, "utterance": utterance, "frames": list(frames)}


def dialogue() -> dict[str, Any]:
    """A dialogue in the published form: two services, a goal offered, thanks, and some faults."""
    city = [{"slot": "city", "start": 8, "exclusive_end": 12}, {"slot": "city", "start": 8, "exclusive_end": 99}]
    want = act("INFORM_INTENT", "intent", "FindCafe")
    ride = act("INFORM_INTENT", "intent", "GetRide")
    given = [want, act("INFORM", "city", "Oslo")]
    found = [act("OFFER", "cafe_name", "Kaffe"), act("INFORM_COUNT", "count", "3")]
    chosen = frame("Cafes_1", [act("SELECT")], "FindCafe")
    return {
        "dialogue_id": "1_00000",
        "services": ["Cafes_1", "Rides_2"],
        "turns": [
            turn("USER", "Cafe in Oslo?", frame("Cafes_1", given, "FindCafe", city)),
            turn("SYSTEM", "Kaffe, 3 found", frame("Cafes_1", found)),
            turn("USER", " ", frame("Cafes_1", [], "FindCafe")),
            turn("USER", "Fine. A ride.", frame("Rides_2", [ride], "GetRide"), chosen),
            turn("SYSTEM", "How many seats?", frame("Rides_2", [act("REQUEST", "number_of_seats")])),
            turn("USER", "Cancel it.", frame("Rides_2", [act("INFORM_INTENT", "intent", "CancelRide")], "CancelRide")),
            turn("SYSTEM", "Done.", frame("Rides_2", [act("NOTIFY_SUCCESS")])),
            turn("USER", "Thanks.", frame("Rides_2", [act("THANK_YOU")], "NONE")),
            turn("ROBOT", "?"),
        ],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "dev"
    made.mkdir()
    (made / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (made / "dialogues_001.json").write_text(json.dumps([dialogue(), {"dialogue_id": 3}]), encoding="utf-8")
    (made / "dialogues_002.json").write_text(json.dumps([dialogue()]), encoding="utf-8")
    return made


@pytest.fixture
def corpus(folder: Path) -> Corpus:
    return load_corpus("sgd", folder)


def test_the_scope_follows_the_active_intent_and_thanks_do_not_change_it(corpus: Corpus) -> None:
    gold = list(corpus.trajectories[0].gold.values())
    cafe, ride, cancel = "Cafes_1: find cafe", "Rides_2: get ride", "Rides_2: cancel ride"
    assert [g.scope for g in gold] == [cafe, cafe, ride, ride, cancel, cancel, cancel]
    assert [g.domain for g in gold] == ["Cafes_1"] * 2 + ["Rides_2"] * 5
    assert [g.shift for g in gold] == [None, False, True, False, True, False, False]


def test_act_slot_and_intent_name_the_event_on_two_levels(corpus: Corpus) -> None:
    gold = list(corpus.trajectories[0].gold.values())
    assert [[(e.name, e.parent) for e in g.events] for g in gold] == [
        [("want to find cafe", "state a goal"), ("give city (find cafe)", "give city")],
        [
            ("offer cafe name (find cafe)", "offer cafe name"),
            ("tell how many were found (find cafe)", "tell how many were found"),
        ],
        [("want to get ride", "state a goal"), ("choose (find cafe)", "choose")],
        [("prompt for number of seats (get ride)", "prompt for number of seats")],
        [("want to cancel ride", "state a goal")],
        [("report success (cancel ride)", "report success")],
        [("give thanks", "give thanks")],
    ]


def test_slots_are_entity_types_and_their_values_keep_their_evidence(corpus: Corpus) -> None:
    trajectory = corpus.trajectories[0]
    named = [g.entity_types for g in trajectory.gold.values()]
    assert named[:4] == [("city",), ("cafe name",), (), ("number of seats",)]
    assert trajectory.gold["dev/1_00000:0"].spans == (ValueSpan("Cafes_1", "city", "Oslo", 8, 12),)


def test_every_label_in_use_is_described_in_the_vocabulary(corpus: Corpus) -> None:
    labels = {label.id: label for label in corpus.labels}
    for gold in (g for t in corpus.trajectories for g in t.gold.values()):
        assert f"scope:{gold.scope}" in labels
        assert all(f"entity_type:{name}" in labels for name in gold.entity_types)
        assert all(f"event:{e.name}" in labels and f"event:{e.parent}" in labels for e in gold.events)
    assert all(label.parent is None or label.parent in labels for label in corpus.labels)
    assert labels["entity_type:cafe name"].description == "Name of the cafe"
    assert labels["scope:Rides_2: get ride"].parent == "scope:Rides_2"
    event = labels["event:offer cafe name (find cafe)"]
    assert event.description == "Offer cafe name; Name of the cafe; goal: Find a cafe in a city"
    assert [label.id for label in corpus.labels] == sorted(labels)


def test_turns_carry_the_utterance_and_nothing_of_the_annotation(corpus: Corpus) -> None:
    for trajectory in corpus.trajectories:
        assert all(not t.meta and not t.attachments for t in trajectory.turns)
        assert [t.role for t in trajectory.turns] == ["user", "assistant"] + ["user", "assistant"] * 2 + ["user"]
        assert "FindCafe" not in repr(trajectory.turns)


def test_faults_are_counted_and_a_repeated_id_is_made_unique(corpus: Corpus) -> None:
    assert [t.id for t in corpus.trajectories] == ["dev/1_00000", "dev/1_00000#2"]
    assert corpus.problem_counts == {
        Fault.BAD_TURN: 3,
        Fault.EMPTY_TURN: 2,
        Fault.BAD_SPAN: 2,
        Fault.DUPLICATE_ID: 1,
    }


def test_dialogues_stream_a_file_at_a_time(folder: Path) -> None:
    (folder / "dialogues_003.json").write_text("broken", encoding="utf-8")
    problems: list[Problem] = []
    stream = iter_trajectories(folder, problems)
    assert [t.id for t in islice(stream, 2)] == ["dev/1_00000", "dev/1_00000#2"]
    assert problems
    with pytest.raises(InputError, match=r"dialogues_003\.json: is not JSON"):
        next(stream)


def test_a_split_without_its_schema_is_refused(folder: Path) -> None:
    (folder / "schema.json").unlink()
    with pytest.raises(InputError, match=r"has no schema\.json"):
        load_corpus("sgd", folder)


def test_the_parent_of_the_splits_is_refused_with_their_names(folder: Path) -> None:
    with pytest.raises(InputError, match="point at one of its folders: dev"):
        load_corpus("sgd", folder.parent)


def test_identifiers_become_words() -> None:
    assert words("number_of_beds") == "number of beds"
    assert words("FindHomeByArea") == "find home by area"


def test_the_development_split_has_its_known_counts(shared: Path) -> None:
    corpus = load_corpus("sgd", shared / "data" / "sgd" / "dev")
    gold = [g for t in corpus.trajectories for g in t.gold.values()]
    assert (len(corpus.trajectories), len(gold)) == (768, 13570)
    assert sum(len(g.spans) for g in gold) == 9445
    assert sum(g.shift is True for g in gold) == 1011
    assert all(g.scope for g in gold) and all(g.events for g in gold)
    assert len({e.name for g in gold for e in g.events}) == 508
    assert corpus.problems == ()
    by_id = {t.source_id: t for trajectory in corpus.trajectories for t in trajectory.turns}
    for trajectory in corpus.trajectories:
        for source, turn_gold in trajectory.gold.items():
            assert all(by_id[source].text[s.start : s.end] == s.value for s in turn_gold.spans)


def test_two_passes_over_the_development_data_are_equal_and_some_services_are_unseen(shared: Path) -> None:
    root = shared / "data" / "sgd"
    first, second = (list(islice(iter_trajectories(root / "train"), 100)) for _ in range(2))
    assert first == second and {t.split for t in first} == {"train"}
    unseen = unseen_services(load_schema(root / "train"), load_schema(root / "dev"))
    assert unseen and "Restaurants_2" in unseen and "Homes_1" not in unseen
