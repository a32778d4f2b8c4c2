"""TIAGE (Xie et al., 2021): topic shifts in PersonaChat dialogues of two people.

Three published forms. `anno_<split>.json` maps a dialogue id to `[text, label]` pairs and is the one to use: label 1
where the turn shifts the topic, 0 where not, -1 at the first turn. `anno_train_all_dialogs.tsv` has number, text and
label a line, and holds the *dev* dialogues beside those of train: a folder is therefore read by its JSON file, and
`Corpus.without` removes what is held out. `*_dialogs_single_line.tsv` has a dialogue a line and no labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from intentmem.memory.errors import InputError
from intentmem.memory.types import NewTurn

from .files import Reader, distinct, expect, find_files
from .schemas import Card, Corpus, Fault, Problem, Trajectory, TurnGold

CARD = Card("tiage", "TIAGE", "MIT", "train", "https://github.com/HuiyuanXie/tiage")
_LABELS: dict[str, bool | None] = {"1": True, "0": False, "-1": None}
_Row = tuple[str, str | None]
_Dialogue = tuple[str, list[_Row]]


def load(path: str | Path) -> Corpus:
    """Load a split's folder, or one file in any of the published forms.

    `TurnGold.shift` is the label, None at a dialogue's first turn. The split is the name of the folder.

    Raises:
        InputError: the path is absent, or a file is not in this format.
    """
    reader = Reader()
    problems: list[Problem] = []
    trajectories: list[Trajectory] = []
    taken: set[str] = set()
    for file in find_files(path, CARD, "anno_*.json", "*.json", "*_all_dialogs.tsv", "*.tsv"):
        split = file.resolve().parent.name
        for id, rows in _dialogues(file, reader, problems):
            unique = distinct(f"{split}/{id}", taken)
            if unique != f"{split}/{id}":
                problems.append(Problem(Fault.DUPLICATE_ID, unique))
            trajectory = _trajectory(unique, split, rows, problems)
            if trajectory.turns:
                trajectories.append(trajectory)
    return Corpus(CARD, tuple(trajectories), (), (), tuple(problems), reader.hash)


def _dialogues(file: Path, reader: Reader, problems: list[Problem]) -> Iterable[_Dialogue]:
    if file.suffix == ".json":
        data = reader.json(file)
        expect(data, CARD, file, "an object of dialogue id to [text, label] pairs")
        return _from_json(data, file, problems)
    lines = [line.split("\t") for line in reader.text(file).split("\n") if line.strip()]
    lines = [[cell.rstrip("\r") for cell in line] for line in lines]
    if not lines or len(lines[0]) < 2 or not lines[0][0].strip().isdecimal():
        raise InputError(file.name, "is not in the format of tiage", "expected lines of a number, a tab and texts")
    numbered = len(lines[0]) >= 3 and lines[0][2].strip() in _LABELS
    return _numbered_lines(lines, file, problems) if numbered else _single_lines(lines, file, problems)


def _from_json(data: dict[str, object], file: Path, problems: list[Problem]) -> Iterable[_Dialogue]:
    for id, pairs in data.items():
        rows: list[_Row] = []
        for index, pair in enumerate(pairs if isinstance(pairs, list) else [None]):
            if isinstance(pair, list) and len(pair) >= 2 and isinstance(pair[0], str):
                rows.append((pair[0], str(pair[1])))
            else:
                problems.append(Problem(Fault.BAD_TURN, f"{file.name}/{id}:{index}"))
        yield id, rows


def _numbered_lines(lines: list[list[str]], file: Path, problems: list[Problem]) -> Iterable[_Dialogue]:
    """Number, text, label, further columns; number 0 begins a dialogue."""
    rows: list[_Row] = []
    count, expected = 0, 0
    for place, line in enumerate(lines):
        if len(line) < 3 or not line[0].strip().isdecimal():
            problems.append(Problem(Fault.BAD_TURN, f"{file.name} line {place + 1}"))
            continue
        number = int(line[0])
        if number == 0 and rows:
            yield f"all-{count}", rows
            rows, count, expected = [], count + 1, 0
        if number != expected:
            problems.append(Problem(Fault.NUMBERING, f"{file.name} line {place + 1}"))
        rows.append((line[1], line[2].strip()))
        expected = number + 1
    if rows:
        yield f"all-{count}", rows


def _single_lines(lines: list[list[str]], file: Path, problems: list[Problem]) -> Iterable[_Dialogue]:
    """An id, then the turns; no labels."""
    problems.append(Problem(Fault.UNLABELLED, file.name))
    for line in lines:
        yield f"line-{line[0].strip()}", [(cell, None) for cell in line[1:]]


def _trajectory(id: str, split: str, rows: list[_Row], problems: list[Problem]) -> Trajectory:
    turns: list[NewTurn] = []
    gold: dict[str, TurnGold] = {}
    for index, (text, label) in enumerate(rows):
        source = f"{id}:{index}"
        if not text.strip():
            problems.append(Problem(Fault.EMPTY_TURN, source))
            continue
        if label is not None and label not in _LABELS:
            problems.append(Problem(Fault.BAD_LABEL, source))
        shift = _LABELS.get(label or "") if turns else None
        turns.append(NewTurn("user", text, speaker="AB"[index % 2], session=id, source_id=source))
        gold[source] = TurnGold(shift=shift)
    return Trajectory(id, tuple(turns), split, gold)
