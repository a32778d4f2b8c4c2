from __future__ import annotations

import random
import tomllib
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from intentmem.distill.gold import coverage
from intentmem.distill.gold.coverage import built_coverage_traces, coverage_traces
from intentmem.distill.gold.match import match_traces
from intentmem.distill.gold.plan import plan_traces, woven_plan_traces
from intentmem.distill.gold.support import Place, support_traces
from intentmem.distill.sources import load_examples, parse_source
from intentmem.distill.traces import belongs
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import COVERAGE, PLAN, PROPERTY_MATCH, SUPPORT
from intentmem.memory.types import NewTurn
from intentmem.train_data import Corpus, Question, Trajectory, load_corpus
from intentmem.train_data.schemas import PlanGold, RequirementGold


@pytest.fixture(scope="module")
def sgd(shared: Path) -> Corpus:
    return load_corpus("sgd", next(iter(sorted((shared / "data" / "sgd" / "dev").glob("dialogues_*.json")))))


def test_plans_are_of_every_label_and_no_template_is_in_two_splits() -> None:
    train, test = plan_traces(0, 2000), plan_traces(0, 500, "test")
    assert {label for trace in train for label in trace.labels} == {o.name for g in PLAN.groups for o in g.options}
    assert not {trace.conversation for trace in train} & {trace.conversation for trace in test}
    assert not any(belongs(PLAN, trace) for trace in (*train, *test))
    assert not any(set("{}") & set(str(trace.fields["question"])) for trace in train)


def test_plans_are_the_same_for_a_seed_and_others_for_another() -> None:
    assert plan_traces(3, 200) == plan_traces(3, 200) != plan_traces(4, 200)


def test_each_wording_of_people_has_one_plan_only() -> None:
    forms = tomllib.loads((files("intentmem.distill.gold") / "people.toml").read_text("utf-8"))["form"]
    counts = Counter(wording for form in forms for wording in form["wordings"])
    assert [wording for wording, times in counts.items() if times > 1] == []


def test_each_way_of_asking_for_a_property_means_one_property() -> None:
    text = (files("intentmem.distill.gold") / "properties.toml").read_text("utf-8")
    lines = [line for table in tomllib.loads(text).values() for line in table.values()]
    counts = Counter(wording for _, asked in lines for wording in asked.split("|"))
    assert [wording for wording, times in counts.items() if times > 1] == []
    assert all(len(line) == 2 for line in lines)


def test_requirements_have_near_misses_and_a_quarter_has_no_match() -> None:
    traces = match_traces(n=800)
    absent = sum(not trace.labels for trace in traces) / len(traces)
    assert 0.2 < absent < 0.3
    assert all(len(trace.options.ids) >= 3 for trace in traces)
    assert not any(belongs(PROPERTY_MATCH, trace) for trace in traces)


def test_what_users_request_is_matched_to_the_slot(sgd: Corpus) -> None:
    traces = match_traces(sgd, split="test", n=200)
    assert traces and {trace.meta["source"] for trace in traces} == {"sgd"}
    assert not any(belongs(PROPERTY_MATCH, trace) for trace in traces)
    assert not any("_" in text for trace in traces for text in trace.options.texts)


def test_questions_meet_their_evidence_and_turns_like_it(sgd: Corpus) -> None:
    traces = support_traces(sgd, n=600, trajectories=2)
    counts = Counter(trace.labels[0] for trace in traces)
    assert counts["unrelated"] > counts["states"] > 0 < counts["helps"]
    assert not any(belongs(SUPPORT, trace) for trace in traces)
    first = str(traces[0].fields["question"])
    assert sum(trace.fields["question"] == first for trace in traces) > 4


def test_requirements_meet_all_of_their_evidence_a_part_of_it_or_other_turns(sgd: Corpus) -> None:
    built, woven = built_coverage_traces(0, 800), coverage_traces(sgd, n=400, trajectories=2)
    for traces in (built, woven):
        counts = Counter(trace.labels[0] for trace in traces)
        assert counts["covered"] > counts["partial"] > 0 < counts["missing"]
        assert not any(belongs(COVERAGE, trace) for trace in traces)
        assert all(trace.fields["evidence"] for trace in traces)
    asked: dict[str, dict[str, set[str]]] = {}
    for trace in woven:
        key = f"{trace.conversation} {trace.fields['question']} {trace.seq // 3}"
        asked.setdefault(key, {})[trace.labels[0]] = set(trace.fields["evidence"])
    for shown in asked.values():
        if {"covered", "partial"} <= set(shown):
            assert shown["covered"] - shown["partial"], "a part leaves something out"
    assert built_coverage_traces(0, 800) == built != built_coverage_traces(1, 800)


def test_what_states_the_whole_answer_again_is_not_called_a_part() -> None:
    turns = ("the Grand is nice", "it costs 90 dollars", "as I said, it costs 90 dollars", "Porto is far", "the Inn?")
    talk = Trajectory("t", tuple(NewTurn("user", text, source_id=str(row)) for row, text in enumerate(turns)))
    plan = PlanGold("point", "value", "one", "direct")
    need = RequirementGold("the Grand", "price", "price")
    question = Question(
        "q", "What does the Grand cost?", "t", "point", gold_turns=("0", "1", "2"), answer="90 dollars", plan=plan,
        requirements=(need,),
    )  # fmt: skip
    place, found = Place.of(talk), set[tuple[str, tuple[int, ...]]]()
    for seed in range(40):
        for label, rows in coverage._shown(question, place, False, random.Random(seed)):
            found.add((label, tuple(row for row in sorted(rows) if row < 3)))
    assert {rows for label, rows in found if label == "partial"} == {(0,)}, "the thing without its price"
    assert {rows for label, rows in found if label == "covered"} == {(0, 1, 2)}
    assert {rows for label, rows in found if label == "missing"} <= {()}
    assert coverage._one_thing(question) == need
    assert coverage._one_thing(replace(question, plan=replace(plan, span="all_matching"))) is None


def test_coverage_is_measured_on_built_questions_without_any_corpus() -> None:
    found = load_examples([COVERAGE], [parse_source("built")], evaluation=True)
    learnt = load_examples([COVERAGE], [])
    assert len(found.of(COVERAGE)) == 2000 and set(found.hashes) == {"built"}
    assert not {trace.conversation for trace in found.traces} & {trace.conversation for trace in learnt.traces}
    assert not {trace.meta["template"] for trace in found.traces} & {trace.meta["template"] for trace in learnt.traces}


def test_woven_questions_carry_their_plan(sgd: Corpus) -> None:
    traces = woven_plan_traces(sgd, n=120, trajectories=2)
    assert 0 < len(traces) <= 120
    assert not any(belongs(PLAN, trace) for trace in traces)


@pytest.mark.slow
def test_personas_of_training_are_not_those_that_are_measured(shared: Path) -> None:
    corpus = load_corpus("realmem", shared / "data" / "realmem")
    train = {trace.conversation for trace in support_traces(corpus, n=400)}
    test = {trace.conversation for trace in support_traces(corpus, n=400, split="test")}
    assert train and test and not train & test


def test_a_corpus_for_evaluation_only_is_refused(shared: Path) -> None:
    corpus = load_corpus("locomo", shared / "data" / "locomo")
    for make in (match_traces, support_traces, woven_plan_traces, coverage_traces):
        with pytest.raises(InputError, match="evaluation only"):
            make(corpus)
