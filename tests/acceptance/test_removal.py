"""Group D: update, delete, conflict, as far as no model decides."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import assert_sound, bytes_under, make_memory, quick_memory, state_of, texts_of

from intentmem.memory.errors import InputError, NotFoundError
from intentmem.memory.memory import Memory

SECRET = "Zebulon quietly hid the zirconium casket under Quetzaltenango."
TRACES = [b"ebulon", b"irconium", b"zirconium", b"uetzaltenango", b"casket"]


def test_d05_delete_all_needs_an_owner_and_leaves_other_owners_alone(memory: Memory) -> None:
    memory.add("I am Ana.", user_id="a")
    memory.add("I am Bert.", user_id="b")
    with pytest.raises(InputError, match="namespace"):
        memory.delete_all()
    assert memory.delete_all(user_id="a") == 1
    assert memory.list(user_id="a")["total"] == 0
    assert memory.list(user_id="b")["total"] == 1


@pytest.mark.parametrize(
    "options",
    [
        {"events": ["no such event"]},
        {"entity_types": ["no such type"]},
        {"scopes": ["no such scope"]},
        {"speakers": ["nobody"]},
        {"sessions": ["no such session"]},
        {"roles": []},
        {"until": "1999-01-01"},
    ],
)
def test_d05_a_filter_that_matches_nothing_deletes_nothing(memory: Memory, options: dict[str, list[str]]) -> None:
    memory.add("I booked the hotel in Rome for 120 euros.", namespace="n")
    assert memory.delete_all(namespace="n", **options) == 0  # type: ignore[arg-type]
    assert len(texts_of(memory, "n")) == 1


def test_d05_delete_all_honours_before_and_refuses_what_only_a_search_takes(memory: Memory) -> None:
    ids = [memory.add(f"note {i}", namespace="n")["results"][0]["id"] for i in range(4)]
    for option in ({"recipe": "dense"}, {"query_time": "2026-01-01"}):
        with pytest.raises(InputError):
            memory.delete_all(namespace="n", **option)  # type: ignore[arg-type]
    assert memory.delete_all(namespace="n", before=ids[2]) == 2
    assert texts_of(memory, "n") == ["note 2", "note 3"]


def test_d06_delete_all_deletes_a_thousand(quick: Memory) -> None:
    quick.add([{"role": "user", "content": f"note {i}"} for i in range(1000)], namespace="n")
    assert quick.delete_all(namespace="n") == 1000
    assert quick.list(namespace="n")["total"] == 0
    assert_sound(quick, "n")


def test_d10_deleting_a_source_takes_what_only_it_supported(memory: Memory) -> None:
    added = memory.add(
        [{"role": "user", "content": SECRET}, {"role": "user", "content": "The tax return is due in May."}],
        namespace="n",
    )
    ids = [turn["id"] for turn in added["results"]]
    memory.delete(ids[0], namespace="n")
    assert_sound(memory, "n")
    kept = memory.scopes(namespace="n")["results"] + memory.timeline(namespace="n")["results"]
    assert "ebulon" not in str(kept) + str(memory.vocabulary(namespace="n")) + str(memory.get(ids[1], namespace="n"))


def test_d10_wording_shared_with_a_deleted_turn_is_made_anew(memory: Memory) -> None:
    added = memory.add(
        [{"role": "user", "content": t} for t in (SECRET, "Ana paints boats.", "Ana sells boats.")], namespace="n"
    )
    ids = [turn["id"] for turn in added["results"]]
    first = memory.get(ids[0], namespace="n")["scope_id"]
    memory.relabel(ids[1:], scope=str(first), namespace="n")
    memory.delete(ids[0], namespace="n")
    (scope,) = [s for s in memory.scopes(namespace="n")["results"] if s["id"] == first]
    assert "ebulon" not in scope["label"] + scope["gist"]
    assert "boats" in scope["gist"]


def test_d10_numbers_of_deleted_turns_do_not_confuse_episodes(memory: Memory) -> None:
    added = memory.add([{"role": "user", "content": f"note {i} on the garden"} for i in range(4)], namespace="n")
    memory.delete([turn["id"] for turn in added["results"][2:]], namespace="n")
    memory.add([{"role": "user", "content": f"note {i} on taxes"} for i in range(4, 8)], namespace="n")
    episodes = memory.timeline(namespace="n")["results"]
    assert sum(episode["turns"] for episode in episodes) == 6
    assert_sound(memory, "n")


@pytest.mark.parametrize("recipe", ["fused", "stitch", "dense", "lexical"])
def test_d11_a_deleted_turn_is_never_returned_also_after_a_restart(
    memory: Memory, reopened: Callable[[Memory], Memory], recipe: str
) -> None:
    added = memory.add([{"role": "user", "content": f"Ana paints boats, number {i}"} for i in range(6)], namespace="n")
    memory.search("Ana paints boats", namespace="n")
    memory.store.embeddings.flush()
    gone = added["results"][2]["id"]
    memory.delete(gone, namespace="n")
    for opened in (lambda: memory, lambda: reopened(memory)):
        again = opened()
        found = again.search("Ana paints boats, number 2", namespace="n", limit=50, recipe=recipe)
        assert len(found["results"]) == 5
        assert gone not in [turn["id"] for turn in found["results"]]
        assert gone not in again.context("Ana paints boats", namespace="n")["turns"]
        with pytest.raises(NotFoundError):
            again.get(gone, namespace="n")


def test_d11_deleting_several_with_one_unknown_id_deletes_none(memory: Memory) -> None:
    kept = memory.add("a note", namespace="n")["results"][0]["id"]
    with pytest.raises(NotFoundError):
        memory.delete([kept, "turn_0000"], namespace="n")
    assert memory.get(kept, namespace="n")["memory"] == "a note"


def fill(memory: Memory, namespace: str) -> None:
    """The secret in every place that a turn can reach."""
    memory.add(
        [
            {
                "role": "user",
                "content": SECRET,
                "speaker": "Zebulon",
                "metadata": {"about": "zirconium"},
                "attachments": [{"caption": "a casket", "uri": "file:///quetzaltenango.png"}],
                "id": "zirconium-1",
            },
            {"role": "assistant", "content": f"I see: {SECRET} He told me yesterday."},
        ],
        namespace=namespace,
        session="s1",
        idempotency_key="zirconium-key",
    )


def test_d13_d14_d15_erased_text_is_in_no_file(
    memory: Memory, folder: Path, reopened: Callable[[Memory], Memory]
) -> None:
    fill(memory, "n")
    memory.add("The tax return is due in May.", namespace="other")
    memory.search("casket", namespace="n")
    memory.store.embeddings.flush()
    assert all(trace in bytes_under(folder) for trace in TRACES)
    report = memory.erase(namespace="n")
    assert report["removed"]["turn"] == 2
    assert {"turn", "embedding", "snippet", "episode", "operation", "usage", "tombstone"} <= set(report["removed"])
    assert report["index_files"] > 0
    assert "exports" in report["not_covered"]
    assert memory.namespaces() == ["other"]
    assert [trace for trace in TRACES if trace in bytes_under(folder)] == []
    # A replay of the log brings nothing back.
    again = reopened(memory)
    assert again.namespaces() == ["other"]
    assert [trace for trace in TRACES if trace in bytes_under(folder)] == []
    assert_sound(again, "other")


@pytest.mark.parametrize("place", [{"session": "s1"}, {"trajectory": "main"}])
def test_d13_erasing_a_part_leaves_no_trace_of_it_and_keeps_the_rest(
    memory: Memory, folder: Path, place: dict[str, str]
) -> None:
    fill(memory, "n")
    memory.add("The tax return is due in May.", namespace="n", trajectory="other", session="s2")
    assert memory.erase(namespace="n", **place)["removed"]["turn"] == 2  # type: ignore[arg-type]
    assert texts_of(memory, "n") == ["The tax return is due in May."]
    assert [trace for trace in TRACES if trace in bytes_under(folder)] == []
    assert_sound(memory, "n")


def test_d13_erasing_a_run_of_no_user_erases_all_of_it(memory: Memory, folder: Path) -> None:
    memory.add(SECRET, run_id="run 1")
    memory.erase(run_id="run 1")
    assert memory.namespaces() == []
    assert [trace for trace in TRACES if trace in bytes_under(folder)] == []


def test_d13_erasing_turns_that_were_never_labelled_leaves_no_trace(memory: Memory, folder: Path) -> None:
    memory.add(SECRET, namespace="n", wait=False)
    memory.erase(namespace="n")
    assert [trace for trace in TRACES if trace in bytes_under(folder)] == []


def test_d13_deleted_text_is_overwritten_once_the_log_is_written_back(
    memory: Memory, folder: Path, reopened: Callable[[Memory], Memory]
) -> None:
    turn = memory.add(SECRET, namespace="n")["results"][0]["id"]
    memory.delete(turn, namespace="n")
    reopened(memory)
    assert SECRET.encode() not in bytes_under(folder)


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with quick_memory(tmp_path_factory.mktemp("notes")) as made:
        made.add([{"role": "user", "content": f"note {i}"} for i in range(12)], namespace="n")
        yield made


@given(at=st.integers(0, 11), name=st.sampled_from(["blue", "green", "red"]))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_d16_a_change_to_one_turn_changes_no_other(notes: Memory, at: int, name: str) -> None:
    before = notes.list(namespace="n")["results"]
    notes.relabel(before[at]["id"], events=[name], namespace="n")
    after = notes.list(namespace="n")["results"]
    assert [turn for i, turn in enumerate(after) if i != at] == [turn for i, turn in enumerate(before) if i != at]
    assert [label["label"] for label in after[at]["events"]] == [name]


def test_d16_ids_are_stable_over_deletions_and_restarts(memory: Memory, reopened: Callable[[Memory], Memory]) -> None:
    ids = [memory.add(f"note {i}", namespace="n")["results"][0]["id"] for i in range(6)]
    memory.delete(ids[1], namespace="n")
    again = reopened(memory)
    for i in (0, 2, 3, 4, 5):
        assert again.get(ids[i], namespace="n")["memory"] == f"note {i}"


def test_d18_a_source_id_with_another_text_is_refused_with_the_way_out(memory: Memory) -> None:
    """An edited turn is stored by deleting the former one: turns are never rewritten."""
    first = memory.add([{"role": "user", "content": "I live in Paris.", "id": "m1"}], namespace="n")["results"][0]["id"]
    with pytest.raises(InputError, match="delete that turn") as refused:
        memory.add([{"role": "user", "content": "I live in Lyon.", "id": "m1"}], namespace="n")
    assert refused.value.field == "messages.id"
    assert texts_of(memory, "n") == ["I live in Paris."]
    memory.delete(first, namespace="n")
    memory.add([{"role": "user", "content": "I live in Lyon.", "id": "m1"}], namespace="n")
    assert texts_of(memory, "n") == ["I live in Lyon."]
    assert "Paris" not in str(memory.scopes(namespace="n")) + str(memory.timeline(namespace="n"))


def test_a_hand_set_label_is_not_overwritten_by_later_processing(
    memory: Memory, reopened: Callable[[Memory], Memory]
) -> None:
    turn = memory.add("I booked the hotel in Rome.", namespace="n", wait=False)["results"][0]["id"]
    memory.relabel(turn, scope="rome trip", events=["celebrate"], namespace="n")
    memory.process()
    memory.add(
        [{"role": "user", "content": f"Another {i} word on the hotel in Rome."} for i in range(5)], namespace="n"
    )
    again = reopened(memory)
    again.process()
    kept = again.get(turn, namespace="n")
    assert (kept["scope"], [label["label"] for label in kept["events"]]) == ("rome trip", ["celebrate"])
    assert kept["decided_by"]["scope"] == "hand"
    assert state_of(again, "n")["labelled"] == 6


def test_a_scope_named_by_hand_keeps_its_name_while_more_turns_come(memory: Memory) -> None:
    turn = memory.add("We plan the trip to Rome.", namespace="n")["results"][0]["id"]
    scope = memory.get(turn, namespace="n")["scope"]
    memory.rename("scope", str(scope), "holidays", namespace="n")
    memory.add([{"role": "user", "content": f"The trip to Rome, day {i}."} for i in range(5)], namespace="n")
    assert memory.get(turn, namespace="n")["scope"] == "holidays"


def test_a_rename_while_turns_are_being_labelled_stands(folder: Path) -> None:
    from support import QuickDecider, QuickWriter

    class Renaming(QuickWriter):
        def gist(self, previous: str, turn: object) -> str:
            if previous:
                with quick_memory(folder) as other:
                    (scope,) = other.scopes(namespace="n")["results"]
                    other.rename("scope", scope["id"], "by hand", namespace="n")
            return "a gist"

    with make_memory(folder, decider=QuickDecider(), writer=Renaming()) as memory:
        memory.add("one", namespace="n")
        memory.add("two", namespace="n")
        assert [scope["label"] for scope in memory.scopes(namespace="n")["results"]] == ["by hand"]


def test_split_moves_turns_to_a_new_scope_and_refuses_others(memory: Memory) -> None:
    added = memory.add([{"role": "user", "content": f"the trip, part {i}"} for i in range(3)], namespace="n")
    ids = [turn["id"] for turn in added["results"]]
    memory.relabel(ids, scope="trip", namespace="n")
    memory.split("trip", ids[:1], "food", namespace="n")
    assert {s["label"]: s["turns"] for s in memory.scopes(namespace="n")["results"]} == {"food": 1, "trip": 2}
    with pytest.raises(InputError):
        memory.split("trip", ids[:1], "again", namespace="n")
    with pytest.raises(InputError):
        memory.split("trip", ids[1:2], "food", namespace="n")


@pytest.mark.parametrize("facet", ["events", "entity_types"])
def test_a_text_where_a_list_of_labels_is_meant_is_refused(memory: Memory, facet: str) -> None:
    turn = memory.add("a note", namespace="n")["results"][0]["id"]
    with pytest.raises(InputError, match=facet):
        memory.relabel(turn, namespace="n", **{facet: "price"})  # type: ignore[arg-type]


def test_closing_twice_is_harmless(folder: Path) -> None:
    made = make_memory(folder)
    made.add("a note", namespace="n")
    made.search("note", namespace="n")
    made.close()
    made.close()
    assert os.listdir(folder)  # noqa: PTH208
