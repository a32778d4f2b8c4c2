"""Commands that look: search, context, timeline, scopes, list, history."""

from __future__ import annotations

from typing import Annotated

import typer

from .filters import AT_A_TIME, FILTERS, search_options
from .session import Session, command

Query = Annotated[str, typer.Argument(help="A question, or any text.", show_default=False)]
RecipeOption = Annotated[
    str | None, typer.Option("--recipe", help="fused, stitch, dense or lexical.", show_default=False)
]
Explain = Annotated[bool, typer.Option("--explain", help="Why each result is there (with --json: every signal).")]


def register(app: typer.Typer) -> None:
    """Put these commands on an application."""
    command(app, "search", filters={**FILTERS, **AT_A_TIME})(search)
    command(app, "context", filters={**FILTERS, **AT_A_TIME})(context)
    command(app, "timeline")(timeline)
    command(app, "scopes")(scopes)
    command(app, "list", filters=FILTERS)(list_)
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
) -> None:
    """Find the turns that answer a question, best first."""
    from . import tables

    options = search_options(session, recipe or session.settings.read.recipe)
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
) -> None:
    """The original turns that answer a question as quoted text for a model, within a budget of tokens."""
    from rich.text import Text

    from . import tables

    options = search_options(session, recipe or session.settings.read.recipe)
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
) -> None:
    """Stored turns in order of arrival."""
    from . import tables

    options = search_options(session)
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


def warn(session: Session, warnings: list[str]) -> None:
    """Print warnings beside the result."""
    for warning in warnings:
        session.err.print(f"warning: {warning}", style="yellow", markup=False)
