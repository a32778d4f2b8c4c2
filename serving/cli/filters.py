"""The options that say what may be found, shared by every command that looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from intentmem.memory.options import SearchOptions

    from .session import Session

_ANY_OF, _TIMES = "Filters (repeatable: any of them)", "Time"


def _many(flag: str, text: str) -> Any:
    return Annotated[list[str] | None, typer.Option(flag, help=text, rich_help_panel=_ANY_OF, show_default=False)]


def _time(flag: str, text: str) -> Any:
    return Annotated[str | None, typer.Option(flag, help=text, rich_help_panel=_TIMES, show_default=False)]


Turns = Annotated[
    list[str] | None, typer.Option("--turn", help="Only what this turn speaks for; repeatable.", show_default=False)
]
Close = Annotated[bool, typer.Option("--close", help="Close the episodes that are open first.")]
"""Options of commands that show what was made of closed episodes."""

FILTERS: dict[str, Any] = {
    "roles": _many("--role", "user, assistant, system or tool."),
    "speakers": _many("--speaker", "Who said it."),
    "scopes": _many("--scope", "Name or id of a scope."),
    "events": _many("--event", "Event type."),
    "entity_types": _many("--entity-type", "Entity type, like price."),
    "labels": _many("--label", "Label of one of your own labelers, like tone=angry."),
    "since": _time("--since", "From this time on."),
    "until": _time("--until", "Before this time."),
}
"""Options by the name that the facade gives them."""

AT_A_TIME: dict[str, Any] = {
    "as_of": _time("--as-of", "As memory was then."),
    "query_time": _time("--query-time", "When it is asked: what `yesterday` means."),
    "history": Annotated[
        bool | None,
        typer.Option("--history/--current", help="With what was superseded, or without.", show_default=False),
    ],
}
"""Further ones of commands that answer a question."""


def search_options(session: Session, recipe: str | None = None) -> SearchOptions:
    """Owner, recipe and filters as the facade takes them; what was not given is left out.

    Raises:
        InputError: a label without its labeler.
    """
    given = {name: value for name, value in {"recipe": recipe, **session.filters}.items() if value or value is False}
    if "labels" in given:
        given["labels"] = _by_labeler(cast("list[str]", given["labels"]))
    return cast("SearchOptions", {**session.owner, **given})


def _by_labeler(given: list[str]) -> dict[str, list[str]]:
    from intentmem.memory.errors import InputError

    found: dict[str, list[str]] = {}
    for one in given:
        labeler, mark, label = one.partition("=")
        if not mark or not labeler or not label:
            raise InputError("label", f"{one!r} does not say whose label it is", "like --label tone=angry")
        found.setdefault(labeler, []).append(label)
    return found
