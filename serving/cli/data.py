"""Commands about data sets: build synthetic ones to measure and train with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .session import Session, command

if TYPE_CHECKING:
    from intentmem.train_data.synthetic import BuiltSet


class Kind(StrEnum):
    """What can be built."""

    TRAVEL = "travel"
    DEBATE = "debate"
    SHOPPING = "shopping"
    PROJECT = "project"
    WOVEN = "woven"


class Wordings(StrEnum):
    """Which wordings a set is made of."""

    TRAIN = "train"
    TEST = "test"


def register(app: typer.Typer) -> None:
    """Put these commands on an application."""
    data = typer.Typer(help="Data sets to measure and train with.", no_args_is_help=True)
    command(data, "build", owner=False)(build)
    app.add_typer(data, name="data")


def build(
    session: Session,
    out: Annotated[Path, typer.Option("--out", help="Folder to make.", show_default=False)],
    kind: Annotated[Kind, typer.Option("--kind", help="What the conversations are about.", show_default=False)],
    tokens: Annotated[int, typer.Option("--tokens", help="Length of each trajectory, at 1.3 tokens a word.")] = 23_000,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds give equal files.")] = 0,
    trajectories: Annotated[int, typer.Option("--trajectories", help="How many to make.")] = 1,
    questions: Annotated[int, typer.Option("--questions", help="The most for each trajectory.")] = 60,
    split: Annotated[Wordings, typer.Option("--split", help="Wordings; those for test are never trained on.")] = (
        Wordings.TEST
    ),
    source: Annotated[
        str | None, typer.Option("--source", help="For woven: corpus and its path, sgd:PATH.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a set that is there already.")] = False,
) -> None:
    """Build a set in CAME-Bench's format: turns and questions with gold, a data card and a manifest with hashes."""
    make = _maker(kind, source)
    with _progress(session, f"building {kind.value}") as progress:
        made = make(
            tokens=tokens,
            seed=seed,
            out=out,
            trajectories=trajectories,
            questions=questions,
            split=split.value,
            force=force,
            progress=progress,
        )
    _show(session, made)


def _maker(kind: Kind, source: str | None) -> Callable[..., BuiltSet]:
    """The function that builds a kind, its source read where it has one."""
    from intentmem.memory.errors import InputError
    from intentmem.train_data import load_corpus
    from intentmem.train_data.synthetic import build as simulate
    from intentmem.train_data.synthetic import build_woven

    if kind is not Kind.WOVEN:
        if source is not None:
            raise InputError("--source", f"is not used by --kind {kind.value}", "only woven sets have a source")
        return functools.partial(simulate, kind.value)
    name, colon, path = (source or "").partition(":")
    if name != "sgd" or not colon or not path:
        raise InputError("--source", "must be sgd:PATH, the annotated dialogues to weave", "--source sgd:sgd/dev")
    return functools.partial(build_woven, load_corpus(name, path))


@contextmanager
def _progress(session: Session, what: str) -> Iterator[Callable[[int, int], None]]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=session.err, disable=not session.err.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(session: Session, made: BuiltSet) -> None:
    from . import tables

    payload: dict[str, Any] = {"path": str(made.folder), **made.as_json()}
    rows = {
        "folder": made.folder,
        "tokens": ", ".join(f"{name}: {tokens:,}" for name, tokens in made.tokens.items()),
        "turns": f"{made.turns:,} under {made.scopes:,} goals",
        "questions": ", ".join(f"{name}: {n}" for name, n in sorted(made.questions.items())),
        "wordings": made.split,
        "licence": made.licence,
    }
    session.show(payload, tables.pairs(rows, title=made.title))
