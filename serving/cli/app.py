"""All commands on one application. Nothing heavy is imported before a command runs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from . import answer, care, curate, data, distill, links, llm, read, states, write

app = typer.Typer(
    name="intentmem",
    help="Long-term memory for LLM agents on your own machine: every turn labelled, every answer traced to its source.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"intentmem {version('intentmem')}")
        raise typer.Exit


@app.callback()
def _main(
    _version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options before the command."""


for part in (write, read, states, links, answer, curate, care, llm, data, distill):
    part.register(app)

if find_spec("intentmem.serving.bench.commands") is not None:
    from intentmem.serving.bench.commands import app as bench

    app.add_typer(bench, name="bench", help="Measure quality and speed.")
