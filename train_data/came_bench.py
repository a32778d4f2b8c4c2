"""CAME-Bench (Yang et al., 2026; arXiv 2601.10702): long goal-directed trajectories with questions. Evaluation only.

`partition`, `action` and `action_object` are gold: they stand in `Trajectory.gold`, never in a turn. The travel set
ends a text with `----TIMESTAMP: 2025-05-15T08:00`: that becomes the time of the turn, not a part of its text. Sets made
by `intentmem data build` are in the same format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from intentmem.memory.errors import InputError
from intentmem.memory.types import NewTurn, Role

from .files import Reader, distinct, expect, find_files, parse_instant, text_of, texts
from .schemas import Card, Corpus, EventGold, Fault, Problem, Question, Trajectory, TurnGold

CARD = Card(
    "came_bench", "CAME-Bench", "not stated", "evaluation only", "https://github.com/IU-hadlin/contextual-intent"
)
TURNS, QUESTIONS, META = "turns.jsonl", "questions.jsonl", "meta.json"
"""How the three files of a trajectory end; the first two may also be the whole name, in a folder a trajectory."""

_ROLES: Mapping[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "agent": "assistant",
    "system": "system",
    "tool": "tool",
}
_STAMP = re.compile(r"\s*-{2,}\s*TIMESTAMP:\s*(\S.*?)\s*\Z", re.IGNORECASE)
_TYPE = re.compile(r"type[\s_-]*(\d+)", re.IGNORECASE | re.ASCII)


def load(path: str | Path) -> Corpus:
    """Load a `*_turns.jsonl` with the questions beside it, or every one of a folder or of its folders.

    A question's group is `type N`: 1 incremental revision, 2 context-aware factual recall, 3 multi-hop, 4 synthesis.

    Raises:
        InputError: the path is absent, a file is not in this format, or turns have no questions beside them.
    """
    reader = Reader()
    problems: list[Problem] = []
    trajectories: list[Trajectory] = []
    questions: list[Question] = []
    ids: set[str] = set()
    for file in find_files(path, CARD, f"*{TURNS}", f"*/*{TURNS}"):
        entries = reader.json_lines(file)
        expect(next((e for e in entries if e is not None), None), CARD, file, "lines with id, role and content")
        made = _Turns(distinct(_name(file), ids), problems)
        trajectory = made.read(entries)
        trajectories.append(trajectory)
        beside = file.with_name(file.name.removesuffix(TURNS) + QUESTIONS)
        if file.name.endswith(TURNS) and not beside.is_file():
            raise InputError(beside.name, "is missing", f"it belongs beside {file.name}")
        if beside.is_file() and beside != file:
            questions.extend(_questions(reader.json_lines(beside), trajectory, problems))
    return Corpus(CARD, tuple(trajectories), tuple(questions), (), tuple(problems), reader.hash)


def split_timestamp(text: str) -> tuple[str, str | None]:
    """A text without the time that a machine wrote at its end, and that time as it was written; None where none was."""
    match = _STAMP.search(text)
    return (text, None) if match is None else (text[: match.start()], match[1])


class _Turns:
    def __init__(self, id: str, problems: list[Problem]) -> None:
        self.id, self.problems = id, problems
        self.gold: dict[str, TurnGold] = {}
        self._taken: set[str] = set()

    def read(self, entries: list[Any]) -> Trajectory:
        """The trajectory of the lines of a file."""
        turns = tuple(turn for place, entry in enumerate(entries) if (turn := self._turn(entry, place)) is not None)
        return Trajectory(self.id, turns, "test", self.gold)

    def _turn(self, entry: Any, place: int) -> NewTurn | None:
        name, raw_role, raw_text = _id(entry, "id"), text_of(entry, "role"), text_of(entry, "content")
        if name is None or raw_role is None or raw_text is None:
            self._fault(Fault.BAD_TURN, str(place))
            return None
        text, stamp = split_timestamp(raw_text)
        if not text.strip():
            self._fault(Fault.EMPTY_TURN, name)
            return None
        source = distinct(name, self._taken)
        if source != name:
            self._fault(Fault.DUPLICATE_ID, source)
        self.gold[source] = _gold(entry)
        role = _ROLES.get(raw_role.casefold())
        # A debate has several parties: each is a speaker of its own.
        speaker = raw_role if role is None else None
        return NewTurn(role or "user", text, speaker, self._time(entry, stamp, source), source_id=source)

    def _time(self, entry: Mapping[str, Any], stamp: str | None, source: str) -> datetime | None:
        mapping = entry.get("timestamp_mapping")
        mapped = [
            value
            for key, value in (mapping.items() if isinstance(mapping, Mapping) else ())
            if isinstance(value, str) and not key.startswith("question:")
        ]
        written = [*([stamp] if stamp is not None else []), *mapped]
        time = next((found for text in written if (found := parse_instant(text)) is not None), None)
        if written and time is None:
            self._fault(Fault.BAD_DATE, source)
        return time

    def _fault(self, fault: Fault, where: str) -> None:
        self.problems.append(Problem(fault, f"{self.id}/{where}"))


def _gold(entry: Mapping[str, Any]) -> TurnGold:
    parts = texts(entry.get("partition")) or texts([entry.get("partition")])
    action, thing = text_of(entry, "action"), text_of(entry, "action_object")
    events: tuple[EventGold, ...] = ()
    if action:
        events = (EventGold(f"{action} {thing}" if thing else action, action, action, "", slot=thing),)
    return TurnGold(scope=" / ".join(parts) or None, events=events)


def _questions(entries: list[Any], trajectory: Trajectory, problems: list[Problem]) -> Iterator[Question]:
    places = {turn.source_id: place for place, turn in enumerate(trajectory.turns)}
    taken: set[str] = set()
    for number, entry in enumerate(entries):
        text = text_of(entry, "content")
        where = f"{trajectory.id}/{_id(entry, 'id') or f'q{number}'}"
        if not text or not text.strip():
            problems.append(Problem(Fault.BAD_QUESTION, where))
            continue
        id = distinct(where, taken)
        visible = [places[name] for name in _ids(entry, "question_turn_ids") if name in places]
        until = max(visible) + 1 if visible else None
        named = _ids(entry, "answer_turn_ids")
        known = [name for name in named if name in places]
        gold = [name for name in known if until is None or places[name] < until]
        problems += [Problem(Fault.EVIDENCE_DANGLING, id)] * (len(named) - len(known))
        problems += [Problem(Fault.EVIDENCE_NOT_BEFORE_QUESTION, id)] * (len(known) - len(gold))
        if not gold:
            problems.append(Problem(Fault.NO_EVIDENCE, id))
        date = text_of(entry, "date")
        if date and parse_instant(date) is None:
            problems.append(Problem(Fault.BAD_DATE, id))
        yield Question(
            id=id,
            text=text,
            trajectory=trajectory.id,
            group=_kind(entry),
            time=parse_instant(date),
            searchable_until=None if until == len(trajectory.turns) else until,
            gold_turns=tuple(gold),
            answer=_answer(entry.get("answer")),
        )


def _kind(entry: Mapping[str, Any]) -> str:
    kind = text_of(entry, "type") or "uncategorised"
    match = _TYPE.fullmatch(kind.strip())
    return f"type {match[1]}" if match else kind


def _answer(value: object) -> str | None:
    found = value.get("free_form_answer") if isinstance(value, Mapping) else value
    if isinstance(found, list):
        return "; ".join(map(str, found))
    return None if found is None else str(found)


def _ids(entry: Mapping[str, Any], key: str) -> list[str]:
    """Ids of a list, once each; published ones are texts, a few are numbers."""
    value = entry.get(key)
    listed = value if isinstance(value, list) else []
    return list(dict.fromkeys(str(v) for v in listed if isinstance(v, str | int) and not isinstance(v, bool)))


def _id(entry: Any, key: str) -> str | None:
    found = _ids({key: [entry.get(key)]}, key) if isinstance(entry, Mapping) else []
    return found[0] if found else None


def _name(file: Path) -> str:
    """Name of a trajectory: what stands before `_turns.jsonl`, else the folder."""
    return file.name.removesuffix(TURNS).rstrip("_-.") or file.parent.name
