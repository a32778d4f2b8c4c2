"""Group C: duplicates, junk, feedback loops."""

import pytest
from support import texts_of

from intentmem.memory.memory import Memory

INSTRUCTION = "You are a careful travel planner. Never book without asking."


def test_c01_a_system_prompt_fed_a_hundred_times_is_kept_once(memory: Memory) -> None:
    for turn in range(100):
        memory.add(
            [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": f"message {turn}"}],
            namespace="n",
            wait=False,
        )
    assert texts_of(memory, "n").count(INSTRUCTION) == 1
    assert len(texts_of(memory, "n")) == 101


def test_c01_a_system_prompt_repeated_within_one_call_is_kept_once(memory: Memory) -> None:
    result = memory.add([{"role": "system", "content": INSTRUCTION}] * 100, namespace="n")
    assert texts_of(memory, "n") == [INSTRUCTION]
    assert result["duplicates"] == 99


def test_c02_remembering_what_was_recalled_is_a_no_op(memory: Memory) -> None:
    memory.add("My sister Ana lives in Porto.", namespace="n")
    recalled = memory.context("Where does Ana live?", namespace="n")["text"]
    assert "Porto" in recalled
    for role in ("user", "assistant", "system", "tool"):
        result = memory.add([{"role": role, "content": recalled}], namespace="n")
        assert (result["status"], result["results"], result["suppressed"]) == ("empty", [], 1)
    assert len(texts_of(memory, "n")) == 1


def test_c02_words_around_a_recalled_block_are_kept_without_it(memory: Memory) -> None:
    memory.add("My sister Ana lives in Porto.", namespace="n")
    recalled = memory.context("Where does Ana live?", namespace="n")["text"]
    memory.add(f"Here is what I know.\n{recalled}\nShall I book a flight?", namespace="n")
    added = texts_of(memory, "n")[1]
    assert "Porto" not in added
    assert added.startswith("Here is what I know.")
    assert added.endswith("Shall I book a flight?")


def test_c02_a_block_cut_off_in_the_middle_is_recognised(memory: Memory) -> None:
    memory.add("My sister Ana lives in Porto.", namespace="n")
    recalled = memory.context("Where does Ana live?", namespace="n")["text"]
    assert memory.add(recalled[: recalled.index("Porto")], namespace="n")["status"] == "empty"


@pytest.mark.parametrize(
    "text",
    ["How do I write a <recalled_memory> tag myself?", "<recalled_memory>my own block</recalled_memory> and more"],
)
def test_c02_a_user_who_writes_about_the_tag_is_not_cut(memory: Memory, text: str) -> None:
    memory.add(text, namespace="n")
    assert texts_of(memory, "n") == [text]


@pytest.mark.parametrize(
    "quotation",
    [
        "The code of my door is 4821.",
        "You told me: the code of my door is 4821.",
        'Earlier you said "The code of my door is 4821", right?',
        "Search result 1\nThe code of my door is 4821.\nSearch result 2",
        "Sure! The code of my door is 4821. Anything else?",
    ],
)
@pytest.mark.parametrize("role", ["assistant", "tool"])
def test_c04_deleted_text_is_not_stored_again_from_a_quotation(memory: Memory, quotation: str, role: str) -> None:
    added = memory.add("The code of my door is 4821.", namespace="n")
    memory.delete(added["results"][0]["id"], namespace="n")
    result = memory.add([{"role": role, "content": quotation}], namespace="n")
    assert result["suppressed"] == 1
    assert not any("4821" in text for text in texts_of(memory, "n"))


def test_c04_deleted_text_in_chinese_is_not_stored_again_from_a_quotation(memory: Memory) -> None:
    added = memory.add("我家的门禁密码是4821。", namespace="n")
    memory.delete(added["results"][0]["id"], namespace="n")
    memory.add([{"role": "assistant", "content": "你之前说:「我家的门禁密码是4821」。"}], namespace="n")
    assert not any("4821" in text for text in texts_of(memory, "n"))


def test_c04_deleted_text_comes_back_when_its_user_restates_it(memory: Memory) -> None:
    text = "The code of my door is 4821."
    memory.delete(memory.add(text, namespace="n")["results"][0]["id"], namespace="n")
    memory.add(text, namespace="n")
    assert texts_of(memory, "n") == [text]
    memory.add([{"role": "assistant", "content": f"Noted. {text}"}], namespace="n")
    assert len(texts_of(memory, "n")) == 2


def test_c05_one_name_written_four_ways_is_one_label(memory: Memory) -> None:
    ids = [memory.add(f"note number {i} about money", namespace="n")["results"][0]["id"] for i in range(4)]
    for turn, name in zip(ids, ["Road Trip", "road trip", "ROAD  TRIP", "ｒｏａｄ ｔｒｉｐ"], strict=True):
        memory.relabel(turn, scope=name, events=[name], namespace="n")
    turns = [memory.get(turn, namespace="n") for turn in ids]
    assert len({turn["scope_id"] for turn in turns}) == 1
    assert len({turn["events"][0]["id"] for turn in turns}) == 1


def test_c06_a_merge_by_hand_can_be_undone(memory: Memory) -> None:
    first = memory.add("We booked the hotel in Rome.", namespace="n")["results"][0]["id"]
    second = memory.add("The tax return is due in May.", namespace="n")["results"][0]["id"]
    memory.relabel(first, scope="rome", namespace="n")
    memory.relabel(second, scope="taxes", namespace="n")
    memory.merge("scope", "taxes", "rome", namespace="n")
    assert memory.get(second, namespace="n")["scope"] == "rome"
    assert memory.list(namespace="n", scopes=["rome"])["total"] == 2
    memory.unmerge("scope", "taxes", namespace="n")
    assert memory.get(second, namespace="n")["scope"] == "taxes"
    assert memory.list(namespace="n", scopes=["rome"])["total"] == 1


def test_c07_the_same_write_twice_changes_nothing_but_a_count(memory: Memory) -> None:
    messages = [{"role": "user", "content": "I moved to Lyon."}, {"role": "assistant", "content": "Noted."}]
    first = memory.add(messages, namespace="n")
    second = memory.add(messages, namespace="n")
    assert first["operation"] and second["operation"]
    assert second["operation"]["id"] == first["operation"]["id"]
    assert second["operation"]["seen"] == 2
    assert texts_of(memory, "n") == ["I moved to Lyon.", "Noted."]


def test_c07_an_idempotency_key_is_honoured_after_other_writes(memory: Memory) -> None:
    memory.add("I moved to Lyon.", namespace="n", idempotency_key="k1")
    memory.add("And I like it.", namespace="n")
    again = memory.add("I moved to Lyon.", namespace="n", idempotency_key="k1")
    assert again["results"] == []
    assert texts_of(memory, "n") == ["I moved to Lyon.", "And I like it."]


def test_c11_a_merged_scope_lists_the_turns_of_all_that_it_was_made_of(memory: Memory) -> None:
    ids = [memory.add(f"a note about subject {i}", namespace="n")["results"][0]["id"] for i in range(3)]
    for turn, name in zip(ids, "abc", strict=True):
        memory.relabel(turn, scope=name, namespace="n")
    memory.merge("scope", ["b", "c"], "a", namespace="n")
    (scope,) = memory.scopes(namespace="n")["results"]
    assert scope["turns"] == 3
    assert [turn["id"] for turn in memory.history(ids[2], namespace="n")["results"]] == ids
