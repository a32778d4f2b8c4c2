"""Records written with a reader of values beside the rules."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from intentmem.memory.protocols import ReadSpan
from intentmem.memory.types import Mention, Record, Role, Snippet, Turn
from intentmem.memory.write.extractive import ExtractiveWriter
from intentmem.memory.write.record_spans import names_a_thing, thing_kind

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)


class Reader:
    """Finds the values that it is told of, by their text."""

    name = "student:record_spans@test"

    def __init__(self, **values: str) -> None:
        self.values = {value: name.replace("_", " ") for name, value in values.items()}
        self.sure = True
        self.also: tuple[str, ...] = ()

    def read(self, turns: Sequence[Turn]) -> list[tuple[ReadSpan, ...]]:
        return [
            tuple(
                sorted(
                    (
                        ReadSpan(at, at + len(value), name, 0.9, self.sure, self.also)
                        for value, name in self.values.items()
                        if (at := turn.text.find(value)) >= 0
                    ),
                    key=lambda span: span.start,
                )
            )
            for turn in turns
        ]


def read(reader: Reader | None, *said: tuple[Role, str]) -> list[Record]:
    writer, known, snippets = ExtractiveWriter(reader), list[Mention](), dict[str, Snippet]()
    turns = [
        Turn(f"t{i}", i, "n", "main", i, role, text, None, NOW, "given", None) for i, (role, text) in enumerate(said)
    ]
    for turn in turns:
        snippets[turn.id] = writer.ground(turn, known)
        known += snippets[turn.id].mentions
    return list(writer.records(turns, snippets))


def claims(reader: Reader | None, *said: tuple[Role, str]) -> set[tuple[str, str, str]]:
    return {(record.entity, record.property, record.value) for record in read(reader, *said)}


def test_a_value_that_only_the_reader_finds_is_said_of_what_was_named_last() -> None:
    said: list[tuple[Role, str]] = [
        ("assistant", "How about the hotel Apollo?"),
        ("user", "does it have the suite free"),
    ]
    assert ("Apollo", "room type", "suite") in claims(Reader(room_type="suite"), *said)


def test_a_name_that_the_reader_finds_is_what_is_spoken_of() -> None:
    found = claims(
        Reader(restaurant_name="nopa", price="$30"), ("assistant", "there is nopa"), ("assistant", "It costs $30.")
    )
    assert {("nopa", "restaurant name", "nopa"), ("nopa", "price", "$30")} <= found


def test_where_both_find_a_value_the_reader_names_it_and_it_stands_once() -> None:
    found = read(Reader(alarm_time="8:15 am"), ("user", "Set it for 8:15 am please."))
    assert [(record.property, record.decided_by) for record in found] == [("alarm time", Reader.name)]


def test_a_reader_that_is_unsure_of_the_name_leaves_it_to_the_rules() -> None:
    reader = Reader(alarm_time="7 pm")
    reader.sure = False
    said: tuple[Role, str] = ("user", "I want to leave at 7 pm.")
    assert [record.property for record in read(reader, said)] == ["departure time"]
    assert [record.property for record in read(reader, ("user", "my sign is 7 pm"))] != []


def test_of_properties_about_as_likely_the_one_that_a_rule_names_is_taken() -> None:
    said: tuple[Role, str] = ("user", "I want to leave at 7 pm.")
    reader = Reader(leaving_time="7 pm")
    assert [record.property for record in read(reader, said)] == ["leaving time"]
    reader.also = ("arrival time",)
    assert [record.property for record in read(reader, said)] == ["leaving time"]
    reader.also = ("arrival time", "departure times")
    assert [record.property for record in read(reader, said)] == ["departure time"]


def test_a_fact_stated_outright_stays_as_the_rules_read_it() -> None:
    (record,) = read(Reader(city="Lisbon"), ("user", "I live in Lisbon."))
    assert (record.entity, record.property, record.decided_by) == ("I", "residence", "rules")


def test_without_values_of_the_reader_the_rules_alone_speak() -> None:
    said: tuple[Role, str] = ("assistant", "Apollo Hotel costs $120 per night.")
    assert claims(Reader(city="Oslo"), said) == claims(None, said)


def test_every_record_is_verbatim_in_its_turn_whatever_the_script() -> None:
    text = "Réservé au Café Müller 東京, 8:15 am, naïve\u0301"
    reader = Reader(place="Café Müller", city="東京", time="8:15 am")
    found = read(reader, ("assistant", text))
    assert {record.value for record in found} >= {"東京", "8:15 am"}
    for record in found:
        (place,) = record.evidence
        assert text[place.start : place.end] == record.value


@pytest.mark.parametrize(
    ("name", "thing", "kind"),
    [
        ("restaurant name", True, "restaurant"),
        ("title", True, None),
        ("recipient name", False, None),
        ("city", False, None),
        ("name of it", False, None),
    ],
)
def test_names_of_things_are_told_from_attributes(name: str, thing: bool, kind: str | None) -> None:
    assert names_a_thing(name) is thing
    assert not thing or thing_kind(name) == kind
