from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from intentmem.distill import artifacts
from intentmem.distill.backbone import Backbone
from intentmem.distill.cascade import CascadeDecider
from intentmem.distill.encoding import AdaptedEncoder
from intentmem.distill.evaluation.spans import _turns, evaluate
from intentmem.distill.families import family_for, family_of
from intentmem.distill.gold.spans import SPANS, spans_of
from intentmem.distill.registry import Registry
from intentmem.distill.runtime import ServedStudents, StudentDecider
from intentmem.distill.students.base import Encodings
from intentmem.distill.students.spans import SpansStudent, tagged
from intentmem.distill.students.spans_reading import passages
from intentmem.distill.traces import LabelSet, Trace
from intentmem.distill.training.loop import LoopConfig
from intentmem.distill.training.outcome import Trained, TrainOptions
from intentmem.distill.training.spans import examples, train
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import EVENT, RECORD_SPANS, Candidates, Item
from intentmem.memory.types import Turn

from .standin import WORDS

QUICK = TrainOptions(seed=1, loop=LoopConfig(epochs=30, rate=1e-2, head_rate=3e-2, patience=30))
FIRST, SECOND = "w50 w51", "w55 w56"


def said(n: int = 240, seed: int = 0) -> list[Trace]:
    """Two words of the first ten are a value, named by the word before them; the rest is talk."""
    rng = random.Random(seed)
    names = LabelSet((FIRST, SECOND), (FIRST, SECOND))
    found = []
    for number in range(n):
        talk = rng.sample(WORDS[20:40], 4)
        spans: list[tuple[int, int, str]] = []
        if rng.random() < 0.8:
            cue, name = rng.choice([("w50", FIRST), ("w55", SECOND)])
            at = rng.randrange(1, 4)
            start = len(" ".join([*talk[:at], cue])) + 1
            value = " ".join(rng.sample(WORDS[:10], 2))
            talk[at:at] = [cue, value]
            spans = [(start, start + len(value), name)]
        found.append(
            Trace(
                RECORD_SPANS.name,
                RECORD_SPANS.hash,
                {"text": " ".join(talk)},
                tuple(s[2] for s in spans),
                "gold:made",
                f"c{number % 40}",
                number // 40,
                names,
                meta={SPANS: json.dumps(spans), "role": "user"},
            )
        )
    return found


@pytest.fixture(scope="module")
def made(tiny: Backbone) -> Trained:
    return train([RECORD_SPANS], said(), tiny, QUICK)[0]


@pytest.fixture(scope="module")
def decider(tiny: Backbone, made: Trained) -> StudentDecider:
    encodings = Encodings(AdaptedEncoder(tiny, (made.adapter,)), ())
    return StudentDecider({RECORD_SPANS.name: made.student}, encodings, BaselineDecider())


def test_values_are_found_at_their_places_and_named(decider: StudentDecider) -> None:
    fresh = said(60, seed=5)
    found = decider.read_spans([str(trace.fields["text"]) for trace in fresh], [[]] * len(fresh))
    right = [
        {(one.start, one.end, one.property) for one in spans} == set(spans_of(trace))
        for trace, spans in zip(fresh, found, strict=True)
    ]
    assert np.mean(right) > 0.6


def test_a_decision_names_the_properties_that_are_offered(decider: StudentDecider) -> None:
    text = "w20 w50 w1 w2 w21 w22"
    (free,) = decider.decide(RECORD_SPANS, [Item({"text": text})])
    (bound,) = decider.decide(RECORD_SPANS, [Item({"text": text}, Candidates(("other",), ("other",)))])
    assert free.labels == (FIRST,) and 0 < free.confidence <= 1
    assert bound.labels == () and bound.probabilities == {}


def test_nothing_is_read_from_nothing(decider: StudentDecider) -> None:
    assert decider.read_spans(["", " ", "\ud83d"], [[], [""], []]) == [(), (), ()]
    assert decider.read_spans([], []) == []


def test_a_turn_reads_alike_alone_and_among_others(decider: StudentDecider) -> None:
    texts = [str(trace.fields["text"]) for trace in said(30, seed=7)]
    together = decider.read_spans(texts, [[]] * len(texts))
    alone = [decider.read_spans([text], [[]])[0] for text in texts]
    assert [[(s.start, s.end, s.property) for s in spans] for spans in together] == [
        [(s.start, s.end, s.property) for s in spans] for spans in alone
    ]


def test_the_reader_says_who_reads_and_takes_the_turns_before_from_the_episode(decider: StudentDecider) -> None:
    from datetime import UTC, datetime

    reader = decider.span_reader
    assert reader is not None and reader.name == "student:record_spans"
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    turns = [
        Turn(f"t{n}", n, "n", "m", n, "user", text, None, moment, "given", None)
        for n, text in enumerate(["w20 w21", "w20 w50 w1 w2 w21 w22"])
    ]
    assert [len(spans) for spans in reader.read(turns)] == [0, 1]


def test_without_a_student_of_values_there_is_no_reader_and_nothing_is_read() -> None:
    bare = StudentDecider({}, None, BaselineDecider())
    assert bare.span_reader is None
    assert bare.read_spans(["w1"], [[]]) == [()]


def test_an_artifact_comes_back_whole(
    tiny: Backbone, made: Trained, decider: StudentDecider, tmp_path: Path, mood_family: None
) -> None:
    assert family_for(RECORD_SPANS) == family_of(made.student) == "spans"
    items = [trace.item() for trace in said(6, seed=3)]
    artifacts.save(made, tmp_path / "record_spans", tiny, canary_items=items)
    artifact, student, encodings = artifacts.load(tmp_path / "record_spans", tiny, RECORD_SPANS)
    assert isinstance(student, SpansStudent)
    size = sum(path.stat().st_size for path in artifact.folder.glob("*.safetensors"))
    assert size < 2 * 2**20
    texts = [str(trace.fields["text"]) for trace in said(20, seed=9)]
    again = student.read(texts, [[]] * 20, encodings)
    expected = decider.read_spans(texts, [[]] * 20)
    assert [[s.property for s in spans] for spans in again] == [[s.property for s in spans] for spans in expected]


def test_the_student_that_is_in_use_reads_for_records_under_its_version(
    tiny: Backbone, made: Trained, tmp_path: Path, mood_family: None
) -> None:
    items = [trace.item() for trace in said(4, seed=3)]
    saved = artifacts.save(made, tmp_path / "record_spans", tiny, canary_items=items).folder
    registry = Registry(tmp_path / "registry", tmp_path / "shipped")
    served = ServedStudents(registry, lambda: tiny, BaselineDecider())
    (turn,) = _turns([said(1)[0]])
    assert served.span_reader.read([turn]) == [()], "nobody reads values yet"
    version = registry.promote(saved, tiny).version
    reader = CascadeDecider(served, None, {}).span_reader
    assert reader is not None
    assert len(reader.read([turn])) == 1 and reader.name == f"student:record_spans@{version}"
    assert CascadeDecider(BaselineDecider(), None, {}).span_reader is None


def test_figures_are_of_records_and_rules_are_measured_on_the_same_turns(decider: StudentDecider) -> None:
    traces = said(80, seed=11)
    figures = {one.metric: one for one in evaluate(decider, traces)}
    rules = {one.metric: one for one in evaluate(BaselineDecider(), traces)}
    assert figures["property_f1"].value > rules["property_f1"].value + 0.1
    assert figures["property_f1"].n == rules["property_f1"].n == sum(bool(spans_of(trace)) for trace in traces)
    assert figures["verbatim"].value == 1.0
    assert figures["span_f1"].low <= figures["span_f1"].value <= figures["span_f1"].high


def test_values_that_cross_windows_teach_tags_but_no_name(tiny: Backbone) -> None:
    text = " ".join(WORDS[:40])
    (passage,) = passages(tiny, [text], [[]], 24)
    start = len(" ".join(WORDS[:20])) + 1
    made = list(examples(passage, [(start, start + 7, FIRST), (start + 4, start + 7, SECOND)]))
    assert sum(one.tags.count(0) for one in made) >= 1
    assert {name for one in made for _, _, name in one.values} == {FIRST}


def test_tags_make_spans_in_which_inside_never_comes_first() -> None:
    sure = np.log(np.array([[0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.9, 0.05, 0.05]]))
    found = tagged(sure)
    assert found[-1] == (4, 5)
    assert all(first < last for first, last in found)
    assert tagged(np.log(np.array([[0.2, 0.6, 0.2]]))) in ([(0, 1)], [])


def test_what_cannot_teach_is_refused(tiny: Backbone) -> None:
    silent = [Trace(**{**_fields(one), "meta": {"role": "user"}}) for one in said(60)]
    with pytest.raises(InputError, match="place of no value"):
        train([RECORD_SPANS], silent, tiny, QUICK)
    with pytest.raises(InputError, match="not about values"):
        train([EVENT], said(60), tiny, QUICK)


def test_arrays_that_do_not_fit_one_another_are_refused(made: Trained) -> None:
    head = dict(made.student.head())
    with pytest.raises(InputError, match="fit one another"):
        SpansStudent.from_head(RECORD_SPANS, "spans", {**head, "values": head["values"][:, :5]}, made.student.options())
    with pytest.raises(InputError, match="are none"):
        SpansStudent.from_head(RECORD_SPANS, "spans", head, {**made.student.options(), "properties": []})


def _fields(trace: Trace) -> dict[str, object]:
    return {name: getattr(trace, name) for name in trace.__dataclass_fields__}
