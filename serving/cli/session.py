"""What every command shares: whose memory, which store, and JSON or a table for the result."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from intentmem.memory.memory import Memory
    from intentmem.memory.options import Owner

    from ..settings import Settings

_WIDTH = 100
_WHOSE, _GENERAL = "Whose memory", "General"

_STORE = {
    "path": Annotated[
        Path | None, typer.Option("--path", help="Folder of the memory.", show_default=False, rich_help_panel=_GENERAL)
    ],
    "embedder": Annotated[
        str | None,
        typer.Option("--embedder", help="Embedder profile.", show_default=False, rich_help_panel=_GENERAL),
    ],
    "as_json": Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout, nothing else.", rich_help_panel=_GENERAL)
    ],
}
_OWNER = {
    name: Annotated[str | None, typer.Option(*flags, help=text, show_default=False, rich_help_panel=_WHOSE)]
    for name, flags, text in (
        ("namespace", ("--namespace", "-n"), "Namespace; that of the settings by default."),
        ("user_id", ("--user",), "User, in place of a namespace."),
        ("agent_id", ("--agent",), "Agent, alone or with a user."),
        ("run_id", ("--run",), "One sitting: a session of that memory."),
        ("trajectory", ("--trajectory",), "One stream of turns of that memory."),
    )
}


@dataclass(frozen=True)
class Session:
    """One run of a command.

    overrides: settings given as options. owner: keyword arguments of the facade. as_json: the result is for a program.
    filters: what may be found, as given.
    """

    overrides: dict[str, Any]
    given: dict[str, str]
    as_json: bool
    filters: dict[str, Any] = field(default_factory=dict)
    _consoles: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def settings(self) -> Settings:
        """The settings, options included."""
        from ..settings import load_settings

        return load_settings(self.overrides)

    @property
    def owner(self) -> Owner:
        """Whose memory: as given, with the namespace of the settings where nothing says it."""
        named = {"namespace", "user_id", "agent_id"} & set(self.given)
        return cast("Owner", self.given if named else {"namespace": self.settings.memory.namespace, **self.given})

    @property
    def namespace(self) -> str:
        """The namespace that the owner stands for."""
        from intentmem.memory.addressing import address

        return address(**self.owner).namespace

    @contextmanager
    def memory(self, create: bool = False) -> Iterator[Memory]:
        """The memory, open; `create` makes a new one where there is none.

        Raises:
            InputError: there is none, and it must not be created.
        """
        from intentmem.memory.errors import InputError

        from ..compose import open_memory

        folder = self.settings.store.path
        if not create and not (folder.expanduser() / "memory.sqlite3").is_file():
            raise InputError("path", f"{folder} holds no memory yet", "`intentmem ingest` makes one; or check --path")
        with open_memory(self.settings) as memory:
            yield memory

    @property
    def out(self) -> Console:
        """Where tables go."""
        return self._console("out", stderr=False)

    @property
    def err(self) -> Console:
        """Where progress goes: it never mixes with a result."""
        return self._console("err", stderr=True)

    def show(self, payload: Any, *tables: RenderableType) -> None:
        """Print a result: the payload as one JSON object, or the tables."""
        if self.as_json:
            typer.echo(json.dumps(payload, ensure_ascii=False, default=str))
            return
        for table in tables:
            self.out.print(table)

    def _console(self, name: str, stderr: bool) -> Console:
        from rich.console import Console

        if name not in self._consoles:
            console = Console(stderr=stderr, highlight=False)
            if not console.is_terminal:
                console = Console(stderr=stderr, highlight=False, width=_WIDTH)
            self._consoles[name] = console
        return cast("Console", self._consoles[name])


def command(
    app: typer.Typer, name: str, owner: bool = True, filters: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command. Its first parameter, a `Session`, is built from the shared options.

    owner: whether the options that say whose memory are among them. filters: options that say what may be found.
    """
    filters = filters or {}
    shared = {**filters, **(_OWNER if owner else {}), **_STORE}

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(**arguments: Any) -> None:
            common = {key: arguments.pop(key) for key in shared}
            function(_session(common, {key: common[key] for key in filters}), **arguments)

        signature = inspect.signature(function, eval_str=True)
        own = list(signature.parameters.values())[1:]
        added = [
            inspect.Parameter(
                key,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if key == "as_json" else None,
                annotation=kind,
            )
            for key, kind in shared.items()
        ]
        own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *added]}
        del run.__wrapped__
        app.command(name)(run)
        return function

    return register


def _session(common: dict[str, Any], filters: dict[str, Any]) -> Session:
    overrides: dict[str, Any] = {}
    if common["path"] is not None:
        overrides["store"] = {"path": common["path"]}
    if common["embedder"] is not None:
        overrides["embedder"] = {"profile": common["embedder"]}
    given = {key: common[key] for key in _OWNER if common.get(key) is not None}
    return Session(overrides, given, common["as_json"], filters)
