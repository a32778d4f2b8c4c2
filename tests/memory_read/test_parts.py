from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import make_memory

from intentmem.memory.errors import InputError
from intentmem.memory.memory import Memory
from intentmem.memory.read.parts import ALL_PARTS, PARTS, Parts
from intentmem.memory.read.request import Recipe
from intentmem.memory.types import Mention, Reference, Snippet, Turn
from intentmem.memory.write.extractive import ExtractiveWriter

SAID = (
    ("user", "I want to book the Apollo Hotel in Lisbon for my summer trip."),
    ("assistant", "The Apollo Hotel has a pool and costs 134 euros a night."),
    ("user", "What is its phone number?"),
    ("assistant", "It can be called at 415-467-1400."),
    ("user", "Now about my violin lesson: my teacher Maria Lopez moved it to Friday."),
    ("assistant", "Noted, the violin lesson is on Friday."),
    ("user", "Back to the Apollo Hotel: please book a room with a view."),
)


class Grounder(ExtractiveWriter):
    """Knows what "it" stands for in the one turn that asks for a phone number."""

    def ground(self, turn: Turn, known: Sequence[Mention]) -> Snippet:
        at = turn.text.find("its phone")
        if at < 0:
            return super().ground(turn, known)
        reference = Reference(at, at + 3, "its", "Apollo Hotel", "pronoun", 0.9)
        text = turn.text.replace("its phone", "the Apollo Hotel's phone")
        return Snippet(turn.id, text, text, (reference,), (), self.name)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with make_memory(tmp_path, writer=Grounder()) as opened:
        opened.add([{"role": role, "content": text} for role, text in SAID], namespace="n")
        yield opened


def shares(memory: Memory, parts: Parts, recipe: str = "fused", query: str = "Apollo Hotel price") -> dict[str, Any]:
    memory.searcher.parts = parts
    try:
        found = memory.search(query, namespace="n", recipe=recipe, explain=True)
    finally:
        memory.searcher.parts = ALL_PARTS
    plan = found["plan"]
    return {"plan": plan, "hits": {hit["id"]: hit["explain"] for hit in found["results"]}, "found": found["results"]}


def signal(found: dict[str, Any], name: str) -> np.ndarray[Any, Any]:
    return np.array([hit["signals"][name] for hit in found["hits"].values()])


def test_one_part_is_switched_off_at_a_time_and_an_unknown_one_is_named() -> None:
    assert (
        *("scope", "event", "entity_types", "grounding", "records", "states", "links", "rounds", "reranker"),
    ) == PARTS
    off = ALL_PARTS.without("links")
    assert not off.links and off == Parts(links=False) and Parts() == ALL_PARTS
    with pytest.raises(InputError, match="'link' is unknown"):
        ALL_PARTS.without("link")


def test_without_scope_nothing_is_lent_within_one(memory: Memory) -> None:
    assert signal(shares(memory, ALL_PARTS), "scope").any()
    assert not signal(shares(memory, Parts(scope=False)), "scope").any()


def test_without_a_label_facet_the_question_asks_for_none_of_its_kind(memory: Memory) -> None:
    whole = shares(memory, ALL_PARTS)["plan"]
    assert whole["events"] and whole["entity_types"]
    for part, other in (("events", "entity_types"), ("entity_types", "events")):
        plan = shares(memory, ALL_PARTS.without("event" if part == "events" else part))["plan"]
        assert not plan[part] and plan[other] == whole[other]
    assert not signal(shares(memory, Parts(event=False, entity_types=False)), "labels").any()


def test_without_grounding_a_pronoun_is_not_found_by_the_name_that_it_stands_for(memory: Memory) -> None:
    phone = memory.list(namespace="n")["results"][2]["id"]
    query = "Apollo"
    whole, raw = (shares(memory, parts, query=query)["hits"][phone] for parts in (ALL_PARTS, Parts(grounding=False)))
    assert whole["signals"]["lexical"] > raw["signals"]["lexical"] == 0
    assert whole["signals"]["dense"] > raw["signals"]["dense"]


def test_the_hard_density_of_stitch_loses_a_facet_with_each_part(memory: Memory) -> None:
    def most(parts: Parts) -> float:
        return max(hit["score"] for hit in shares(memory, parts, "stitch")["found"])

    assert most(ALL_PARTS) > 1 > most(Parts(scope=False, event=False, entity_types=False))


def test_a_context_without_scope_takes_no_mates_of_the_best_hit(memory: Memory) -> None:
    def reasons(parts: Parts) -> set[str]:
        memory.searcher.parts = parts
        found = memory.context("Apollo Hotel price", namespace="n", budget=2000, explain=True)
        return set(found["explain"]["reasons"].values())

    assert "scope" not in reasons(Parts(scope=False))
    memory.searcher.parts = ALL_PARTS


def test_only_parts_that_a_recipe_makes_use_of_are_in_use(memory: Memory, tmp_path: Path) -> None:
    ordinal = memory.store.namespaces.ordinal("n")
    labels = {"scope", "event", "entity_types"}
    assert memory.searcher.parts_in_use(ordinal, Recipe.FUSED) >= labels | {"grounding"}
    assert not memory.searcher.parts_in_use(ordinal, Recipe.DENSE) & labels
    with make_memory(tmp_path / "plain") as plain:
        plain.add("Nothing to resolve here.", namespace="n")
        assert "grounding" not in plain.searcher.parts_in_use(plain.store.namespaces.ordinal("n"), Recipe.FUSED)
