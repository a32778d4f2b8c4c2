"""The command that answers a question in prose, with citations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .filters import AT_A_TIME, FILTERS, search_options
from .read import Query, RecipeOption, warn
from .session import Session, command

if TYPE_CHECKING:
    from collections.abc import Generator

    from intentmem.serving.llm.answer import Answer


def register(app: typer.Typer) -> None:
    """Put this command on an application."""
    command(app, "answer", filters={**FILTERS, **AT_A_TIME})(answer)


def answer(
    session: Session,
    query: Query,
    budget: Annotated[
        int | None, typer.Option("--budget", "-b", help="Tokens of context at most.", show_default=False)
    ] = None,
    recipe: RecipeOption = None,
) -> None:
    """Answer a question from memory with the served model, each claim with the turns that say it."""
    from rich.text import Text

    from ..compose import make_client
    from ..llm.answer import answer as ask
    from ..llm.answer import stream_answer

    options = search_options(session, recipe or session.settings.read.recipe)
    room = budget or session.settings.read.budget
    with make_client(session.settings) as client, session.memory() as memory:
        if session.as_json:
            found = ask(memory, client, query, budget=room, **options)
        else:
            found = _streamed(stream_answer(memory, client, query, budget=room, **options))
    warn(session, list(found.warnings))
    note = "nothing in memory says it" if found.abstained else ""
    if found.answerable == "missing" and not found.abstained:
        note = "no turn was found that uses the words of a part of the question"
    cited = sorted({found.context.index(turn) + 1 for claim in found.claims for turn in claim.turns})
    session.show(found.as_json(), *([Text(note, style="dim")] if note else ()))
    if cited and not session.as_json:
        session.out.print(Text("\n".join(f"[T{n}] {found.context[n - 1]}" for n in cited), style="dim"))


def _streamed(pieces: Generator[str, None, Answer]) -> Answer:
    """Show an answer as it comes."""
    while True:
        try:
            typer.echo(next(pieces), nl=False)
        except StopIteration as end:
            typer.echo()
            found: Answer = end.value
            return found
