"""English stems, for everything that compares words. Other languages pass unchanged."""

from __future__ import annotations

import threading
from functools import lru_cache

import Stemmer

_local = threading.local()


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The Snowball (Porter 2) stem of a lower-case word; a word that is not plain ASCII letters is its own."""
    if not (word.isascii() and word.isalpha()):
        return word
    # A stemmer keeps its state in the object: one for each thread.
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english")
    return str(stemmer.stemWord(word))
