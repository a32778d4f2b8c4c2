"""Group F: acknowledgements, retries, limits, and files that cannot be used."""

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support import (
    FailingEmbedder,
    QuickWriter,
    assert_sound,
    make_memory,
    quick_memory,
    state_of,
    texts_of,
)

from intentmem.memory.errors import BusyError, InputError, IntentMemError, StoreError, UnknownNamespaceError
from intentmem.memory.memory import Memory
from intentmem.memory.store import Store, database, migrations
from intentmem.memory.types import Turn
from intentmem.memory.write.messages import MAX_CHARS


def test_f02_a_write_can_be_read_back_by_its_operation(memory: Memory) -> None:
    result = memory.add("a note", namespace="n", wait=False)
    assert result["status"] == "pending"
    assert result["operation"]
    identity = result["operation"]["id"]
    assert memory.operation(identity, namespace="n")["status"] == "pending"
    found = memory.search("note", namespace="n")
    assert [turn["memory"] for turn in found["results"]] == ["a note"]
    assert "not embedded yet" in found["warnings"][0]
    memory.process()
    assert memory.operation(identity, namespace="n")["status"] == "done"
    with pytest.raises(InputError):
        memory.operation("op_none", namespace="n")


def test_f03_a_strict_memory_refuses_a_namespace_that_was_not_made(folder: Path) -> None:
    with quick_memory(folder, strict_namespaces=True) as memory:
        with pytest.raises(UnknownNamespaceError, match="n"):
            memory.add("lost?", namespace="n")
        memory.store.namespaces.create("n")
        memory.add("kept", namespace="n")
        assert texts_of(memory, "n") == ["kept"]


@pytest.mark.parametrize(
    "read", ["search", "context", "list", "scopes", "timeline", "get", "delete_all", "erase", "export"]
)
def test_f03_reading_an_unknown_namespace_says_so(memory: Memory, folder: Path, read: str) -> None:
    arguments = {"search": ("q",), "context": ("q",), "get": ("turn_1",), "export": (folder / "x.jsonl",)}
    with pytest.raises(UnknownNamespaceError, match="'nowhere' does not exist"):
        getattr(memory, read)(*arguments.get(read, ()), namespace="nowhere")
    assert memory.namespaces() == []


def test_f05_an_episode_ends_where_no_boundary_ever_comes(quick: Memory) -> None:
    quick.add([{"role": "user", "content": f"note {i}"} for i in range(120)], namespace="n")
    episodes = quick.timeline(namespace="n")["results"]
    assert [episode["turns"] for episode in episodes] == [50, 50, 20]
    assert [episode["open"] for episode in episodes] == [False, False, True]
    assert len(quick.scopes(namespace="n")["results"]) == 1


@pytest.mark.parametrize("characters", [1_000_000, pytest.param(MAX_CHARS, marks=pytest.mark.slow)])
def test_f20_a_huge_turn_is_stored_whole(quick: Memory, characters: int) -> None:
    text = ("lorem ipsum " * (characters // 12 + 1))[: characters - 7] + " zebulon"[:7]
    assert quick.add(text, namespace="n")["status"] == "done"
    assert texts_of(quick, "n") == [text]
    assert_sound(quick, "n")


def test_f20_a_turn_of_a_thousand_sentences_goes_through_every_rule(memory: Memory) -> None:
    text = "The zebra met Ana at the Apollo Hotel on 5 March. " * 1_000
    assert memory.add(text, namespace="n")["status"] == "done"
    assert memory.context("zebra", namespace="n", budget=200)["tokens"] <= 200


def test_f20_a_turn_over_the_limit_is_refused_by_name(memory: Memory) -> None:
    with pytest.raises(InputError, match="split it") as refused:
        memory.add([{"role": "user", "content": "x" * (MAX_CHARS + 1)}], namespace="n")
    assert refused.value.field == "messages[0].content"
    assert memory.namespaces() == []


def test_f21_an_empty_gist_never_replaces_a_good_one(folder: Path) -> None:
    class Falters(QuickWriter):
        def gist(self, previous: str, turn: Turn) -> str:
            return "" if previous else "a good gist"

    with quick_memory(folder, writer=Falters()) as memory:
        for i in range(3):
            memory.add(f"note {i}", namespace="n")
        assert memory.scopes(namespace="n")["results"][0]["gist"] == "a good gist"


def test_f21_a_block_and_one_turn_more_are_all_stored(quick: Memory) -> None:
    quick.add([{"role": "user", "content": f"note {i}"} for i in range(257)], namespace="n")
    assert len(texts_of(quick, "n")) == 257
    assert_sound(quick, "n")


def by_string(memory: Memory, folder: Path) -> None:
    memory.add("a note", namespace="n")


def by_messages(memory: Memory, folder: Path) -> None:
    memory.add([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], namespace="n")


def by_process(memory: Memory, folder: Path) -> None:
    memory.add("a note", namespace="n", wait=False)
    memory.process()


def by_import(memory: Memory, folder: Path) -> None:
    memory.add("a note", namespace="other", wait=False)
    memory.export(folder / "x.jsonl", namespace="other")
    memory.import_(folder / "x.jsonl", namespace="n")


def by_caption(memory: Memory, folder: Path) -> None:
    memory.add([{"role": "user", "content": "", "attachments": [{"caption": "a red boat"}]}], namespace="n")


@pytest.mark.parametrize("way", [by_string, by_messages, by_process, by_import, by_caption])
def test_f22_after_any_way_in_every_turn_has_its_vector(
    memory: Memory, folder: Path, way: Callable[[Memory, Path], None]
) -> None:
    way(memory, folder)
    status = state_of(memory, "n")
    assert status["embedded"] == status["turns"] == status["labelled"] > 0
    assert not status["degraded"]


def test_f22_a_broken_encoder_is_reported_and_resumed(folder: Path) -> None:
    embedder = FailingEmbedder()
    with make_memory(folder, embedder=embedder) as memory:
        result = memory.add("the boat is red", namespace="n")
        assert result["status"] == "failed"
        assert "the encoder is out" in result["warnings"][0]
        assert state_of(memory, "n")["degraded"]
        assert [t["memory"] for t in memory.search("boat", namespace="n", recipe="lexical")["results"]] == [
            "the boat is red"
        ]
        for _ in range(5):
            memory.process()
        assert result["operation"]
        assert memory.operation(result["operation"]["id"], namespace="n")["attempts"] == 3
        embedder.broken = False
        assert memory.process() == 0
        assert memory.process(retry_failed=True) == 1
        assert memory.operation(result["operation"]["id"], namespace="n")["status"] == "done"
        assert_sound(memory, "n")


def test_one_bad_write_does_not_hold_up_its_neighbours(folder: Path) -> None:
    class Chokes(QuickWriter):
        def ground(self, turn: Turn, known: Sequence[object]) -> object:  # type: ignore[override]
            if "poison" in turn.text:
                raise ValueError("cannot read this")
            return super().ground(turn, known)  # type: ignore[arg-type]

    with quick_memory(folder, writer=Chokes()) as memory:
        for text in ("one", "poison", "two", "three"):
            memory.add(text, namespace="n", wait=False)
        assert memory.process() == 3
        status = state_of(memory, "n")
        assert (status["labelled"], status["embedded"]) == (3, 4)
        assert "cannot read this" in status["failures"][0]["error"]


# Files that cannot be used


def test_a_file_that_is_not_sqlite_is_refused_and_left_as_it_is(folder: Path) -> None:
    folder.mkdir()
    (folder / "memory.sqlite3").write_bytes(b"not a database at all, but long enough to look at" * 50)
    with pytest.raises(StoreError, match="not a usable memory file"):
        Store(folder)
    assert (folder / "memory.sqlite3").read_bytes().startswith(b"not a database")


def test_a_damaged_file_is_refused_with_the_way_out(folder: Path) -> None:
    with quick_memory(folder) as memory:
        memory.add([{"role": "user", "content": f"note {i} " * 50} for i in range(200)], namespace="n", wait=False)
    file = folder / "memory.sqlite3"
    whole = file.read_bytes()
    file.write_bytes(whole[:100] + b"\xff" * 8000 + whole[8100:])
    with pytest.raises(StoreError, match="restore it from an export"):
        quick_memory(folder).list(namespace="n")


def test_a_file_of_a_newer_release_is_refused_and_left_as_it_is(folder: Path) -> None:
    with quick_memory(folder) as memory:
        memory.add("a note", namespace="n")
    with sqlite3.connect(folder / "memory.sqlite3") as raw:
        raw.execute("INSERT INTO migration VALUES (999, 0)")
    raw.close()
    with pytest.raises(StoreError, match=r"schema 999.*upgrade intentmem"):
        Store(folder)
    with sqlite3.connect(folder / "memory.sqlite3") as raw:
        assert raw.execute("SELECT text FROM turn").fetchall() == [("a note",)]
    raw.close()


def test_a_folder_in_place_of_the_file_is_refused(folder: Path) -> None:
    (folder / "memory.sqlite3").mkdir(parents=True)
    with pytest.raises(StoreError, match="check its permissions"):
        Store(folder)


def test_a_file_in_place_of_the_folder_is_refused(folder: Path) -> None:
    folder.write_text("in the way")
    with pytest.raises(StoreError, match="cannot create"):
        Store(folder)


def test_a_read_only_file_can_be_searched_and_says_that_it_cannot_be_written(folder: Path) -> None:
    with quick_memory(folder) as memory:
        memory.add("a note", namespace="n")
        memory.store.database.connection.execute("PRAGMA query_only=ON")
        with pytest.raises(StoreError, match="check its permissions"):
            memory.add("another", namespace="n")
        assert [t["memory"] for t in memory.search("note", namespace="n")["results"]] == ["a note"]
        memory.store.database.connection.execute("PRAGMA query_only=OFF")
        memory.add("another", namespace="n")
        assert_sound(memory, "n")


def test_indexes_that_cannot_be_saved_fail_no_search(folder: Path) -> None:
    with quick_memory(folder) as memory:
        memory.add("a note", namespace="n")
        shutil.rmtree(folder / "indexes")
        (folder / "indexes").write_text("in the way")
        assert len(memory.search("note", namespace="n")["results"]) == 1
    (folder / "indexes").unlink()
    with quick_memory(folder) as memory:
        assert len(memory.search("note", namespace="n")["results"]) == 1


def test_locks_that_cannot_be_made_are_a_store_error_and_the_turn_is_kept(folder: Path) -> None:
    with quick_memory(folder) as memory:
        (folder / "locks").write_text("in the way")
        with pytest.raises(StoreError, match="cannot lock"):
            memory.add("a note", namespace="n")
        (folder / "locks").unlink()
        again = memory.add("a note", namespace="n")
        assert (again["status"], texts_of(memory, "n")) == ("done", ["a note"])


def test_a_full_disk_is_a_store_error_nothing_is_half_written_and_later_all_works(folder: Path) -> None:
    with quick_memory(folder) as memory:
        memory.add("a note", namespace="n")
        connection = memory.store.database.connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + 2}")
        big = [{"role": "user", "content": f"note {i} " + "word " * 400} for i in range(100)]
        with pytest.raises(StoreError, match="no space left"):
            memory.add(big, namespace="n", idempotency_key="big")
        assert texts_of(memory, "n") == ["a note"]
        assert_sound(memory, "n")
        connection.execute("PRAGMA max_page_count=1000000")
        assert memory.add(big, namespace="n", idempotency_key="big")["status"] == "done"
        assert len(texts_of(memory, "n")) == 101
        assert_sound(memory, "n")


@pytest.mark.parametrize("spare", range(0, 60, 6))
def test_a_disk_that_fills_up_at_any_stage_loses_nothing(folder: Path, spare: int) -> None:
    with quick_memory(folder) as memory:
        memory.store.namespaces.create("n")
        connection = memory.store.database.connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + spare}")
        messages = [{"role": "user", "content": f"note {i} with a few words more"} for i in range(40)]
        try:
            memory.add(messages, namespace="n")
        except StoreError as error:
            assert "no space left" in str(error)
        assert len(texts_of(memory, "n")) in (0, 40)
        connection.execute("PRAGMA max_page_count=1000000")
        memory.add(messages, namespace="n")
        memory.process(retry_failed=True)
        assert len(texts_of(memory, "n")) == 40
        assert_sound(memory, "n")


def test_a_file_held_by_another_is_a_busy_error_with_the_remedy(folder: Path) -> None:
    with quick_memory(folder, busy_seconds=0.05) as memory:
        memory.add("a note", namespace="n")
        holder = sqlite3.connect(folder / "memory.sqlite3", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError, match="retry"):
            memory.add("another", namespace="n")
        assert len(memory.search("note", namespace="n")["results"]) == 1
        holder.close()
        assert memory.add("another", namespace="n")["status"] == "done"


def test_a_memory_that_is_closed_says_so(folder: Path) -> None:
    memory = quick_memory(folder)
    memory.add("a note", namespace="n")
    memory.close()
    with pytest.raises(StoreError, match="is closed"):
        memory.search("note", namespace="n")


# Migrations

_BROKEN = "CREATE TABLE extra (x);\nINSERT INTO extra VALUES (1);\nINSERT INTO no_such_table VALUES (1);"
_GOOD = "CREATE TABLE extra (x);\nINSERT INTO extra VALUES (1);"


def test_a_migration_that_fails_leaves_the_former_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with quick_memory(folder) as memory:
        memory.add("a note", namespace="n")
    before = migrations.MIGRATIONS
    monkeypatch.setattr(migrations, "MIGRATIONS", (*before, _GOOD.replace("extra", "other"), _BROKEN))
    with pytest.raises(StoreError):
        Store(folder)
    with sqlite3.connect(folder / "memory.sqlite3") as raw:
        assert raw.execute("SELECT max(version) FROM migration").fetchone()[0] == len(before) + 1
        tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master")}
        assert "other" in tables
        assert "extra" not in tables
    raw.close()
    monkeypatch.setattr(migrations, "MIGRATIONS", (*before, _GOOD.replace("extra", "other"), _GOOD))
    with quick_memory(folder) as memory:
        assert texts_of(memory, "n") == ["a note"]
        assert memory.store.database.read("SELECT x FROM extra")[0][0] == 1


def test_a_process_that_dies_within_a_migration_leaves_the_former_version(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quick_memory(folder) as memory:
        memory.add("a note", namespace="n")
    before = migrations.MIGRATIONS

    class Died(BaseException):
        pass

    def dying(script: str) -> list[str]:
        connections[0].execute("CREATE TABLE extra (x)")
        raise Died

    connections: list[sqlite3.Connection] = []
    step = migrations._step
    monkeypatch.setattr(migrations, "_step", lambda c, v: (connections.append(c), step(c, v)))
    monkeypatch.setattr(migrations, "_statements", dying)
    monkeypatch.setattr(migrations, "MIGRATIONS", (*before, _GOOD))
    with pytest.raises(Died):
        Store(folder)
    monkeypatch.undo()
    with quick_memory(folder) as memory:
        assert memory.store.database.version == len(before)
        assert memory.store.database.read("SELECT 1 FROM sqlite_master WHERE name = 'extra'") == []
        assert texts_of(memory, "n") == ["a note"]


def test_errors_of_sqlite_are_translated_at_the_one_seam(tmp_path: Path) -> None:
    for raw in (
        sqlite3.OperationalError("database is locked"),
        sqlite3.OperationalError("attempt to write a readonly database"),
        sqlite3.OperationalError("unable to open database file"),
        sqlite3.OperationalError("database or disk is full"),
        sqlite3.OperationalError("disk I/O error"),
        sqlite3.DatabaseError("file is not a database"),
        sqlite3.ProgrammingError("Cannot operate on a closed database."),
    ):
        with pytest.raises(IntentMemError) as raised, database.translated(tmp_path):
            raise raw
        assert str(tmp_path) in str(raised.value)


def test_words_are_indexed_anew_when_the_file_was_cut_by_another_stemmer(folder: Path) -> None:
    with make_memory(folder) as memory:
        memory.add("The agencies were running late", namespace="n")
        with memory.store.database.write() as connection:
            connection.execute("UPDATE setting SET value = 'another release' WHERE key = 'terms'")
            memory.store.lexical.clear(connection)
    with make_memory(folder) as memory:
        found = memory.search("running agency", namespace="n", recipe="lexical")["results"]
        assert found and found[0]["score"] > 0
        memory.delete(found[0]["id"], namespace="n")
        assert set(memory.store.orphans(memory.store.namespaces.ordinal("n")).values()) == {0}
