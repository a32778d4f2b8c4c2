"""Commands on evolving states: what holds of an entity, how it came about, what is in conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .filters import Close, Turns
from .session import Session, command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

Entity = Annotated[
    str, typer.Argument(help="Name of the entity; the user without a name is `user`.", show_default=False)
]
Property = Annotated[str | None, typer.Argument(help="Property; all of them without it.", show_default=False)]
Condition = Annotated[
    str | None, typer.Option("--condition", help='Only under this condition; "" for none.', show_default=False)
]


def register(app: typer.Typer) -> None:
    """Put these commands on an application."""
    command(app, "state")(state)
    command(app, "state-history")(state_history)
    command(app, "conflicts")(conflicts)
    command(app, "resolve")(resolve)
    command(app, "records")(records)


def state(
    session: Session,
    entity: Entity,
    property: Property = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="What was true at that time, ISO 8601.", show_default=False)
    ] = None,
    known_at: Annotated[
        str | None, typer.Option("--known-at", help="What had been said by then, ISO 8601.", show_default=False)
    ] = None,
    condition: Condition = None,
) -> None:
    """What holds of an entity, and what is said of it without being held to be true."""
    with session.memory() as memory:
        found = memory.state(entity, property, condition=condition, as_of=as_of, known_at=known_at, **_owner(session))
    session.show(
        found, _versions(found["values"], f"{entity}: what holds"), _versions(found["pending"], "Pending", quiet=True)
    )


def state_history(session: Session, entity: Entity, property: Property = None, condition: Condition = None) -> None:
    """All versions that were ever said of an entity, oldest first within a property."""
    with session.memory() as memory:
        found = memory.state_history(entity, property, condition=condition, **_owner(session))
    session.show(found, _versions(found["results"], f"{entity}: history"))


def conflicts(session: Session) -> None:
    """Contradictions that are open, each with the fact that it contradicts. `resolve` decides them."""
    from . import tables

    with session.memory() as memory:
        found = memory.conflicts(**_owner(session))
    made = tables.table("of", "held", "said", "why", "id", title="Conflicts", wide="why")
    for claim in found["results"]:
        key = tables.plain(f"{claim['entity']}: {claim['property']}", limit=28)
        made.add_row(
            key, tables.plain(claim["fact"]["value"]), tables.plain(claim["value"]), claim["reason"], claim["id"]
        )
    session.show(found, made if found["results"] else tables.plain("no conflicts"))


def resolve(
    session: Session,
    conflict: Annotated[str, typer.Argument(help="Id of the pending state.", show_default=False)],
    choice: Annotated[
        str, typer.Argument(help="accept, both, reject, or the one of the two values that holds.", show_default=False)
    ],
) -> None:
    """Decide a pending state by hand. No rule or decider overrules it."""
    from . import tables

    with session.memory() as memory:
        found = memory.resolve(conflict, choice, **_owner(session))
    session.show(found, tables.plain(f"{found['entity']}: {found['property']}: {found['value']} is {found['status']}"))


def records(
    session: Session,
    entity: Annotated[str | None, typer.Option("--entity", help="Only of this entity.", show_default=False)] = None,
    property: Annotated[
        str | None, typer.Option("--property", help="Only of this property.", show_default=False)
    ] = None,
    turn: Turns = None,
    close: Close = False,
) -> None:
    """What was read from closed episodes: entity, property and value, with the turns that say it."""
    from . import tables

    with session.memory() as memory:
        if close:
            memory.close_episodes(session.namespace)
        found = memory.records(entity, property, turn, **_owner(session))
    made = tables.table("entity", "property", "value", "said as", "turn", title="Records", wide="value")
    for record in found["results"]:
        name = record["property"] + (f" ({record['condition']})" if record["condition"] else "")
        made.add_row(
            tables.plain(record["entity"], limit=28), tables.plain(name, limit=28), tables.plain(record["value"]),
            record["modality"], record["evidence"][-1]["turn_id"],
        )  # fmt: skip
    session.show(
        found, made if found["results"] else tables.plain("no records: an episode has them once it has closed")
    )


def _owner(session: Session) -> dict[str, Any]:
    return {"namespace": session.namespace}


def _versions(found: Sequence[Mapping[str, Any]], title: str, quiet: bool = False) -> RenderableType:
    from . import tables

    if not found:
        return tables.plain("" if quiet else f"{title}: nothing")
    made = tables.table("property", "value", "status", "from", "to", "why", title=title, wide="value")
    for version in found:
        name = version["property"] + (f" ({version['condition']})" if version["condition"] else "")
        why = version["modality"] if version["modality"] != "asserted" else version["reason"]
        times = [version[key][:10] if version[key] else "" for key in ("valid_from", "valid_to")]
        made.add_row(tables.plain(name, limit=28), tables.plain(version["value"]), version["status"], *times, why)
    return made
