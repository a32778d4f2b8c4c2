"""Numbered terms, and how far a turn names each scope."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from intentmem.memory.store.lexical import query_terms
from intentmem.memory.write.numbered import number_of, numbered_terms
from intentmem.memory.write.scope_names import ScopeNames
from intentmem.memory.write.scope_words import scope_clauses


def _names(*openings: str) -> ScopeNames:
    names = ScopeNames()
    for row, text in enumerate(openings):
        names.add(row, scope_clauses(text))
    return names


def test_a_number_is_one_term_with_the_word_before_it() -> None:
    assert numbered_terms("lunch on day 3") == ["lunch", "day", "day 3"]
    assert numbered_terms("Day 3's lunch, day three") == ["day", "lunch", "day 3"]
    assert "room 204" in numbered_terms("the key of room #204")


def test_prices_dates_and_counts_after_function_words_are_not_numbered_things() -> None:
    for text in ("it costs 3.50", "at 10:30", "for 3 of us", "about 20%", "the year 2025/26"):
        assert not [term for term in numbered_terms(text) if number_of(term)], text


@given(st.text())
def test_terms_without_a_numbered_thing_are_those_of_a_query(text: str) -> None:
    found = numbered_terms(text)
    assert len(set(found)) == len(found)
    if not any(number_of(term) for term in found):
        assert found == query_terms(text)


def test_a_turn_that_names_one_of_many_alike_stands_out_by_its_number() -> None:
    names = _names("About lunch on day 3. What about Luna?", "About lunch on day 4.", "About dinner on day 3.")
    found = names.named(scope_clauses("Once more on day 4's lunch: is Luna open?"))
    assert found.opening[1] == 1 == found.mutual[1]
    assert max(found.opening[0], found.opening[2], found.mutual[0], found.mutual[2]) < 0.8
    assert found.numbered.tolist() == [-1, 1, -1]


def test_a_name_that_is_new_is_like_none() -> None:
    names = _names("About lunch on day 3.", "About dinner on day 4.")
    found = names.named(scope_clauses("Now dinner on day 3. Any idea?"))
    assert found.opening.max() < 1 and found.mutual.max() < 0.8


def test_a_scope_is_known_by_the_names_it_was_taken_up_by_as_well() -> None:
    names = _names("Now the night of day 2.", "Now the night of day 3.")
    said = scope_clauses("Back to the hotel on day 2: how big is the room?")
    before = names.named(said)
    names.add(0, scope_clauses("Can we return to the hotel on day 2? Any other?"))
    after = names.named(said)
    assert before.again[0] == 0 and after.again[0] > 0.5 and after.again[1] == 0
    assert after.opening[0] > after.opening[1]


def test_only_the_first_and_the_latest_names_are_kept() -> None:
    names = _names("the marble kitchen")
    for number in range(1, 8):
        names.add(0, scope_clauses(f"the pantry on floor {number}"))
    assert names.named(scope_clauses("the marble kitchen")).opening[0] == 1
    assert len(names.state()["names"][0]) == 5


@given(st.lists(st.tuples(st.integers(0, 3), st.text("ab 12.", max_size=12)), max_size=20), st.text("ab 12."))
def test_names_that_are_restored_answer_alike(added: list[tuple[int, str]], asked: str) -> None:
    names, rows = ScopeNames(), 0
    for row, text in added:
        names.add(min(row, rows), scope_clauses(text))
        rows = max(rows, min(row, rows) + 1)
    again = ScopeNames.restore(json.loads(json.dumps(names.state())))
    for one, other in zip(names.named(scope_clauses(asked)), again.named(scope_clauses(asked)), strict=True):
        assert one.tolist() == other.tolist()
        assert len(one) == rows and (abs(one) <= 1 + 1e-9).all()
