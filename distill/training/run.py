"""One command's worth of training: sources in, artifacts out. Also what `accelerate launch` starts:

python -m accelerate.commands.launch -m intentmem.distill.training.run --task all --data sgd:PATH --out DIR
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import EmbedderError, InputError, MissingExtraError, StoreError
from intentmem.memory.tasks import ENTITY_TYPES, EVENT, PLAN, PROPERTY_MATCH, RECORD_SPANS, SCOPE, SUPPORT, Item, Task

from .. import artifacts
from ..artifacts import Artifact
from ..backbone import Backbone
from ..encoding import AdaptedEncoder, Adapter
from ..families import family_for, part
from ..judging import judge
from ..layers import layer_stack
from ..profiles import resolve_profile
from ..runtime import StudentDecider
from ..sources import Examples, Source, load_examples, parse_source
from ..suspects import read_corrections
from ..task_files import find_task
from ..traces import Trace
from ..weights import weights_digest
from .outcome import Trained, TrainOptions
from .plots import draw
from .processes import accelerator, is_main

ALL = "all"
SHIPPED = (SCOPE, EVENT, ENTITY_TYPES, RECORD_SPANS, PLAN, PROPERTY_MATCH, SUPPORT)
"""Tasks whose students come with the package."""
_CHECKPOINTS, _RUN = ".checkpoints", "run.json"
_CANARIES, _TIMED, _JUDGED = 6, 200, 2000
Tell = Callable[[str, int, int, str], None]
"""Told how far a family is: its name, steps done, steps in all, and a word on how it goes."""
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TrainPlan:
    """What to train, from what, and where to.

    base: profile, folder or hub id. epochs: at most; None leaves it to the family. resume: from the checkpoints of a
    run like this one that was interrupted. corrections: a file of suspects with labels corrected by hand.
    """

    tasks: tuple[Task, ...]
    sources: tuple[Source, ...]
    out: Path
    base: str = "embedded"
    seed: int = 0
    epochs: int | None = None
    resume: bool = False
    corrections: Path | None = None

    def __post_init__(self) -> None:
        if self.epochs is not None and self.epochs < 1:
            raise InputError("epochs", f"is {self.epochs}", "at least 1")
        if not self.tasks:
            raise InputError("task", "names no task", f"a task, or {ALL}")


def tasks_named(name: str) -> tuple[Task, ...]:
    """Tasks of a name, of a TOML file, or all that ship.

    Raises:
        InputError: there is no such task.
    """
    return SHIPPED if name == ALL else (find_task(name).task,)


def train(plan: TrainPlan, tell: Tell | None = None) -> list[Artifact]:
    """Train the students of a plan, each family in one go, and write their artifacts under `plan.out`.

    An artifact is written when its family is done: what was trained before a failure is kept.

    Raises:
        InputError: unusable sources or base, or checkpoints of another run.
        MissingExtraError: what training needs is not installed.
        StoreError: a checkpoint or artifact cannot be written; artifacts of before are untouched.
    """
    base = load_base(plan.base)
    examples = load_examples(plan.tasks, plan.sources, plan.seed)
    if plan.corrections is not None:
        examples = examples.corrected(read_corrections(plan.corrections))
    usable = {task.name: examples.of(task) for task in plan.tasks}
    found: list[Artifact] = []
    for family, tasks in _by_family(plan.tasks).items():
        traces = [trace for task in tasks for trace in usable[task.name]]
        folder = plan.out / _CHECKPOINTS / family
        with _disk(plan.out):
            if is_main():
                _prepare(folder, plan, tasks, examples, base)
            made = part("training", family).train(tasks, traces, base, _options(plan, family, folder, tell))
            if is_main():
                found += [_written(one, traces, plan, base, examples) for one in made]
                shutil.rmtree(folder, ignore_errors=True)
    if is_main():
        shutil.rmtree(plan.out / _CHECKPOINTS, ignore_errors=True)
    return found


def load_base(name: str) -> Backbone:
    """A base to train on, in full precision.

    Raises:
        InputError: there is none of that name, or it is not a stack of encoder layers.
    """
    try:
        profile = resolve_profile(name)
        base = Backbone(profile.folder(), profile, "cpu", "float32")
    except EmbedderError as error:
        raise InputError("base", str(error), "use a BERT-like encoder, such as the profile embedded") from error
    layer_stack(base.module)
    return base


def _options(plan: TrainPlan, family: str, folder: Path, tell: Tell | None) -> TrainOptions:
    def progress(done: int, total: int, word: str) -> None:
        if tell is not None:
            tell(family, done, total, word)

    return TrainOptions(plan.seed, None, None, folder, progress, plan.epochs)


def _by_family(tasks: Sequence[Task]) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = {}
    for task in tasks:
        found.setdefault(family_for(task), []).append(task)
    return found


def _prepare(folder: Path, plan: TrainPlan, tasks: Sequence[Task], examples: Examples, base: Backbone) -> None:
    """Make way for checkpoints; those of a run like this one stay where it is to be resumed."""
    this = {
        "tasks": {task.name: task.hash for task in tasks},
        "data": dict(examples.hashes),
        "base": weights_digest(base.folder),
        "seed": plan.seed,
        "epochs": plan.epochs,
    }
    known = folder / _RUN
    if plan.resume and known.is_file():
        if json.loads(known.read_text("utf-8")) != this:
            raise InputError("resume", f"{folder} is of a run with other data, base or options", "start without it")
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    known.write_text(json.dumps(this), "utf-8")


def _written(
    trained: Trained, traces: Sequence[Trace], plan: TrainPlan, base: Backbone, examples: Examples
) -> Artifact:
    task = trained.student.task
    own = [trace for trace in traces if trace.task == task.name]
    whole = _completed(trained, own, base, examples.hashes)
    folder = plan.out / task.name
    latency = timed(_alone(whole, base), task, [trace.item() for trace in own[:_TIMED]])
    made = artifacts.save(whole, folder, base, seed=plan.seed, latency=latency)
    try:
        draw(whole, folder)
    except MissingExtraError as error:
        _log.warning("no plots: %s", error)
    return made


def _completed(trained: Trained, own: Sequence[Trace], base: Backbone, hashes: Mapping[str, str]) -> Trained:
    """With a canary and with answers on the calibration split, where the family gave none."""
    task = trained.student.task
    inside = set(trained.splits.get("calibration", ()))
    held = [trace for trace in own if trace.conversation in inside]
    canary = trained.canary or tuple(_spread([trace.item() for trace in held or own], _CANARIES))
    judged = trained.judged
    if not judged and held:
        judged = tuple(judge(_alone(trained, base), task, _spread(held, _JUDGED)))
    return replace(trained, canary=canary, judged=judged, data=dict(hashes))


def _alone(trained: Trained, base: Backbone) -> StudentDecider:
    """The student as it would be in service, its adapter in half precision."""
    found = trained.adapter
    adapter = Adapter(trained.student.adapter, found.first_layer, found.scale, found.weights, found.max_tokens)
    encodings = artifacts.encodings_for([trained.student], AdaptedEncoder(base, (adapter,)))
    return StudentDecider({trained.student.task.name: trained.student}, encodings, BaselineDecider())


def timed(decider: StudentDecider, task: Task, items: Sequence[Item]) -> dict[str, float]:
    """`turns_per_s` of decisions together, `p50_ms` and `p95_ms` of one alone, on inputs not seen before.

    Half of the items are decided together and half one by one.
    """
    if len(items) < 2:
        return {}
    half = len(items) // 2
    started = time.perf_counter()
    decider.decide(task, items[:half])
    together = time.perf_counter() - started
    each = []
    for item in items[half:]:
        started = time.perf_counter()
        decider.decide(task, [item])
        each.append((time.perf_counter() - started) * 1000)
    p50, p95 = np.percentile(each, (50, 95))
    return {"turns_per_s": half / max(together, 1e-9), "p50_ms": float(p50), "p95_ms": float(p95)}


def _spread(rows: Sequence[_T], count: int) -> list[_T]:
    """At most so many rows, evenly over all of them."""
    if len(rows) <= count:
        return list(rows)
    return [rows[int(place)] for place in np.linspace(0, len(rows) - 1, count)]


@contextmanager
def _disk(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{out}: {error.strerror or error}; artifacts that were there are untouched. When that is mended, go on "
            "with --resume"
        ) from error


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry of `accelerate launch`; on one machine without it, use `intentmem distill train`."""
    parser = argparse.ArgumentParser(prog="python -m intentmem.distill.training.run", description=main.__doc__)
    parser.add_argument("--task", required=True)
    parser.add_argument("--data", action="append", default=[], type=parse_source)
    parser.add_argument("--traces", action="append", default=[], type=lambda path: parse_source(f"traces:{path}"))
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--base", default="embedded")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args(arguments)
    level = logging.INFO if is_main() else logging.WARNING
    logging.basicConfig(level=level, stream=sys.stderr, format="%(message)s")
    plan = TrainPlan(
        tasks_named(given.task),
        (*given.data, *given.traces),
        given.out,
        given.base,
        given.seed,
        given.epochs,
        given.resume,
    )
    for artifact in train(plan):
        _log.info("%s: %s", artifact.task.name, artifact.folder)
    accelerator().end_training()


if __name__ == "__main__":
    main()
