"""The command on links: how what was talked about hangs together."""

from __future__ import annotations

from typing import Annotated

import typer

from .filters import Close, Turns
from .session import Session, command


def register(app: typer.Typer) -> None:
    """Put this command on an application."""
    command(app, "links")(links)


def links(
    session: Session,
    scope: Annotated[str | None, typer.Option("--scope", help="Only of this scope.", show_default=False)] = None,
    episode: Annotated[
        str | None, typer.Option("--episode", help="Only of this episode, by id.", show_default=False)
    ] = None,
    turn: Turns = None,
    type: Annotated[
        str | None, typer.Option("--type", help="Only of this type, as follow_up_of.", show_default=False)
    ] = None,
    close: Close = False,
) -> None:
    """How closed episodes hang together, and which state took the place of which, with the turns that say it."""
    from . import tables

    with session.memory() as memory:
        if close:
            memory.close_episodes(session.namespace)
        found = memory.links(scope, episode, turn, type, namespace=session.namespace)
    made = tables.table("source and target", "type", "sure", "trust", "turn", title="Links", wide="source and target")
    for link in found["results"]:
        ends = [" ".join(link[f"{end}_summary"].split()) or link[end] for end in ("source", "target")]
        made.add_row(
            tables.plain("\n".join(end if len(end) <= 160 else f"{end[:159]}…" for end in ends)), link["type"],
            f"{link['confidence']:.2f}", link["trust"], link["evidence"][0],
        )  # fmt: skip
    session.show(found, made if found["results"] else tables.plain("no links: episodes have them once they are closed"))
