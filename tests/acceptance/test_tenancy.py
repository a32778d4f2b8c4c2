"""Group I: namespaces are walls."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import assert_sound, texts_of

from intentmem.memory.addressing import address
from intentmem.memory.aio import AsyncMemory
from intentmem.memory.errors import InputError, NotFoundError, UnknownNamespaceError
from intentmem.memory.memory import Memory

SECRET = "Ana hid the zirconium under the bridge."


@pytest.fixture
def two(memory: Memory) -> Memory:
    """Tenants a and b with turns of their own, the first with a secret."""
    memory.add([{"role": "user", "content": SECRET, "speaker": "Ana"}], namespace="a", session="s")
    memory.add([{"role": "user", "content": "Ana likes tea.", "speaker": "Ana"}], namespace="b", session="s")
    return memory


READS: dict[str, Callable[[Memory, str], Any]] = {
    "search": lambda m, n: m.search("the bridge", namespace=n, limit=100, explain=True),
    "search_lexical": lambda m, n: m.search("the bridge", namespace=n, recipe="lexical", limit=100),
    "groups": lambda m, n: [m.search("the bridge", namespace=n, group_by=g) for g in ("session", "episode", "scope")],
    "context": lambda m, n: m.context("the bridge", namespace=n, explain=True),
    "list": lambda m, n: m.list(namespace=n),
    "scopes": lambda m, n: m.scopes(namespace=n),
    "timeline": lambda m, n: m.timeline(namespace=n),
    "vocabulary": lambda m, n: m.vocabulary(namespace=n),
    "status": lambda m, n: m.status(n),
}


@pytest.mark.parametrize("read", READS)
def test_i01_no_reading_call_shows_another_tenants_turns(two: Memory, read: str) -> None:
    assert "zirconium" not in str(READS[read](two, "b"))
    if read not in ("status", "vocabulary"):
        assert "zirconium" in str(READS[read](two, "a"))


@pytest.mark.parametrize(
    "call", ["get", "history", "delete", "relabel", "operation", "split", "rename", "merge", "unmerge"]
)
def test_i01_ids_of_one_tenant_are_unknown_to_another(two: Memory, call: str) -> None:
    turn = two.list(namespace="a")["results"][0]
    operation = two.add("x", namespace="a")["operation"]
    assert operation
    arguments: dict[str, tuple[Any, ...]] = {
        "get": (turn["id"],),
        "history": (turn["id"],),
        "delete": (turn["id"],),
        "relabel": (turn["id"],),
        "operation": (operation["id"],),
        "split": (turn["scope_id"], turn["id"], "new"),
        "rename": ("scope", turn["scope_id"], "new"),
        "merge": ("scope", turn["scope_id"], two.list(namespace="b")["results"][0]["scope_id"]),
        "unmerge": ("scope", turn["scope_id"]),
    }
    options = {"scope": "x"} if call == "relabel" else {}
    with pytest.raises(NotFoundError):
        getattr(two, call)(*arguments[call], namespace="b", **options)
    assert two.get(turn["id"], namespace="a") == turn


def test_i01_what_one_tenant_removes_stays_with_the_other(two: Memory, tmp_path: Path) -> None:
    two.export(tmp_path / "b.jsonl", namespace="b")
    assert "zirconium" not in (tmp_path / "b.jsonl").read_text()
    two.delete_all(namespace="b")
    two.erase(namespace="b")
    assert texts_of(two, "a") == [SECRET]
    assert_sound(two, "a")
    assert "a" in two.namespaces()


def test_i01_what_one_tenant_deleted_another_may_say(two: Memory) -> None:
    two.delete_all(namespace="a")
    two.add([{"role": "assistant", "content": SECRET}], namespace="b")
    assert SECRET in texts_of(two, "b")


def test_i01_a_system_prompt_of_one_tenant_is_stored_for_another_too(memory: Memory) -> None:
    for namespace in ("a", "b"):
        memory.add([{"role": "system", "content": "Be kind."}], namespace=namespace)
        assert texts_of(memory, namespace) == ["Be kind."]


@pytest.mark.parametrize("call", ["add", "search", "context", "list", "scopes", "timeline", "delete_all", "erase"])
def test_i03_a_call_without_an_owner_is_refused(two: Memory, call: str) -> None:
    arguments = {"add": ("x",), "search": ("x",), "context": ("x",)}
    with pytest.raises(InputError, match="namespace: is required"):
        getattr(two, call)(*arguments.get(call, ()))
    for owner in ({"namespace": ""}, {"user_id": ""}, {"user_id": " "}, {"user_id": 7}, {"run_id": ""}):
        with pytest.raises(InputError):
            getattr(two, call)(*arguments.get(call, ()), **owner)


def test_i04_the_same_name_in_two_tenants_is_two_things(two: Memory) -> None:
    for namespace in ("a", "b"):
        turn = two.list(namespace=namespace)["results"][0]["id"]
        two.relabel(turn, scope="garden", events=["potting"], namespace=namespace)
    two.rename("scope", "garden", "orchard", namespace="a")
    two.rename("event", "potting", "planting", namespace="a")
    (turn,) = two.list(namespace="b")["results"]
    assert (turn["scope"], turn["events"][0]["label"]) == ("garden", "potting")


@pytest.mark.parametrize("key", ["namespace", "user_id", "agent_id", "run_id", "trajectory"])
@pytest.mark.parametrize("place", ["message", "call"])
def test_i06_metadata_cannot_name_an_owner(two: Memory, key: str, place: str) -> None:
    with pytest.raises(InputError, match=f"metadata.{key}: is reserved"):
        if place == "message":
            two.add([{"role": "user", "content": "x", "metadata": {key: "b"}}], namespace="a")
        else:
            two.add("x", namespace="a", metadata={key: "b"})
    assert len(texts_of(two, "a")) == len(texts_of(two, "b")) == 1


IDS = st.text(st.sampled_from("ab:/%|é\u4e2d -_."), min_size=1, max_size=6).filter(str.strip)


@given(st.tuples(IDS, IDS), st.tuples(IDS, IDS))
def test_i07_two_owners_never_meet_in_one_namespace(one: tuple[str, str], other: tuple[str, str]) -> None:
    names = [
        address(user_id=one[0], agent_id=one[1]).namespace,
        address(user_id=other[0], agent_id=other[1]).namespace,
    ]
    assert (names[0] == names[1]) == (one == other)
    alone = {address(user_id=one[0]).namespace, address(agent_id=one[0]).namespace, address(run_id=one[0]).namespace}
    assert len(alone | {names[0]}) == 4


@pytest.mark.parametrize(
    "owner", ["a:b", "a/b", "a%2Fb", "a%b", "名前", "a'; DROP TABLE turn; --", 'a"b', "a\nb", "👩‍👩‍👧", "%", "_"]
)
def test_i07_i09_any_owner_gets_a_namespace_of_its_own(memory: Memory, owner: str) -> None:
    memory.add("mine", user_id=owner)
    memory.add("not mine", user_id=owner + "x")
    assert [turn["memory"] for turn in memory.list(user_id=owner)["results"]] == ["mine"]
    assert memory.erase(user_id=owner)["removed"]["turn"] == 1
    assert memory.list(user_id=owner + "x")["total"] == 1


@pytest.mark.parametrize(
    "owner",
    [
        {"user_id": "a\ud800"},
        {"namespace": "a\ud800"},
        {"namespace": "a\0"},
        {"namespace": "a\n"},
        {"namespace": "x" * 600},
        {"namespace": "n", "trajectory": "\ud800"},
        {"namespace": "n", "session": "\0"},
    ],
)
def test_i07_an_owner_that_no_file_can_hold_is_refused_by_name(memory: Memory, owner: dict[str, str]) -> None:
    with pytest.raises(InputError) as refused:
        memory.add("x", **owner)  # type: ignore[arg-type]
    assert refused.value.field in owner
    assert memory.namespaces() == []


def test_i08_a_text_where_a_list_is_meant_is_refused(two: Memory) -> None:
    for name in ("roles", "speakers", "scopes", "events", "entity_types"):
        with pytest.raises(InputError, match="must be a list of strings"):
            two.search("x", namespace="a", **{name: "user"})  # type: ignore[arg-type]


INJECTIONS = [
    "' OR 1=1 --",
    "x'); DELETE FROM turn; --",
    '" OR ""="',
    "%",
    "_",
    "*",
    "NEAR(a b)",
    "a OR b",
    "text:a",
    "^a",
    "\\",
    "${x}",
    "{0}",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_i09_nothing_a_caller_passes_becomes_a_query(two: Memory, text: str) -> None:
    filters = ("speakers", "scopes", "events", "entity_types", "trajectories", "sessions")
    for name in filters:
        assert two.search("tea", namespace="b", **{name: [text]})["results"] == []  # type: ignore[arg-type]
        assert two.list(namespace="b", **{name: [text]})["total"] == 0  # type: ignore[arg-type]
        assert two.delete_all(namespace="b", **{name: [text]}) == 0  # type: ignore[arg-type]
    two.search(text, namespace="b", recipe="lexical")
    two.context(text, namespace="b")
    two.timeline(scope=text, namespace="b")
    for call in (two.search, two.context):
        with pytest.raises(UnknownNamespaceError):
            call("x", namespace=text)  # type: ignore[operator]
    for turn in (text,):
        with pytest.raises(NotFoundError):
            two.get(turn, namespace="b")
    two.add(
        [{"role": "user", "content": text, "speaker": text, "id": text, "session": text}],
        namespace="b",
        trajectory=text,
    )
    assert texts_of(two, "b") == ["Ana likes tea.", text]
    assert texts_of(two, "a") == [SECRET]
    assert_sound(two, "b")


async def _through(memory: AsyncMemory) -> list[str]:
    await memory.add("Ana likes tea.", namespace="b")
    found = await memory.search("tea", namespace="b")
    return [turn["memory"] for turn in found["results"]]


def test_the_asynchronous_facade_has_every_method_and_works(memory: Memory) -> None:
    import asyncio

    public = {name for name in vars(Memory) if not name.startswith("_") and callable(getattr(Memory, name))}
    assert public <= set(vars(AsyncMemory))
    assert asyncio.run(_through(AsyncMemory(memory))) == ["Ana likes tea."]
