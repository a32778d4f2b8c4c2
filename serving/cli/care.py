"""Commands that look after a memory: status, doctor, export, config."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .session import Session, command


def register(app: typer.Typer) -> None:
    """Put these commands on an application."""
    command(app, "status")(status)
    command(app, "doctor", owner=False)(doctor)
    command(app, "export")(export)
    config = typer.Typer(help="Settings and where they come from.", no_args_is_help=True)
    command(config, "show", owner=False)(config_show)
    app.add_typer(config, name="config")


def status(session: Session) -> None:
    """What is stored, embedded, pending and failed, by namespace."""
    from . import tables

    with session.memory() as memory:
        found = memory.status(session.namespace if session.given else None)
    made = tables.table("namespace", "turns", "embedded", "labelled", "scopes", "pending", "failed", wide="namespace")
    for state in found["namespaces"]:
        operations = state["operations"]
        counts = (state["turns"], state["embedded"], state["labelled"], state["scopes"], operations.get("pending", 0))
        made.add_row(tables.plain(state["namespace"]), *map(str, counts), str(operations.get("failed", 0)))
    failures = [
        tables.plain(f"{failure['id']} failed after stage {failure['stage']}: {failure['error']}", "red")
        for state in found["namespaces"]
        for failure in state["failures"]
    ]
    session.show(found, tables.pairs({"memory": found["path"], "schema": found["schema"]}), made, *failures)


def doctor(session: Session) -> None:
    """Check packages, settings and disk, and really write, search and delete. Exit code 1 comes with a remedy."""
    from .doctor import examine

    report = examine(session)
    session.show(report.payload(), report.table())
    if not report.sound:
        raise typer.Exit(1)


def export(
    session: Session, target: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.", show_default=False)]
) -> None:
    """Write a namespace as JSONL, labels and history included."""
    from . import tables

    with session.memory() as memory:
        counts = memory.export(target, **session.owner)
    session.show({"path": str(target), "lines": counts}, tables.pairs(counts, title=f"Written to {target}"))


def config_show(session: Session) -> None:
    """Every setting with its value, where the value comes from, and the variable that sets it."""
    from rich.text import Text

    from ..settings import config_file, explain_settings
    from . import tables

    found = explain_settings(session.overrides)
    file = config_file()
    payload: dict[str, Any] = {
        "file": str(file) if file else None,
        "settings": {s.name: {"value": s.value, "origin": s.origin, "variable": s.variable} for s in found},
    }
    made = tables.table("setting", "value", "from", wide="from")
    for setting in found:
        value = Text("not set", style="dim") if setting.value is None else tables.plain(setting.value)
        made.add_row(
            setting.name, value, tables.plain(setting.origin, "dim" if setting.origin == "default" else "cyan")
        )
    made.columns[1].overflow = "fold"
    made.columns[1].no_wrap = False
    made.columns[1].max_width = 48
    note = (
        f"file: {file}" if file else "no file; intentmem.toml here or in the user's configuration folder would be read"
    )
    variables = "variables: INTENTMEM_<GROUP>__<NAME>, like INTENTMEM_STORE__PATH"
    session.show(payload, made, Text(f"{note}\n{variables}", style="dim"))
