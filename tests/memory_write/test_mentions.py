from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.memory.types import Turn
from intentmem.memory.write.mentions import find_mentions, mentions_of
from intentmem.memory.write.slots import find_slots, same_slot


def described(text: str) -> list[tuple[str, str | None]]:
    return [(m.name, m.entity_type) for m in find_mentions(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How much is the Apollo Hotel?", [("Apollo Hotel", "hotel")]),
        ("I also like Hotel Lux.", [("Hotel Lux", "hotel")]),
        ("There's a restaurant called Nopa.", [("Nopa", "restaurant")]),
        ("Nopa, a cosy new restaurant near the station, is full.", [("Nopa", "restaurant")]),
        ("The Louvre Museum's price is 20 USD.", [("Louvre Museum", "museum")]),
        ("We watched the movie Inception there.", [("Inception", "movie")]),
        ("Please find restaurants in San Jose. Can you try Sino?", [("San Jose", "location"), ("Sino", "restaurant")]),
        (
            "1. Golden Dragon - a Chinese restaurant\n2. **Blue Lagoon**: seafood restaurant",
            [("Golden Dragon", "restaurant"), ("Blue Lagoon", "restaurant")],
        ),
        ("I am reading “The Old Man and the Sea” now.", [("The Old Man and the Sea", None)]),
        ("Hey Jon! Thanks, Caroline.", [("Jon", "person"), ("Caroline", "person")]),
        ("He works at the Museum of Modern Art.", [("Museum of Modern Art", "museum")]),
        ("It is at 1546 Maurice Lane.", [("1546 Maurice Lane", "address")]),
        ("「アポロホテル」に行きました", [("アポロホテル", "hotel")]),
        ("我喜欢《红楼梦》。", [("红楼梦", None)]),
    ],
)
def test_a_name_is_found_with_what_the_text_says_it_is(text: str, expected: list[tuple[str, str | None]]) -> None:
    assert described(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "What's the phone number?",
        "I think Italian food in March is great.",
        "See you on Monday.",
        "**Location**: here\n**Price**: 20",
        "Yes. Thanks. OK!",
        "",
        "Book it.",
    ],
)
def test_what_is_no_name_is_left_alone(text: str) -> None:
    assert find_mentions(text) == []


def test_a_name_carries_the_slot_of_its_sentence_or_of_the_heading_above_it() -> None:
    text = (
        "Day 1's breakfast at Cafe Uno and dinner at Trattoria Due.\n\nDay 2 dinner:\n- Il Forno, a"
        " pizzeria\nSaturday: the Blue Note Jazz Club"
    )
    assert [(m.name, m.slot) for m in find_mentions(text)] == [
        ("Cafe Uno", "day 1 breakfast"),
        ("Trattoria Due", "day 1 dinner"),
        ("Il Forno", "day 2 dinner"),
        ("Blue Note Jazz Club", "saturday"),
    ]


def test_a_unit_and_a_part_of_the_day_are_one_slot_in_either_order() -> None:
    names = [slot.name for slot in find_slots("dinner on day 2, the first night, and day two lunch")]
    assert names == ["day 2 dinner", "first night", "day 2 lunch"]


def test_a_slot_holds_its_parts_and_no_other() -> None:
    assert same_slot("day 2", "day 2 dinner")
    assert same_slot("day 1", "first day")
    assert not same_slot("day 2 dinner", "day 2")
    assert not same_slot("day 1", "day 10")
    assert not same_slot("day 1", None)


def test_mentions_of_a_turn_carry_its_place_and_speaker() -> None:
    turn = Turn(
        "t7",
        1,
        "n",
        "tr",
        7,
        "assistant",
        "Try the Apollo Hotel.",
        "Bot",
        datetime(2024, 1, 1, tzinfo=UTC),
        "given",
        None,
    )
    (mention,) = mentions_of(turn)
    assert (mention.turn, mention.seq, mention.speaker, mention.role) == ("t7", 7, "Bot", "assistant")


_PIECES = st.sampled_from(
    [
        "Apollo Hotel",
        " the ",
        "**Golden Dragon**",
        "\n1. ",
        "「ホテル」",
        "day 2",
        ": ",
        "Mr. ",
        "'s",
        "İ",
        "\x00",
        "Ǆ",
        "“Un ",
        "”",
        " of ",
    ]
)


@settings(deadline=None)
@given(st.one_of(st.text(max_size=120), st.lists(_PIECES, max_size=12).map("".join)))
def test_any_text_gives_names_at_exact_offsets(text: str) -> None:
    end = 0
    for mention in find_mentions(text):
        assert end <= mention.start < mention.end
        assert text[mention.start : mention.end] == mention.name
        end = mention.end
