"""The corpora by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from intentmem.memory.errors import InputError

from . import beam, came_bench, locomo, longmemeval, memconflict, realmem, sgd, tiage
from .schemas import Card, Corpus

_MODULES = (locomo, realmem, sgd, tiage, longmemeval, came_bench, memconflict, beam)

CARDS: Mapping[str, Card] = {module.CARD.name: module.CARD for module in _MODULES}
"""What can be loaded: title, licence, allowed use and home of each corpus."""

_LOADERS: Mapping[str, Callable[[str | Path], Corpus]] = {module.CARD.name: module.load for module in _MODULES}


def load_corpus(name: str, path: str | Path) -> Corpus:
    """Load a corpus in its published format from a file or a folder.

    Raises:
        InputError: no corpus has that name; nothing lies at `path`; a file is not in that corpus' format.
    """
    if name not in _LOADERS:
        raise InputError("name", f"{name!r} is no known corpus", f"known: {', '.join(sorted(_LOADERS))}")
    return _LOADERS[name](path)
