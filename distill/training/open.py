"""Training of students of open labels: `event` and `entity_types` on one adapter, a user's own task on another."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import TASKS, Candidates, Item, Task

from ..backbone import Backbone
from ..calibration import reliability
from ..encoding import AdaptedEncoder, Adapter
from ..evaluation.labels import measure
from ..gold.labels import HELD_OUT
from ..judging import Judged, compare
from ..splits import GIVEN, split_traces
from ..students.base import Encodings
from ..students.open import UNCALIBRATED, OpenOptions, OpenStudent
from ..traces import Trace
from .adapting import AdaptingEncoder, LoraShape
from .batching import epochs_for
from .loop import Curve, LoopConfig, fit
from .open_calibrating import calibrated, shared_items
from .open_examples import Lesson, lesson
from .open_head import scoring
from .open_recipe import OpenRecipe
from .outcome import Measured, Trained, TrainOptions

ADAPTER = "labels"
"""The adapter that the built-in tasks share."""
SHAPE = LoraShape(layers=4, dropout=0.0)
_RATE, _HEAD_RATE = 1e-3, 2e-3
_MANY = 1500
_SLICES = 3
_DEV, _CALIBRATION = 80, 120
_CANARIES, _CANARY_LABELS = 4, 8


def train(tasks: Sequence[Task], traces: Sequence[Trace], base: Backbone, options: TrainOptions) -> list[Trained]:
    """Train the students of open tasks together, on traces of any teachers.

    Traces whose `split` is `test` are left alone. Over many conversations one pass is made, in slices with a look at
    the development split after each; over few, several passes.

    Raises:
        InputError: a task that is not open, traces that cannot teach it, or too few conversations to split.
    """
    kept = [trace for trace in traces if trace.meta.get(GIVEN) != HELD_OUT]
    by_task = {task.name: [trace for trace in kept if trace.task == task.name] for task in tasks}
    if unknown := {trace.task for trace in kept} - set(by_task):
        raise InputError("traces", f"hold some of {sorted(unknown)[0]!r}", "give its task too, or leave them out")
    parts, splits = split_traces(kept, options.seed)
    lessons = {task.name: lesson(task, by_task[task.name]) for task in tasks}
    adapter_name = ADAPTER if all(task.name in TASKS for task in tasks) else "-".join(task.name for task in tasks)
    encoder = AdaptingEncoder(base, options.shape or SHAPE, options.seed)
    slices = _SLICES if len(splits["train"]) >= _MANY else 1
    recipe = OpenRecipe(encoder, lessons, splits["train"], _spread(splits["dev"], _DEV), options.seed, slices)
    curve = fit(recipe, options.loop_or(_loop(recipe, slices), slices), options.checkpoints, options.progress)
    recipe.trunk.forget()
    adapter = encoder.adapter(adapter_name)
    made = _Made(base, adapter, curve, splits, parts)
    return [made.trained(task, recipe, lessons[task.name]) for task in tasks]


def _loop(recipe: OpenRecipe, slices: int) -> LoopConfig:
    epochs = slices if slices > 1 else epochs_for(recipe.steps)
    return LoopConfig(epochs=epochs, rate=_RATE, head_rate=_HEAD_RATE, patience=max(2, epochs // 2))


class _Made:
    """What a finished run turns into: one calibrated and measured student a task."""

    def __init__(
        self,
        base: Backbone,
        adapter: Adapter,
        curve: Curve,
        splits: Mapping[str, tuple[str, ...]],
        parts: Mapping[str, Sequence[Trace]],
    ) -> None:
        self._adapter, self._curve, self._splits, self._parts = adapter, curve, splits, parts
        self._encoder = AdaptedEncoder(base, (adapter,))

    def trained(self, task: Task, recipe: OpenRecipe, one: Lesson) -> Trained:
        """The student of a task, with all that its artifact states."""
        taught = _taught(one, set(self._splits["train"]))
        labels = {} if task.name in TASKS else _offered(self._parts, task)
        plain = OpenOptions(one.kind, UNCALIBRATED[one.kind], taught=taught, labels=labels)
        raw = OpenStudent(task, self._adapter.name, scoring(recipe.heads[task.name]), plain)
        encodings = self._encodings(raw)
        chosen_on = self._of(task, "calibration", _CALIBRATION)
        student = calibrated(raw, chosen_on, encodings)
        judged = self._judged(student, chosen_on, encodings)
        dev = self._of(task, "dev", _DEV)
        return Trained(
            student,
            self._adapter,
            self._curve,
            tuple(self._measured(student, dev, encodings)),
            self._splits,
            _sources(self._parts, task),
            reliability=reliability([one.confidence for one in judged], [one.agrees for one in judged]),
            canary=_canary(dev or chosen_on),
            judged=tuple(judged),
        )

    def _encodings(self, student: OpenStudent) -> Encodings:
        tokens = (student.adapter,) if student.settings.tokens else ()
        return Encodings(self._encoder, ((student.adapter,),), tokens)

    def _of(self, task: Task, split: str, most: int) -> list[Trace]:
        """Traces of a task in a split, of so many conversations at most, alike spread over the split."""
        wanted = set(_spread(self._splits[split], most))
        return [trace for trace in self._parts[split] if trace.task == task.name and trace.conversation in wanted]

    def _measured(self, student: OpenStudent, traces: Sequence[Trace], encodings: Encodings) -> list[Measured]:
        """Figures against each teacher, as theirs may be different vocabularies."""
        found: list[Measured] = []
        for teacher in sorted({trace.teacher for trace in traces}):
            own = [trace for trace in traces if trace.teacher == teacher]
            decisions = student.decide(shared_items(own), encodings)
            found += measure(student.task, decisions, own, student.settings.taught)
        return found

    def _judged(self, student: OpenStudent, traces: Sequence[Trace], encodings: Encodings) -> list[Judged]:
        decisions = student.decide(shared_items(traces), encodings)
        return [compare(student.task, trace, one) for trace, one in zip(traces, decisions, strict=True)]


def _spread(names: Sequence[str], most: int) -> Sequence[str]:
    """So many names at most, at equal distances."""
    return names[:: max(1, -(-len(names) // most))]


def _taught(one: Lesson, train: set[str]) -> tuple[str, ...]:
    """Names of the labels that apply to some turn of the training split."""
    examples = [example for name, part in one.examples.items() if name in train for example in part]
    return tuple(sorted({one.names[row] for example in examples for row in example.positives}))


def _offered(parts: Mapping[str, Sequence[Trace]], task: Task) -> dict[str, str]:
    """Texts of the labels of a task by id, in the order in which they were first offered."""
    found: dict[str, str] = {}
    for trace in (trace for part in parts.values() for trace in part if trace.task == task.name):
        found |= dict(zip(trace.options.ids, trace.options.texts, strict=True))
    return found


def _sources(parts: Mapping[str, Sequence[Trace]], task: Task) -> dict[str, str]:
    """A digest of the traces of each teacher."""
    keys: dict[str, list[str]] = {}
    for part in parts.values():
        for trace in part:
            if trace.task == task.name:
                keys.setdefault(trace.teacher, []).append(trace.key + "|".join(trace.labels))
    return {teacher: hashlib.sha256("\n".join(sorted(own)).encode()).hexdigest()[:16] for teacher, own in keys.items()}


def _canary(traces: Sequence[Trace]) -> tuple[Item, ...]:
    """A few questions, each with the labels that apply and some others: a loader should not encode a vocabulary."""
    found = []
    for trace in traces[:: max(1, len(traces) // _CANARIES)][:_CANARIES]:
        others = [place for place, label in enumerate(trace.options.ids) if label not in trace.labels]
        apply = [place for place, label in enumerate(trace.options.ids) if label in trace.labels]
        places = sorted([*apply, *others[:: max(1, len(others) // _CANARY_LABELS)]][:_CANARY_LABELS])
        ids, texts = trace.options.ids, trace.options.texts
        candidates = Candidates(tuple(ids[p] for p in places), tuple(texts[p] for p in places))
        found.append(Item(dict(trace.fields), candidates))
    return tuple(found)
