"""Commands about students: which there are, which answer, and the way to a new one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import collect, distill_train
from .session import Session, command

if TYPE_CHECKING:
    from intentmem.distill.backbone import Backbone
    from intentmem.distill.registry import Registry, Version

Base = Annotated[
    str | None,
    typer.Option("--base", help="Encoder: profile, folder or hub id; that of the settings by default."),
]


def register(app: typer.Typer) -> None:
    """Put these commands on an application."""
    group = typer.Typer(help="Students: train, measure and exchange what decides.", no_args_is_help=True)
    collect.register(group)
    distill_train.register(group)
    command(group, "list", owner=False)(list_students)
    command(group, "show", owner=False)(show)
    command(group, "promote", owner=False)(promote)
    command(group, "rollback", owner=False)(rollback)
    command(group, "export", owner=False)(export)
    app.add_typer(group, name="distill")


def list_students(session: Session) -> None:
    """Every student: those that ship and those that were promoted; the one of each task that answers is marked."""
    from . import tables

    found = registry(session).versions()
    made = tables.table("task", "version", "origin", "answers", "trained", "measured", wide="measured")
    for one in found:
        made.add_row(
            one.task, one.version, one.origin, "yes" if one.current else "", one.manifest.created[:10], _headline(one)
        )
    session.show({"students": [_summary(one) for one in found]}, made if found else tables.plain("no students"))


def show(
    session: Session,
    student: Annotated[str, typer.Argument(help="Task, or the folder of a student.")],
    version: Annotated[str | None, typer.Option("--version", help="Beginning of a version's name.")] = None,
) -> None:
    """All that a student's manifest states: data, figures, calibration, latency."""
    from intentmem.distill.manifest import NAME, read_manifest

    from . import tables

    folder = Path(student).expanduser()
    chosen = None if (folder / NAME).is_file() else registry(session).find(student, version)
    manifest = read_manifest(folder) if chosen is None else chosen.manifest
    metrics = tables.table("data", "group", "metric", "value", "interval", "n", wide="data")
    for one in manifest.metrics:
        between = "" if one.low is None or one.high is None else f"{one.low:.3f} to {one.high:.3f}"
        metrics.add_row(one.data, one.group, one.metric, f"{one.value:.3f}", between, str(one.n))
    about: dict[str, Any] = {
        "task": f"{manifest.task} ({manifest.task_hash})",
        "version": manifest.version,
        "folder": str(folder if chosen is None else chosen.folder),
        "base": f"{manifest.base.profile} ({manifest.base.weights[:12]})",
        "trained": f"{manifest.created}, seed {manifest.seed}",
        "data": ", ".join(manifest.data) or "not stated",
        "calibration error": "" if manifest.calibration.ece is None else f"{manifest.calibration.ece:.3f}",
        **{name: f"{value:.4g}" for name, value in manifest.latency.items()},
    }
    audit = _audits(session).get(manifest.task)
    if audit is not None:
        about["audits"] = f"agreement {audit[0]:.3f} of {audit[1]}{', DEMOTED' if audit[2] else ''}"
    payload = {**manifest.model_dump(), "version": manifest.version, "folder": about["folder"], "audit": audit}
    session.show(payload, tables.pairs(about), metrics)


def promote(
    session: Session,
    student: Annotated[Path, typer.Argument(help="Folder of a trained student.")],
    target: Annotated[float, typer.Option(help="Agreement with its teacher that must be certain.")] = 0.9,
    coverage: Annotated[float, typer.Option(help="Share of decisions at which it must be.")] = 0.3,
    force: Annotated[bool, typer.Option("--force", help="Also one that falls short.")] = False,
    base: Base = None,
) -> None:
    """Let a student answer from now on, in running processes too; refused where it falls short of its teacher."""
    from intentmem.distill import artifacts
    from intentmem.distill.parity import parity
    from intentmem.memory.tasks import TASKS

    from . import tables

    artifact = artifacts.read(student)
    found = None
    answers = artifacts.judged(student)
    if answers or not force:
        found = parity(answers, target, coverage)
    if found is not None and not force:
        found.check(artifact.task.name)
    version = registry(session).promote(student, load_base(session, base), TASKS.get(artifact.task.name, artifact.task))
    _audit(session).restore(version.task)
    reached = found.threshold if found is not None else None
    about = {
        "task": version.task,
        "version": version.version,
        "agreement": "not known" if found is None else f"{found.agreement:.3f} of {found.n}",
        "threshold": "none meets the target" if reached is None else f"{reached.value:.3f}",
        "coverage": "" if reached is None else f"{reached.coverage:.0%}",
        "forced": "yes" if force and (found is None or not found.passes) else "no",
    }
    session.show({**_summary(version), **about}, tables.pairs(about, title="It answers from now on"))


def rollback(
    session: Session,
    task: Annotated[str, typer.Argument(help="Task whose student steps back.")],
) -> None:
    """Let the student answer again that did before the last promotion."""
    from . import tables

    before = registry(session).rollback(task)
    _audit(session).restore(task)
    payload = {"task": task, "student": None if before is None else _summary(before)}
    word = "no student answers it now" if before is None else f"{before.version} ({before.origin}) answers again"
    session.show(payload, tables.plain(f"{task}: {word}"))


def export(
    session: Session,
    student: Annotated[str, typer.Argument(help="Task, or the folder of a student.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder.")],
    target: Annotated[str, typer.Option("--for", help="peft, or vllm where it serves the base.")] = "peft",
    base: Base = None,
) -> None:
    """Write a student's adapter in the format of peft, for another server; says where a server cannot use it."""
    from intentmem.distill.export import export as write
    from intentmem.distill.manifest import NAME
    from intentmem.distill.profiles import resolve_profile

    from . import tables

    folder = Path(student).expanduser()
    if not (folder / NAME).is_file():
        folder = registry(session).find(student).folder
    encoder = resolve_profile(base or session.settings.embedder.profile).folder()
    found = write(folder, out, encoder, target)
    session.show(
        {"folder": str(found.folder), "notes": list(found.note)},
        tables.plain(f"written: {found.folder}"),
        *(tables.plain(f"- {line}") for line in found.note),
    )


def registry(session: Session) -> Registry:
    """The registry of the settings."""
    from intentmem.distill.registry import Registry

    return Registry(session.settings.students.registry)


def load_base(session: Session, base: str | None) -> Backbone:
    """The encoder that was named, else that of the settings, in full precision.

    Raises:
        InputError: the embedder of the settings is no encoder.
    """
    from intentmem.distill.training.run import load_base as load
    from intentmem.memory.errors import InputError

    name = base or session.settings.embedder.profile
    if name in ("hash", "remote"):
        raise InputError("base", f"the embedder {name!r} is no encoder", "name one with --base, such as embedded")
    return load(name)


def _audit(session: Session) -> Any:
    from intentmem.distill.audit import Audit

    return Audit(session.settings.students.registry.expanduser() / "audit.json")


def _audits(session: Session) -> dict[str, tuple[float, int, bool]]:
    found: dict[str, tuple[float, int, bool]] = _audit(session).state()
    return found


def _summary(one: Version) -> dict[str, Any]:
    return {
        "task": one.task,
        "version": one.version,
        "origin": one.origin,
        "current": one.current,
        "folder": str(one.folder),
        "base": one.manifest.base.profile,
        "created": one.manifest.created,
        "metrics": [metric.model_dump() for metric in one.manifest.metrics],
    }


def _headline(one: Version) -> str:
    shown = [metric for metric in one.manifest.metrics if metric.group == "all"][:3]
    return ", ".join(f"{metric.metric} {metric.value:.3f}" for metric in shown)
