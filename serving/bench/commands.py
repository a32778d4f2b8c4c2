"""The commands of `intentmem bench`."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table

from intentmem.memory.errors import InputError, IntentMemError
from intentmem.memory.read.parts import PARTS

from .latency.command import latency
from .progress import Progress
from .report import Report

if TYPE_CHECKING:
    from intentmem.memory.memory import Memory

app = typer.Typer(
    help="Measure quality, speed and size on data of your own or on public benchmarks.", no_args_is_help=True
)

app.command()(latency)

Json = Annotated[
    Path | None, typer.Option("--json", help="File for the report (JSON), replaced when the run is complete.")
]
Profile = Annotated[str | None, typer.Option(help="Embedder profile; unset takes it from the settings.")]
Budgets = Annotated[str, typer.Option(help="Token budgets, comma-separated.")]
Depth = Annotated[int, typer.Option(help="Turns for recall at a fixed number.")]
LimitQuestions = Annotated[int | None, typer.Option(help="Only the first so many with evidence.")]
Samples = Annotated[int, typer.Option(help="Bootstrap resamples.")]
Recipes = Annotated[str, typer.Option(help="Recipes, comma-separated.")]
Seed = Annotated[int, typer.Option(help="Seed of what is drawn at random.")]


@contextmanager
def _empty_memory(profile: str | None) -> Iterator[Memory]:
    """A memory in a folder that is gone afterwards."""
    from intentmem.serving.compose import open_memory

    with (
        tempfile.TemporaryDirectory(prefix="intentmem-bench-") as folder,
        open_memory(folder, **_given(profile)) as memory,
    ):
        yield memory


def _given(profile: str | None) -> dict[str, Any]:
    """Settings that an embedder profile of the command line stands for."""
    return {} if profile is None else {"embedder": {"profile": profile}}


@app.command()
def quality(
    corpus: Annotated[str, typer.Option(help="locomo, realmem, longmemeval, came_bench, memconflict or beam.")],
    data: Annotated[Path, typer.Option(help="The published file, or a folder of them.")],
    json: Json = None,
    recipes: Recipes = "dense,lexical,stitch,fused",
    budgets: Budgets = "1024,4096",
    k: Depth = 10,
    profile: Profile = None,
    limit_questions: LimitQuestions = None,
    samples: Samples = 1000,
    seed: Seed = 0,
    reader: Annotated[
        bool, typer.Option("--reader", help="memconflict: the served model answers too, and grades the answers.")
    ] = False,
) -> None:
    """Share of the evidence that searches return, against baselines computed in the same run."""
    from intentmem.serving.compose import make_client
    from intentmem.serving.settings import load_settings

    from .quality import QualityPlan, run

    def measure(progress: Progress) -> Report:
        plan = QualityPlan(
            corpus,
            data,
            names(recipes, "recipes"),
            numbers(budgets, "budgets"),
            k,
            limit_questions=limit_questions,
            samples=samples,
            seed=seed,
        )
        with make_client(load_settings()) if reader else nullcontext() as client, _empty_memory(profile) as memory:
            return run(plan, memory, command_line(), progress, client)

    finish(measure, json)


@app.command()
def ingest(
    data: Annotated[Path, typer.Option(help="The published file, or a folder of them.")],
    json: Json = None,
    corpus: Annotated[str, typer.Option(help="locomo, realmem, sgd, tiage, or auto.")] = "auto",
    turns: Annotated[int | None, typer.Option(help="The first so many turns; unset takes all.")] = None,
    threads: Annotated[str, typer.Option(help="Numbers of threads, comma-separated; a process each.")] = "1,2",
    repeats: Annotated[int, typer.Option(help="Repeats of each figure; the median is reported.")] = 3,
    recipes: Recipes = "dense,lexical,stitch,fused",
    queries: Annotated[int, typer.Option(help="Different queries.")] = 50,
    profile: Profile = None,
) -> None:
    """Turns written a second and latency of searches, as ratios to embedding alone."""
    from .ingest import IngestPlan, run

    def measure(progress: Progress) -> Report:
        counts, ranked = numbers(threads, "threads"), names(recipes, "recipes")
        plan = IngestPlan(str(data), corpus, turns, counts, repeats, ranked, queries, profile)
        return run(plan, command_line(), progress)

    finish(measure, json)


@app.command()
def ablation(
    corpus: Annotated[str, typer.Option(help="came_bench, locomo, realmem, longmemeval, memconflict or beam.")],
    data: Annotated[Path, typer.Option(help="The published file, or a folder of them.")],
    json: Json = None,
    report: Annotated[Path | None, typer.Option("--report", help="File for the tables (Markdown).")] = None,
    parts: Annotated[str, typer.Option(help="Parts to switch off, one at a time, comma-separated.")] = ",".join(PARTS),
    recipe: Annotated[str, typer.Option(help="Recipe of all searches.")] = "fused",
    budgets: Budgets = "1024,4096",
    k: Depth = 10,
    profile: Profile = None,
    limit_questions: LimitQuestions = None,
    samples: Samples = 1000,
    seed: Seed = 0,
) -> None:
    """What each part of the read path is worth: the quality benchmark without one part at a time."""
    from .ablation import AblationPlan, run
    from .report import write_whole
    from .tables import ablation_tables, markdown, notes

    def measure(progress: Progress) -> Report:
        plan = AblationPlan(
            corpus,
            data,
            [recipe],
            numbers(budgets, "budgets"),
            k,
            limit_questions=limit_questions,
            samples=samples,
            seed=seed,
            parts=names(parts, "parts"),
        )
        with _empty_memory(profile) as memory:
            found = run(plan, memory, command_line(), progress)
        if report is not None:
            write_whole(report, markdown(ablation_tables(found), notes(found)), "report")
        return found

    finish(measure, json, tabulate=ablation_tables)


@app.command()
def vectors(
    json: Json = None,
    n: Annotated[int, typer.Option(help="Vectors.")] = 1_000_000,
    dim: Annotated[int, typer.Option(help="Dimensions.")] = 384,
    queries: Annotated[int, typer.Option(help="Queries.")] = 500,
    seed: Seed = 0,
) -> None:
    """The vector index at size, on synthetic vectors: recall against exact search, latency, memory."""
    from .vectors import VectorsPlan, run

    finish(lambda progress: run(VectorsPlan(n, dim, queries, seed), command_line(), progress), json)


@app.command()
def scale(
    json: Json = None,
    turns: Annotated[int, typer.Option(help="Turns in the store.")] = 100_000,
    queries: Annotated[int, typer.Option(help="Different queries.")] = 100,
    recipes: Recipes = "fused",
    seed: Seed = 0,
) -> None:
    """Memory, disk and search latency of a large store, with made-up turns and a stand-in embedder."""
    from .scale import ScalePlan, run

    def measure(progress: Progress) -> Report:
        plan = ScalePlan(turns, queries, recipes=names(recipes, "recipes"), seed=seed)
        return run(plan, command_line(), progress)

    finish(measure, json)


@app.command()
def llm(
    corpus: Annotated[str, typer.Option(help="locomo, realmem, sgd, tiage, or auto.")],
    data: Annotated[Path, typer.Option(help="The published file, or a folder of them.")],
    json: Json = None,
    trajectory: Annotated[str | None, typer.Option(help="Id of the conversation; unset takes the first.")] = None,
    turns: Annotated[int, typer.Option(help="The first so many turns of it.")] = 60,
    questions: Annotated[int, typer.Option(help="Questions to answer afterwards.")] = 0,
    at_once: Annotated[
        bool, typer.Option(help="Add all turns in one call, as an import does, instead of a session at a time.")
    ] = False,
    profile: Profile = None,
) -> None:
    """The served model (`llm.base_url`): calls, tokens, time and faults of each task, and how well its scopes agree."""
    from .llm import LLMPlan, run

    def measure(progress: Progress) -> Report:
        plan = LLMPlan(corpus, data, trajectory, turns, questions, at_once)
        with tempfile.TemporaryDirectory(prefix="intentmem-bench-") as folder:
            return run(plan, Path(folder), _given(profile), command_line(), progress)

    finish(measure, json)


def finish(
    measure: Callable[[Progress], Report],
    json: Path | None,
    shown: Collection[str] | None = None,
    tabulate: Callable[[Report, Collection[str] | None], Iterator[Table]] | None = None,
) -> None:
    """Run with a progress bar, write the report, show it; a known error is one line and exit code 2 or 1.

    `shown`: metrics in the tables, where the report holds too many to read. `tabulate`: makes the tables.
    """
    from .report import commit
    from .tables import notes, tables

    commit()  # remembered now: a checkout may move on while this runs
    try:
        with _bars() as progress:
            report = measure(progress)
        if json is not None:
            report.write(json)
    except IntentMemError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, InputError) else 1) from error
    console = Console()
    for table in (tabulate or tables)(report, shown):
        console.print(table)
    for note in notes(report):
        console.print(note, markup=False, highlight=False)
    if json is not None:
        console.print(f"Report: {json}", markup=False, highlight=False)


@contextmanager
def _bars() -> Iterator[Progress]:
    columns = (*Bars.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn(), TextColumn(""))
    stages: dict[str, TaskID] = {}
    with Bars(*columns, console=Console(stderr=True)) as bars:

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in stages:
                stages[stage] = bars.add_task(stage, total=total)
            bars.update(stages[stage], completed=done, total=total)

        yield progress


def names(text: str, option: str) -> list[str]:
    """The parts of a text that commas separate.

    Raises:
        InputError: there are none.
    """
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise InputError(option, "is empty", "separate several by commas")
    return found


def numbers(text: str, option: str) -> list[int]:
    """As `names`, whole numbers.

    Raises:
        InputError: there are none, or a part is no whole number.
    """
    try:
        return [int(name) for name in names(text, option)]
    except ValueError as error:
        raise InputError(option, f"{text!r} is no list of whole numbers", "for example 1024,4096") from error


def command_line() -> str:
    """The command that runs, as it can be repeated."""
    return shlex.join(["intentmem", *sys.argv[1:]])
