"""The seed vocabulary: general operations and attributes that any conversation may show (`seeds.toml`)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ..errors import InputError


@dataclass(frozen=True, slots=True)
class SeedLabel:
    """A label to start from. `kind` is "event" or "entity_type"; `parent` names its coarse label, if any."""

    kind: str
    name: str
    description: str
    parent: str | None = None


@cache
def load_seeds() -> tuple[SeedLabel, ...]:
    """The seed labels that ship with the package, each parent before its children.

    Raises:
        InputError: the file is not valid (a repeated or upper-case name, or no description).
    """
    return parse_seeds(files(__package__).joinpath("seeds.toml").read_text(encoding="utf-8"))


def parse_seeds(text: str) -> tuple[SeedLabel, ...]:
    """Seed labels from TOML: `[kind.coarse]` with a `description` and a table `fine` of name = description.

    Raises:
        InputError: the text is not of that form, or a name is repeated in its kind, not lower-case or not described.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError("seeds", f"is not TOML: {error}") from error
    seeds: list[SeedLabel] = []
    for kind, coarse in table.items():
        if not isinstance(coarse, dict):
            raise InputError(f"seeds.{kind}", "must be a table of coarse labels")
        for name, entry in coarse.items():
            seeds.extend(_family(kind, name, entry))
    _check(seeds)
    return tuple(seeds)


def _family(kind: str, name: str, entry: Any) -> list[SeedLabel]:
    where = f"seeds.{kind}.{name}"
    if not isinstance(entry, dict) or set(entry) - {"description", "fine"}:
        raise InputError(where, "must be a table with `description` and `fine` only")
    fine = entry.get("fine", {})
    if not isinstance(fine, dict):
        raise InputError(f"{where}.fine", "must be a table of name = description")
    return [
        SeedLabel(kind, name, entry.get("description", "")),
        *(SeedLabel(kind, child, description, name) for child, description in fine.items()),
    ]


def _check(seeds: list[SeedLabel]) -> None:
    seen: set[tuple[str, str]] = set()
    for seed in seeds:
        where = f"seeds.{seed.kind}.{seed.name}"
        if (seed.kind, seed.name) in seen:
            raise InputError(where, "is there twice", "names are unique within their kind")
        if seed.name != seed.name.lower().strip() or not seed.name:
            raise InputError(where, "must be a lower-case name")
        if not isinstance(seed.description, str) or not seed.description.strip():
            raise InputError(where, "has no description")
        seen.add((seed.kind, seed.name))
