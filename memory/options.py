"""Whose memory, and what of it: the arguments that the facade's methods share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict

TimeLike = datetime | str | float


class Owner(TypedDict, total=False):
    """Whose memory: `namespace`, or `user_id` and `agent_id`; `run_id` or `session` for one sitting of it."""

    namespace: str
    user_id: str
    agent_id: str
    run_id: str
    session: str
    trajectory: str


class SearchOptions(Owner, total=False):
    """Restrictions and recipe of a search.

    A collection means "any of these". Times are ISO 8601, datetimes, or seconds since 1970; `since` is inclusive,
    `until` exclusive, `as_of` hides what came after it. `before` is a turn's id: only what was stored before it is
    searched. Scopes, events and entity types are given by name or id. `history` True returns superseded turns too,
    False leaves out those whose successor is found as well; without it, only a question about how things were gets
    them.
    """

    recipe: str
    before: str
    roles: Sequence[str]
    speakers: Sequence[str]
    scopes: Sequence[str]
    events: Sequence[str]
    entity_types: Sequence[str]
    labels: Mapping[str, Sequence[str]]
    since: TimeLike
    until: TimeLike
    as_of: TimeLike
    query_time: TimeLike
    history: bool
