from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.memory.protocols import Writer
from intentmem.memory.types import Attachment, Mention, Reference, Role, Turn
from intentmem.memory.write.extractive import GIST_LIMIT, ExtractiveWriter, insert

WRITER: Writer = ExtractiveWriter()


def turn_of(
    text: str, role: Role = "user", speaker: str | None = None, seq: int = 1, caption: str | None = None
) -> Turn:
    attachments = (Attachment(caption=caption),) if caption else ()
    return Turn(
        f"t{seq}",
        seq,
        "n",
        "tr",
        seq,
        role,
        text,
        speaker,
        datetime(2023, 5, 8, 13, 0, tzinfo=UTC),
        "given",
        None,
        attachments,
    )


HOTEL = Mention("Apollo Hotel", 0, 12, "hotel", None, "t0", 0)


def test_a_grounded_turn_says_who_when_and_what_its_references_stand_for() -> None:
    snippet = WRITER.ground(turn_of("Book it. I was there yesterday.", speaker="Jon"), [HOTEL])
    assert snippet.grounded == "Jon (2023-05-08): Book it [Apollo Hotel]. I was there yesterday [2023-05-07]."
    assert [(r.kind, r.target) for r in snippet.references] == [("pronoun", "Apollo Hotel"), ("date", "2023-05-07")]
    assert snippet.decided_by == "extractive"


def test_a_turn_in_another_language_keeps_it() -> None:
    text = "我昨天去了「阿波罗酒店」。很好！"
    snippet = WRITER.ground(turn_of(text), [])
    assert snippet.grounded == "user (2023-05-08): 我昨天 [2023-05-07]去了「阿波罗酒店」。很好！"
    assert [m.name for m in snippet.mentions] == ["阿波罗酒店"]


def test_a_name_that_the_sentence_shows_is_not_inserted() -> None:
    text = "I like the Apollo Hotel but is it expensive?"
    assert WRITER.ground(turn_of(text), []).grounded.endswith(text)


def test_captions_follow_the_text() -> None:
    snippet = WRITER.ground(turn_of("", caption="a red boat"), [])
    assert "a red boat" in snippet.grounded
    assert "a red boat" in snippet.summary


def test_a_summary_of_a_long_turn_is_its_informative_sentences() -> None:
    filler = "Well, you know how it is with these things sometimes. "
    text = filler * 3 + "We booked the Apollo Hotel in Lisbon for 3 nights at 240 euros. " + filler * 3
    summary = WRITER.ground(turn_of(text), []).summary
    assert "Apollo Hotel in Lisbon" in summary
    assert len(summary) < len(text) / 2


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("How much is the Apollo Hotel?", "event", "price inquiry"),
        ("Please book a hotel in Lisbon.", "event", "book hotel"),
        ("What is the phone number of Nopa?", "entity_type", "phone number"),
        ("Where is the Apollo Hotel?", "entity_type", "location"),
        ("Ha!", "event", ""),
        ("Jon met Melanie.", "entity_type", ""),
        ("我昨天去了。", "event", ""),
    ],
)
def test_a_label_is_generic_or_declined(text: str, kind: str, name: str) -> None:
    found, description = WRITER.name_label(turn_of(text), kind, [])
    assert found == name
    assert bool(description) == bool(name)
    assert WRITER.name_label(turn_of(text), kind, [name.upper()]) == ("", "")


def test_a_scope_name_is_short_and_unlike_those_taken() -> None:
    turn = turn_of("Let's plan day 2: dinner at an Italian restaurant near the river.")
    taken: list[str] = []
    for _ in range(4):
        name = WRITER.name_scope(turn, taken)
        assert name.casefold() not in {t.casefold() for t in taken}
        assert name.startswith("Day 2 dinner")
        taken.append(name)


def test_a_gist_keeps_what_opened_the_scope_and_what_is_new() -> None:
    gist = WRITER.gist("", turn_of("We are planning the kitchen renovation."))
    for i in range(40):
        gist = WRITER.gist(gist, turn_of(f"The cupboard number {i} needs hinges{i} and varnish{i}.", seq=i))
        assert len(gist) <= GIST_LIMIT
    assert "kitchen renovation" in gist
    assert "hinges39" in gist


def test_an_episode_is_summarised_in_the_order_of_time() -> None:
    texts = ["The garden needs roses and tulips.", "Ok.", "Roses from the market cost 40 euros a dozen.", "Fine."]
    summary = WRITER.summarise([turn_of(t, speaker="Jon", seq=i) for i, t in enumerate(texts)])
    assert summary == f"Jon: {texts[0]} Jon: {texts[2]}"
    assert WRITER.summarise([]) == ""


def _without(grounded: str, head: str, references: tuple[Reference, ...]) -> str:
    """The original text: each insertion is cut out at its own place."""
    text, at = grounded[len(head) :], 0
    for reference in references:
        mark = f" [{reference.target}]"
        end = reference.end
        if text[end + at :].startswith(mark) and text[: end + at].endswith(reference.surface):
            text = text[: end + at] + text[end + at + len(mark) :]
    return text


_PIECES = st.sampled_from(
    [
        "Book it",
        " there",
        ". ",
        "yesterday",
        " [x] ",
        "the hotel",
        "昨天",
        "。",
        "\n",
        "\x00",
        "İ",
        "👩‍👩‍👧",
        "‮",
        " last Friday ",
    ]
)
_TEXTS = st.one_of(st.text(max_size=120), st.lists(_PIECES, max_size=10).map("".join))


@settings(deadline=None)
@given(_TEXTS)
def test_grounding_any_text_takes_nothing_away(text: str) -> None:
    turn = turn_of(text)
    snippet = WRITER.ground(turn, [HOTEL])
    assert _without(snippet.grounded, "user (2023-05-08): ", snippet.references) == text
    assert bool(snippet.summary) == bool(text.strip())


@settings(deadline=None)
@given(st.lists(_TEXTS, min_size=1, max_size=4), st.sampled_from(["event", "entity_type"]))
def test_any_text_can_be_named_gisted_and_summarised(texts: list[str], kind: str) -> None:
    gist = ""
    turns = [turn_of(text, seq=i) for i, text in enumerate(texts)]
    for turn in turns:
        name = WRITER.name_scope(turn, [])
        assert name and len(name) <= 60
        assert WRITER.name_scope(turn, [name]) != name
        WRITER.name_label(turn, kind, [])
        gist = WRITER.gist(gist, turn)
        assert len(gist) <= GIST_LIMIT
    WRITER.summarise(turns)


def test_insertions_are_in_the_order_of_the_text() -> None:
    references = [Reference(0, 2, "It", "A", "pronoun", 0.9), Reference(7, 9, "it", "B", "pronoun", 0.9)]
    assert insert("It and it", references) == "It [A] and it [B]"


def test_grounding_costs_less_than_a_tenth_of_an_embedding() -> None:
    texts = [
        "Hey Mel! I went to the Apollo Hotel last Friday, and it was so nice. Is the restaurant there expensive?",
        "Wow, that is cool! What now?",
    ]
    turns = [turn_of(text, seq=i) for i, text in enumerate(texts * 50)]
    start = time.process_time()
    for turn in turns:
        WRITER.ground(turn, [HOTEL])
    assert (time.process_time() - start) / len(turns) < 0.006
