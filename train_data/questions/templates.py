"""Wordings: templates with alternatives `[a|b]` and gaps `{name}`, read from TOML, each in one split.

A gap `{act.past}` takes one form of a filler; `{person2}` takes another filler of the same kind than `{person}`.
"""

from __future__ import annotations

import hashlib
import random
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from ..schemas import PlanGold

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
Rewrite = Callable[[str], str]
"""Says a question in other words, as a language model would; what it returns must mean the same."""

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_GAP = re.compile(r"\{(?P<name>[a-z_]+)(?P<number>\d?)(?:\.(?P<form>[a-z]+))?\}")
_DEAL: tuple[Split, ...] = ("train", "train", "test", "dev", "train", "train", "train", "test", "train", "train")


@dataclass(frozen=True, slots=True)
class Template:
    """A wording. `family` names what is asked; templates of one family ask the same thing."""

    id: str
    family: str
    text: str
    plan: PlanGold
    split: Split

    @property
    def gaps(self) -> frozenset[str]:
        """Names of the gaps that it may have."""
        return frozenset(match["name"] for match in _GAP.finditer(self.text))


@cache
def load_templates(name: str) -> tuple[Template, ...]:
    """The templates of a file that ships, by the name of the file without its suffix.

    Each family is dealt out to the splits, seven in ten for training, one for dev and two for test, in the order of
    the digests of its texts; so one with three or more is in both train and test.
    """
    made = []
    for family in _toml(name)["family"]:
        plan = PlanGold(*family["plan"])
        by_digest = sorted((hashlib.sha256(text.encode()).hexdigest()[:8], text) for text in family["texts"])
        for place, (digest, text) in enumerate(by_digest):
            split = _DEAL[place % len(_DEAL)]
            made.append(Template(f"{name}/{family['id']}/{digest}", family["id"], text, plan, split))
    return tuple(made)


def choose(text: str, rng: random.Random) -> str:
    """The text with one of each `[a|b]`."""
    while (match := _CHOICE.search(text)) is not None:
        text = text[: match.start()] + rng.choice(match[1].split("|")) + text[match.end() :]
    return re.sub(r"\s+([?.,])", r"\1", re.sub(r" {2,}", " ", text)).strip()


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with its gaps filled.

    Raises:
        KeyError: a gap has no value.
    """
    filled = _GAP.sub(lambda match: values[match[0][1:-1]], text)
    return re.sub(r"\b([Aa]) (?=[aeioAEIO])", r"\1n ", filled)


class Fillers:
    """Words for gaps, from `fillers.toml`."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        table = _toml("fillers")
        self._forms: Mapping[str, list[str]] = table["forms"]
        self._words: Mapping[str, list[str]] = table["fillers"]

    def fill(self, text: str) -> tuple[str, dict[str, str]]:
        """A wording with its alternatives chosen and its gaps filled, and what filled each gap."""
        chosen = choose(text, self._rng)
        picked: dict[str, dict[str, str]] = {}
        values: dict[str, str] = {}
        for match in _GAP.finditer(chosen):
            name, key = match["name"], match["name"] + match["number"]
            if key not in picked:
                taken = {entry["raw"] for other, entry in picked.items() if other.rstrip("23456789") == name}
                raw = self._rng.choice([word for word in self._words[name] if word not in taken])
                forms = dict(zip(self._forms.get(name, ()), raw.split("|"), strict=False))
                picked[key] = {"raw": raw, **forms}
            values[match[0][1:-1]] = picked[key][match["form"] or "raw"]
        return fill(chosen, values), values

    @staticmethod
    def people() -> list[str]:
        """Names of people."""
        return list(_toml("fillers")["fillers"]["person"])


@cache
def _toml(name: str) -> Mapping[str, Any]:
    return tomllib.loads((files("intentmem.train_data.questions") / f"{name}.toml").read_text(encoding="utf-8"))
