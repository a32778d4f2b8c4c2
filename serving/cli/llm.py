"""Commands about the served language model: start one, see how, and try what one can do."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .session import Session, command

if TYPE_CHECKING:
    from types import FrameType

    from ..llm.server import VllmServer


def register(app: typer.Typer) -> None:
    """Put these commands on an application."""
    llm = typer.Typer(help="A language model served by vLLM.", no_args_is_help=True)
    command(llm, "serve", owner=False)(serve)
    command(llm, "profiles", owner=False)(profiles)
    command(llm, "probe", owner=False)(probe)
    app.add_typer(llm, name="llm")


def _option(flag: str, text: str) -> Any:
    return typer.Option(flag, help=text, show_default=False)


def serve(
    session: Session,
    model: Annotated[
        str | None, typer.Argument(help="Folder of the model, or its id on the hub.", show_default=False)
    ] = None,
    profile: Annotated[str | None, _option("--profile", "See `intentmem llm profiles`.")] = None,
    port: Annotated[int | None, _option("--port", "Port to listen on.")] = None,
    host: Annotated[str | None, _option("--host", "Address to listen on.")] = None,
    python: Annotated[Path | None, _option("--python", "Interpreter of vLLM's own environment.")] = None,
    dtype: Annotated[str | None, _option("--dtype", "Number format.")] = None,
    tensor_parallel: Annotated[int | None, _option("--tensor-parallel", "GPUs that a layer is split over.")] = None,
    data_parallel: Annotated[int | None, _option("--data-parallel", "Copies of the model.")] = None,
    memory_share: Annotated[float | None, _option("--memory-share", "Share of each GPU's memory.")] = None,
    context_tokens: Annotated[int | None, _option("--context", "Context length in tokens.")] = None,
    quantisation: Annotated[str | None, _option("--quantisation", "Like fp8.")] = None,
    adapters: Annotated[list[str] | None, _option("--adapter", "LoRA adapter, name=folder; repeatable.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check, show the command, start nothing.")] = False,
) -> None:
    """Serve a model with vLLM until interrupted; other server settings are those of `intentmem config show`."""
    from ..llm.server import VllmServer

    given = {
        "model": model, "profile": profile, "port": port, "host": host, "python": python, "dtype": dtype,
        "tensor_parallel": tensor_parallel, "data_parallel": data_parallel, "memory_share": memory_share,
        "context_tokens": context_tokens, "quantisation": quantisation, "adapters": adapters or None,
    }  # fmt: skip
    named = {name: value for name, value in given.items() if value is not None}
    session = dataclasses.replace(session, overrides={**session.overrides, "server": named})
    server = VllmServer(session.settings.server, session.settings.llm.api_key)
    if dry_run:
        server.check()
        _show_command(session, server)
        return
    with _interruptible():
        try:
            _run(session, server)
        except KeyboardInterrupt:
            session.err.print("stopping the server (interrupt again to kill it)")
            server.stop()
            session.err.print("stopped")
        finally:
            server.stop()


def profiles(session: Session) -> None:
    """The profiles that ship, and the one that this machine would take."""
    from rich.text import Text

    from ..llm.server_checks import this_machine
    from ..llm.server_settings import automatic
    from ..llm.server_settings import profiles as shipped
    from . import tables

    machine = this_machine()
    here = automatic(machine.gpus_gib)
    made = tables.table("profile", "dtype", "GPUs", "context", "for", wide="for")
    for name, one in shipped().items():
        mark = Text(name, style="bold green" if name == here else "")
        made.add_row(mark, one.dtype, str(one.gpus or "-"), str(one.context_tokens or "model's"), one.title)
    payload = {
        "automatic": here,
        "gpus_gib": [round(size, 1) for size in machine.gpus_gib],
        "profiles": {name: one.model_dump(exclude={"name"}) for name, one in shipped().items()},
    }
    found = f"{len(machine.gpus)} GPUs" if machine.gpus else "no GPU"
    session.show(payload, made, Text(f"this machine: {found}; auto is {here}", style="dim"))


def probe(session: Session) -> None:
    """Ask the server at `llm.base_url` what it can do, by doing it."""
    from ..compose import make_client
    from . import tables

    with make_client(session.settings) as client:
        found = dataclasses.asdict(client.probe())
    shown = {name.replace("_", " "): _word(value) for name, value in found.items()}
    session.show(found, tables.pairs(shown, title=str(session.settings.llm.base_url)))


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "not told" if value is None else str(value)


def _run(session: Session, server: VllmServer) -> None:
    """Serve until interrupted; what died while serving is started again, so often as the settings say."""
    from intentmem.memory.errors import ModelUnavailableError

    for left in range(server.settings.restarts, -1, -1):
        _start(session, server)
        try:
            server.wait()
        except ModelUnavailableError as error:
            if not left:
                raise
            session.err.print(f"{error}\nstarting it again ({left} left)", style="yellow", markup=False)


def _start(session: Session, server: VllmServer) -> None:
    from . import tables

    profile = server.profile
    with session.err.status(f"starting vLLM ({profile.name})") as status:

        def progress(seconds: float, line: str) -> None:
            status.update(tables.plain(f"{seconds:.0f} s  {line[-70:]}"))

        url = server.start(progress)
    payload = {
        "base_url": url, "models": server.models(), "profile": profile.name, "log": str(server.log), "pid": server.pid,
    }  # fmt: skip
    table = {**payload, "models": ", ".join(map(str, server.models()))}
    session.show(payload, tables.pairs(table, title="Serving; Ctrl-C stops it"))
    if not session.as_json:
        lengths = " INTENTMEM_LLM__GRAMMAR_LENGTHS=true" if profile.structured_backend == "guidance" else ""
        session.out.print(f"to use it: export INTENTMEM_LLM__BASE_URL={url}{lengths}", markup=False)


def _show_command(session: Session, server: VllmServer) -> None:
    import shlex

    from . import tables

    session.show(
        {"command": server.command, "profile": server.profile.model_dump(), "base_url": server.base_url},
        tables.plain(shlex.join(server.command), limit=4000),
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ending this process by SIGTERM or SIGHUP is as an interrupt: the server must not stay."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
