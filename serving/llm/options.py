"""Candidates as a model reads them: the closest few, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from intentmem.memory.tasks import Candidates
from intentmem.memory.types import Vector

NONE = "none"
"""What a model answers where no candidate fits; also the key of that probability for a task over candidates."""
CHOSEN = 0.85
"""Probability of what a JSON answer names: it comes without one. The rest is shared by similarity."""
_TEMPERATURE = 0.05


@dataclass(frozen=True, slots=True)
class Options:
    """Candidates to choose from, closest first.

    ids, names, texts: K each. closeness: (K,), cosines to the text in question, zeros where there are no vectors.
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    texts: tuple[str, ...]
    closeness: tuple[float, ...]

    def id_of(self, name: str) -> str | None:
        """The candidate of a name, None where there is none."""
        return dict(zip(self.names, self.ids, strict=True)).get(name)

    def lines(self) -> str:
        """One a line, `- name: description`."""
        return "\n".join(f"- {text}" for text in self.texts)


def closest(candidates: Candidates, vector: Vector | None, most: int) -> Options:
    """The candidates closest to a text; the first ones where there is no vector. Names are made unique."""
    count = len(candidates)
    if vector is None or candidates.vectors is None or not count:
        return _options(candidates, range(min(most, count)), [0.0] * count)
    cosines = candidates.vectors @ vector
    order = np.argsort(-cosines, kind="stable")[:most].tolist()
    return _options(candidates, order, cosines.tolist())


def _options(candidates: Candidates, order: Sequence[int], closeness: Sequence[float]) -> Options:
    names: list[str] = []
    texts: list[str] = []
    for row in order:
        name, colon, rest = " ".join(candidates.texts[row].split()).partition(":")
        unique, number = name, 2
        while unique in names or unique == NONE:
            unique, number = f"{name} ({number})", number + 1
        names.append(unique)
        texts.append(f"{unique}{colon}{rest}")
    return Options(
        tuple(candidates.ids[row] for row in order), tuple(names), tuple(texts), tuple(closeness[row] for row in order)
    )


def one_of(options: Options, chosen: str | None) -> Mapping[str, float]:
    """Probabilities of options of which one, or none, was named."""
    others = [at for at, identity in enumerate(options.ids) if identity != chosen]
    shares = _shares([options.closeness[at] for at in others])
    rest = 1.0 - CHOSEN
    found = {options.ids[at]: rest * share for at, share in zip(others, shares, strict=True)}
    return found if chosen is None else {chosen: CHOSEN, **found}


def any_of(options: Options, chosen: Sequence[str]) -> Mapping[str, float]:
    """Probabilities of options each of which holds or not: they do not sum to 1."""
    best = max((options.closeness[at] for at, i in enumerate(options.ids) if i not in chosen), default=0.0)
    scale = (1.0 - CHOSEN) / best if best > 0 else 0.0
    near = {i: max(0.0, options.closeness[at]) * scale for at, i in enumerate(options.ids) if i not in chosen}
    return {**dict.fromkeys(chosen, CHOSEN), **near}


def _shares(closeness: Sequence[float]) -> list[float]:
    if not closeness:
        return []
    values = np.exp((np.asarray(closeness) - max(closeness)) / _TEMPERATURE)
    shares: list[float] = (values / values.sum()).tolist()
    return shares
