"""Traces on the disk: nothing is lost, nothing is there twice, and what is damaged is refused by name."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.distill.trace_files import TraceFile, from_json, read_traces, to_json, write_traces
from intentmem.distill.traces import LabelSet, Trace
from intentmem.memory.errors import InputError

OPTIONS = LabelSet(("a", "b"), ("a: one", "b: two"))
TRACE = Trace("event", "hash", {"turn": "Hello"}, ("a",), "gold:sgd", "c1", 3, OPTIONS, {"a": 0.75}, "p", "t1")

texts = st.text(st.characters(codec="utf-8"), max_size=20)
traces = st.builds(
    Trace,
    task=texts,
    task_hash=texts,
    fields=st.dictionaries(texts, st.one_of(texts, st.lists(texts, max_size=3).map(tuple)), max_size=3),
    labels=st.lists(texts, max_size=2).map(tuple),
    teacher=texts,
    conversation=texts,
    seq=st.integers(0, 10**6),
    options=st.sampled_from([LabelSet(), OPTIONS]),
    probabilities=st.dictionaries(texts, st.floats(0, 1), max_size=2),
    turn=st.none() | texts,
    time=st.none() | st.just(datetime(2026, 3, 1, tzinfo=UTC)),
    meta=st.dictionaries(texts, texts, max_size=2),
)


@given(traces)
def test_a_trace_comes_back_as_it_was(trace: Trace) -> None:
    assert from_json(json.loads(json.dumps(to_json(trace))), {OPTIONS.key: OPTIONS}) == trace


def test_the_same_trace_is_kept_once_and_options_are_written_once(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    file = TraceFile(path)
    assert file.append([TRACE, TRACE, replace(TRACE, seq=4)]) == 2
    assert file.append([TRACE]) == 0
    assert TraceFile(path).append([TRACE, replace(TRACE, seq=5)]) == 1
    assert [trace.seq for trace in read_traces(path)] == [3, 4, 5]
    assert path.read_text("utf-8").count('"ids"') == 1


def test_a_line_that_a_kill_cut_short_is_dropped_when_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_traces(path, [TRACE, replace(TRACE, seq=4)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="line 4 is not a trace"):
        list(read_traces(path))
    file = TraceFile(path)
    assert file.append([TRACE, replace(TRACE, seq=4)]) == 1
    assert [trace.seq for trace in read_traces(path)] == [3, 4]


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_traces(path, [TRACE, replace(TRACE, seq=4)])
    lines = path.read_text("utf-8").split("\n")
    path.write_text("\n".join([*lines[:2], '{"trace": {"task": 1}}', *lines[3:]]), "utf-8")
    with pytest.raises(InputError, match=r"t\.jsonl line 3"):
        TraceFile(path)


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text('{"note": "mine"}\n', "utf-8")
    with pytest.raises(InputError, match="not a trace"):
        TraceFile(path)
    assert path.read_text("utf-8") == '{"note": "mine"}\n'


def test_a_full_disk_leaves_the_former_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl"
    write_traces(path, [TRACE])
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("intentmem.distill.trace_files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_traces(path, [replace(TRACE, seq=9)])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.jsonl"]
