"""Baselines to beat, measured in the same run on the same texts: nothing here calls this project's retrieval.

`baseline:dense` is cosine over turn vectors; `baseline:bm25` is the library bm25s (Lucene's variant, k1 1.5, b .75)
with English stop words and the Snowball English stemmer; `baseline:rrf` is reciprocal rank fusion of the two with
k = 60 (Cormack et al., 2009).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import MissingExtraError
from intentmem.memory.types import Vector

DENSE, BM25, RRF = "baseline:dense", "baseline:bm25", "baseline:rrf"
BASELINES = (DENSE, BM25, RRF)
RRF_K = 60

Ranking = NDArray[np.intp]
"""Indices of turns, best first."""


class Baselines:
    """Rankings of one trajectory's turns.

    Args:
        texts: of the turns, N.
        vectors: of the same turns, (N, D), L2-normalised.

    Raises:
        MissingExtraError: bm25s is not installed.
    """

    def __init__(self, texts: Sequence[str], vectors: Vector) -> None:
        self._vectors = vectors
        self._analyse = _analyser()
        self._words: list[list[str]] = self._analyse(list(texts))
        self._index: tuple[int, Any, frozenset[str]] = (-1, None, frozenset())

    def rank(self, query: str, vector: Vector, until: int | None = None) -> dict[str, Ranking]:
        """Rank the first `until` turns (None: all) for a question by each baseline.

        Word statistics, too, are those of the searchable turns only. BM25 ranks the turns that share a word
        with the question.
        """
        count = len(self._words) if until is None else min(until, len(self._words))
        dense = _descending(self._vectors[:count] @ vector)
        scores = self._bm25(query, count)
        lexical = _descending(scores)
        lexical = lexical[scores[lexical] > 0]
        return {DENSE: dense, BM25: lexical, RRF: reciprocal_rank_fusion((dense, lexical), count)}

    def _bm25(self, query: str, count: int) -> NDArray[np.float64]:
        if self._index[0] != count:
            self._index = _bm25_index(self._words[:count])
        _, index, known = self._index
        words = [word for word in self._analyse([query])[0] if word in known]
        return np.asarray(index.get_scores(words), np.float64) if words else np.zeros(count)


def reciprocal_rank_fusion(rankings: Iterable[Ranking], count: int, k: int = RRF_K) -> Ranking:
    """Order `count` items by the sum of 1 / (k + rank), ranks from 1; an item that no ranking holds is left out."""
    scores = np.zeros(count)
    for ranking in rankings:
        scores[ranking] += 1 / (k + 1 + np.arange(len(ranking)))
    order = _descending(scores)
    return order[scores[order] > 0]


def best_first(sessions: Iterable[str | None]) -> list[str]:
    """Sessions in order of their best turn, from those of ranked turns; turns without a session are passed over."""
    return list(dict.fromkeys(session for session in sessions if session is not None))


def _descending(scores: NDArray[Any]) -> Ranking:
    return np.argsort(-scores, kind="stable")


def _analyser() -> Any:
    import Stemmer

    try:
        import bm25s
    except ImportError as error:
        raise MissingExtraError("bm25s", "bench") from error
    stemmer = Stemmer.Stemmer("english")

    def analyse(texts: list[str]) -> Any:
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer.stemWords, return_ids=False, show_progress=False)

    return analyse


def _bm25_index(words: list[list[str]]) -> tuple[int, Any, frozenset[str]]:
    """How many turns are indexed, their index, and their words."""
    import bm25s

    known = frozenset(word for turn in words for word in turn)
    index = bm25s.BM25()
    if known:  # bm25s refuses an index of nothing
        index.index(words, show_progress=False)
    return len(words), index, known
