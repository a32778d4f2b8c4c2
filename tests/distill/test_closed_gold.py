from __future__ import annotations

import tomllib
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from intentmem.distill.gold.match import match_traces
from intentmem.distill.gold.plan import plan_traces, woven_plan_traces
from intentmem.distill.gold.support import support_traces
from intentmem.distill.traces import belongs
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import PLAN, PROPERTY_MATCH, SUPPORT
from intentmem.train_data import Corpus, load_corpus


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
    for make in (match_traces, support_traces, woven_plan_traces):
        with pytest.raises(InputError, match="evaluation only"):
            make(corpus)
