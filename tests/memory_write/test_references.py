from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from intentmem.memory.types import Mention, Role, Turn
from intentmem.memory.write.entities import name_key, same_name
from intentmem.memory.write.mentions import mentions_of
from intentmem.memory.write.references import CONFIDENT, resolve

TIME = datetime(2024, 1, 1, tzinfo=UTC)


def turn_of(seq: int, role: Role, text: str) -> Turn:
    return Turn(f"t{seq}", seq, "n", "tr", seq, role, text, None, TIME, "given", None)


def resolved(*turns: tuple[Role, str]) -> list[tuple[str, str]]:
    """References of the last turn, with the turns before it as its scope."""
    known: list[Mention] = []
    for seq, (role, text) in enumerate(turns[:-1]):
        known += mentions_of(turn_of(seq, role, text))
    last = turn_of(len(turns) - 1, *turns[-1])
    references = resolve(last, known)
    assert all(r.confidence >= CONFIDENT and last.text[r.start : r.end] == r.surface for r in references)
    return [(r.surface, r.target) for r in references]


PLAN: tuple[tuple[Role, str], ...] = (
    ("user", "For day 1's breakfast I'd suggest Nopa, a restaurant."),
    (
        "assistant",
        "For day 1's breakfast you could try:\n1. Golden Dragon - a Chinese restaurant\n2. Blue Lagoon - a restaurant",
    ),
    ("user", "For day 2 dinner there is Il Forno, an Italian restaurant."),
)


def test_an_answer_resolves_to_what_was_asked_about() -> None:
    assert resolved(("user", "How much is the Apollo Hotel?"), ("assistant", "It is priced at around 76.22.")) == [
        ("It", "Apollo Hotel")
    ]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("What about the first restaurant I raised for day 1's breakfast?", "Nopa"),
        ("What about the first restaurant you suggested for day 1?", "Golden Dragon"),
        ("Take the last option you suggested for day 1.", "Blue Lagoon"),
        ("Book the restaurant for day 2.", "Il Forno"),
        ("Book the second restaurant I mentioned.", "Il Forno"),
    ],
)
def test_an_ordinal_counts_first_mentions_by_slot_and_speaker(text: str, target: str) -> None:
    assert [t for _, t in resolved(*PLAN, ("user", text))] == [target]


def test_an_ordinal_without_more_counts_in_the_list_just_given() -> None:
    assert resolved(*PLAN[:2], ("user", "The second one sounds good.")) == [("The second one", "Blue Lagoon")]


def test_the_latter_needs_a_list_of_two() -> None:
    assert resolved(PLAN[1], ("user", "I prefer the latter.")) == [("the latter", "Blue Lagoon")]
    three: tuple[Role, str] = ("assistant", "1. Alpha Inn - a hotel\n2. Beta Inn - a hotel\n3. Gamma Inn - a hotel")
    assert resolved(three, ("user", "I prefer the latter.")) == []


def test_a_repeated_name_counts_once() -> None:
    again: tuple[Role, str] = ("user", "The Apollo Hotel again.")
    assert resolved(
        ("user", "The Apollo Hotel."),
        again,
        ("user", "Then Hotel Lux."),
        ("user", "Book the second hotel I mentioned."),
    ) == [("the second hotel I mentioned", "Hotel Lux")]


def test_a_definite_resolves_by_kind_among_other_kinds() -> None:
    scope: tuple[tuple[Role, str], ...] = (("user", "I like the Apollo Hotel."), ("user", "And the Louvre Museum."))
    assert resolved(*scope, ("user", "Is the hotel far?")) == [("the hotel", "Apollo Hotel")]
    assert resolved(*scope, ("user", "How long would we stay there?")) == [("there", "Louvre Museum")]


@pytest.mark.parametrize(
    "text",
    [
        "It is raining.", "It seems fine to me.", "It would be great to meet.", "That's it, thanks.",
        "Is it possible to pay later?", "Hi there!", "There is no rush.",
        "the hotel where I stayed last", " year", "The restaurant is closed.", "the third one",
    ],
)  # fmt: skip
def test_what_stands_for_nothing_named_is_left_alone(text: str) -> None:
    assert resolved(("user", "I like the Apollo Hotel."), ("user", text)) == []


def test_a_pronoun_with_two_possible_names_is_left_alone() -> None:
    assert resolved(("user", "I like the Apollo Hotel and Hotel Lux."), ("user", "How much does it cost?")) == []


def test_nothing_named_means_nothing_resolved() -> None:
    assert resolved(("user", "I was there and it was open. The hotel too.")) == []


def test_an_abbreviation_is_no_pronoun() -> None:
    assert resolved(("user", "I like the Apollo Hotel."), ("user", "We need IT experts.")) == []


def test_a_person_is_never_it_or_there() -> None:
    assert resolved(("user", "Hey Melanie! How are you?"), ("user", "Does it have wifi? Do you go there?")) == []


def test_spellings_of_one_name_meet_and_numbered_ones_do_not() -> None:
    assert same_name(name_key("Sipan"), name_key("Sipan Peruvian Restaurant & Bar"))
    assert same_name(name_key("The Apollo Hotel"), name_key("Apollo"))
    assert not same_name(name_key("Terminal"), name_key("Terminal 2"))
    assert not same_name(name_key("Green Hotel"), name_key("Blue Hotel"))


_PLACES = (
    "city",
    "location",
    "destination",
    "venue",
    "event_location",
    "area",
    "where_to",
    "city_of_event",
    "pickup_location",
)


def test_on_dialogues_that_it_was_not_written_for_it_is_mostly_right(shared: Path) -> None:
    right = wrong = 0
    for name in ("dialogues_001.json", "dialogues_009.json"):
        for dialogue in json.loads((shared / "data/sgd/dev" / name).read_text()):
            found = _check_dialogue(dialogue["turns"])
            right, wrong = right + found[0], wrong + found[1]
    assert right + wrong > 50
    assert right / (right + wrong) > 0.8


def _check_dialogue(turns: list[dict[str, object]]) -> tuple[int, int]:
    """Count targets that are, or are not, one of the values that the dialogue's slots gave so far for one service."""
    known: dict[str, list[Mention]] = defaultdict(list)
    values: dict[str, set[str]] = defaultdict(set)
    right = wrong = 0
    for seq, raw in enumerate(turns):
        frames: list[dict[str, object]] = raw["frames"]  # type: ignore[assignment]
        service = str(frames[0]["service"])
        text = str(raw["utterance"])
        turn = turn_of(seq, "user" if raw["speaker"] == "USER" else "assistant", text)
        for frame in frames:
            for action in frame["actions"]:  # type: ignore[attr-defined]
                if action["slot"].endswith(("_name", "title", "album", "track")) or action["slot"] in _PLACES:
                    values[service] |= {" ".join(name_key(v)) for v in action["values"]}
        for reference in resolve(turn, known[service]):
            target = " ".join(name_key(reference.target))
            hit = any(target in value or value in target for value in values[service] if value)
            right, wrong = right + hit, wrong + (not hit)
        known[service] += mentions_of(turn)
    return right, wrong
