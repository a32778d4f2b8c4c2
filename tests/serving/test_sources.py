import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.memory.errors import InputError
from intentmem.serving.cli.formats import Format
from intentmem.serving.cli.sources import read_source


def written(tmp_path: Path, name: str, content: object) -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


MESSAGES = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Good day."}]


def test_a_json_list_of_messages_is_one_conversation(tmp_path: Path) -> None:
    reading = read_source(written(tmp_path, "chat.json", MESSAGES))
    assert [(c.trajectory, len(c.turns)) for c in reading.conversations] == [("chat", 2)]


def test_objects_with_messages_are_conversations_by_id(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({"id": name, "messages": MESSAGES}) for name in "ab")
    reading = read_source(written(tmp_path, "chats.jsonl", lines))
    assert [c.trajectory for c in reading.conversations] == ["a", "b"] and reading.turns == 4


def test_jsonl_of_messages_is_one_conversation(tmp_path: Path) -> None:
    reading = read_source(written(tmp_path, "chat.jsonl", "\n".join(map(json.dumps, MESSAGES))))
    assert [(c.trajectory, len(c.turns)) for c in reading.conversations] == [("chat", 2)]


def test_text_lines_have_speakers_times_and_continuations(tmp_path: Path) -> None:
    text = "[2026-03-02 14:00] Anna: The order:\n  2 x tea\nand milk\nassistant: See https://x.example: fine\n"
    turns = read_source(written(tmp_path, "log.txt", text)).conversations[0].turns
    assert [(t.role, t.speaker, t.text) for t in turns] == [
        ("user", "Anna", "The order:\n2 x tea\nand milk"),
        ("assistant", None, "See https://x.example: fine"),
    ]
    assert turns[0].time is not None and turns[0].time.hour == 14


def test_what_cannot_be_used_is_listed_with_its_place(tmp_path: Path) -> None:
    reading = read_source(
        written(tmp_path, "chat.jsonl", '{"role": "user", "content": "a"}\nnot json\n{"role": "x"}\n')
    )
    assert reading.turns == 1
    assert [problem.split(":")[0] for problem in reading.unusable] == ["chat.jsonl line 2", "chat.jsonl line 3.role"]


def test_ids_stay_the_same_when_a_file_grows(tmp_path: Path) -> None:
    short = read_source(written(tmp_path, "chat.json", MESSAGES)).conversations[0].turns
    grown = read_source(written(tmp_path, "chat.json", [*MESSAGES, *MESSAGES])).conversations[0].turns
    ids = [turn.source_id for turn in grown]
    assert ids[:2] == [turn.source_id for turn in short] and len(set(ids)) == 4


@pytest.mark.parametrize(("name", "content"), [("a.json", "{"), ("empty", None), ("absent.json", None)])
def test_what_is_no_source_is_an_input_error(tmp_path: Path, name: str, content: str | None) -> None:
    if name == "empty":
        (tmp_path / name).mkdir()
    elif content is not None:
        written(tmp_path, name, content)
    with pytest.raises(InputError):
        read_source(tmp_path / name)


def test_published_corpora_are_recognised(shared: Path) -> None:
    locomo = read_source(shared / "data" / "locomo" / "locomo_dev5.json")
    assert (locomo.format, len(locomo.conversations)) == ("locomo", 5) and locomo.notes
    realmem = read_source(shared / "data" / "realmem" / "Kim_Ji_young_dialogues_256k.json")
    assert (realmem.format, len(realmem.conversations)) == ("realmem", 1)


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "any.txt"
    path.write_bytes(text.encode("utf-8", "replace"))
    for format in (Format.TEXT, Format.OPENAI):
        try:
            reading = read_source(path, format)
        except InputError:
            continue
        assert all(turn.source_id for c in reading.conversations for turn in c.turns)
