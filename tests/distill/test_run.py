from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from intentmem.distill import artifacts, sources
from intentmem.distill.backbone import Backbone
from intentmem.distill.export import export
from intentmem.distill.parity import parity
from intentmem.distill.runtime import StudentDecider
from intentmem.distill.sources import parse_source
from intentmem.distill.suspects import read_corrections, suspects, write_suspects
from intentmem.distill.trace_files import write_traces
from intentmem.distill.traces import Trace
from intentmem.distill.training import loop, run
from intentmem.distill.training.loop import LoopConfig
from intentmem.distill.training.outcome import Trained, TrainOptions
from intentmem.distill.training.run import TrainPlan
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import ArtifactError, InputError, StoreError
from intentmem.memory.tasks import Task

from . import standin
from .standin import MOOD, mood_traces

pytestmark = pytest.mark.usefixtures("mood_family")


@pytest.fixture(autouse=True)
def _standin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "part", lambda room, family: SimpleNamespace(train=standin.train))


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    path = tmp_path / "traces.jsonl"
    write_traces(path, mood_traces())
    return path


def plan(traced: Path, tiny_folder: Path, **more: Any) -> TrainPlan:
    given = {"tasks": (MOOD,), "sources": (parse_source(f"traces:{traced}"),), "out": traced.parent / "out"}
    return TrainPlan(**{**given, "base": str(tiny_folder), "seed": 1, "epochs": 2, **more})


def test_a_run_leaves_artifact_plots_and_figures(traced: Path, tiny_folder: Path) -> None:
    told: list[tuple[str, int, int]] = []
    [made] = run.train(plan(traced, tiny_folder), lambda name, done, total, _: told.append((name, done, total)))
    out = traced.parent / "out"
    assert [path.name for path in out.iterdir()] == ["mood"]
    assert {"curve.png", "confusion.png", "reliability.png", "README.md"} < {p.name for p in (out / "mood").iterdir()}
    assert told[-1][1] == told[-1][2] > 0
    assert set(made.manifest.data) == {"traces"} and len(made.manifest.data["traces"]) == 64
    assert made.manifest.latency["turns_per_s"] > 0 and made.manifest.latency["p95_ms"] > 0
    assert made.manifest.calibration.ece is not None


def test_two_runs_with_one_seed_give_the_same_figures(traced: Path, tiny_folder: Path) -> None:
    [first] = run.train(plan(traced, tiny_folder))
    [second] = run.train(plan(traced, tiny_folder, out=traced.parent / "again"))
    assert [m.value for m in second.manifest.metrics] == pytest.approx(
        [m.value for m in first.manifest.metrics], abs=1e-6
    )
    assert second.manifest.data_hash == first.manifest.data_hash


def test_a_full_disk_at_a_checkpoint_is_told_and_the_run_resumed(
    traced: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    out = traced.parent / "out"
    run.train(plan(traced, tiny_folder))
    before = {path.name: path.read_bytes() for path in (out / "mood").iterdir()}
    saves: list[Path] = []
    real = torch.save

    def filling(state: Any, path: Path) -> None:
        if saves:
            raise OSError(28, "No space left on device")
        saves.append(path)
        real(state, path)

    monkeypatch.setattr(torch, "save", filling)
    with pytest.raises(StoreError, match=r"No space left on device; artifacts that were there are untouched.*--resume"):
        run.train(plan(traced, tiny_folder))
    assert {path.name: path.read_bytes() for path in (out / "mood").iterdir()} == before
    monkeypatch.setattr(torch, "save", real)
    with pytest.raises(InputError, match="of a run with other data, base or options"):
        run.train(plan(traced, tiny_folder, resume=True, seed=2))
    epochs: list[int] = []
    real_epoch = loop._Run.epoch

    def counted(self: Any, epoch: int, *rest: Any) -> None:
        epochs.append(epoch)
        real_epoch(self, epoch, *rest)

    monkeypatch.setattr(loop._Run, "epoch", counted)
    run.train(plan(traced, tiny_folder, resume=True))
    assert epochs == [1]
    assert not (out / ".checkpoints").exists()


def bad(traces: Sequence[Trace], kind: str) -> list[Trace]:
    changed = {
        "version": {"task_hash": "0" * 16},
        "label": {"labels": ("lukewarm",)},
    }
    if kind in changed:
        return [*traces, replace(traces[0], conversation="x", **changed[kind])]  # type: ignore[arg-type]
    if kind == "split":
        named = [replace(trace, meta={"split": "train"}) for trace in traces]
        return [*named, replace(named[0], seq=999, meta={"split": "dev"})]
    return [trace for trace in traces if trace.conversation == "c0"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("version", "is of another version of 'mood'"),
        ("label", r"has labels \['lukewarm'\], not one of each group"),
        ("split", "conversation 'c0' is in 'train' and in 'dev'"),
        ("few", "come from 1 conversations, too few"),
    ],
)
def test_unusable_traces_are_refused_before_anything_is_written(
    tmp_path: Path, tiny_folder: Path, kind: str, message: str
) -> None:
    path = tmp_path / "traces.jsonl"
    write_traces(path, bad(mood_traces(), kind))
    with pytest.raises(InputError, match=message):
        run.train(plan(path, tiny_folder))
    assert not (tmp_path / "out" / "mood").exists()


def test_a_base_that_is_no_encoder_is_refused(traced: Path, tmp_path: Path) -> None:
    import transformers

    config = transformers.GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=1, n_positions=16)
    transformers.GPT2Model(config).save_pretrained(tmp_path / "gpt")
    standin.make_encoder(tmp_path / "words")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "gpt" / name).write_bytes((tmp_path / "words" / name).read_bytes())
    with pytest.raises(InputError, match="GPT2Model is not a stack of encoder layers"):
        run.train(plan(traced, tmp_path / "gpt"))
    with pytest.raises(InputError, match=r"base: .*neither a folder nor in the local model cache"):
        run.train(plan(traced, tmp_path / "nowhere"))


def test_sources_are_read_as_they_are_named() -> None:
    assert parse_source("sgd:a/b").name == "sgd:b" and parse_source("built").path is None
    for text, message in (("nothing:x", "names no known source"), ("sgd", "says no path"), ("traces:", "says no path")):
        with pytest.raises(InputError, match=message):
            parse_source(text)
    with pytest.raises(InputError, match=r"says nothing about the task 'mood' \(none were given\)"):
        sources.load_examples([MOOD], [])


def test_every_corpus_is_gone_through_once_for_all_tasks_and_only_for_those_that_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, object]] = []

    def function(module: str, name: str) -> Any:
        def make(*given: Any, **_: Any) -> list[Trace]:
            asked.append((name, given[-1] if name == "label_traces" else None))
            return []

        return make

    monkeypatch.setattr(sources, "_function", function)
    part = SimpleNamespace(name="sgd", trajectories=[SimpleNamespace(split="train")])
    part.only = lambda split: part
    corpora: Any = [part]
    names = [task.name for task in run.SHIPPED]
    list(sources._gold(names, corpora, 0, False, True))
    assert len({name for name, _ in asked}) == len(asked), "each builder once"
    assert ("label_traces", {"event", "entity_types"}) in asked
    for name, builders in (("event", ["label_traces"]), ("property_match", ["match_traces"])):
        asked.clear()
        list(sources._gold([name], corpora, 0, False, True))
        assert [builder for builder, _ in asked] == builders
    asked.clear()
    list(sources._gold(["event"], corpora, 0, False, True))
    assert asked == [("label_traces", {"event"})]


def test_a_gate_says_where_a_student_falls_short(trained: Trained, tiny: Backbone, tmp_path: Path) -> None:
    answers = artifacts.judged(artifacts.save(trained, tmp_path / "mood", tiny).folder)
    assert len(answers) == len(trained.judged)
    wrong = [replace(one, agrees=False, expected="cold", predicted="warm", text="w1 w2") for one in answers]
    with pytest.raises(ArtifactError, match=r"fails on labels: cold 0% of \d+, says warm\. On inputs: 'w1 w2' is cold"):
        parity(wrong).check("mood")
    right = [replace(one, agrees=True) for one in answers] * 10
    parity(right).check("mood")
    with pytest.raises(InputError, match="without answers"):
        parity([])


def test_suspects_are_written_corrected_and_learnt_from(
    trained: Trained, tiny: Backbone, tiny_folder: Path, traced: Path
) -> None:
    decider = StudentDecider({"mood": trained.student}, artifacts._encodings(trained, tiny), BaselineDecider())
    traces = mood_traces()
    found = suspects(decider, MOOD, traces, 0.5)
    assert found and [one.confidence for one in found] == sorted((one.confidence for one in found), reverse=True)
    assert all(one.labels != one.trace.labels for one in found)
    path = traced.parent / "suspects.jsonl"
    write_suspects(path, found)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["labels"] = rows[0]["student"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_corrections(path)[found[0].trace.key] == found[0].labels
    [made] = run.train(plan(traced, tiny_folder, corrections=path))
    assert set(made.manifest.data) == {"traces", "corrections"}
    path.write_text('{"key": "?", "labels": ["warm"]}\n')
    with pytest.raises(InputError, match="name 1 traces that are not among the examples"):
        run.train(plan(traced, tiny_folder, corrections=path))
    path.write_text('{"key": "?", "labels": "warm"}\n')
    with pytest.raises(InputError, match="line 1"):
        read_corrections(path)


def test_an_export_is_what_peft_reads(trained: Trained, tiny: Backbone, tiny_folder: Path, tmp_path: Path) -> None:
    import numpy as np
    import torch
    from peft import PeftModel
    from transformers import AutoModel

    saved = artifacts.save(trained, tmp_path / "mood", tiny).folder
    found = export(saved, tmp_path / "exported", tiny_folder)
    assert any("vLLM serves no LoRA adapters of it" in line for line in found.note)
    model = PeftModel.from_pretrained(AutoModel.from_pretrained(tiny_folder).eval(), tmp_path / "exported")
    canary = json.loads((tmp_path / "exported" / "canary.json").read_text())
    for sentence, expected in zip(canary["sentences"], canary["vectors"], strict=True):
        ids = torch.tensor([tiny.tokenizer.encode(sentence).ids])
        with torch.inference_mode():
            vector = model(input_ids=ids).last_hidden_state[0].mean(dim=0).numpy()
        np.testing.assert_allclose(vector, expected, atol=1e-4)


def test_l01_an_encoder_is_not_exported_for_vllm(
    trained: Trained, tiny: Backbone, tiny_folder: Path, tmp_path: Path
) -> None:
    saved = artifacts.save(trained, tmp_path / "mood", tiny).folder
    with pytest.raises(ArtifactError, match=r"BertModel is an encoder: vLLM serves.*serve it in process"):
        export(saved, tmp_path / "exported", tiny_folder, "vllm")
    assert not (tmp_path / "exported").exists()


def test_the_entry_of_accelerate_trains_too(
    traced: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def named(name: str) -> tuple[Task, ...]:
        return (MOOD,)

    monkeypatch.setattr(run, "tasks_named", named)
    out = tmp_path / "by-main"
    run.main(
        ["--task", "mood", "--traces", str(traced), "--out", str(out), "--base", str(tiny_folder), "--epochs", "1"]
    )
    assert artifacts.read(out / "mood").task == MOOD


def test_options_reach_the_family(traced: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TrainOptions] = []

    def train(tasks: Any, traces: Any, base: Any, options: TrainOptions) -> list[Trained]:
        seen.append(options)
        return standin.train(tasks, traces, base, options)

    monkeypatch.setattr(run, "part", lambda room, family: SimpleNamespace(train=train))
    for epochs in (None, 2):
        run.train(plan(traced, tiny_folder, epochs=epochs))
    assert seen[0].loop is None and seen[0].seed == 1 and seen[0].checkpoints is not None
    own = LoopConfig(epochs=7, rate=0.5, head_rate=0.25, warm_up=0.3, patience=5)
    assert seen[0].loop_or(own) == replace(own, seed=1)
    assert seen[1].loop_or(own) == replace(own, seed=1, epochs=2), "nothing but the epochs is the command's"
    assert seen[1].loop_or(own, slices=3).epochs == 6
