"""Group J: any text, in any language, of any length."""

import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import assert_sound, texts_of

from intentmem.memory.errors import InputError
from intentmem.memory.memory import Memory
from intentmem.memory.types import Attachment, NewTurn

ODD = [
    "a\0b",
    "a\ud800b",
    "\udfff",
    "👩‍👩‍👧‍👦 family",
    "مرحبا بالعالم",
    "שלום world",
    "e\u0301",
    "\u202eabc",
    "a\u2028b\x85c\x0bd\x1ce",
    "\ufeffx",
]


@pytest.mark.parametrize(
    ("text", "word", "other"),
    [
        ("我下周要去北京出差。", "北京", "上海"),
        ("来週は東京で会議があります。", "会議", "旅行"),
        ("다음 주에 서울 출장을 갑니다.", "서울", "부산"),
    ],
)
def test_j03_j05_a_word_of_two_characters_is_found_and_the_language_is_kept(
    memory: Memory, text: str, word: str, other: str
) -> None:
    memory.add([{"role": "user", "content": text}, {"role": "user", "content": "天气很好。"}], namespace="n")
    found = memory.search(word, namespace="n", recipe="lexical", explain=True)["results"]
    assert found[0]["memory"] == text
    assert found[0]["explain"]["signals"]["lexical"] > 0
    missed = memory.search(other, namespace="n", recipe="lexical", explain=True)["results"]
    assert all(turn["explain"]["signals"]["lexical"] == 0 for turn in missed)
    turn = found[0]
    assert any(c in str(turn["summary"]) for c in word)
    assert text in re.sub(r" \[[^\]]*\]", "", str(turn["grounded"]))
    (scope, *_) = memory.scopes(namespace="n")["results"]
    assert not (scope["label"] + scope["gist"]).isascii()


@pytest.mark.parametrize(
    "text",
    [
        "张伟住在北京饭店。",
        "田中さんは東京ホテルに泊まりました。",
        "Ana stays at the Apollo Hotel.",
        "café Zoë 🙂 in Zürich",
    ],
)
def test_j05_offsets_of_mentions_are_those_of_the_stored_text(memory: Memory, text: str) -> None:
    identity = memory.add(text, namespace="n")["results"][0]["id"]
    ordinal = memory.store.namespaces.ordinal("n")
    turn = memory.store.turns.get(ordinal, identity)
    snippet = memory.store.labels.snippets(ordinal, [turn.row])[turn.row]
    for mention in snippet.mentions:
        assert turn.text[mention.start : mention.end] == mention.name
    for reference in snippet.references:
        assert turn.text[reference.start : reference.end] == reference.surface


@pytest.mark.parametrize("text", ODD)
def test_j06_odd_characters_are_stored_one_for_one_and_searchable(memory: Memory, text: str) -> None:
    identity = memory.add(f"{text} harbour", namespace="n")["results"][0]["id"]
    stored = memory.get(identity, namespace="n")["memory"]
    assert len(stored) == len(f"{text} harbour")
    assert stored == "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in f"{text} harbour")
    assert memory.search(f"{text} harbour", namespace="n")["results"][0]["id"] == identity
    assert "harbour" in memory.context("harbour", namespace="n")["text"]
    assert_sound(memory, "n")


ANY = st.text(st.characters(exclude_categories=()), max_size=30)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=ANY, speaker=ANY, session=ANY, caption=ANY, key=ANY)
@example(text="\0", speaker="\ud800", session="\0", caption="\ud800", key="\0")
def test_j06_any_text_anywhere_is_stored_or_refused_by_name(
    quick: Memory, text: str, speaker: str, session: str, caption: str, key: str
) -> None:
    message = {
        "role": "user",
        "content": text,
        "speaker": speaker,
        "session": session,
        "metadata": {key: text, "k": key},
    }
    message["attachments"] = [{"caption": caption, "uri": key}]
    try:
        added = quick.add([message], namespace="n")["results"]
    except InputError as refused:
        assert refused.field.startswith("messages[0]")
        return
    for turn in added:
        assert quick.get(turn["id"], namespace="n")["memory"] == turn["memory"]
    for query in (text, speaker, caption):
        try:
            quick.search(query, namespace="n", limit=3, speakers=[speaker], sessions=[session])  # type: ignore[call-arg]
            quick.context(query, namespace="n", budget=50)
        except InputError as refused:
            assert refused.field == "query"
    for turn in added:
        quick.delete(turn["id"], namespace="n")
    assert quick.store.database.read("SELECT count(*) FROM lexical_terms")[0][0] == 0


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(
    ["role", "content", "text", "name", "time", "session", "id", "attachments", "metadata", "tool_calls", "x"]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=JUNK | st.lists(st.dictionaries(KEYS, JUNK, max_size=5), max_size=3))
def test_any_junk_is_stored_or_refused_by_name_and_nothing_is_half_written(quick: Memory, messages: object) -> None:
    before = quick.list(namespace="n")["total"] if "n" in quick.namespaces() else 0
    try:
        stored = len(quick.add(messages, namespace="n", wait=False)["results"])  # type: ignore[arg-type]
    except InputError as refused:
        assert refused.field.startswith("messages")
        stored = 0
    if "n" in quick.namespaces():
        assert quick.list(namespace="n")["total"] == before + stored
        quick.search("anything", namespace="n")


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([], "messages"),
        ("", "messages.content"),
        ("  \n ", "messages.content"),
        (None, "messages"),
        (b"x", "messages"),
        ([{"role": "user", "content": "a"}, {"role": "user", "content": ""}], "messages[1].content"),
        ([{"role": "wizard", "content": "a"}], "messages[0].role"),
        ([{"role": None, "content": "a"}], "messages[0].role"),
        ([{"role": "user", "content": 7}], "messages[0].content"),
        ([{"role": "user", "content": [7]}], "messages[0].content[0]"),
        ([{"role": "user", "content": "a", "colour": "red"}], "messages[0].colour"),
        ([{"role": "user", "content": "a", "metadata": []}], "messages[0].metadata"),
        ([{"role": "user", "content": "a", "metadata": {"k": {1, 2}}}], "messages[0].metadata"),
        ([{"role": "user", "content": "a", "speaker": ["x"]}], "messages[0].speaker"),
        ([{"role": "user", "content": "a", "attachments": "x.png"}], "messages[0].attachments"),
        ([{"role": "user", "content": "a", "attachments": [{"caption": 5.5}]}], "messages[0].attachments[0].caption"),
        ([{"role": "user", "content": "a", "id": "1"}, {"role": "user", "content": "b", "id": "1"}], "messages[1].id"),
        ([NewTurn("wizard", "a")], "messages[0].role"),  # type: ignore[arg-type]
        ([NewTurn("user", 7)], "messages[0].content"),  # type: ignore[arg-type]
        ([NewTurn("user", "a", meta={"k": object()})], "messages[0].metadata"),
    ],
)
def test_bad_input_names_its_field_and_stores_nothing(memory: Memory, messages: object, field: str) -> None:
    with pytest.raises(InputError) as refused:
        memory.add(messages, namespace="n")  # type: ignore[arg-type]
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")
    assert memory.namespaces() == []


@pytest.mark.parametrize("metadata", [{"k": object()}, ["x"], {"k": {1}}])
def test_metadata_of_the_call_that_cannot_be_stored_is_refused(memory: Memory, metadata: object) -> None:
    with pytest.raises(InputError, match="metadata"):
        memory.add("a", namespace="n", metadata=metadata)  # type: ignore[arg-type]
    assert memory.namespaces() == []


@pytest.mark.parametrize("key", ["", "\ud800", 7, "a\0"])
def test_an_idempotency_key_that_cannot_be_stored_is_refused(memory: Memory, key: object) -> None:
    with pytest.raises(InputError, match="idempotency_key"):
        memory.add("a", namespace="n", idempotency_key=key)  # type: ignore[arg-type]


def test_one_id_given_twice_in_a_call_is_one_turn(memory: Memory) -> None:
    result = memory.add([{"role": "user", "content": "a", "id": "1"}] * 2, namespace="n")
    assert (len(result["results"]), result["duplicates"]) == (1, 1)


def test_roles_of_other_clients_are_understood(memory: Memory) -> None:
    roles = ["human", "AI", "model", "developer", "function", "USER"]
    memory.add([{"role": role, "content": f"by {role}"} for role in roles], namespace="n")
    memory.add(NewTurn("human", "of my own making"), namespace="n")  # type: ignore[arg-type]
    found = [turn["role"] for turn in memory.list(namespace="n")["results"]]
    assert found == ["user", "assistant", "assistant", "system", "tool", "user", "user"]
    assert len(memory.search("by", namespace="n", roles=["ai"])["results"]) == 2


def test_captions_are_searched_and_shown_and_bytes_are_not_kept(memory: Memory) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}, "caption": "a red sailing boat"}
    memory.add([{"role": "user", "content": [{"type": "text", "text": "Look!"}, picture]}], namespace="n")
    memory.add(NewTurn("user", "", attachments=(Attachment(caption="a green bicycle"),)), namespace="n")
    for recipe in ("lexical", "dense", "fused"):
        assert memory.search("sailing boat", namespace="n", recipe=recipe)["results"][0]["memory"] == "Look!"
    assert "green bicycle" in memory.context("bicycle", namespace="n")["text"]
    assert "QUJD" not in str(memory.list(namespace="n"))


def test_j07_j08_the_end_of_a_long_turn_is_found(memory: Memory) -> None:
    filler = " ".join(f"The committee read paragraph {i} aloud." for i in range(900))
    long = memory.add(f"{filler} Finally Zebulon got the keys.", namespace="n")["results"][0]["id"]
    memory.add([{"role": "user", "content": f"A word on paragraph {i}."} for i in range(20)], namespace="n")
    assert memory.search("Who is Zebulon?", namespace="n", recipe="lexical")["results"][0]["id"] == long
    assert_sound(memory, "n")


@pytest.mark.parametrize("words", [32_000])
def test_j07_a_turn_of_thirty_thousand_tokens_is_stored_whole(quick: Memory, words: int) -> None:
    text = "word " * words + "end"
    assert quick.add(text, namespace="n")["status"] == "done"
    assert texts_of(quick, "n") == [text]


def test_turns_without_words_or_vectors_are_searched_without_a_warning(quick: Memory) -> None:
    quick.add("!!!", namespace="n", wait=False)
    assert [hit["memory"] for hit in quick.search("anything", namespace="n")["results"]] == ["!!!"]
