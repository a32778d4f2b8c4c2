import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.memory.errors import InputError
from intentmem.train_data import Corpus, Fault, load_corpus

DIALOGUES = {
    "1": [["hi there", "-1"], ["hello , i bake", "0"], ["do you sail ?", "1"]],
    "2": [["good day", "-1"], ["rainy here", "1"]],
}


def write(folder: Path, name: str, content: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def shifts(corpus: Corpus) -> list[list[bool | None]]:
    return [[g.shift for g in t.gold.values()] for t in corpus.trajectories]


def numbered(*dialogues: list[list[str]]) -> str:
    return "".join(f"{i}\t{text}\t{label}\n" for d in dialogues for i, (text, label) in enumerate(d))


def test_a_folder_is_read_by_its_json_file_alone(tmp_path: Path) -> None:
    folder = tmp_path / "train"
    write(folder, "anno_train.json", json.dumps(DIALOGUES))
    write(folder, "anno_train_all_dialogs.tsv", numbered([["of dev", "0"]]))
    corpus = load_corpus("tiage", folder)
    assert [t.id for t in corpus.trajectories] == ["train/1", "train/2"]
    assert {t.split for t in corpus.trajectories} == {"train"}
    assert shifts(corpus) == [[None, False, True], [None, True]]
    assert [t.speaker for t in corpus.trajectories[0].turns] == ["A", "B", "A"]
    assert corpus.problems == ()


def test_the_numbered_lines_give_the_same_turns_and_shifts_as_the_json(tmp_path: Path) -> None:
    lines = numbered(*([[text, label.lstrip("-")] for text, label in rows] for rows in DIALOGUES.values()))
    from_lines = load_corpus("tiage", write(tmp_path, "anno_all_dialogs.tsv", lines.replace("\n", "\r\n")))
    from_json = load_corpus("tiage", write(tmp_path, "anno_x.json", json.dumps(DIALOGUES)))
    assert shifts(from_lines) == shifts(from_json)
    assert [t.text_key for t in from_lines.trajectories] == [t.text_key for t in from_json.trajectories]


def test_further_label_columns_are_let_be(tmp_path: Path) -> None:
    corpus = load_corpus("tiage", write(tmp_path, "x_all_dialogs.tsv", "0\thi\t0\t1\t1\n1\tyes\t1\t0\t0\n"))
    assert shifts(corpus) == [[None, True]]


def test_single_lines_have_turns_and_no_labels_which_is_said(tmp_path: Path) -> None:
    corpus = load_corpus("tiage", write(tmp_path, "x_single_line.tsv", "7\thi\thello\t\tyes\n7\tagain\n"))
    assert [t.id.split("/")[1] for t in corpus.trajectories] == ["line-7", "line-7#2"]
    assert shifts(corpus)[0] == [None, None, None]
    assert corpus.problem_counts == {Fault.UNLABELLED: 1, Fault.EMPTY_TURN: 1, Fault.DUPLICATE_ID: 1}


def test_faulty_lines_and_labels_are_counted(tmp_path: Path) -> None:
    content = "0\thi\t0\nx\tno number\t0\n2\tskips one\t5\n3\tno label\n4\tlast\t1\n"
    corpus = load_corpus("tiage", write(tmp_path, "x_all_dialogs.tsv", content))
    assert corpus.problem_counts == {Fault.BAD_TURN: 2, Fault.NUMBERING: 2, Fault.BAD_LABEL: 1}
    assert shifts(corpus) == [[None, None, True]]


def test_faulty_pairs_of_the_json_are_counted(tmp_path: Path) -> None:
    data = {"1": [["hi", "-1"], ["alone"], 3, ["yes", 1]], "2": "not a list", "3": []}
    corpus = load_corpus("tiage", write(tmp_path, "anno_x.json", json.dumps(data)))
    assert shifts(corpus) == [[None, True]]
    assert corpus.problem_counts == {Fault.BAD_TURN: 3}


def test_what_is_held_out_can_be_taken_out_by_its_texts(tmp_path: Path) -> None:
    both = numbered(*([[t, lb.lstrip("-")] for t, lb in rows] for rows in DIALOGUES.values()))
    mixed = load_corpus("tiage", write(tmp_path / "train", "x_all_dialogs.tsv", both))
    held_out = load_corpus("tiage", write(tmp_path / "dev", "anno_dev.json", json.dumps({"9": DIALOGUES["2"]})))
    assert [t.id for t in mixed.without(held_out).trajectories] == ["train/all-0"]


@pytest.mark.parametrize("content", ["", "no number\there\t0\n", "justtext\n"])
def test_a_table_of_another_form_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError, match="not in the format of tiage"):
        load_corpus("tiage", write(tmp_path, "x.tsv", content))


@given(st.text(alphabet="01\t\n\rab-", max_size=60))
def test_a_table_is_read_or_refused_and_nothing_else(tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
    path = write(tmp_path_factory.getbasetemp() / "tables", "x_all_dialogs.tsv", content)
    try:
        corpus = load_corpus("tiage", path)
    except InputError:
        return
    for trajectory in corpus.trajectories:
        assert list(trajectory.gold) == [t.source_id for t in trajectory.turns]
        assert next(iter(trajectory.gold.values())).shift is None


def test_the_development_data_has_its_known_counts(shared: Path) -> None:
    root = shared / "data" / "tiage"
    train, dev = load_corpus("tiage", root / "train"), load_corpus("tiage", root / "dev")
    for corpus, dialogues, turns, shifted in ((train, 300, 4692, 887), (dev, 100, 1546, 311)):
        gold = [g for t in corpus.trajectories for g in t.gold.values()]
        assert (len(corpus.trajectories), len(gold)) == (dialogues, turns)
        assert sum(g.shift is True for g in gold) == shifted
        assert sum(g.shift is None for g in gold) == dialogues
        assert corpus.problems == () and corpus.for_training() is corpus


def test_the_published_file_of_all_dialogues_holds_the_dev_dialogues_too(shared: Path) -> None:
    root = shared / "data" / "tiage"
    everything = load_corpus("tiage", root / "train" / "anno_train_all_dialogs.tsv")
    train, dev = load_corpus("tiage", root / "train"), load_corpus("tiage", root / "dev")
    assert len(everything.trajectories) == 400
    assert {t.text_key for t in everything.without(dev).trajectories} == {t.text_key for t in train.trajectories}
    assert sorted(map(str, shifts(everything))) == sorted(map(str, shifts(train) + shifts(dev)))


def test_two_loads_of_the_development_data_are_equal(shared: Path) -> None:
    first, second = (load_corpus("tiage", shared / "data" / "tiage" / "dev") for _ in range(2))
    assert first == second and first.hash == second.hash != ""
