from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.protocols import Embedder


def cosine(a: str, b: str) -> float:
    first, second = HashEmbedder().encode([a, b], "passage")
    return float(first @ second)


def test_it_is_an_embedder() -> None:
    embedder: Embedder = HashEmbedder(64)
    assert embedder.fingerprint.dimension == 64
    assert embedder.encode(["a", "b"], "query").shape == (2, 64)
    assert embedder.encode([], "query").shape == (0, 64)


@given(st.lists(st.text(st.characters(categories=None), max_size=60), max_size=6))
def test_any_text_gets_a_finite_unit_vector_that_does_not_depend_on_its_neighbours(texts: list[str]) -> None:
    embedder = HashEmbedder()
    rows = embedder.encode(texts, "passage")
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    for row, text in zip(rows, texts, strict=True):
        np.testing.assert_array_equal(row, embedder.encode([text], "query")[0])


def test_texts_that_share_words_are_closer() -> None:
    assert cosine("I booked a hotel in Kyoto", "which hotels were booked in Kyoto") > 0.4
    assert cosine("I booked a hotel in Kyoto", "my dog likes to swim") < 0.2
    assert cosine("京都のホテルを予約した", "京都のホテル") > cosine("京都のホテルを予約した", "犬は泳ぐ")


def test_another_process_makes_the_same_vectors() -> None:
    script = (
        "from intentmem.memory.hashing import HashEmbedder\n"
        "print(HashEmbedder().encode(['a hotel'], 'query').tobytes().hex())"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.strip() == HashEmbedder().encode(["a hotel"], "query").tobytes().hex()


def test_tokens_are_words_and_marks() -> None:
    assert HashEmbedder().count_tokens(["Hello, world!", ""]) == [4, 0]
