"""Commands that put something in: demo, ingest, import, process, reembed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .formats import Format
from .session import Session, command


def register(app: typer.Typer) -> None:
    """Put these commands on an application."""
    command(app, "demo", owner=False)(demo)
    command(app, "ingest")(ingest)
    command(app, "import")(import_)
    command(app, "process")(process)
    command(app, "reembed", owner=False)(reembed)


def demo(session: Session) -> None:
    """Remember a bundled sample chat, show what was understood, answer five questions with evidence. Works offline."""
    from .demo import run_demo

    run_demo(session)


def ingest(
    session: Session,
    source: Annotated[Path, typer.Argument(metavar="PATH", help="A file, or a folder of files.", show_default=False)],
    format: Annotated[Format, typer.Option(help="What the files are.")] = Format.AUTO,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would take; nothing is stored.")] = False,
    skip_unusable: Annotated[
        bool,
        typer.Option("--skip-unusable", help="Leave out messages that cannot be used instead of refusing the file."),
    ] = False,
) -> None:
    """Remember conversations from files. Run it again after an interruption: it continues, without duplicates.

    Formats: OpenAI-style messages (JSON or JSONL, a list or objects with `messages`), text lines `speaker: text` or
    `[time] speaker: text` (an indented line continues the one before), LoCoMo, RealMem.
    """
    from intentmem.memory.errors import InputError

    from . import ingest as engine
    from . import tables
    from .sources import read_source

    reading = read_source(source, format)
    if dry_run:
        found = engine.preview(session, reading)
        session.show(found, tables.pairs(_legible(found), title=f"{source}: nothing stored"))
        return
    if reading.unusable and not skip_unusable:
        more = f", and {len(reading.unusable) - 1} more" if len(reading.unusable) > 1 else ""
        raise InputError(
            "PATH", f"{reading.unusable[0]}{more}", "--skip-unusable leaves them out; --dry-run lists them"
        )
    if not reading.turns:
        raise InputError(
            "PATH", f"{source} holds no turn", "--format says which format it is; --dry-run shows what was read"
        )
    with session.memory(create=True) as memory:
        result = engine.ingest(session, memory, reading)
    session.show(result, tables.pairs(_legible(result), title="Remembered"))
    if result["failed"]:
        raise typer.Exit(1)


def import_(
    session: Session,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `export` wrote.", show_default=False)],
) -> None:
    """Read an export into a namespace. Nothing is decided again; missing vectors are made."""
    from . import tables

    with session.memory(create=True) as memory:
        counts = memory.import_(source, **session.owner)
    session.show({"namespace": session.namespace, "imported": counts}, tables.pairs(counts, title="Imported"))


def process(
    session: Session,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Give failed writes new attempts.")] = False,
    label: Annotated[
        bool, typer.Option("--label", help="Let your own labelers label turns stored before they were.")
    ] = False,
) -> None:
    """Embed and label what is pending: of the namespace named, or of all."""
    from . import ingest as engine
    from . import tables

    namespace = session.namespace if session.given else None
    with session.memory() as memory:
        done = engine.process(session, memory, namespace, retry_failed)
        states = memory.status(namespace)["namespaces"]
        relabelled = sum(memory.label(namespace=state["namespace"]) for state in states) if label else 0
    open_ = {name: sum(s["operations"].get(name, 0) for s in states) for name in ("pending", "failed")}
    more = {"relabelled": relabelled} if label else {}
    session.show({"done": done, **open_, **more}, tables.pairs({"turns done": done, **open_, **more}))
    if open_["failed"]:
        raise typer.Exit(1)


def reembed(
    session: Session,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the vectors if the embedder makes the same ones: compares 100 turns.")
    ] = False,
) -> None:
    """Encode every namespace with the configured embedder. Resumable; the old vectors serve meanwhile."""
    from . import ingest as engine
    from . import tables

    with session.memory() as memory:
        total = sum(state["turns"] for state in memory.status()["namespaces"])
        with engine.progress(session, "encoding", total) as advance:
            done = memory.reembed(engine.following(advance), keep=keep)
        fingerprint = str(memory.embedder.fingerprint)
    session.show({"encoded": done, "embedder": fingerprint}, tables.pairs({"encoded": done, "embedder": fingerprint}))


def _legible(found: dict[str, Any]) -> dict[str, object]:
    """Names as words, lists one a line, and what is empty left out."""
    shown = {name.replace("_", " "): value for name, value in found.items() if value not in (None, [], "")}
    return {
        name: "\n".join(map(str, value[:20]))
        if isinstance(value, list)
        else f"{value:,}"
        if isinstance(value, int)
        else value
        for name, value in shown.items()
    }
