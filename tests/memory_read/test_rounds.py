"""Requirements of a question, and reading in rounds until they are covered."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.memory.memory import Memory
from intentmem.memory.read.budget import Budget
from intentmem.memory.read.needs import Coverage, Need, needs_of
from intentmem.memory.read.rounds import Reading, read
from intentmem.memory.store.lexical import query_terms


def test_a_question_that_names_two_things_has_a_requirement_for_each() -> None:
    first, second = needs_of("What did the Apollo Hotel cost for day 1, and for day 2?")[-2:]
    assert "day 1" in first.text and "day 2" not in first.text
    assert "day 2" in second.text and "day 1" not in second.text
    assert {"apollo", "cost"} & set(first.terms)


def test_a_question_that_names_one_thing_is_one_requirement() -> None:
    (need,) = needs_of("How is the weather in Oslo?")
    assert need.text == "How is the weather in Oslo?" and "oslo" in need.terms


@given(st.text(max_size=80))
def test_any_text_has_one_to_four_requirements(question: str) -> None:
    assert 1 <= len(needs_of(question)) <= 4


def said(name: str, *places: int, size: int = 60) -> Coverage:
    shares = np.zeros(size, np.float32)
    shares[list(places)] = 1.0
    return Coverage(Need(name, (name,), name), shares)


def scores(*best: int, size: int = 60) -> np.ndarray:
    found = np.full(size, -np.inf, np.float32)
    found[list(best)] = np.arange(len(best), 0, -1)
    return found


@dataclass
class Scripted:
    """Sources that say what they are told to. found: scores by the text of what is probed for."""

    found: dict[str, np.ndarray] = field(default_factory=dict)
    linked_to: tuple[int, ...] = ()
    named: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)
    followed: list[list[int]] = field(default_factory=list)

    def probe(self, needs: Sequence[Need]) -> Iterator[np.ndarray]:
        for need in needs:
            self.asked.append(need.text)
            yield self.found.get(need.text, scores())

    def names(self, places: np.ndarray) -> list[str]:
        return list(self.named)

    def linked(self, places: np.ndarray) -> np.ndarray:
        self.followed.append(places.tolist())
        return np.array(self.linked_to, np.int64)


def reading(coverages: list[Coverage], found: dict[str, np.ndarray] | Scripted, **more: object) -> Reading:
    given: dict[str, object] = {
        "order": np.arange(50),
        "coverages": coverages,
        "sources": found if isinstance(found, Scripted) else Scripted(found),
        "bridge": False,
        "budget": Budget(milliseconds=10_000),
        "tokens": np.ones(60, np.float32),
        **more,
    }
    return read(**given)  # type: ignore[arg-type]


def test_what_the_first_round_misses_is_looked_for_and_moved_up() -> None:
    found = reading([said("near", 3), said("far", 45)], {"far": scores(45, 46), "near": scores(3)})
    assert found.rounds[0].verdicts == ("covered", "missing")
    assert found.rounds[1].looked_for == ("far",) and found.rounds[1].brought == 2
    assert found.brought_by[45] == (2, "far")
    assert list(found.places).index(45) <= 4 and found.answerable == "covered"


def test_a_single_requirement_takes_one_round_and_keeps_the_ranking() -> None:
    found = reading([said("all", 3)], {})
    assert len(found.rounds) == 1 and found.places.tolist() == list(range(50))


def test_reading_ends_after_two_rounds_that_bring_nothing() -> None:
    needs = [said(name) for name in ("a", "b", "c", "d")]
    found = reading(needs, {})
    assert [one.brought for one in found.rounds[1:]] == [0, 0] and found.answerable == "missing"


def test_the_budget_of_rounds_and_of_time_is_kept() -> None:
    found = {name: scores(50 + at) for at, name in enumerate("abcd")}
    needs = [said(name) for name in "abcd"]
    assert len(reading(needs, found, budget=Budget(2, milliseconds=10_000)).rounds) == 2
    assert len(reading(needs, found, budget=Budget(8, milliseconds=0)).rounds) == 1


@pytest.mark.parametrize("budget", [Budget(candidates=34, milliseconds=10_000), Budget(tokens=34, milliseconds=10_000)])
def test_no_more_turns_are_looked_at_than_the_budget_of_turns_and_of_their_tokens_allows(budget: Budget) -> None:
    needs = [said("a"), said("b"), said("c")]
    probed = {"a": scores(51, 52, 53), "b": scores(54, 55), "c": scores(56)}
    found = reading(needs, probed, budget=budget)
    assert [one.brought for one in found.rounds] == [32, 2]
    assert {51, 52} <= set(found.places.tolist()) and not {53, 54, 56} & set(found.places.tolist())


def test_the_budget_bounds_the_first_round_too_and_leaves_at_least_one_turn() -> None:
    assert reading([said("a")], {}, budget=Budget(candidates=5)).rounds[0].brought == 5
    assert reading([said("a")], {}, budget=Budget(tokens=0)).rounds[0].brought == 1


def test_what_is_linked_is_followed_from_the_best_turns_and_a_requirement_without_words_is_still_looked_for() -> None:
    sources = Scripted({"?": scores(3), "b": scores(3)}, linked_to=(57,))
    silent = [Coverage(Need("?", (), "?"), np.zeros(60, np.float32)), said("b")]
    found = reading(silent, sources, order=np.arange(49, -1, -1), bridge=True)
    assert sources.asked[0] == "?" and sources.followed == [[49, 48, 47, 46, 45]]
    assert found.rounds[-1].looked_for == ("what is linked to it",) and found.brought_by[57][0] == len(found.rounds)


def test_words_of_what_an_answer_names_may_be_missing() -> None:
    assert reading([said("a")], {}).answerable == "missing"
    assert reading([said("a")], {}, bridge=True).answerable == "partial"


def test_a_name_in_an_answer_is_looked_for_when_parts_of_a_question_depend_on_one_another() -> None:
    sources = Scripted({"Apollo the chosen one": scores(52)}, named=("Apollo",))
    found = reading([said("the chosen one", 3)], sources, bridge=True)
    assert sources.asked == ["Apollo the chosen one"] and 52 in found.places


def test_a_requirement_is_covered_by_the_source_of_its_record_and_then_not_looked_for() -> None:
    one = replace(said("price"), recorded=np.array([55]))
    sources = Scripted()
    found = reading([one, said("near", 3)], sources)
    assert found.rounds[0].verdicts == ("missing", "covered") and found.rounds[1].verdicts == ("covered", "covered")
    assert sources.asked == [] and found.answerable == "covered"


def test_where_all_that_match_are_asked_for_the_sources_of_all_records_must_be_read() -> None:
    every = Coverage(Need("prices", (), span="all_matching"), np.zeros(60, np.float32), np.array([3, 55]))
    assert every.verdict(np.array([3])) == "missing" and every.verdict(np.array([3, 55])) == "covered"


@settings(deadline=None)
@given(st.lists(st.integers(0, 49), unique=True, min_size=1), st.lists(st.integers(0, 59), unique=True))
def test_every_place_is_read_once_and_the_best_stays_first(order: list[int], probed: list[int]) -> None:
    needs = [said("a"), said("b")]
    found = reading(needs, {"a": scores(*probed), "b": scores(*probed)}, order=np.array(order))
    assert sorted(found.places.tolist()) == sorted(set(found.places.tolist()))
    assert set(order) <= set(found.places.tolist()) and found.places[0] == order[0]


def test_a_search_says_what_it_needed_and_how_it_was_read(memory: Memory) -> None:
    memory.add("The Apollo Hotel costs 90 euros on day 1.", namespace="n", time="2024-01-01")
    memory.add("The Apollo Hotel costs 140 euros on day 2.", namespace="n", time="2024-01-02")
    found = memory.search("What does the Apollo Hotel cost on day 1 and on day 2?", namespace="n", explain=True)
    assert [one["verdict"] for one in found["reading"]["requirements"]] == ["covered"] * 3
    assert found["reading"]["rounds"][0]["looked_for"] == ["the question"]
    assert len(found["results"]) == 2 and found["reading"]["answerable"] == "covered"
    assert all(hit["explain"]["round"] >= 1 for hit in found["results"])


def test_other_recipes_are_read_in_one_round(memory: Memory) -> None:
    memory.add("The Apollo Hotel costs 90 euros on day 1.", namespace="n")
    assert "reading" not in memory.search("Apollo Hotel", namespace="n", recipe="dense", explain=True)


@pytest.mark.parametrize("question", ["day 1 and day 2", "Compare Rome with Oslo and Lima."])
def test_requirements_keep_the_words_of_the_question(question: str) -> None:
    assert all(set(need.terms) <= set(query_terms(question)) for need in needs_of(question))


def test_a_context_for_a_single_fact_takes_fewer_tokens_than_one_for_how_things_changed(memory: Memory) -> None:
    memory.add([{"content": f"The Apollo Hotel, note {at}: {'quiet rooms, ' * 30}"} for at in range(60)], namespace="n")
    one = memory.context("Is the Apollo Hotel quiet?", namespace="n")
    many = memory.context("List all the notes about the Apollo Hotel over time.", namespace="n")
    assert one["tokens"] <= one["budget"] == 1400 < many["budget"] == 4096
    assert memory.context("Is the Apollo Hotel quiet?", namespace="n", budget=3000)["tokens"] > 1400
