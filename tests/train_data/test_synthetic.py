"""Sets in CAME-Bench's format: consistent, deterministic, without gold in what a system sees."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.memory.errors import InputError
from intentmem.train_data import estimate_tokens, load_corpus
from intentmem.train_data.synthetic import KINDS, build, build_woven
from intentmem.train_data.synthetic.kinds import SetSplit, load_kind, taking_up
from intentmem.train_data.synthetic.simulate import Simulation
from intentmem.train_data.synthetic.talk import simulated

from .toy import toy_corpus

STATED = {"2/nth-name", "2/nth-raised", "2/nth-attribute", "2/attribute-here", "2/field", "2/reason", "1/field-now"}
STATED |= {"1/final-choice", "1/previous-choice", "1/first-choice", "1/field-before", "3/chosen-attribute"}
STATED |= {"3/replaced-attribute", "3/by-value", "3/shared", "3/two-goals", "4/all", "4/rejected", "4/overview"}


def lines(folder: Path, end: str) -> Iterator[dict[str, Any]]:
    (file,) = folder.glob(f"*_{end}.jsonl")
    return (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="module", params=KINDS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sets") / request.param
    build(request.param, tokens=12_000, seed=11, out=out, questions=80)
    return out


def test_the_length_is_within_a_tenth_and_the_meta_file_counts(built: Path) -> None:
    turns = list(lines(built, "turns"))
    assert 12_000 <= sum(estimate_tokens(turn["content"]) for turn in turns) <= 13_200
    (file,) = built.glob("*_meta.json")
    meta = json.loads(file.read_text())
    assert meta["num_turns"] == len(turns)
    assert meta["num_questions"] == len(list(lines(built, "questions"))) == 80


def test_evidence_exists_was_visible_and_states_the_answer(built: Path) -> None:
    texts = {turn["id"]: turn["content"] for turn in lines(built, "turns")}
    for question in lines(built, "questions"):
        evidence = question["answer_turn_ids"]
        assert evidence
        assert set(evidence) <= set(question["question_turn_ids"]) <= set(texts)
        family = "/".join(question["template"].split("/")[1:3])
        if family in STATED:
            said = " ".join(texts[turn] for turn in evidence).casefold()
            for part in question["answer"]["free_form_answer"].split("; "):
                assert part.casefold() in said, question


def test_all_four_types_and_reasoning_types_are_asked(built: Path) -> None:
    questions = list(lines(built, "questions"))
    assert {question["type"] for question in questions} == {f"type {n}" for n in (1, 2, 3, 4)}
    assert len({question["plan"]["reasoning"] for question in questions}) == 4
    assert len({question["content"] for question in questions}) > 70
    for question in questions:
        assert not set("{}[]|") & set(question["content"]), question["content"]


def test_answers_avoid_the_name_and_goals_interleave(built: Path) -> None:
    turns = list(lines(built, "turns"))
    answers = [turn for turn in turns if turn["action"].startswith("answer: ") and "inquiry" in turn["action"]]
    named = {
        question["requirements"][0]["entity"] for question in lines(built, "questions") if question["requirements"]
    }
    assert not any(name and name in turn["content"] for turn in answers for name in named)
    goals = ["/".join(turn["partition"]) for turn in turns]
    returns = sum(a != b and b in goals[:i] for i, (a, b) in enumerate(pairwise(goals)))
    assert returns > 20


def test_segments_begin_with_the_one_who_asks_and_texts_hold_no_gold(built: Path) -> None:
    before = None
    for turn in lines(built, "turns"):
        if turn["partition"] != before:
            assert not turn["action"].startswith("answer")
        before = turn["partition"]
        assert "inquiry" not in turn["content"]
        assert " / " not in turn["content"]
        assert "{" not in turn["content"]


def test_the_loader_reads_it_and_keeps_gold_apart(built: Path) -> None:
    corpus = load_corpus("came_bench", built)
    assert not corpus.problems
    assert len(corpus.questions) == 80
    assert all("TIMESTAMP" not in turn.text for turn in corpus.trajectories[0].turns)


def test_the_manifest_has_hashes_counts_licence_and_seed(built: Path) -> None:
    manifest = json.loads((built / "manifest.json").read_text())
    assert set(manifest["files"]) == {file.name for file in built.iterdir()} - {"manifest.json"}
    assert manifest["seed"] == 11
    assert manifest["licence"]
    assert sum(manifest["questions"].values()) == 80
    assert "## Limits" in (built / "data_card.md").read_text()


def test_equal_seeds_give_equal_files_and_wordings_of_splits_differ(tmp_path: Path) -> None:
    for name, seed, split in (("a", 1, "test"), ("b", 1, "test"), ("c", 2, "test"), ("d", 1, "train")):
        build("travel", tokens=3_000, seed=seed, out=tmp_path / name, split=split)  # type: ignore[arg-type]
    a, b, c, d = (json.loads((tmp_path / name / "manifest.json").read_text()) for name in "abcd")
    assert a == b
    assert a["files"] != c["files"]
    assert not set(a["templates"]) & set(d["templates"])


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 9999), kind=st.sampled_from(KINDS), split=st.sampled_from(("train", "test")))
def test_a_world_is_consistent_with_what_was_said(seed: int, kind: str, split: Any) -> None:
    world = Simulation(load_kind(kind), seed, split, several_groups=True)
    said = {}
    while world.turns < 400:
        said.update({turn.id: turn.content for turn in world.segment()})
    assert len(said) == world.turns
    for slot in world.slots:
        names = [candidate.name for candidate in slot.candidates]
        assert len(set(names)) == len(names)
        for candidate in slot.candidates:
            assert candidate.name.casefold() in said[candidate.raised].casefold()
            for key, turn in candidate.told.items():
                assert candidate.attributes[key].text.casefold() in said[turn].casefold()
        for one, other in pairwise(slot.choices):
            assert one.candidate != other.candidate
            assert int(one.turn) + 2 < int(other.turn)
        for entries in slot.fields.values():
            assert all(value.text.casefold() in said[turn].casefold() for value, turn in entries)
    labels = [(slot.group, slot.part, slot.label) for slot in world.slots]
    assert len(set(labels)) == len(labels)


def test_a_folder_that_is_not_empty_is_refused_and_only_the_set_in_it_replaced(tmp_path: Path) -> None:
    out = tmp_path / "set"
    build("project", tokens=2_000, seed=1, out=out)
    (out / "notes.txt").write_text("mine")
    before = (out / "manifest.json").read_text()
    with pytest.raises(InputError, match="not empty"):
        build("project", tokens=2_000, seed=2, out=out)
    assert (out / "manifest.json").read_text() == before
    build("debate", tokens=2_000, seed=2, out=out, force=True)
    assert (out / "notes.txt").read_text() == "mine"
    assert not list(out.glob("project*"))
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_nothing_is_left_behind_when_it_fails(tmp_path: Path) -> None:
    def fail(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build("travel", tokens=3_000, seed=1, out=tmp_path / "set", progress=fail)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change", [{"tokens": 10}, {"trajectories": 0}, {"questions": 0}, {"split": "dev"}, {"kind": "weather"}]
)
def test_bad_arguments_are_refused_before_anything_is_written(tmp_path: Path, change: dict[str, Any]) -> None:
    arguments = {"kind": "travel", "tokens": 3_000, "seed": 1, "out": tmp_path / "set", **change}
    with pytest.raises(InputError):
        build(arguments.pop("kind"), **arguments)
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "set").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        build("travel", tokens=3_000, seed=1, out=tmp_path / "set", force=True)


def test_woven_dialogues_are_written_in_the_same_format(tmp_path: Path) -> None:
    made = build_woven(toy_corpus(), tokens=3_000, seed=1, out=tmp_path / "set")
    corpus = load_corpus("came_bench", tmp_path / "set")
    assert not corpus.problems
    assert corpus.questions
    assert made.licence == "CC0"
    assert corpus.trajectories[0].turns[0].time is not None
    assert made.source["corpus"] == "Test"


@pytest.mark.parametrize("kind", KINDS)
def test_things_are_taken_up_in_many_ways_that_no_test_has(kind: str) -> None:
    own = [way for key in ("enter", "again") for way in load_kind(kind).say[key]]
    ways = {way.split("{slot}")[0] for way in (*taking_up(True), *taking_up(False)) if way[0] != "{"}
    ways -= {*(way.split("{slot}")[0] for way in own), "For ", "Okay, ", "So, "}  # which begin other things as well

    def used(split: SetSplit) -> set[str]:
        made = [simulated(kind, seed, split, 300, several_groups=True) for seed in range(4)]
        said = [turn.text for one in made for turn in one.turns]
        assert not any("  " in text or "{" in text for text in said)
        return {way for way in ways if any(text.startswith(way) for text in said)}

    assert len(used("train")) > 15 and not used("test")
