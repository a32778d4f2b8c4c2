import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import make_memory

from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.deciders.relation_rule import relate
from intentmem.memory.errors import InputError, IntentMemError, NotFoundError
from intentmem.memory.memory import Memory
from intentmem.memory.tasks import RELATION, SCOPE, Decision, Item, Task
from intentmem.memory.write.links import MOST_PAIRS

N = "n"
DAY = 86_400.0
BEGIN = 1_772_359_200.0
LABELS = {option.name for option in RELATION.groups[0].options}


class DeciderOut(IntentMemError):
    """What a model that is away raises."""


class Judge:
    """Opens a scope for each matter that turns name, and for each turn that names none; answers `relation` as told."""

    name = "judge"
    reads_window = False

    def __init__(self, label: str = "none", confidence: float = 0.9) -> None:
        self.label, self.confidence = label, confidence
        self.asked: list[Item] = []
        self.broken = 0
        self._inner = BaselineDecider()
        self._opened: list[str] = []
        self._seen: list[str] = []

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        if task.name == SCOPE.name:
            return [self._scope(item) for item in items]
        if task.name != RELATION.name:
            return self._inner.decide(task, items)
        if self.broken:
            self.broken -= 1
            raise DeciderOut("the model is out")
        self.asked += items
        rest = dict.fromkeys(LABELS - {self.label}, 0.0)
        shares = {self.label: self.confidence, **rest}
        return [
            Decision((self.label,), shares, self.confidence, self.name, unsure=self.confidence < 0.5, calls=1)
            for _ in items
        ]

    def _scope(self, item: Item) -> Decision:
        """The scope of the matter that a turn names, a new one where it names none or an unknown one."""
        self._seen += [identity for identity in item.candidates.ids if identity not in self._seen]
        matter = str(item.fields["turn"]).partition("matter ")[2][:1]
        if matter and matter in self._opened:
            identity = self._seen[self._opened.index(matter)]
            return Decision((identity,), {identity: 0.9}, 0.9, self.name)
        self._opened.append(matter)
        return Decision((), {"none": 1.0}, 1.0, self.name)


def talk(memory: Memory, *sittings: tuple[float, str], namespace: str = N) -> list[str]:
    """One sitting a pair (days since the first, what is said), closed at the end; ids of the turns."""
    ids: list[str] = []
    for number, (day, text) in enumerate(sittings):
        added = memory.add(text, namespace=namespace, session=f"s{number}", time=BEGIN + day * DAY)
        ids += [turn["id"] for turn in added["results"]]
    memory.close_episodes(namespace)
    return ids


def links(memory: Memory, **options: Any) -> list[dict[str, Any]]:
    return list(memory.links(namespace=N, **options)["results"])


HOTEL = "We want to book the Apollo Hotel in Lisbon."
LATER = "Following up on the Apollo Hotel: we discussed it last week, please cancel it."


@pytest.mark.parametrize(
    ("source", "target", "label"),
    [
        (LATER, HOTEL, "follow_up_of"),
        ("I moved out because of the Apollo Hotel noise.", HOTEL, "caused_by"),
        ("Booking the Apollo Hotel is part of the Lisbon trip.", HOTEL, "part_of"),
        ("We are at the Apollo Hotel.", "I bought a map to prepare for the Apollo Hotel stay.", "enabled_by"),
        ("The Apollo Hotel has a pool.", HOTEL, "none"),
        ("Because of the rain we stayed in. The Apollo Hotel has a pool.", HOTEL, "none"),
    ],
)
def test_only_a_sentence_that_names_what_both_share_and_says_how_relates_two_episodes(
    source: str, target: str, label: str
) -> None:
    (found,), shares, sure = relate(f"2026-03-03: {source}", f"2026-03-01: {target}", ["Apollo Hotel"])
    assert found == label
    assert set(shares) == LABELS and sum(shares.values()) == pytest.approx(1) and sure == shares[label]


@given(st.text(max_size=200), st.text(max_size=200), st.lists(st.text(max_size=20), max_size=4))
def test_any_texts_have_a_relation_within_the_label_space(source: str, target: str, shared: list[str]) -> None:
    labels, shares, _ = relate(source, target, shared)
    assert set(labels) <= LABELS and set(shares) == LABELS and sum(shares.values()) == pytest.approx(1)


def test_the_baseline_links_what_the_words_say_and_names_the_turns(tmp_path: Path) -> None:
    class Apart(Judge):
        def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
            return self._inner.decide(task, items) if task.name == RELATION.name else super().decide(task, items)

    with make_memory(tmp_path, decider=Apart()) as memory:
        turns = talk(memory, (0, HOTEL), (1, "My violin lesson moved."), (2, LATER), (30, "The Apollo Hotel wrote."))
        (link,) = links(memory)
        assert (link["type"], link["trust"], link["direction"]) == ("follow_up_of", "explicit", "directed")
        assert set(link["evidence"]) == {turns[0], turns[2]} and link["decided_by"] == "baseline"
        assert "Following up" in link["source_summary"] and "book" in link["target_summary"]


def test_a_return_to_a_scope_follows_up_on_its_last_episode_without_any_decision(tmp_path: Path) -> None:
    judge = Judge()
    with make_memory(tmp_path, decider=judge) as memory:
        turns = talk(memory, (0, "On matter A, hello."), (1, "On matter B, hello."), (90, "On matter A, again."))
        turns += talk(memory, (91, "On matter A, more."))
        found = links(memory)
        assert [(link["type"], link["trust"]) for link in found] == [("follow_up_of", "derived")] * 2
        assert [link["evidence"] for link in found] == [[turns[2], turns[0]], [turns[3], turns[2]]]
        assert not any(item.fields.get("shared") for item in judge.asked)


def test_an_inverse_label_is_stored_as_its_opposite_with_the_ends_exchanged(tmp_path: Path) -> None:
    with make_memory(tmp_path, decider=Judge("caused_by")) as memory:
        talk(memory, (0, HOTEL), (2, "The Apollo Hotel is noisy."))
        (link,) = links(memory)
        assert (link["type"], link["trust"]) == ("causes", "inferred")
        assert "book" in link["source_summary"] and "noisy" in link["target_summary"]
        ordinal = memory.store.namespaces.ordinal(N)
        (out,) = memory.store.links.neighbours(ordinal, episodes=[link["source"]])
        (back,) = memory.store.links.neighbours(ordinal, rows=[2])
        assert (out.direction, out.episode, out.first_seq, out.last_seq) == ("out", link["target"], 1, 1)
        assert (back.direction, back.episode, back.of) == ("in", link["source"], link["target"])


def test_one_event_has_no_direction_and_an_unsure_decision_sets_no_link(tmp_path: Path) -> None:
    with make_memory(tmp_path / "a", decider=Judge("same_event")) as memory:
        talk(memory, (0, HOTEL), (0.1, "The Apollo Hotel again."))
        (link,) = links(memory)
        assert link["direction"] == "symmetric"
        ordinal = memory.store.namespaces.ordinal(N)
        assert {n.direction for n in memory.store.links.neighbours(ordinal, rows=[1, 2])} == {"both"}
    with make_memory(tmp_path / "b", decider=Judge("same_event", 0.3)) as memory:
        talk(memory, (0, HOTEL), (0.1, "The Apollo Hotel again."))
        assert links(memory) == []


def test_the_pairs_of_an_episode_are_bounded_however_many_share_its_entities(tmp_path: Path) -> None:
    judge = Judge()
    with make_memory(tmp_path, decider=judge) as memory:
        talk(memory, *((at / 10, f"The Apollo Hotel and the Rex Museum, part {at}.") for at in range(14)))
        assert judge.asked == [], "writing asks for no links"
        links(memory)
        assert len(judge.asked) <= 14 * MOST_PAIRS
        last = [item for item in judge.asked if "part 13" in str(item.fields["source"])]
        assert len(last) == MOST_PAIRS
        assert all(set(item.fields["shared"]) == {"Apollo Hotel", "Rex Museum"} for item in last)
        memory.process(N)
        asked = len(judge.asked)
        links(memory)
        assert len(judge.asked) == asked, "no pair is judged twice"


def test_what_lies_more_than_a_week_apart_is_not_judged(tmp_path: Path) -> None:
    judge = Judge("causes")
    with make_memory(tmp_path, decider=judge) as memory:
        talk(memory, (0, HOTEL), (8, "The Apollo Hotel again."))
        assert links(memory) == [] and judge.asked == []


def test_links_wait_until_they_are_asked_for_where_records_do(tmp_path: Path) -> None:
    judge = Judge("causes")
    with make_memory(tmp_path, decider=judge, record_late=True) as memory:
        talk(memory, (0, HOTEL), (1, "The Apollo Hotel again."))
        assert judge.asked == []
        assert len(links(memory)) == 1 and len(judge.asked) == 1


def test_a_failure_leaves_the_other_links_and_is_made_up_for_later(tmp_path: Path) -> None:
    judge = Judge("causes")
    with make_memory(tmp_path, decider=judge, record_late=True) as memory:
        talk(memory, (0, HOTEL), (1, "The Apollo Hotel again."), (2, "The Apollo Hotel once more."))
        judge.broken = 1
        assert len(links(memory)) == 1
        assert len(links(memory)) == 3
        assert len(judge.asked) == 3, "each pair once"


def test_links_go_with_the_turns_of_their_episodes_and_nothing_hangs_on_what_is_gone(tmp_path: Path) -> None:
    with make_memory(tmp_path, decider=Judge("causes")) as memory:
        turns = talk(memory, (0, HOTEL), (1, "The Apollo Hotel again."), (2, "The Apollo Hotel once more."))
        assert len(links(memory)) == 3
        memory.delete(turns[1], namespace=N)
        ordinal = memory.store.namespaces.ordinal(N)
        (left,) = memory.store.links.find(ordinal)
        assert set(left.evidence) == {turns[0], turns[2]}
        assert not any(memory.store.orphans(ordinal).values())
        report = memory.erase(namespace=N)
        assert report["removed"]["link"] == 1 and report["removed"]["episode_key"] > 0


def test_an_episode_of_which_a_turn_is_deleted_is_judged_from_what_is_left(tmp_path: Path) -> None:
    judge = Judge("causes")
    with make_memory(tmp_path, decider=judge) as memory:
        said = ["On matter A, the Apollo Hotel is dear.", "On matter A, the Apollo Hotel is far."]
        memory.add([{"role": "user", "content": text} for text in said], namespace=N, session="a", time=BEGIN)
        first = memory.list(namespace=N)["results"][0]["id"]
        talk(memory, (1, "The Apollo Hotel again."))
        assert len(links(memory)) == 1
        memory.delete(first, namespace=N)
        (link,) = links(memory)
        assert first not in link["evidence"]
        assert not any("dear" in str(item.fields["target"]) for item in judge.asked[1:])


def test_relabelling_a_turn_or_merging_scopes_has_its_episodes_linked_anew(tmp_path: Path) -> None:
    with make_memory(tmp_path, decider=Judge()) as memory:
        turns = talk(memory, (0, "On matter A, hello."), (1, "On matter B, hello."), (2, "On matter A, more."))
        (link,) = links(memory)
        assert link["evidence"] == [turns[2], turns[0]]
        memory.relabel(turns[2], scope="matter C", namespace=N)
        assert links(memory) == []
        scopes = {turn["id"]: turn["scope_id"] for turn in memory.list(namespace=N)["results"]}
        memory.merge("scope", scopes[turns[1]], scopes[turns[0]], namespace=N)
        (link,) = links(memory)
        assert link["evidence"] == [turns[1], turns[0]]
        memory.unmerge("scope", scopes[turns[1]], namespace=N)
        assert links(memory) == []


def test_an_export_carries_links_and_what_later_episodes_find_them_by(tmp_path: Path) -> None:
    judge = Judge("causes")
    with make_memory(tmp_path / "m", decider=judge) as memory:
        talk(memory, (0, HOTEL), (1, "The Apollo Hotel again."))
        before = links(memory)
        memory.export(tmp_path / "x.jsonl", namespace=N)
        memory.import_(tmp_path / "x.jsonl", namespace="copy")
        asked = len(judge.asked)
        assert memory.links(namespace="copy")["results"] == before
        assert len(judge.asked) == asked, "nothing is decided again"
        talk(memory, (2, "The Apollo Hotel once more."), namespace="copy")
        assert len(memory.links(namespace="copy")["results"]) == 3
        assert links(memory) == before


def test_filters_narrow_links_and_what_is_not_there_is_named(tmp_path: Path) -> None:
    with make_memory(tmp_path, decider=Judge("causes")) as memory:
        turns = talk(memory, (0, HOTEL), (1, "The Apollo Hotel again."), (90, "Rex Museum."), (91, "The Rex Museum."))
        first, second = links(memory)
        assert links(memory, turn_ids=turns[0]) == [first] and links(memory, episode=second["source"]) == [second]
        scope = memory.list(namespace=N)["results"][3]["scope_id"]
        assert links(memory, scope=scope) == [second] and links(memory, scope=scope, turn_ids=turns[0]) == []
        assert links(memory, type="part_of") == [] and len(links(memory, type="causes")) == 2
        for options, field in (({"type": "likes"}, "type"), ({"scope": "x"}, "scope"), ({"episode": "x"}, "episode")):
            with pytest.raises((InputError, NotFoundError)) as caught:
                links(memory, **options)
            assert caught.value.field == field
        with pytest.raises(NotFoundError):
            links(memory, turn_ids=["turn_x"])


def test_the_state_that_took_the_place_of_another_is_linked_to_it(tmp_path: Path) -> None:
    with make_memory(tmp_path) as memory:
        memory.add("I live in Berlin.", namespace=N, time=BEGIN)
        memory.add("I moved to Oslo.", namespace=N, time=BEGIN + DAY)
        first, second = (turn["id"] for turn in memory.list(namespace=N)["results"])
        memory.claim("user", "residence", "Berlin", first, namespace=N)
        memory.claim("user", "residence", "Oslo", second, namespace=N)
        (link,) = links(memory, type="supersedes")
        assert (link["between"], link["trust"]) == ("state", "derived")
        assert link["source_summary"].endswith("Oslo") and link["target_summary"].endswith("Berlin")
        assert set(link["evidence"]) == {first, second}
        assert links(memory, type="supersedes", turn_ids=first) == [link]
        json.dumps(memory.links(namespace=N))
