"""Commands that make and judge students: `train`, `evaluate`, `suspects`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .session import Session, command

if TYPE_CHECKING:
    from intentmem.distill.artifacts import Artifact
    from intentmem.distill.backbone import Backbone
    from intentmem.distill.runtime import StudentDecider
    from intentmem.distill.sources import Source
    from intentmem.memory.tasks import Task
    from intentmem.serving.bench.students import Subjects

_TASK = typer.Option("--task", help="Task by name, or the TOML file that declares one.")
_DATA = typer.Option("--data", help="sgd, tiage, realmem or traces with a path, like sgd:PATH; or built.")
_STUDENT = typer.Option("--student", help="Folder of a student; the one in use by default.")
_BASE = typer.Option("--base", help="Encoder: profile, folder or hub id; that of the settings by default.")


def register(group: typer.Typer) -> None:
    """Put these commands on the group."""
    command(group, "train", owner=False)(train)
    command(group, "evaluate", owner=False)(evaluate)
    command(group, "suspects", owner=False)(suspects)


def train(
    session: Session,
    out: Annotated[Path, typer.Option("--out", help="Folder; each student gets one in it, named as its task.")],
    task: Annotated[str, typer.Option("--task", help="A task by name or TOML file, or all that ship.")] = "all",
    data: Annotated[list[str] | None, typer.Option("--data", help="Like sgd:PATH, or built; repeatable.")] = None,
    traces: Annotated[list[Path] | None, typer.Option("--traces", help="File or folder of traces; repeatable.")] = None,
    base: Annotated[str, typer.Option("--base", help="Encoder to start from: profile, folder or hub id.")] = "embedded",
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="At most; unset leaves it to the family.")] = None,
    corrections: Annotated[
        Path | None, typer.Option("--corrections", help="Suspects with labels corrected by hand.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run like this was interrupted.")] = False,
) -> None:
    """Train students from traces or from corpora with gold; on several GPUs by `accelerate launch`, see the README."""
    from intentmem.distill.training.run import TrainPlan, tasks_named
    from intentmem.distill.training.run import train as run

    from . import tables

    sources = _sources([*(data or []), *(f"traces:{path}" for path in traces or [])])
    plan = TrainPlan(tasks_named(task), sources, out, base, seed, epochs, resume, corrections)
    with _bars(session) as tell:
        made = run(plan, tell)
    shown = tables.table("task", "version", "measured", "folder", wide="folder")
    for one in made:
        shown.add_row(one.task.name, one.manifest.version, _headline(one), str(one.folder))
    payload = {
        "students": [
            {
                "task": one.task.name,
                "version": one.manifest.version,
                "folder": str(one.folder),
                "metrics": [metric.model_dump() for metric in one.manifest.metrics],
                "latency": dict(one.manifest.latency),
            }
            for one in made
        ]
    }
    session.show(payload, shown)


def evaluate(
    session: Session,
    task: Annotated[str, _TASK],
    data: Annotated[str, _DATA],
    student: Annotated[Path | None, _STUDENT] = None,
    base: Annotated[str | None, _BASE] = None,
    seed: Annotated[int, typer.Option(help="Of weaving and building.")] = 0,
    limit: Annotated[int | None, typer.Option(help="About so many examples, in whole conversations.")] = None,
    teacher: Annotated[bool, typer.Option("--teacher", help="Ask the served model of the settings too.")] = False,
    report: Annotated[Path | None, typer.Option("--report", help="File for the report (JSON).")] = None,
) -> None:
    """A student beside the baselines, and a served model, on the same examples: quality, calibration, speed."""
    from intentmem.distill.sources import parse_source
    from intentmem.serving.bench.students import StudentsPlan, run
    from intentmem.serving.bench.tables import notes, tables

    plan = StudentsPlan(_task(session, task, student), parse_source(data), seed, limit)
    with _subjects(session, plan.task, student, base, teacher) as (subjects, about):
        command_line = shlex.join(["intentmem", *sys.argv[1:]])
        found = run(plan, subjects, command_line, about, _progress(session))
    if report is not None:
        found.write(report)
    session.show(found.to_dict(), *tables(found), *notes(found))


def suspects(
    session: Session,
    task: Annotated[str, _TASK],
    traces: Annotated[Path, typer.Option("--traces", help="File or folder of the teacher's traces.")],
    out: Annotated[Path, typer.Option("--out", help="File for the suspects, JSONL.")],
    student: Annotated[Path | None, _STUDENT] = None,
    base: Annotated[str | None, _BASE] = None,
    confidence: Annotated[float, typer.Option(help="Of the student, at least.")] = 0.9,
) -> None:
    """Traces that a confident student contradicts, often the teacher's errors: correct `labels` there by hand."""
    from intentmem.distill.sources import Source, load_examples
    from intentmem.distill.suspects import suspects as find
    from intentmem.distill.suspects import write_suspects

    from . import tables

    wanted = _task(session, task, student)
    examples = load_examples([wanted], [Source("traces", traces)], evaluation=True).of(wanted)
    found = find(_decider(session, wanted, student, base)(), wanted, examples, confidence)
    write_suspects(out, found)
    shown = tables.table("confidence", "traced", "student", "text", wide="text")
    for one in found[:20]:
        line = one.line()
        text = str(next(iter(line["fields"].values())))
        shown.add_row(
            f"{one.confidence:.3f}",
            tables.plain(", ".join(one.trace.labels) or "none"),
            tables.plain(", ".join(one.labels) or "none"),
            tables.plain(text, limit=160),
        )
    count = f"{len(found)} of {len(examples)} traces are doubted: {out}"
    session.show(
        {"suspects": len(found), "traces": len(examples), "file": str(out)},
        *([shown] if found else []),
        tables.plain(count),
    )


def _sources(given: list[str]) -> tuple[Source, ...]:
    from intentmem.distill.sources import parse_source

    return tuple(parse_source(text) for text in given)


def _task(session: Session, name: str, student: Path | None) -> Task:
    """A task by name or file; else the one that the student declares, or a promoted one."""
    from intentmem.distill.artifacts import read
    from intentmem.distill.task_files import find_task
    from intentmem.memory.errors import InputError

    from .distill import registry

    try:
        return find_task(name).task
    except InputError:
        current = registry(session).current()
        folder = student or current.get(name)
        if folder is None:
            raise
        declared = read(folder).task
        if declared.name != name:
            raise
        return declared


def _decider(session: Session, task: Task, student: Path | None, base: str | None) -> Callable[[], StudentDecider]:
    """Makes the student again and again, nothing encoded yet.

    Raises:
        InputError: no student was given, and none is in use.
    """
    artifact = _artifact(session, task, student)
    return _maker(artifact, _base(session, base))


def _maker(artifact: Artifact, base: Backbone) -> Callable[[], StudentDecider]:
    from intentmem.distill.runtime import StudentDecider
    from intentmem.memory.deciders import BaselineDecider

    return lambda: StudentDecider.of([artifact], base, BaselineDecider())


def _artifact(session: Session, task: Task, student: Path | None) -> Artifact:
    from intentmem.distill.artifacts import read
    from intentmem.memory.errors import InputError

    from .distill import registry

    folder = student or registry(session).current().get(task.name)
    if folder is None:
        raise InputError("student", f"none answers {task.name!r} here", "name one with --student, or train one")
    return read(folder, task)


def _base(session: Session, base: str | None) -> Backbone:
    from .distill import load_base

    return load_base(session, base)


@contextmanager
def _subjects(
    session: Session, task: Task, student: Path | None, base: str | None, teacher: bool
) -> Iterator[tuple[Subjects, dict[str, Any]]]:
    from intentmem.distill.embedder import SentenceTransformerEmbedder
    from intentmem.distill.profiles import resolve_profile
    from intentmem.serving.bench.students import Subjects
    from intentmem.serving.compose import make_client
    from intentmem.serving.llm.asking import Asker
    from intentmem.serving.llm.deciders import LLMDecider

    artifact = _artifact(session, task, student)
    make = _maker(artifact, _base(session, base))
    make()  # a student that cannot be used is refused before anything is measured
    about: dict[str, Any] = {"version": artifact.manifest.version, "decided_by": artifact.manifest.decider}
    embedder = SentenceTransformerEmbedder(resolve_profile(base or session.settings.embedder.profile))
    if not teacher:
        yield Subjects(make, None, embedder), about
        return
    with make_client(session.settings) as client:
        asked = LLMDecider(Asker(client))
        yield Subjects(make, asked, embedder), {**about, "teacher": asked.name}


@contextmanager
def _bars(session: Session) -> Iterator[Callable[[str, int, int, str], None]]:
    from rich.progress import Progress, TaskID, TextColumn

    stages: dict[str, TaskID] = {}
    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[word]}"))
    with Progress(*columns, console=session.err) as bars:

        def tell(family: str, done: int, total: int, word: str) -> None:
            if family not in stages:
                stages[family] = bars.add_task(family, total=total, word=word)
            bars.update(stages[family], completed=done, total=total, word=word)

        yield tell


def _progress(session: Session) -> Any:
    def tell(stage: str, done: int, total: int) -> None:
        session.err.print(f"{stage}: {done} of {total}", style="dim")

    return tell


def _headline(one: Artifact) -> str:
    shown = [metric for metric in one.manifest.metrics if metric.group == "all"][:3]
    return ", ".join(f"{metric.metric} {metric.value:.3f}" for metric in shown)
