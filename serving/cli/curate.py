"""Commands that set right or remove: relabel, rename, merge, unmerge, split, delete, erase."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .session import Session, command

if TYPE_CHECKING:
    from intentmem.memory.memory import Memory


class Kind(StrEnum):
    """What can be renamed and merged."""

    SCOPE = "scope"
    EVENT = "event"
    ENTITY_TYPE = "entity_type"


Turns = Annotated[list[str], typer.Argument(metavar="TURN...", help="Ids of turns.", show_default=False)]
KindOption = Annotated[Kind, typer.Option("--kind", help="What the names are.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def register(app: typer.Typer) -> None:
    """Put these commands on an application."""
    command(app, "relabel")(relabel)
    command(app, "rename")(rename)
    command(app, "merge")(merge)
    command(app, "unmerge")(unmerge)
    command(app, "split")(split)
    command(app, "delete")(delete)
    command(app, "erase")(erase)


def relabel(
    session: Session,
    turns: Turns,
    scope: Annotated[str | None, typer.Option("--scope", help="Scope, new or known.", show_default=False)] = None,
    event: Annotated[
        list[str] | None, typer.Option("--event", help="Event type; repeatable.", show_default=False)
    ] = None,
    entity_type: Annotated[
        list[str] | None, typer.Option("--entity-type", help="Entity type; repeatable.", show_default=False)
    ] = None,
) -> None:
    """Set labels of turns by hand. No decider overwrites them."""
    with session.memory() as memory:
        changed = memory.relabel(
            turns, scope=scope, events=event or None, entity_types=entity_type or None, **session.owner
        )
    _done(session, {"relabelled": changed}, f"{changed} turns relabelled")


def rename(
    session: Session,
    old: Annotated[str, typer.Argument(help="Name or id.", show_default=False)],
    new: Annotated[str, typer.Argument(help="New name.", show_default=False)],
    kind: KindOption = Kind.SCOPE,
) -> None:
    """Rename a scope, an event type or an entity type."""
    with session.memory() as memory:
        identity = memory.rename(kind.value, old, new, **session.owner)
    _done(session, {"id": identity, "name": new}, f"{old!r} is now {new!r}")


def merge(
    session: Session,
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE...", help="Names or ids.", show_default=False)],
    into: Annotated[str, typer.Option("--into", help="What they become part of.", show_default=False)],
    kind: KindOption = Kind.SCOPE,
) -> None:
    """Merge scopes, event types or entity types into one. `unmerge` undoes it."""
    with session.memory() as memory:
        identity = memory.merge(kind.value, sources, into, **session.owner)
    _done(session, {"id": identity, "merged": sources}, f"{', '.join(sources)} merged into {into}")


def unmerge(
    session: Session,
    name: Annotated[str, typer.Argument(help="What was merged into another.", show_default=False)],
    kind: KindOption = Kind.SCOPE,
) -> None:
    """Undo a merge."""
    with session.memory() as memory:
        identity = memory.unmerge(kind.value, name, **session.owner)
    _done(session, {"id": identity}, f"{name!r} stands for itself again")


def split(
    session: Session,
    scope: Annotated[str, typer.Argument(help="Name or id of the scope.", show_default=False)],
    turns: Turns,
    into: Annotated[str, typer.Option("--into", help="Name of the new scope.", show_default=False)],
) -> None:
    """Move turns out of a scope into a new one."""
    with session.memory() as memory:
        identity = memory.split(scope, turns, into, **session.owner)
    _done(
        session,
        {"id": identity, "name": into, "turns": len(turns)},
        f"{len(turns)} turns moved to the new scope {into!r}",
    )


def delete(session: Session, turns: Turns, yes: Yes = False) -> None:
    """Delete turns with all that hangs on them. Their text is not stored again from a quotation by others."""
    with session.memory() as memory:
        for turn in turns:
            memory.get(turn, **session.owner)
        _confirm(session, yes, f"Delete {len(turns)} turns of {session.namespace!r}?")
        deleted = memory.delete(turns, **session.owner)
    _done(session, {"deleted": deleted}, f"{deleted} turns deleted")


def erase(session: Session, yes: Yes = False) -> None:
    """Erase a whole namespace, or one --run or --trajectory of it, without trace on the disk.

    Name what to erase: there is no default here.
    """
    from intentmem.memory.errors import InputError

    from . import tables

    if not session.given:
        raise InputError(
            "namespace", "is required to erase", "say which: --namespace, --user, --agent, --run or --trajectory"
        )
    with session.memory() as memory:
        _confirm(session, yes, f"Erase {_described(session, memory)} for good?")
        report = memory.erase(**session.owner)
    rows = {f"removed from {table}": count for table, count in report["removed"].items() if count}
    rest = {name.replace("_", " "): value for name, value in report.items() if name != "removed" and value is not None}
    session.show(report, tables.pairs({**rest, **rows}, title="Erased"))


def _described(session: Session, memory: Memory) -> str:
    state = memory.status(session.namespace)["namespaces"][0]
    parts = [
        f"{key.removesuffix('_id')} {session.given[key]!r} of"
        for key in ("trajectory", "run_id")
        if key in session.given
    ]
    return f"{' and '.join(parts)} namespace {session.namespace!r} ({state['turns']} turns in all)".strip()


def _confirm(session: Session, yes: bool, question: str) -> None:
    from intentmem.memory.errors import InputError

    if yes:
        return
    if session.as_json or not session.err.is_terminal:
        raise InputError("--yes", "is required where nobody can be asked", "nothing was removed")
    typer.confirm(question, abort=True, err=True)


def _done(session: Session, payload: dict[str, Any], sentence: str) -> None:
    from . import tables

    session.show(payload, tables.plain(sentence))
