"""Commands that look: search, context, timeline, scopes, list, history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from .session import Session, command

if TYPE_CHECKING:
    from intentmem.memory.options import SearchOptions


_FILTERS = "Filters (repeatable: any of them)"
_TIMES = "Time"
Query = Annotated[str, typer.Argument(help="A question, or any text.", show_default=False)]
Roles = Annotated[
    list[str] | None,
    typer.Option("--role", help="user, assistant, system or tool.", rich_help_panel=_FILTERS, show_default=False),
]
Speakers = Annotated[
    list[str] | None, typer.Option("--speaker", help="Who said it.", rich_help_panel=_FILTERS, show_default=False)
]
Scopes = Annotated[
    list[str] | None,
    typer.Option("--scope", help="Name or id of a scope.", rich_help_panel=_FILTERS, show_default=False),
]
Events = Annotated[
    list[str] | None, typer.Option("--event", help="Event type.", rich_help_panel=_FILTERS, show_default=False)
]
Types = Annotated[
    list[str] | None,
    typer.Option("--entity-type", help="Entity type, like price.", rich_help_panel=_FILTERS, show_default=False),
]
Since = Annotated[
    str | None, typer.Option("--since", help="From this time on.", rich_help_panel=_TIMES, show_default=False)
]
Until = Annotated[
    str | None, typer.Option("--until", help="Before this time.", rich_help_panel=_TIMES, show_default=False)
]
AsOf = Annotated[
    str | None, typer.Option("--as-of", help="As memory was then.", rich_help_panel=_TIMES, show_default=False)
]
QueryTime = Annotated[
    str | None,
    typer.Option(
        "--query-time", help="When it is asked: what `yesterday` means.", rich_help_panel=_TIMES, show_default=False
    ),
]
RecipeOption = Annotated[
    str | None, typer.Option("--recipe", help="fused, stitch, dense or lexical.", show_default=False)
]
Explain = Annotated[bool, typer.Option("--explain", help="Why each result is there (with --json: every signal).")]


def register(app: typer.Typer) -> None:
    """Put these commands on an application."""
    command(app, "search")(search)
    command(app, "context")(context)
    command(app, "timeline")(timeline)
    command(app, "scopes")(scopes)
    command(app, "list")(list_)
    command(app, "history")(history)


def search(
    session: Session,
    query: Query,
    limit: Annotated[int | None, typer.Option("--limit", "-k", help="Number of results.", show_default=False)] = None,
    recipe: RecipeOption = None,
    group_by: Annotated[
        str | None, typer.Option("--group-by", help="session, episode or scope.", show_default=False)
    ] = None,
    explain: Explain = False,
    role: Roles = None,
    speaker: Speakers = None,
    scope: Scopes = None,
    event: Events = None,
    entity_type: Types = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOf = None,
    query_time: QueryTime = None,
) -> None:
    """Find the turns that answer a question, best first."""
    from . import tables

    options = search_options(
        session, recipe or session.settings.read.recipe, roles=role, speakers=speaker, scopes=scope, events=event,
        entity_types=entity_type, since=since, until=until, as_of=as_of, query_time=query_time,
    )  # fmt: skip
    with session.memory() as memory:
        found = memory.search(
            query,
            limit=limit or session.settings.read.limit,
            group_by=group_by,
            explain=explain,
            **options,
        )
    warn(session, found["warnings"])
    if group_by:
        session.show(
            found, *(tables.turns(g["turns"], title=f"{g['label']} ({g['score']:.2f})") for g in found["results"])
        )
    else:
        session.show(found, tables.turns(found["results"]), *(tables.explanations(found) if explain else ()))


def context(
    session: Session,
    query: Query,
    budget: Annotated[int | None, typer.Option("--budget", "-b", help="Tokens at most.", show_default=False)] = None,
    recipe: RecipeOption = None,
    role: Roles = None,
    speaker: Speakers = None,
    scope: Scopes = None,
    event: Events = None,
    entity_type: Types = None,
    since: Since = None,
    until: Until = None,
    as_of: AsOf = None,
    query_time: QueryTime = None,
) -> None:
    """The original turns that answer a question as quoted text for a model, within a budget of tokens."""
    from rich.text import Text

    from . import tables

    options = search_options(
        session, recipe or session.settings.read.recipe, roles=role, speakers=speaker, scopes=scope, events=event,
        entity_types=entity_type, since=since, until=until, as_of=as_of, query_time=query_time,
    )  # fmt: skip
    with session.memory() as memory:
        found = memory.context(query, budget=budget or session.settings.read.budget, **options)
    warn(session, found["warnings"])
    note = f"{found['tokens']} of {found['budget']} tokens ({found['tokenizer']}), {len(found['turns'])} turns" + (
        "; more would not fit" if found["truncated"] else ""
    )
    session.show(found, tables.plain(found["text"], limit=10_000_000), Text(note, style="dim"))


def timeline(
    session: Session,
    scope: Annotated[str | None, typer.Option("--scope", help="Of this scope alone.", show_default=False)] = None,
) -> None:
    """Episodes in time order, of all scopes or of one."""
    from . import tables

    with session.memory() as memory:
        found = memory.timeline(scope=scope, **session.owner)
    session.show(found, tables.timeline(found["results"]))


def scopes(session: Session) -> None:
    """Scopes with their sizes and spans of time."""
    from . import tables

    with session.memory() as memory:
        found = memory.scopes(**session.owner)
    session.show(found, tables.scopes(found["results"]))


def list_(
    session: Session,
    limit: Annotated[int, typer.Option("--limit", "-k", min=1, help="Turns a page.")] = 50,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Turns to pass over.")] = 0,
    role: Roles = None,
    speaker: Speakers = None,
    scope: Scopes = None,
    event: Events = None,
    entity_type: Types = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """Stored turns in order of arrival."""
    from . import tables

    options = search_options(
        session,
        None,
        roles=role,
        speakers=speaker,
        scopes=scope,
        events=event,
        entity_types=entity_type,
        since=since,
        until=until,
    )
    with session.memory() as memory:
        found = memory.list(limit=limit, offset=offset, **options)
    shown = len(found["results"])
    session.show(
        found, tables.turns(found["results"], title=f"{offset + min(1, shown)} to {offset + shown} of {found['total']}")
    )


def history(session: Session, turn: Annotated[str, typer.Argument(help="Id of a turn.", show_default=False)]) -> None:
    """How the matter of one turn developed: the turns of its scope in time order."""
    from . import tables

    with session.memory() as memory:
        found = memory.history(turn, **session.owner)
    session.show(found, tables.turns(found["results"]))


def search_options(session: Session, recipe: str | None, **filters: object) -> SearchOptions:
    """Owner, recipe and filters as the facade takes them; what was not given is left out."""
    given = {name: value for name, value in {"recipe": recipe, **filters}.items() if value}
    return cast("SearchOptions", {**session.owner, **given})


def warn(session: Session, warnings: list[str]) -> None:
    """Print warnings beside the result."""
    for warning in warnings:
        session.err.print(f"warning: {warning}", style="yellow", markup=False)
