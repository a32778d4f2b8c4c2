"""Wordings, plan questions, and questions about woven trajectories."""

import re
from pathlib import Path

import pytest

from intentmem.memory.errors import InputError
from intentmem.memory.tasks import PLAN
from intentmem.train_data import Corpus, load_corpus, weave
from intentmem.train_data.questions import SPLITS, ask, load_templates, plan_questions
from intentmem.train_data.questions.plans import plan_templates

from .toy import toy_corpus

FILES = ("personal", "errands", "woven", "built")
REASONING = {option.name for option in PLAN.groups[0].options}


@pytest.mark.parametrize("name", FILES)
def test_every_plan_lies_in_the_label_space_and_no_text_stands_twice(name: str) -> None:
    templates = load_templates(name)
    options = {group.name: {option.name for option in group.options} for group in PLAN.groups}
    for template in templates:
        for group, label in template.plan.labels.items():
            assert label in options[group], template.id
    assert len({template.text for template in templates}) == len(templates)
    assert len({template.id for template in templates}) == len(templates)


@pytest.mark.parametrize("files", [("personal", "errands"), ("woven",), ("built",)])
def test_each_reasoning_type_has_many_wordings_in_every_split(files: tuple[str, ...]) -> None:
    templates = [template for name in files for template in load_templates(name)]
    for reasoning in REASONING:
        mine = [template for template in templates if template.plan.reasoning == reasoning]
        assert len(mine) >= 20
        assert {template.split for template in mine} == set(SPLITS)


def test_the_files_for_plans_have_at_least_25_wordings_of_each_type() -> None:
    for reasoning in REASONING:
        assert sum(template.plan.reasoning == reasoning for template in plan_templates()) >= 25


def test_plan_questions_are_distinct_filled_even_and_the_same_for_a_seed() -> None:
    made = plan_questions(5, 600)
    assert made == plan_questions(5, 600)
    assert len({question.text for question in made}) == 600
    assert len({question.text for question in made} & {question.text for question in plan_questions(6, 600)}) < 60
    for question in made:
        assert not re.search(r"[{}\[\]|]|  ", question.text), question.text
        assert question.plan is not None
        assert question.group == question.plan.reasoning
    for reasoning in REASONING:
        assert sum(question.group == reasoning for question in made) == 150


def test_splits_share_no_template() -> None:
    used = {split: {question.template for question in plan_questions(1, 800, split)} for split in SPLITS}
    assert not used["train"] & used["test"]
    assert not used["train"] & used["dev"]
    assert not used["dev"] & used["test"]


def test_a_rewriter_words_each_question_anew() -> None:
    assert all(question.text.endswith("!") for question in plan_questions(1, 20, rewrite=lambda text: f"{text} !"))


def test_no_questions_are_refused() -> None:
    with pytest.raises(InputError):
        plan_questions(1, 0)
    with pytest.raises(InputError):
        ask(weave(toy_corpus(), seed=1, turns=20), seed=1, per_trajectory=0)


def test_questions_of_a_toy_corpus_are_answered_by_their_evidence() -> None:
    woven = weave(toy_corpus(), seed=2, turns=300)
    asked = ask(woven, seed=1, split=None, per_trajectory=100)
    assert asked.questions
    assert asked == ask(woven, seed=1, split=None, per_trajectory=100)


@pytest.fixture(scope="module")
def asked(shared: Path) -> Corpus:
    file = shared / "data" / "sgd" / "dev" / "dialogues_001.json"
    return ask(weave(load_corpus("sgd", file), seed=1, tokens=12_000), seed=1, split=None, per_trajectory=150)


def test_questions_of_real_dialogues_cover_all_types_and_their_evidence_states_the_answer(asked: Corpus) -> None:
    texts = {turn.source_id: turn.text.casefold() for turn in asked.trajectories[0].turns}
    assert {question.group for question in asked.questions} == REASONING
    stated = {"attribute", "nth-attribute", "nth-name", "wanted", "chosen", "names", "before-change", "after-change"}
    for question in asked.questions:
        assert question.gold_turns
        assert set(question.gold_turns) <= set(texts)
        evidence = " ".join(texts[turn] for turn in question.gold_turns)
        if str(question.template).split("/")[1] in stated:
            for part in str(question.answer).split("; "):
                assert part.casefold() in evidence, question


def test_requirements_offer_the_right_property_and_others(asked: Corpus) -> None:
    needs = [need for question in asked.questions for need in question.requirements]
    assert needs
    for need in needs:
        assert need.match not in need.distractors
    assert any(need.property != need.match for need in needs)
    assert any(need.distractors for need in needs)
