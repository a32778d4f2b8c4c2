"""The files of a set: written into a folder that appears when all is written, with a data card and a manifest."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from intentmem.memory.errors import InputError

from .asking import SetQuestion
from .card import data_card
from .simulate import SetTurn

VERSION = "1"
"""Of the generator: equal versions, kinds, lengths and seeds give equal files."""
MANIFEST = "manifest.json"


@dataclass(slots=True)
class BuiltSet:
    """What was written. `tokens` of each trajectory, as estimated; counts over all of them."""

    folder: Path
    kind: str
    split: str
    seed: int
    licence: str
    title: str
    asked_tokens: int
    tokens: dict[str, int] = field(default_factory=dict)
    turns: int = 0
    scopes: int = 0
    questions: Counter[str] = field(default_factory=Counter)
    reasoning: Counter[str] = field(default_factory=Counter)
    templates: set[str] = field(default_factory=set)
    source: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For the manifest and for machines."""
        return {
            "generator": f"intentmem data build, version {VERSION}",
            "kind": self.kind,
            "title": self.title,
            "split": self.split,
            "seed": self.seed,
            "licence": self.licence,
            "tokens_asked": self.asked_tokens,
            "tokens": self.tokens,
            "turns": self.turns,
            "scopes": self.scopes,
            "questions": dict(sorted(self.questions.items())),
            "reasoning": dict(sorted(self.reasoning.items())),
            "templates": sorted(self.templates),
            "source": self.source,
        }


class SetWriter:
    """Writes the three files of one trajectory, and counts."""

    def __init__(self, folder: Path, name: str, made: BuiltSet) -> None:
        self.tokens = self.asked = self.scopes = 0
        self._ids: list[str] = []
        self._made, self._name, self._folder = made, name, folder
        self._turns = (folder / f"{name}_turns.jsonl").open("w", encoding="utf-8")
        self._questions = (folder / f"{name}_questions.jsonl").open("w", encoding="utf-8")

    def turn(self, turn: SetTurn, tokens: int) -> None:
        """Write a turn with its gold."""
        self._turns.write(json.dumps(asdict(turn), ensure_ascii=False) + "\n")
        self._ids.append(turn.id)
        self.tokens += tokens

    def question(self, question: SetQuestion) -> None:
        """Write a question about the turns so far."""
        entry = question.as_json(f"q{self.asked}", self._ids)
        self._questions.write(json.dumps(entry, ensure_ascii=False) + "\n")
        self.asked += 1
        self._made.questions[entry["type"]] += 1
        self._made.reasoning[question.plan.reasoning] += 1
        self._made.templates.add(question.template)

    def close(self) -> None:
        """Write what the trajectory is, and count it."""
        self._turns.close()
        self._questions.close()
        meta = {
            "dataset_name": self._name,
            "questions_file": f"{self._name}_questions.jsonl",
            "turns_file": f"{self._name}_turns.jsonl",
            "num_questions": self.asked,
            "num_turns": len(self._ids),
        }
        (self._folder / f"{self._name}_meta.json").write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
        self._made.tokens[self._name] = self.tokens
        self._made.turns += len(self._ids)
        self._made.scopes += self.scopes


def finish(folder: Path, made: BuiltSet) -> None:
    """Write the data card and the manifest, with the digest of every file."""
    (folder / "data_card.md").write_text(data_card(made), encoding="utf-8")
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}
    manifest = {**made.as_json(), "files": digests}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def new_folder(out: Path, force: bool) -> Iterator[Path]:
    """A folder beside `out` whose files become those of `out` when the block ends well; nothing is left when not.

    With `force` a set that is there is replaced; files that are no part of it are left alone.

    Raises:
        InputError: `out` is a file, is not empty and not to be replaced, or cannot be written.
    """
    if out.exists() and not out.is_dir():
        raise InputError("out", f"{out} is a file", "name a folder")
    occupied = out.is_dir() and any(out.iterdir())
    if occupied and not force:
        raise InputError("out", f"{out} is not empty", "choose another folder, or --force to replace the set in it")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise InputError("out", f"{out} cannot be made: {error.strerror}") from error
    made = temporary / out.name
    try:
        made.mkdir()
        yield made
        if occupied:
            _replace(out, made)
        else:
            made.rename(out)
    except OSError as error:
        raise InputError("out", f"{out} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(out: Path, made: Path) -> None:
    manifest = out / MANIFEST
    if manifest.is_file():
        for name in json.loads(manifest.read_text(encoding="utf-8")).get("files", {}):
            if Path(name).name == name:
                (out / name).unlink(missing_ok=True)
    # The manifest is last: where it stands, the files that it lists do.
    for file in sorted(made.iterdir(), key=lambda file: file.name == MANIFEST):
        file.replace(out / file.name)
