"""A search as asked, checked field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..addressing import Address, address
from ..errors import InputError
from ..types import Filters
from ..write.messages import clean, parse_role, parse_time
from .parts import ALL_PARTS, Parts

MAX_LIMIT = 10_000
MAX_QUERY_CHARS = 100_000
_OWNER = ("namespace", "user_id", "agent_id", "run_id", "trajectory", "session")
_LISTS = ("roles", "speakers", "trajectories", "sessions", "scopes", "events", "entity_types")
_TIMES = ("since", "until", "as_of")
_OTHER = ("recipe", "query_time", "before", "labels", "history")


class Recipe(StrEnum):
    """Named ways of ranking.

    dense: cosine. lexical: BM25. stitch: hard label density, ties broken by cosine (STITCH, section 3.3). fused: soft
    label density with every other signal, weights learned.
    """

    DENSE = "dense"
    LEXICAL = "lexical"
    STITCH = "stitch"
    FUSED = "fused"


class GroupBy(StrEnum):
    """What a result is, where it is not a turn."""

    SESSION = "session"
    EPISODE = "episode"
    SCOPE = "scope"


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search. `namespace` is the ordinal; `query_time` None means that the question is not dated.

    budget: tokens of a context; None takes what the question needs.
    history: whether turns that only say what another turn found with them has replaced are returned; None leaves them
    out where the question asks for what holds.
    parts: what of the read path it uses, all of it unless a benchmark switches something off.

    Raises:
        InputError: an empty query, or a limit or budget out of range.
    """

    query: str
    namespace: int
    namespace_name: str
    filters: Filters
    recipe: Recipe
    query_time: datetime | None = None
    before_row: int | None = None
    limit: int = 10
    budget: int | None = None
    group_by: str | None = None
    explain: bool = False
    history: bool | None = None
    parts: Parts = ALL_PARTS

    def __post_init__(self) -> None:
        if not isinstance(self.query, str) or not self.query.strip():
            raise InputError("query", "is empty", "ask something")
        if len(self.query) > MAX_QUERY_CHARS:
            raise InputError("query", f"has {len(self.query):,} characters", f"at most {MAX_QUERY_CHARS:,}")
        object.__setattr__(self, "query", clean(self.query))
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or not 1 <= self.limit <= MAX_LIMIT:
            raise InputError("limit", f"{self.limit!r} is out of range", f"1 to {MAX_LIMIT:,}")
        given = self.budget
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
            raise InputError("budget", f"{self.budget!r} is not a positive number of tokens")
        if self.history is not None and not isinstance(self.history, bool):
            raise InputError("history", f"{self.history!r} is neither true nor false")
        if self.group_by is not None and self.group_by not in list(GroupBy):
            raise InputError("group_by", f"{self.group_by!r} is unknown", f"one of {', '.join(GroupBy)}")


def parse_recipe(name: str | None) -> Recipe:
    """A recipe by name; `fused` where none is given.

    Raises:
        InputError: an unknown one.
    """
    try:
        return Recipe(name or Recipe.FUSED)
    except ValueError as error:
        raise InputError("recipe", f"{name!r} is unknown", f"one of {', '.join(Recipe)}") from error


def parse_filters(options: Mapping[str, Any]) -> tuple[Address, Filters]:
    """Owner and filters of a call.

    Raises:
        InputError: an unknown option, a text where a list is meant, an unusable time or role, or an empty span of time.
    """
    unknown = sorted(set(options) - {*_OWNER, *_LISTS, *_TIMES, *_OTHER})
    if unknown:
        raise InputError(
            unknown[0], "is not a known argument", f"known: {', '.join((*_OWNER, *_LISTS, *_TIMES, *_OTHER))}"
        )
    place = address(**{name: options[name] for name in _OWNER if options.get(name) is not None})
    lists = {name: _texts(options.get(name), name) for name in _LISTS}
    if lists["roles"] is not None:
        lists["roles"] = tuple(parse_role(role, "roles") for role in lists["roles"])
    if place.trajectory is not None:
        lists["trajectories"] = (place.trajectory,)
    if place.session is not None and not place.whole_run:
        lists["sessions"] = (place.session,)
    times = {name: parse_time(options.get(name), name) for name in _TIMES}
    since, until = times["since"], times["until"]
    if since is not None and until is not None and since >= until:
        raise InputError("until", "is not after since")
    labels = _labels(options.get("labels"))
    return place, Filters(labels=labels, **lists, **times)  # type: ignore[arg-type]  # keys are the fields' names


def _labels(value: object) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value:
        raise InputError("labels", "must be an object", 'for example labels={"tone": ["angry"]}')
    found = ((str(task), _texts(names, f"labels.{task}")) for task, names in value.items())
    return tuple((task, names) for task, names in found if names)


def _texts(value: object, field: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(v, str) for v in value):
        raise InputError(field, "must be a list of strings", f'for example {field}=["..."]')
    return tuple(clean(v) for v in value)
