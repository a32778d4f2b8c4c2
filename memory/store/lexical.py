"""Words of turns in FTS5, and their postings.

Text is cut into terms here, not by SQLite, for three reasons: words of Chinese, Japanese and Korean are found as
overlapping pairs of characters, so that a word of two is found; English is stemmed and everything is folded alike on
both sides; and each term carries its namespace's ordinal, so that one tenant's words are never met while reading
another's.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..stemming import stem
from .database import Database

_CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f"
)
_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:['’][^\W_{_CJK}]+)*")
_IS_CJK = re.compile(rf"[{_CJK}]")

STOP_WORDS = frozenset(
    """
    a about after again all am an and any are aren't as at be because been before being both but by can can't
    could couldn't did didn't do does doesn't doing don't down during each few for from further had hadn't has
    hasn't have haven't having he he'd he's her here here's hers herself him himself his how how's i i'd i'll i'm
    i've if in into is isn't it it's its itself just let's me more most mustn't my myself no nor not now of off on
    once only or other ought our ours ourselves out over own same shan't she she'd she's should shouldn't so some
    such than that that's the their theirs them themselves then there there's these they they'd they'll they're
    they've this those through to too under until up very was wasn't we we'd we'll we're we've were weren't what
    what's when when's where where's which while who who's whom why why's will with won't would wouldn't you you'd
    you'll you're you've your yours yourself yourselves
    """.split()  # noqa: SIM905  # a list of 170 quoted words is harder to read
)
"""English function words: kept in the index, left out of queries that have other words."""


@dataclass(frozen=True, slots=True)
class Postings:
    """Occurrences of one term.

    rows: turns that hold it in text or meta, (P,) int64 ascending; text, meta: its frequency in each field, (P,).
    grounded_rows, grounded: the same for what grounding added, (G,), unordered.
    """

    rows: NDArray[np.int64]
    text: NDArray[np.float32]
    meta: NDArray[np.float32]
    grounded_rows: NDArray[np.int64]
    grounded: NDArray[np.float32]


def terms(text: str) -> list[str]:
    """Terms of a text in order: folded, English-stemmed words; overlapping pairs (and singles) of CJK characters."""
    found: list[str] = []
    for match in _TOKEN.finditer(fold(text)):
        token = match.group()
        if _IS_CJK.match(token):
            found.extend(token)
            found.extend(token[i : i + 2] for i in range(len(token) - 1))
        else:
            found.append(_stem(token))
    return found


def query_terms(text: str) -> list[str]:
    """Distinct terms to look up, in order: no single CJK characters beside pairs, no stop words beside other words."""
    words: list[str] = []
    for match in _TOKEN.finditer(fold(text)):
        token = match.group()
        if _IS_CJK.match(token):
            words.extend([token] if len(token) == 1 else [token[i : i + 2] for i in range(len(token) - 1)])
        else:
            words.append(token)
    meant = [w for w in words if w.replace("’", "'") not in STOP_WORDS] or words
    return list(dict.fromkeys(w if _IS_CJK.match(w) else _stem(w) for w in meant))


def fold(text: str) -> str:
    """Compatibility-normalised, case-folded, without diacritics: what is compared when names are compared."""
    # Normalised first: a mathematical or full-width capital is a letter with another case only then.
    decomposed = unicodedata.normalize("NFKD", text).casefold() if not text.isascii() else text.lower()
    if decomposed.isascii():
        return decomposed
    kept = "".join(c for c in decomposed if not unicodedata.combining(c) or c in "\u3099\u309a")
    return unicodedata.normalize("NFC", kept)


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    bare = word.replace("’", "'")
    bare = bare.removesuffix("'s")
    return stem(bare.replace("'", ""))


class LexicalIndex:
    """The inverted index over turns, in three fields: raw text, speaker and date, and what grounding added.

    The first two are a document under the turn's row, written with the turn; the last is one under minus the row,
    written when grounding is done: adding it later does not touch what is already indexed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, connection: sqlite3.Connection, namespace: int, row: int, text: str, meta: str = "") -> None:
        """Index a document within the caller's transaction; `row` is negative for what grounding added."""
        connection.execute(
            "INSERT INTO lexical (rowid, text, meta) VALUES (?, ?, ?)",
            (row, _tagged(namespace, text), _tagged(namespace, meta)),
        )

    def remove(self, connection: sqlite3.Connection, namespace: int, row: int, text: str, meta: str = "") -> None:
        """Take a document out; the texts must be those it was added with (the index keeps no copy of them)."""
        connection.execute(
            "INSERT INTO lexical (lexical, rowid, text, meta) VALUES ('delete', ?, ?, ?)",
            (row, _tagged(namespace, text), _tagged(namespace, meta)),
        )

    def clear(self, connection: sqlite3.Connection) -> None:
        """Take everything out within the caller's transaction, whatever it was added with."""
        connection.execute("INSERT INTO lexical (lexical) VALUES ('delete-all')")

    def postings(self, namespace: int, term: str) -> Postings:
        """Where a term occurs."""
        found = self._database.read(
            "SELECT doc, sum(col = 'text'), sum(col = 'meta') FROM lexical_terms WHERE term = ? GROUP BY doc",
            (f"{namespace}q{term}",),
        )
        table = np.array([tuple(row) for row in found], dtype=np.int64).reshape(-1, 3)
        grounded = table[:, 0] < 0
        return Postings(
            table[~grounded, 0],
            table[~grounded, 1].astype(np.float32),
            table[~grounded, 2].astype(np.float32),
            -table[grounded, 0],
            table[grounded, 1].astype(np.float32),
        )


def _tagged(namespace: int, text: str) -> str:
    # Digits, then a letter: no term of namespace 1 can read as one of namespace 12.
    return " ".join(f"{namespace}q{term}" for term in terms(text))
