"""Groups G and H as a caller of the facade sees them."""

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import (
    FailingEmbedder,
    OtherEmbedder,
    WatchedEmbedder,
    WrongShape,
    assert_sound,
    make_memory,
    quick_memory,
    state_of,
    texts_of,
)

import intentmem.memory
from intentmem.memory.errors import EmbedderMismatchError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.memory import Memory

WORDS = ["boat", "hotel", "invoice", "garden", "dentist", "bicycle", "recipe", "passport"]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "delete", "reopen", "search"]), st.integers(0, 7)), min_size=4, max_size=14
    )
)
def test_g01_g06_g09_hits_belong_to_their_turns_over_any_history(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    memory, kept, serial = quick_memory(folder), dict[str, str](), 0
    memory.store.namespaces.create("n")
    for action, at in steps:
        if action == "add":
            text = f"{WORDS[at]} number {serial}"
            kept[memory.add(text, namespace="n")["results"][0]["id"]] = text
            serial += 1
        elif action == "delete" and kept:
            identity = list(kept)[at % len(kept)]
            memory.delete(identity, namespace="n")
            del kept[identity]
        elif action == "reopen":
            memory.close()
            memory = quick_memory(folder)
        found = memory.search(WORDS[at], namespace="n", recipe="dense", limit=50)["results"]
        assert {turn["id"]: turn["memory"] for turn in found} == kept
    assert_sound(memory, "n")
    memory.close()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    made = quick_memory(tmp_path_factory.mktemp("crowded"))
    talk = [{"role": "user", "speaker": "Bert", "content": f"the boat is red, says {i}"} for i in range(1500)]
    for at in range(0, 1500, 300):
        talk[at + 7] = {"role": "assistant", "speaker": "Ana", "content": f"nothing on the matter {at}"}
    made.add(talk, namespace="n")
    made.add([{"role": "user", "content": f"the boat is red, here too {i}"} for i in range(5)], namespace="small")
    return made


@pytest.mark.parametrize("recipe", ["fused", "stitch", "dense", "lexical"])
def test_g03_filters_come_before_the_cut(crowded: Memory, recipe: str) -> None:
    found = crowded.search("the boat is red", namespace="n", speakers=["Ana"], limit=5, recipe=recipe)["results"]
    assert [turn["speaker"] for turn in found] == ["Ana"] * 5
    found = crowded.search("the boat is red", namespace="small", limit=5, recipe=recipe)["results"]
    assert [turn["namespace"] for turn in found] == ["small"] * 5


@pytest.mark.parametrize("recipe", ["fused", "stitch", "dense", "lexical"])
def test_g03_filters_come_before_the_cut_above_the_exhaustive_limit(
    crowded: Memory, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from intentmem.memory.read import searcher

    monkeypatch.setattr(searcher, "EXHAUSTIVE", 200)
    monkeypatch.setattr(searcher, "_CANDIDATES", 20)
    found = crowded.search("the boat is red", namespace="n", speakers=["Ana"], limit=5, recipe=recipe)["results"]
    assert [turn["speaker"] for turn in found] == ["Ana"] * 5


def test_g03_turns_that_arrive_during_a_search_over_candidates_do_no_harm(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from intentmem.memory.read import searcher

    monkeypatch.setattr(searcher, "EXHAUSTIVE", 5)

    def arrive(texts: Sequence[str], kind: str) -> None:
        if kind == "query":
            with quick_memory(folder) as other:
                other.add(
                    [{"role": "user", "content": f"the boat is red {i} {texts[0]}"} for i in range(4)], namespace="n"
                )

    with quick_memory(folder, embedder=WatchedEmbedder(arrive)) as memory:
        memory.add([{"role": "user", "content": f"the boat is blue {i}"} for i in range(20)], namespace="n")
        for number in range(3):
            assert len(memory.search(f"boat {number}", namespace="n", limit=5)["results"]) == 5


@pytest.mark.parametrize("recipe", ["fused", "stitch", "dense", "lexical"])
def test_g04_g11_a_score_is_higher_for_a_better_hit(memory: Memory, recipe: str) -> None:
    memory.add([{"role": "user", "content": f"the {word} of Ana"} for word in WORDS], namespace="n")
    memory.add("the red boat in the harbour", namespace="n")
    found = memory.search("the red boat in the harbour", namespace="n", recipe=recipe)["results"]
    scores = [turn["score"] for turn in found]
    assert scores == sorted(scores, reverse=True)
    if recipe != "stitch":  # which asks for the facets first
        assert found[0]["memory"] == "the red boat in the harbour"
    if recipe == "dense":
        assert all(-1.0 <= score <= 1.0 + 1e-5 for score in scores)
        assert scores[0] == pytest.approx(1.0, abs=1e-4)


def test_g12_everything_lies_under_the_given_folder_and_nothing_is_pickled(memory: Memory, folder: Path) -> None:
    memory.add("a note", namespace="n")
    memory.search("note", namespace="n")
    memory.store.embeddings.flush()
    assert {path.name for path in folder.iterdir()} <= {
        *("memory.sqlite3", "memory.sqlite3-wal", "memory.sqlite3-shm", "indexes", "locks")
    }
    code = Path(intentmem.memory.__file__).parent
    for path in code.rglob("*.py"):
        source = path.read_text()
        assert not re.search(r"^\s*(import|from) pickle|/tmp/|gettempdir|allow_pickle=True", source, re.MULTILINE), path


def damage_truncate(place: Path) -> None:
    for file in place.rglob("index.faiss"):
        file.write_bytes(file.read_bytes()[:-20])


def damage_flip(place: Path) -> None:
    for file in place.rglob("index.faiss"):
        raw = bytearray(file.read_bytes())
        raw[len(raw) // 2] ^= 0xFF
        file.write_bytes(bytes(raw))


def damage_pointer(place: Path) -> None:
    for file in place.rglob("CURRENT"):
        file.write_text("gen-00000099-nowhere 00")


def damage_manifest(place: Path) -> None:
    for file in place.rglob("manifest.json"):
        file.write_text("{}")


def damage_remove(place: Path) -> None:
    shutil.rmtree(place)


@pytest.mark.parametrize("damage", [damage_truncate, damage_flip, damage_pointer, damage_manifest, damage_remove])
def test_g05_a_damaged_index_is_rebuilt_from_sqlite(
    memory: Memory, folder: Path, reopened: Callable[[Memory], Memory], damage: Callable[[Path], None]
) -> None:
    memory.add([{"role": "user", "content": f"the {word} of Ana"} for word in WORDS], namespace="n")
    before = memory.search("the boat", namespace="n")["results"]
    memory.close()
    damage(folder / "indexes")
    again = reopened(memory)
    assert again.search("the boat", namespace="n")["results"] == before
    assert again.status()["index_rebuilds"] == (0 if damage is damage_remove else 1)
    assert_sound(again, "n")


def test_g05_an_older_index_that_was_put_back_is_noticed(
    memory: Memory, folder: Path, reopened: Callable[[Memory], Memory]
) -> None:
    ids = [memory.add(f"the {word} of Ana", namespace="n")["results"][0]["id"] for word in WORDS]
    memory.search("boat", namespace="n")
    memory.store.embeddings.flush()
    shutil.copytree(folder / "indexes", folder / "kept")
    memory.delete(ids[0], namespace="n")
    memory.close()
    shutil.rmtree(folder / "indexes")
    (folder / "kept").rename(folder / "indexes")
    again = reopened(memory)
    assert ids[0] not in [turn["id"] for turn in again.search("boat", namespace="n")["results"]]
    assert_sound(again, "n")


# Embedders


def test_h01_h04_another_embedder_is_refused_with_both_names_and_the_command(folder: Path) -> None:
    with make_memory(folder) as memory:
        memory.add("the boat is red", namespace="n")
        before = memory.store.database.read("SELECT row, vector FROM embedding")
    with make_memory(folder, embedder=OtherEmbedder()) as other:
        for read in (other.search, other.context):
            with pytest.raises(EmbedderMismatchError, match="intentmem reembed") as refused:
                read("boat", namespace="n")  # type: ignore[operator]
            assert refused.value.stored == str(HashEmbedder().fingerprint)
            assert refused.value.configured == str(OtherEmbedder().fingerprint)
        assert [tuple(row) for row in other.store.database.read("SELECT row, vector FROM embedding")] == [
            tuple(row) for row in before
        ]
        result = other.add("the boat is blue", namespace="n")
        assert result["status"] == "failed"
        assert "reembed" in result["warnings"][0]
        assert texts_of(other, "n") == ["the boat is red", "the boat is blue"]


def test_h01_reembed_makes_everything_searchable_again_also_what_had_failed(folder: Path) -> None:
    with make_memory(folder) as memory:
        memory.add([{"role": "user", "content": f"the {word} of Ana. It is red."} for word in WORDS], namespace="n")
    with make_memory(folder, embedder=OtherEmbedder()) as other:
        for i in range(4):
            other.add(f"a failed write {i}", namespace="n")
            other.process()
        assert other.reembed() >= len(WORDS)
        assert_sound(other, "n")
        assert state_of(other, "n")["embedder"] == str(OtherEmbedder().fingerprint)
        assert (
            other.search("a failed write 2", namespace="n", recipe="dense")["results"][0]["memory"]
            == "a failed write 2"
        )
        assert other.reembed() == 0
    with make_memory(folder) as former, pytest.raises(EmbedderMismatchError):
        former.search("boat", namespace="n")


def test_h01_an_interrupted_reembed_serves_the_old_vectors_and_is_resumed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from intentmem.memory.write import pipeline

    monkeypatch.setattr(pipeline, "BLOCK", 3)
    with quick_memory(folder) as memory:
        memory.add([{"role": "user", "content": f"note {i}"} for i in range(10)], namespace="n")
        memory.add("another tenant", namespace="m")

        encoded: list[str] = []
        failing = FailingEmbedder(OtherEmbedder(), after=2)
        with quick_memory(folder, embedder=failing) as other, pytest.raises(Exception, match="the encoder is out"):
            other.reembed()
        assert memory.search("note 7", namespace="n", recipe="dense")["results"][0]["memory"] == "note 7"
        assert_sound(memory, "n")

        def note(texts: Sequence[str], kind: str) -> None:
            encoded.extend(texts if kind == "passage" else [])

        with quick_memory(folder, embedder=WatchedEmbedder(note, OtherEmbedder())) as other:
            other.reembed()
            assert encoded == ["note 6", "note 7", "note 8", "note 9", "another tenant"]
            assert_sound(other, "n")
            assert_sound(other, "m")
            count = other.store.database.read("SELECT count(*) FROM embedding WHERE view = 'turn'")[0][0]
            assert count == 11


def test_h03_vectors_of_a_wrong_shape_are_an_error_and_the_turn_waits(folder: Path) -> None:
    with make_memory(folder, embedder=WrongShape()) as memory:
        result = memory.add("the boat is red", namespace="n")
        assert result["status"] == "failed"
        assert "(1, 100)" in result["warnings"][0]
        assert state_of(memory, "n")["embedded"] == 0
    with make_memory(folder) as memory:
        memory.process()
        assert_sound(memory, "n")


def test_h03_vectors_that_are_not_finite_are_an_error_and_the_turn_waits(folder: Path) -> None:
    class NotFinite(HashEmbedder):
        def encode(self, texts: Sequence[str], kind: str) -> np.ndarray:  # type: ignore[override]
            vectors = super().encode(texts, kind)  # type: ignore[arg-type]
            return vectors * np.nan if kind == "passage" else vectors

    with make_memory(folder, embedder=NotFinite()) as memory:
        assert "not finite" in memory.add("the boat is red", namespace="n")["warnings"][0]
        assert state_of(memory, "n")["embedded"] == 0


def test_h06_an_import_without_vectors_embeds_them(memory: Memory, tmp_path: Path) -> None:
    memory.add([{"role": "user", "content": f"the {word} of Ana"} for word in WORDS], namespace="n", wait=False)
    memory.export(tmp_path / "n.jsonl", namespace="n")
    memory.import_(tmp_path / "n.jsonl", namespace="m")
    status = state_of(memory, "m")
    assert status["embedded"] == status["labelled"] == len(WORDS)
    assert_sound(memory, "m")


def test_h07_questions_and_passages_are_told_apart_to_the_encoder(folder: Path) -> None:
    told: set[tuple[str, str]] = set()
    embedder = WatchedEmbedder(lambda texts, kind: told.update((text, kind) for text in texts))
    with make_memory(folder, embedder=embedder) as memory:
        memory.add("the boat is red", namespace="n")
        memory.search("which boat?", namespace="n")
    assert ("the boat is red", "passage") in told
    assert ("which boat?", "query") in told
    assert {kind for _, kind in told} == {"passage", "query", "label"}
