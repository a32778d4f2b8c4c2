"""How a claim is meant, by the words around its value."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.memory.write.claim_keys import condition_key, entity_key, is_plural, property_key, value_key
from intentmem.memory.write.modality import Modality, read_claim
from intentmem.memory.write.periods import read_period

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)


def place(text: str) -> tuple[str, int, int]:
    """A text without the brackets around its value, and where that is."""
    start, end = text.index("["), text.index("]") - 1
    return text.replace("[", "").replace("]", ""), start, end


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I live in [Lyon].", "asserted"),
        ("I moved to [Oslo].", "asserted"),
        ("I'm planning to move to [Berlin].", "planned"),
        ("I'm moving to [Oslo] next month.", "planned"),
        ("The meeting will be at [3pm].", "planned"),
        ("I would love to live in [Kyoto].", "desired"),
        ("I wish I had a [Volvo].", "desired"),
        ("If I lived in [Paris], I'd eat croissants.", "hypothetical"),
        ("Imagine me living in [Kyoto]!", "hypothetical"),
        ("I heard that Bob moved to [Rome].", "hearsay"),
        ("According to Mia, Leo is a [chef].", "hearsay"),
        ("Bob told me he moved to [Rome].", "hearsay"),
        ("Maybe it is [Tuesday].", "uncertain"),
        ("Do I live in [Paris]?", "question"),
        ("I wonder whether [Austin] would suit me.", "question"),
        ("I don't live in [Paris].", "negated"),
        ("My birthday is on 4 May, not [3 May].", "negated"),
        ("I no longer work at [Acme].", "retraction"),
        ("I moved from [Lyon] to Oslo.", "retraction"),
        ("I sold my [Honda] and bought a Tesla.", "retraction"),
        ("Sorry, I meant [Milan].", "correction"),
        ("That was wrong. It's [Milan].", "correction"),
        ("我住在[北京]。", "asserted"),
    ],
)
def test_the_wording_says_how_a_claim_is_meant(text: str, expected: str) -> None:
    assert read_claim(*place(text)).modality.value == expected


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("I moved from Lyon to [Oslo].", "updates"),
        ("I work at [Globex] now.", "updates"),
        ("My new number is [34].", "updates"),
        ("I also speak [Spanish].", "adds"),
        ("I only speak [Spanish].", "only"),
        ("I replaced my Honda with a [Tesla].", "swaps"),
    ],
)
def test_the_wording_says_what_changes(text: str, flag: str) -> None:
    assert getattr(read_claim(*place(text)), flag)


@pytest.mark.parametrize(
    "text",
    [
        "I live in [Hoboken], New Jersey.",
        "I was raised in [Lyon].",
        "I still live in [Lyon].",
        "Now, my home is in [Lyon].",
        "我搬到了[上海]。",
        "Je vis maintenant à [Lyon].",
    ],
)
def test_no_change_is_read_where_none_is_told(text: str) -> None:
    assert not read_claim(*place(text)).updates


def test_a_question_beside_a_statement_does_not_question_it() -> None:
    assert read_claim(*place("I moved to [Oslo], can you update that?")).modality is Modality.ASSERTED
    assert read_claim(*place("I live in [Oslo], right?")).modality is Modality.QUESTION


def test_planning_is_asserting_where_the_property_is_a_plan() -> None:
    text = "I'm going to spend June in [Kyoto]."
    assert read_claim(*place(text)).modality is Modality.PLANNED
    assert read_claim(*place(text), "travel plan").modality is Modality.ASSERTED


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("I lived in [Paris] from 2019 to 2021.", "2019-01-01", "2022-01-01"),
        ("I lived in [Paris] 2010-12.", "2010-01-01", "2013-01-01"),
        ("Since March 2020 I've been at [Acme].", "2020-03-01", None),
        ("I lived in [Paris] until 2021.", None, "2022-01-01"),
        ("I moved to [Oslo] in 2012.", "2012-01-01", None),
        ("In 2015 I lived in [Rome].", "2015-01-01", "2016-01-01"),
        ("From 2019 to 2021 I lived in [Paris]; since 2022 I've lived in Oslo.", "2019-01-01", "2022-01-01"),
        ("I was in [Paris] between January and June 2025.", "2025-01-01", "2025-07-01"),
        ("I was born on [3 May 1990].", None, None),
        ("My code is [2019].", None, None),
    ],
)
def test_the_wording_says_for_when_it_holds(text: str, since: str | None, until: str | None) -> None:
    period = read_period(*place(text), NOW)
    days = [
        moment and datetime.fromtimestamp(moment, UTC).date().isoformat() for moment in (period.since, period.until)
    ]
    assert days == [since, until]


def test_spellings_of_one_thing_have_one_key() -> None:
    assert len({value_key(v) for v in ("3 May 1990", "May 3rd, 1990", "1990-05-03", "the 3rd of May 1990")}) == 1
    assert value_key("$1,200") == value_key("1200 dollars")
    assert value_key("two cats") == value_key("2 cats")
    assert value_key("3 May") != value_key("4 May")
    assert property_key("favoriteFoods") == property_key("favorite foods") == property_key("Favorite_food")
    assert condition_key("when I'm travelling") == condition_key("while traveling")
    assert entity_key("The Astra") == entity_key("astra") and entity_key("I", "Ana Roth") == "ana roth"
    assert [is_plural(p) for p in ("languages", "allergies", "address", "status", "speaks")] == [True] * 2 + [
        False
    ] * 2 + [True]


@given(st.text(max_size=120), st.integers(0, 120), st.integers(0, 120))
def test_any_text_is_read_without_an_error(text: str, start: int, length: int) -> None:
    start = min(start, len(text))
    end = min(start + length, len(text))
    assert read_claim(text, start, end).modality in Modality
    read_period(text, start, end, NOW)
    value_key(text)
    property_key(text)
