"""`intentmem bench latency`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intentmem.memory.errors import InputError, IntentMemError

if TYPE_CHECKING:
    from intentmem.distill.task_files import DeclaredTask

KEY_VARIABLE = "INTENTMEM_API_KEY"


def latency(
    subjects: Annotated[
        str, typer.Option(help="Who decides, comma-separated: baseline, students, cascade, vllm, api, stand-in.")
    ] = "baseline,students",
    data: Annotated[Path | None, typer.Option(help="File or folder of a corpus; unset takes the sample.")] = None,
    corpus: Annotated[str, typer.Option(help="Its name, or auto.")] = "auto",
    groups: Annotated[
        str | None, typer.Option(help="Names of tasks, write, read; comma-separated. Unset takes all.")
    ] = None,
    task: Annotated[
        list[Path] | None, typer.Option("--task", help="TOML file of a task of your own, a group more; repeatable.")
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", help="File for the report (JSON).")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for JSON, CSV, Markdown and plots.")] = None,
    requests: Annotated[int, typer.Option(help="Requests of each load.")] = 48,
    concurrencies: Annotated[str, typer.Option(help="Closed loop: requests at once, comma-separated.")] = "1,4",
    rates: Annotated[str | None, typer.Option(help="Open loop: requests a second, comma-separated.")] = None,
    warmup: Annotated[int, typer.Option(help="Requests after the first one that are left out.")] = 3,
    limit_ms: Annotated[float, typer.Option(help="A request within it is goodput.")] = 1000.0,
    batch: Annotated[int, typer.Option(help="Decisions of one request.")] = 1,
    teacher: Annotated[str | None, typer.Option(help="Subject that the others are compared with.")] = None,
    traces: Annotated[Path | None, typer.Option(help="A teacher's traces (JSONL) to ask and compare with.")] = None,
    prices: Annotated[Path | None, typer.Option(help="Price file (TOML); unset takes the one that ships.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Time streams with a second client as well.")] = False,
    vllm_url: Annotated[str | None, typer.Option(help="Server of vllm; unset takes llm.base_url.")] = None,
    vllm_model: Annotated[str | None, typer.Option(help="Its model; unset takes llm.model.")] = None,
    server_flags: Annotated[str | None, typer.Option(help="How that server was started, for the report.")] = None,
    api_url: Annotated[str | None, typer.Option(help=f"Server of api; its key is read from {KEY_VARIABLE}.")] = None,
    api_model: Annotated[str | None, typer.Option(help="Its model.")] = None,
    delay_ms: Annotated[float, typer.Option(help="Delay of the stand-in.")] = 20.0,
    cascade_teacher: Annotated[str, typer.Option(help="Whom a cascade asks: vllm, api or stand-in.")] = "vllm",
    registry: Annotated[Path | None, typer.Option(help="Folder of your own students.")] = None,
    profile: Annotated[str | None, typer.Option(help="Embedder profile; unset takes it from the settings.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn at random.")] = 0,
) -> None:
    """Latency, throughput, tokens, money and agreement of each task and of the whole write and read path."""
    from intentmem.memory.tasks import Candidates

    from ..commands import command_line, finish, names, numbers
    from ..progress import Progress
    from ..report import Report
    from .files import SHOWN, write_all
    from .plan import LatencyPlan
    from .run import Run, run

    made: list[Run] = []

    def measure(progress: Progress) -> Report:
        overrides: dict[str, Any] = {"embedder": {"profile": profile}} if profile else {}
        served = {"base_url": vllm_url, "model": vllm_model}
        if given := {name: value for name, value in served.items() if value}:
            overrides["llm"] = given
        if registry is not None:
            overrides["students"] = {"registry": registry}
        options = {
            "api_url": api_url, "api_model": api_model, "api_key": os.environ.get(KEY_VARIABLE), "delay_ms": delay_ms,
            "server_flags": server_flags, "cascade_teacher": cascade_teacher,
        }  # fmt: skip
        declared = _declared(task or [])
        plan = LatencyPlan(
            subjects=names(subjects, "subjects"),
            path=data,
            corpus=corpus,
            groups=names(groups, "groups") if groups else None,
            requests=requests,
            concurrencies=numbers(concurrencies, "concurrencies"),
            rates=_rates(rates) if rates else (),
            seed=seed,
            warmup=warmup,
            limit_ms=limit_ms,
            teacher=teacher,
            traces=traces,
            batch=batch,
            check=check,
            prices=prices,
            tasks={one.task.name: one.task for one in declared},
            labels={one.task.name: Candidates(one.labels.ids, one.labels.texts) for one in declared if one.labels.ids},
            overrides=overrides,
            options=options,
        )
        made.append(run(plan, command_line(), progress))
        return made[0].report

    finish(measure, json, SHOWN)
    if out is not None:
        try:
            for path in write_all(made[0], out):
                typer.echo(f"wrote {path}")
        except IntentMemError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2 if isinstance(error, InputError) else 1) from error


def _declared(files: list[Path]) -> list[DeclaredTask]:
    from intentmem.distill.task_files import read_task

    found = [read_task(path) for path in files]
    names = [one.task.name for one in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError("task", f"{twice[0]!r} is declared twice", "give each task one file")
    return found


def _rates(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise InputError("rates", f"{text!r} is no list of numbers", "for example 1,5") from error
