"""Corpora as traces of `record_spans`: each turn with the places of its values and their properties."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from importlib.resources import files

from intentmem.memory.tasks import RECORD_SPANS
from intentmem.train_data import Corpus, Trajectory
from intentmem.train_data.sgd_labels import words

from ..splits import GIVEN
from ..students.spans_reading import AROUND
from ..traces import GOLD, LabelSet, Trace
from .labels import SEEN, SGD_TRAINING, UNSEEN, draw, service_splits

SPANS = "spans"
"""Key of `Trace.meta`: values as JSON, `[[start, end, property], ...]` in characters of the text."""
_MOST = {"train": 1000, "dev": 60, "calibration": 80}
"""Most dialogues of each split that are drawn to learn from: what is more brings little for its time."""


def span_traces(corpus: Corpus, seed: int = 0, evaluation: bool = False) -> list[Trace]:
    """Every turn of a corpus with value spans, also those that give none, of teacher `gold:<corpus>`.

    To train, dialogues are drawn, and each trace names its split: some services are kept back whole. A turn is of the
    group "unseen" where a service that it is about is not trained on.

    Args:
        seed: of what is kept back and drawn.
        evaluation: only to measure: all dialogues, also of corpora that may not be trained on.

    Raises:
        InputError: the corpus may be used for evaluation only.
    """
    if not evaluation:
        corpus.for_training()
    split_of, kept_back = service_splits(corpus, seed)
    found: list[Trace] = []
    properties = {words(s.slot) for t in corpus.trajectories for gold in t.gold.values() for s in gold.spans}
    options = LabelSet(tuple(sorted(properties)), tuple(sorted(properties)))
    left = dict(_MOST)
    for trajectory in sorted(corpus.trajectories, key=lambda one: draw(f"spans {one.id}", seed)):
        split = split_of.get(trajectory.id)
        if split is None or (not evaluation and left.get(split, 0) <= 0):
            continue
        if not evaluation:
            left[split] -= 1
        meta = {GIVEN: split, "source": corpus.name}
        trained_on = SGD_TRAINING - kept_back if corpus.name == "sgd" else None
        found += _traces(trajectory, options, GOLD + corpus.name, meta, trained_on)
    return found


def _traces(
    trajectory: Trajectory, options: LabelSet, teacher: str, meta: dict[str, str], trained_on: frozenset[str] | None
) -> Iterator[Trace]:
    texts = [turn.text for turn in trajectory.turns]
    for seq, turn in enumerate(trajectory.turns):
        gold = trajectory.gold.get(turn.source_id or "")
        spans = sorted({(s.start, s.end, words(s.slot)) for s in gold.spans}) if gold is not None else []
        fields: dict[str, str | tuple[str, ...]] = {"text": turn.text}
        if seq:
            fields["before"] = tuple(texts[max(0, seq - AROUND) : seq])
        said = {"role": turn.role, SPANS: json.dumps(spans)}
        if trained_on is not None and gold is not None:
            services = {span.service for span in gold.spans} or {gold.domain or ""}
            said["group"] = SEEN if services <= trained_on | {""} else UNSEEN
        labels = tuple(dict.fromkeys(name for _, _, name in spans))
        yield Trace(
            RECORD_SPANS.name, RECORD_SPANS.hash, fields, labels, teacher, trajectory.id, seq, options,
            meta={**meta, **said},
        )  # fmt: skip


def spans_of(trace: Trace) -> list[tuple[int, int, str]]:
    """The values of a trace: start, end, property."""
    return [(int(start), int(end), str(name)) for start, end, name in json.loads(trace.meta.get(SPANS, "[]"))]


def wider_properties() -> list[str]:
    """Names of common properties, of no corpus: what a student may call a value beside what it was trained on."""
    tables = tomllib.loads(files(__package__).joinpath("properties.toml").read_text("utf-8"))
    return list(dict.fromkeys(row[0].split("|")[0] for table in tables.values() for row in table.values()))
