from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intentmem.memory.errors import InputError, NotFoundError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.types import Label, Turn, Vector
from intentmem.memory.write.label_growth import EVERY, LabelGrowth
from intentmem.memory.write.seeds import load_seeds, parse_seeds
from intentmem.memory.write.vocabulary import Vocabulary, name_key

HASHED = HashEmbedder(128)


def encode(texts: object) -> Vector:
    return HASHED.encode(list(texts), "label")  # type: ignore[call-overload]


def empty(kind: str = "event") -> Vocabulary:
    return Vocabulary("n", kind, encode)


def seeded(kind: str = "event") -> Vocabulary:
    vocabulary = empty(kind)
    vocabulary.seed(load_seeds())
    return vocabulary


class Namer:
    name = "namer"

    def __init__(self, *names: str) -> None:
        self.names, self.asked = list(names), 0

    def name_label(self, turn: Turn, kind: str, taken: list[str]) -> tuple[str, str]:
        self.asked += 1
        return (self.names.pop(0), "What the test names.") if self.names else ("", "")


def turn_of(id: str) -> Turn:
    return Turn(id, 1, "n", "t", 1, "user", "text", None, datetime(2025, 1, 1, tzinfo=UTC), "given", None)


# --- seeds


def test_seeds_are_unique_described_and_two_levels_deep() -> None:
    seeds = load_seeds()
    names = {(seed.kind, seed.name): seed for seed in seeds}
    assert len(names) == len(seeds)
    for seed in seeds:
        assert seed.description.endswith(".")
        if seed.parent is not None:
            assert names[seed.kind, seed.parent].parent is None
    for kind in ("event", "entity_type"):
        assert 12 <= sum(s.kind == kind and s.parent is None for s in seeds) <= 16
        assert 60 <= sum(s.kind == kind and s.parent is not None for s in seeds) <= 90


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[event.ask]\ndescription='d'\n[event.ask.fine]\nask='e'", "twice"),
        ("[event.Ask]\ndescription='d'", "lower-case"),
        ("[event.ask]\n[event.ask.fine]", "no description"),
        ("[event.ask]\ndescription='d'\nfines=1", "only"),
        ("event = 3", "table"),
        ("[event", "not TOML"),
    ],
)
def test_a_faulty_seed_file_is_refused_with_the_place(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_seeds(text)


# --- names


def test_four_ingests_of_one_name_make_one_label() -> None:
    vocabulary = seeded("entity_type")
    before = len(vocabulary.labels)
    ids = {vocabulary.add(name)[0].id for name in ("DGIA score", "dgia  score", "ＤＧＩＡ Scores", "Dgia_score")}
    assert len(ids) == 1 and len(vocabulary.labels) == before + 1


def test_the_key_of_a_name_ignores_case_width_punctuation_and_inflection() -> None:
    assert name_key("Ask Prices") == name_key("ask-price") == name_key("ＡＳＫ price!")
    assert name_key("ask price") != name_key("give price")
    assert name_key("価格") != name_key("住所") and name_key("価格")


def test_a_name_without_a_letter_is_refused_and_nothing_changes() -> None:
    vocabulary = seeded()
    before = vocabulary.labels
    for name in ("", "  ", "?!"):
        with pytest.raises(InputError, match="name"):
            vocabulary.add(name)
    assert vocabulary.labels == before


def test_ids_differ_between_namespaces_and_stay_apart_after_a_rename() -> None:
    one, other = Vocabulary("a", "event", encode), Vocabulary("b", "event", encode)
    assert one.add("x")[0].id != other.add("x")[0].id
    label = one.add("x")[0]
    one.rename(label.id, "y")
    again, changes = one.add("x")
    assert again.id != label.id and len(changes) == 1
    assert one.find("y") == one.get(label.id) and one.get(label.id).origin == "hand"
    with pytest.raises(InputError, match="merge"):
        one.rename(again.id, "Y")


# --- candidates


def test_candidates_are_one_object_until_the_vocabulary_changes() -> None:
    vocabulary = seeded()
    first = vocabulary.candidates()
    assert vocabulary.candidates() is first
    vocabulary.add("ask price")
    assert vocabulary.candidates() is first
    vocabulary.add("something quite new")
    second = vocabulary.candidates()
    assert second is not first and len(second) == len(first) + 1
    assert second.vectors is not None and second.vectors.shape == (len(second), 128)
    row = second.ids.index(vocabulary.find("ask price").id)  # type: ignore[union-attr]
    assert second.texts[int(second.signals["parent"][row])].startswith("ask:")


def test_the_nearest_labels_come_first() -> None:
    vocabulary = seeded()
    near = vocabulary.nearest(encode(["ask price: Ask how much something costs."])[0], 5)
    assert len(near) == 5 and near.texts[0].startswith("ask price:")
    assert len(empty().nearest(np.ones(128, np.float32))) == 0


def test_a_new_label_goes_under_the_closest_coarse_one() -> None:
    vocabulary = empty()
    money, _ = vocabulary.add("money cost", "money and cost", coarse=True)
    vocabulary.add("place", "where something lies", coarse=True)
    assert vocabulary.add("cost of money", "money and its cost")[0].parent == money.id


# --- merging


def test_a_merge_is_undone_without_a_trace_in_what_it_touched() -> None:
    vocabulary = seeded()
    a, _ = vocabulary.add("query price tag")
    b, _ = vocabulary.add("inquire amount")
    changes = vocabulary.merge(b.id, a.id)
    assert [c.change for c in changes] == ["merged"] and vocabulary.resolve(b.id) == a
    assert b.id not in vocabulary.candidates().ids
    assert vocabulary.find("inquire amount") == a
    vocabulary.unmerge(b.id)
    assert vocabulary.resolve(b.id).name == "inquire amount"
    assert vocabulary.merge_synonyms(threshold=-1.0) == () or vocabulary.resolve(b.id).id == b.id
    assert vocabulary.resolve(a.id).id == a.id


def test_grown_synonyms_merge_into_hand_before_seed_and_only_beside_each_other() -> None:
    vocabulary = empty()
    top, _ = vocabulary.add("ask", "ask", origin="hand", coarse=True)
    other, _ = vocabulary.add("tell", "tell", origin="hand", coarse=True)
    grown, _ = vocabulary.add("price of the thing", "how much is it", top.id)
    apart, _ = vocabulary.add("thing of the price", "how much is it", other.id)
    hand, _ = vocabulary.add("the price of thing", "how much is it", top.id, "hand")
    vocabulary.merge_synonyms(0.9)
    assert vocabulary.resolve(grown.id).id == hand.id
    assert vocabulary.resolve(apart.id).id == apart.id


def test_a_coarse_label_does_not_disappear_into_a_fine_one() -> None:
    vocabulary = seeded()
    ask, price = vocabulary.find("ask"), vocabulary.find("ask price")
    assert ask is not None and price is not None
    with pytest.raises(InputError, match="other way"):
        vocabulary.merge(ask.id, price.id)
    with pytest.raises(InputError, match="finer"):
        vocabulary.set_parent(ask.id, vocabulary.find("plan").id)  # type: ignore[union-attr]
    with pytest.raises(InputError, match="fine label"):
        vocabulary.add("new", parent=price.id)
    vocabulary.merge(price.id, ask.id)
    assert vocabulary.parent_of(price.id) is None


def test_children_follow_a_merged_parent_without_being_rewritten() -> None:
    vocabulary = seeded()
    ask, request, price = (vocabulary.find(n) for n in ("ask", "request", "ask price"))
    assert ask and request and price
    vocabulary.merge(ask.id, request.id)
    assert vocabulary.parent_of(price.id) == request and vocabulary.get(price.id) == price


def test_a_split_adds_labels_beside_a_fine_one() -> None:
    vocabulary = seeded()
    price = vocabulary.find("ask price")
    assert price is not None
    parts, changes = vocabulary.split(price.id, [("ask ticket price", "x"), ("ask room price", "y")])
    assert {p.parent for p in parts} == {price.parent} and {p.origin for p in parts} == {"hand"}
    assert [c.change for c in changes] == ["added", "added"]


def test_a_vocabulary_is_the_same_again_from_its_labels() -> None:
    vocabulary = seeded()
    a, _ = vocabulary.add("brand new thing")
    vocabulary.merge(a.id, vocabulary.find("ask price").id)  # type: ignore[union-attr]
    again = Vocabulary("n", "event", encode, vocabulary.labels)
    assert again.labels == vocabulary.labels
    np.testing.assert_array_equal(again.candidates().vectors, vocabulary.candidates().vectors)
    assert again.seed(load_seeds()) == ()


def test_stored_labels_that_do_not_hang_together_are_refused() -> None:
    a, b = Label("a", "event", "a", canonical="b"), Label("b", "event", "b", canonical="a")
    for labels, problem in (([a, b], "cycle"), ([a], "refers"), ([b, b], "twice"), ([Label("c", "x", "c")], "kind")):
        with pytest.raises(InputError, match=problem):
            Vocabulary("n", "event", encode, labels)
    with pytest.raises(NotFoundError):
        empty().resolve("zzz")


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["merge", "unmerge", "synonyms", "parent", "add"]), st.integers(0, 11), st.integers(0, 11)
    ),
    max_size=30,
)


@given(OPERATIONS)
@settings(deadline=None, max_examples=25)
def test_merges_never_form_a_cycle_and_merging_synonyms_twice_changes_nothing(
    operations: list[tuple[str, int, int]],
) -> None:
    vocabulary = empty()
    for row in range(4):
        vocabulary.add(f"coarse {'abcd'[row]}", coarse=True)
    for row in range(8):
        vocabulary.add(f"label {'efghijkl'[row]} word", "one description")
    for operation, first, second in operations:
        ids = [label.id for label in vocabulary.labels]
        a, b = ids[first % len(ids)], ids[second % len(ids)]
        try:
            if operation == "merge":
                vocabulary.merge(a, b)
            elif operation == "unmerge":
                vocabulary.unmerge(a)
            elif operation == "parent":
                vocabulary.set_parent(a, b)
            elif operation == "add":
                vocabulary.add(f"label {first} {second}", "one description")
            else:
                vocabulary.merge_synonyms(0.7)
                assert vocabulary.merge_synonyms(0.7) == ()
        except InputError:
            pass
        for label in vocabulary.labels:
            assert vocabulary.resolve(label.id).canonical is None
            above = vocabulary.parent_of(label.id)
            assert above is None or vocabulary.parent_of(above.id) is None
    assert Vocabulary("n", "event", encode, vocabulary.labels).labels == vocabulary.labels


# --- growth


def test_the_same_turn_a_hundred_times_coins_one_label_at_most() -> None:
    vocabulary, writer = seeded(), Namer(*(f"coined {i}" for i in range(9)))
    growth = LabelGrowth(vocabulary)
    vector, before, changes = encode(["zebra crossing"])[0], len(vocabulary.labels), 0
    for row in range(100):
        growth.observe(f"turn {row}", vector, 0.1)
        if growth.due:
            changes += len(growth.grow(writer, turn_of))
            writer.names = ["coined 0"]
    assert len(vocabulary.labels) == before + 1 and changes == 1


def test_what_recurs_gets_a_label_and_what_does_not_stays_in_the_pool() -> None:
    vocabulary, writer = seeded(), Namer("count zebras")
    growth = LabelGrowth(vocabulary)
    zebra, lone = encode(["zebra herd", "quantum chromodynamics"])
    for row in range(3):
        growth.observe(f"z{row}", zebra, 0.1)
    growth.observe("q", lone, 0.1)
    growth.observe("fits", lone, 0.9)
    (change,) = growth.grow(writer, turn_of)
    assert change.label.name == "count zebras" and change.label.parent is not None
    assert growth.pooled == ("q",) and writer.asked == 1


def test_a_writer_may_decline_and_is_not_asked_the_same_again() -> None:
    growth, writer = LabelGrowth(seeded()), Namer()
    for row in range(4):
        growth.observe(f"z{row}", encode(["zebra herd"])[0], 0.1)
    assert growth.grow(writer, turn_of) == () and growth.grow(writer, turn_of) == ()
    assert writer.asked == 1


def test_growth_is_due_each_fifty_steps_and_resumes_after_a_restart() -> None:
    vocabulary = seeded()
    growth = LabelGrowth(vocabulary)
    for row in range(EVERY - 1):
        growth.observe(f"z{row}", encode(["zebra herd"])[0], 0.1 if row < 3 else 0.9)
    again = LabelGrowth.restore(vocabulary, growth.state())
    assert not again.due and again.pooled == growth.pooled
    again.observe("last", encode(["x"])[0], 0.9)
    assert again.due
    assert len(again.grow(Namer("zebra talk"), turn_of)) == 1 and not again.due
    assert LabelGrowth.restore(vocabulary, LabelGrowth(vocabulary).state()).pooled == ()


def test_a_deleted_turn_leaves_the_pool_unnamed() -> None:
    growth, writer = LabelGrowth(seeded()), Namer("x")
    for row in range(3):
        growth.observe(f"z{row}", encode(["zebra herd"])[0], 0.1)
    assert growth.grow(writer, lambda id: None) == () and writer.asked == 0 and growth.pooled == ()


def test_an_error_of_the_writer_leaves_vocabulary_and_pool_as_they_were() -> None:
    vocabulary = seeded()
    growth, before = LabelGrowth(vocabulary), vocabulary.labels
    for row, vector in enumerate(encode(["zebra herd", "quantum chromodynamics"]).repeat(3, axis=0)):
        growth.observe(f"z{row}", vector, 0.1)
    pooled = growth.pooled

    class Failing(Namer):
        def name_label(self, turn: Turn, kind: str, taken: list[str]) -> tuple[str, str]:
            if self.names:
                return super().name_label(turn, kind, taken)
            raise TimeoutError

    with pytest.raises(TimeoutError):
        growth.grow(Failing("first"), turn_of)
    assert vocabulary.labels == before and growth.pooled == pooled
