"""A whole run: every subject in every group, side by side, into one report."""

from __future__ import annotations

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from intentmem.memory.clock import SystemClock
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import InputError, StoreError
from intentmem.memory.memory import Memory
from intentmem.memory.protocols import Embedder
from intentmem.memory.store import Store
from intentmem.memory.tasks import Candidates
from intentmem.memory.write.extractive import ExtractiveWriter
from intentmem.memory.write.messages import parse_messages
from intentmem.serving.compose import make_embedder
from intentmem.serving.demo import QUESTIONS, sample_messages
from intentmem.serving.settings import load_settings
from intentmem.train_data import Question

from .. import corpora
from ..progress import Progress, silent
from ..report import Report, Row, header
from . import check
from .calls import WHOLE, answering, deciding, reading, writing
from .figures import Labels, Place, agreement_row
from .items import ItemMaker, Material, material, with_traces
from .load import Unanswerable
from .measure import Measured, measure
from .plan import PATHS, READ, WRITE, LatencyPlan
from .prices import Prices, read_prices
from .subjects import Context, Subject, make_subject

ANSWER = "answer"
"""Group of streamed answers, which a served model gives; their first tokens stand under `read` too."""
_SAMPLE = "sample"
DEFINITIONS = {
    "latency": "from the call (closed loop) or from the arrival that was due (open loop) to the answer",
    "cold_ms": "the first request of a subject made for this group: loading and connecting are in it",
    "warmup": "requests after the first one, in no other figure",
    "first_token": "the first token of a stream, of reasoning or of text",
    "first_output": "the first text of a stream that is no reasoning",
    "goodput": "answered requests within limit_ms, a second",
    "throughput": "answered requests a second, from the first sent to the last answered",
    "tokens": "as the server counts them for each request; never summed over a conversation",
    "money_per_1000": "price of a thousand requests: tokens at the price of the model, or hours of the machine",
    "agreement": "share of the items on which the labels are those of the teacher",
    "figures without an ending": "the first closed loop; @c4 is four at once, @r5 five a second",
}


@dataclass(slots=True)
class Run:
    """What a run came to."""

    report: Report
    measured: list[Measured]


@dataclass(slots=True)
class _Bench:
    """State of a run."""

    plan: LatencyPlan
    context: Context
    maker: ItemMaker
    prices: Prices
    progress: Progress
    folder: Path
    found: list[Measured] = field(default_factory=list)
    about: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    unanswered: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    done: int = 0

    @contextmanager
    def subject(self, name: str) -> Iterator[Subject]:
        """A fresh subject."""
        made = make_subject(name, self.context)
        self.about.setdefault(name, {"decider": made.decider.name, **made.about})
        try:
            yield made
        finally:
            made.close()

    def step(self) -> None:
        """Tell that a subject is through with a group."""
        self.done += 1
        self.progress("measure", self.done, len(self.plan.wanted) * len(self.plan.subjects))

    def place(self, subject: str, group: str) -> Place:
        """Where the figures of a subject in a group belong."""
        return Place(self.maker.source.name, subject, group)

    def task(self, group: str) -> None:
        """Every subject on one task."""
        task = self.plan.known[group]
        for name in self.plan.subjects:
            with self.subject(name) as subject:
                items = self.maker.of(task, subject.space)
                if not items:
                    self.unanswered[name].append(group)
                else:
                    call = deciding(subject, task, items, self.plan.batch)
                    try:
                        self.found.append(measure(self.place(name, group), call, self.plan, _model(subject)))
                    except Unanswerable:
                        self.unanswered[name].append(group)
            self.step()

    def paths(self) -> None:
        """Every subject on the whole write path and the whole read path, over a memory of its own."""
        groups = [group for group in PATHS if group in self.plan.wanted]
        for name in self.plan.subjects if groups else ():
            with self.subject(name) as subject, self._memory(subject, name) as memory:
                if WRITE in groups:
                    self._write(subject, memory)
                if READ in groups:
                    self._read(subject, memory)
            for _ in groups:
                self.step()

    def check(self) -> None:
        """The stream of every served subject by two clients."""
        for name in self.plan.subjects:
            with self.subject(name) as subject:
                if subject.client is None:
                    continue
                prompts = self.maker.questions
                for label, make in ((name, check.product_calls), (f"{name} (second client)", check.plain_calls)):
                    call = make(subject, prompts)
                    plan = replace(self.plan, concurrencies=(1,), rates=())
                    self.found.append(measure(self.place(label, check.GROUP), call, plan, _model(subject)))

    @contextmanager
    def _memory(self, subject: Subject, name: str) -> Iterator[Memory]:
        memory = subject.memory(self.folder / name.replace("/", "_"), self.context.embedder)
        try:
            yield memory
        finally:
            memory.close()

    def _write(self, subject: Subject, memory: Memory) -> None:
        call = writing(subject, memory, self.maker.source.turns, "write")
        self.found.append(measure(self.place(subject.name, WRITE), call, self.plan, _model(subject)))

    def _read(self, subject: Subject, memory: Memory) -> None:
        place, turns = self.place(subject.name, READ), self.maker.source.turns[: self.plan.requests]
        started = time.perf_counter()
        done = memory.add(list(turns), namespace=WHOLE)
        seconds = time.perf_counter() - started
        if done["status"] not in ("done", "empty"):
            raise StoreError(f"{subject.name} could not label the turns to read: {done['warnings'] or done['status']}")
        call = reading(subject, memory, self.maker.questions, self.plan.budget)
        found = measure(place, call, self.plan, _model(subject))
        found.more.append(self.place(subject.name, WRITE).row("block_turns_per_s", len(turns) / seconds, len(turns)))
        self.found.append(found)
        if subject.client is not None and subject.served:
            stream = answering(subject, memory, self.maker.questions, self.plan.budget)
            plan = replace(self.plan, rates=())
            answers = measure(self.place(subject.name, ANSWER), stream, plan, _model(subject))
            self.found.append(answers)
            found.more += [
                replace(row, group=READ, metric=f"{ANSWER}_p50_ms" if row.metric == "p50_ms" else row.metric)
                for row in answers.rows(plan, self.prices)
                if row.metric == "p50_ms" or (row.metric.startswith("first_") and "@" not in row.metric)
            ]


def run(plan: LatencyPlan, command: str = "", progress: Progress = silent) -> Run:
    """Measure.

    Raises:
        InputError: data, prices, a subject or one of its settings cannot be used.
        MissingExtraError: packages of a subject are not installed.
    """
    start = time.perf_counter()
    settings, prices = load_settings(plan.overrides), read_prices(plan.prices)
    embedder = make_embedder(settings.embedder)
    context = Context(settings, embedder, max(plan.concurrencies) if not plan.rates else 256, plan.options)
    for name in plan.subjects:
        make_subject(name, context).close()  # a missing setting is told before anything is measured
    with tempfile.TemporaryDirectory(prefix="intentmem-latency-") as folder:
        source = with_traces(_material(plan), plan.traces, plan.known, embedder)
        with _memory(Path(folder) / "items", embedder) as memory:
            own = {name: plan.labels.get(name, Candidates()) for name in plan.tasks}
            maker = ItemMaker(source, memory, plan.different * plan.batch, own)
            bench = _Bench(plan, context, maker, prices, progress, Path(folder))
            for group in plan.wanted:
                if group not in PATHS:
                    bench.task(group)
            bench.paths()
            if plan.check:
                bench.check()
            rows = [row for found in bench.found for row in found.rows(plan, prices)]
            rows += list(_agreement(bench))
    made = _header(bench, command, time.perf_counter() - start, embedder)
    return Run(Report(made, rows), bench.found)


def _agreement(bench: _Bench) -> Iterator[Row]:
    """Agreement with the teacher's answers: those of a subject of this run, else those of the traces."""
    from intentmem.distill.judging import agree

    plan, expected = bench.plan, dict[str, Mapping[int, Labels]]()
    for group, labels in bench.maker.source.expected.items():
        expected[group] = dict(enumerate(labels))
    for found in bench.found:
        if found.place.subject == plan.teacher and found.place.group in plan.known:
            expected[found.place.group] = found.labels
    for found in bench.found:
        group = found.place.group
        if group not in expected or found.place.subject == plan.teacher:
            continue
        task = plan.known[group]
        row = agreement_row(found.place, task, found.labels, expected[group], agree, plan.samples, plan.seed)
        if row is not None:
            yield row


def _header(bench: _Bench, command: str, seconds: float, embedder: Embedder) -> dict[str, Any]:
    plan, source = bench.plan, bench.maker.source
    failures: Counter[str] = Counter()
    errors: dict[str, str] = {}
    for found in bench.found:
        met = found.errors
        failures[found.place.subject] += sum(met.values())
        for message, _ in met.most_common(1):
            errors.setdefault(found.place.subject, f"{found.place.group}: {message}")
    configuration = {**plan.as_dict(), "embedder": str(embedder.fingerprint), "turns": len(source.turns)}
    more = {
        "subjects": bench.about,
        "stand_ins": [name for name, about in bench.about.items() if "stand_in" in about],
        "teacher": plan.teacher or ("traces" if source.expected else None),
        "prices": bench.prices.as_dict(),
        "not_answered": dict(bench.unanswered),
        "repeated": len(source.turns) < plan.different * plan.batch,
        "errors": errors,
        "tools": {"client": f"intentmem {metadata.version('intentmem')}", "second client": check.plain_tool()},
        "definitions": DEFINITIONS,
    }
    kept = {subject: count for subject, count in failures.items() if count}
    return header("latency", configuration, command, seconds, kept, source.hash, **more)


def _material(plan: LatencyPlan) -> Material:
    wanted = plan.different * plan.batch + 1  # the first turn has no scopes to weigh
    if plan.path is not None:
        found = material(corpora.load(plan.corpus, plan.path), wanted)
        if not found.turns:
            raise InputError("data", f"{plan.path} holds no turns", "take another file")
        return found
    turns = tuple(parse_messages(sample_messages()))
    questions = tuple(Question(str(n), text, _SAMPLE, _SAMPLE) for n, text in enumerate(QUESTIONS))
    bare = tuple(replace(turn, source_id=None) for turn in turns)
    return Material(_SAMPLE, _digest(bare), bare[:wanted], (None,) * len(bare[:wanted]), questions)


def _digest(turns: tuple[Any, ...]) -> str:
    return sha256("\x1e".join(turn.text for turn in turns).encode("utf-8", "surrogatepass")).hexdigest()


@contextmanager
def _memory(folder: Path, embedder: Embedder) -> Iterator[Memory]:
    memory = Memory(Store(folder), embedder, BaselineDecider(), ExtractiveWriter(), SystemClock())
    try:
        yield memory
    finally:
        memory.close()


def _model(subject: Subject) -> str | None:
    model = subject.about.get("model")
    return str(model) if subject.client is not None and model else None
