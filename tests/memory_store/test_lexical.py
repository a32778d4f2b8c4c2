"""Words as they are compared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.memory.store.lexical import fold, query_terms


@given(st.text())
def test_what_is_folded_stays_as_it_is(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert query_terms(fold(text)) == query_terms(text)


@pytest.mark.parametrize("text", ["𝐂𝐀𝐅𝐄", "ＣＡＦÉ", "Café", "CAFE\u0301"])
def test_capitals_of_every_style_are_the_same_letters(text: str) -> None:
    assert fold(text) == "cafe"
