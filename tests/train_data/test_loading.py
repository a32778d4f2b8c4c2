import json
from pathlib import Path

import pytest

import intentmem.train_data as train_data
from intentmem.memory.errors import InputError
from intentmem.train_data import CARDS, load_corpus
from intentmem.train_data.files import distinct

STUBS: dict[str, object] = {
    "locomo": [{"sample_id": "x", "conversation": {}, "qa": []}],
    "realmem": {"_metadata": {}, "dialogues": []},
    "sgd": [{"dialogue_id": "1", "services": [], "turns": []}],
    "tiage": {"1": [["hi", "-1"]]},
    "longmemeval": [{"question_id": "1", "question": "?", "haystack_sessions": []}],
    "came_bench": {"id": "t1", "role": "user", "content": "hi"},
    "memconflict": {"ID": "p1", "Full_Session_Chain": []},
    "beam": [{"batch_number": 1, "turns": []}],
}


def write(folder: Path, data: object) -> Path:
    path = folder / "data.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    (folder / "schema.json").write_text(json.dumps([{"service_name": "A"}]), encoding="utf-8")
    return path


def test_the_public_names_are_complete_and_sorted() -> None:
    assert train_data.__all__ == sorted(train_data.__all__)
    assert all(getattr(train_data, name).__doc__ for name in train_data.__all__)


def test_an_unknown_corpus_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    known = "beam, came_bench, locomo, longmemeval, memconflict, realmem, sgd, tiage"
    with pytest.raises(InputError, match=f"known: {known}") as caught:
        load_corpus("squad", tmp_path)
    assert caught.value.field == "name"


@pytest.mark.parametrize("name", sorted(CARDS))
def test_a_missing_path_is_refused_and_says_where_the_corpus_can_be_had(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist \(.* can be had from https://") as caught:
        load_corpus(name, tmp_path / "absent")
    assert caught.value.field == "path"


@pytest.mark.parametrize("name", sorted(CARDS))
def test_an_empty_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no "):
        load_corpus(name, tmp_path)


@pytest.mark.parametrize("name", sorted(CARDS))
@pytest.mark.parametrize("other", sorted(STUBS))
def test_a_file_of_another_corpus_is_named_for_what_it_is(name: str, other: str, tmp_path: Path) -> None:
    path = write(tmp_path, STUBS[other])
    if name == other:
        assert load_corpus(name, path).name == name
        return
    with pytest.raises(InputError, match=f"has the format of {other}, not of {name}") as caught:
        load_corpus(name, path)
    assert caught.value.field == "data.json" and f"load_corpus('{other}'" in caught.value.remedy


@pytest.mark.parametrize("name", sorted(CARDS))
@pytest.mark.parametrize("data", [[], {}, [1], {"a": 1}, "text", 7, None, [{"question": "?"}]])
def test_a_file_of_no_known_format_is_refused(name: str, data: object, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not in the format of"):
        load_corpus(name, write(tmp_path, data))


def test_a_format_that_is_known_but_has_no_loader_here_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has the format of the schema of sgd"):
        load_corpus("locomo", write(tmp_path, [{"service_name": "A"}]))


@pytest.mark.parametrize("raw", [b"version https://git-lfs.github.com/spec/v1\n", b"", b'[{"a": ', b"[" * 100_000])
def test_what_is_no_json_is_refused(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_bytes(raw)
    with pytest.raises(InputError, match="is not JSON"):
        load_corpus("locomo", tmp_path / "data.json")


def test_what_is_no_utf8_is_refused_and_a_byte_order_mark_is_let_be(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not UTF-8 at byte 0"):
        load_corpus("locomo", path)
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(STUBS["locomo"]).encode())
    assert load_corpus("locomo", path).trajectories[0].id == "x"


def test_the_hash_follows_the_content_and_not_the_place(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = write(tmp_path / "a", STUBS["realmem"]), write(tmp_path / "b", STUBS["realmem"])
    assert load_corpus("realmem", one).hash == load_corpus("realmem", two).hash
    two.write_text(json.dumps({"_metadata": {}, "dialogues": [], "more": 1}), encoding="utf-8")
    assert load_corpus("realmem", one).hash != load_corpus("realmem", two).hash


@pytest.mark.parametrize("name", ["came_bench", "memconflict"])
def test_what_holds_no_json_line_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid 1\n")
    with pytest.raises(InputError, match="is not JSON lines"):
        load_corpus(name, tmp_path / "data.jsonl")


def test_only_corpora_that_allow_it_may_be_trained_on(tmp_path: Path) -> None:
    evaluated = {name for name, card in CARDS.items() if card.use == "evaluation only"}
    assert evaluated == {"beam", "came_bench", "locomo", "memconflict"}
    corpus = load_corpus("tiage", write(tmp_path, STUBS["tiage"]))
    assert corpus.for_training() is corpus and corpus.licence == "MIT"


def test_a_taken_id_gets_a_number() -> None:
    taken: set[str] = set()
    assert [distinct("a", taken) for _ in range(3)] == ["a", "a#2", "a#3"]


def test_a_lone_surrogate_in_a_text_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "anno_x.json"
    path.write_text('{"1": [["half \\ud83d", "-1"]]}', encoding="utf-8")
    corpus = load_corpus("tiage", path)
    assert corpus.without(corpus).trajectories == ()
