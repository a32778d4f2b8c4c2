"""BEAM (Tavakoli et al., 2025; arXiv 2510.27246): chats of 100K to 10M tokens with probing questions. Evaluation only.

`question_type`, `index` and the mark `->-> 1,2` that the generator left at the end of many user turns tell how a chat
was made: neither reaches a turn. Batches are sessions. The first turn of a batch has a date (`time_anchor`); the turns
after it get that date, plus a second for each turn already dated to it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from intentmem.memory.types import NewTurn, Role

from .files import Reader, distinct, expect, find_files, mappings, text_of
from .locomo import MONTHS
from .schemas import Card, Corpus, Fault, Problem, Question, Trajectory

CARD = Card("beam", "BEAM", "not stated", "evaluation only", "https://github.com/mohammadtavakoli78/BEAM")
ABSTENTION = "abstention"
"""The ability whose questions have no answer in the chat."""

_QUESTIONS = ("probing_questions/probing_questions.json", "probing_questions.json")
_ANSWERS = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")
_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant"}
_MARK = re.compile(r"\s*->->\s*[\d,\s]*\Z", re.ASCII)
_ANCHOR = re.compile(r"([A-Za-z]+)[-\s]+(\d{1,2})[-,\s]+(\d{4})", re.ASCII)
_SECONDS_A_DAY = 86_400


def load(path: str | Path) -> Corpus:
    """Load a `chat.json` with the probing questions beside it, or those of a folder or of its folders.

    A question's group is the ability that it probes. Evidence is `source_chat_ids`, where they are given; an id that
    several turns of a chat bear names none of them.

    Raises:
        InputError: the path is absent, or a file is not in this format.
    """
    reader = Reader()
    problems: list[Problem] = []
    trajectories: list[Trajectory] = []
    questions: list[Question] = []
    ids: set[str] = set()
    for file in find_files(path, CARD, "chat.json", "*/chat.json", "*/*/chat.json"):
        data = reader.json(file)
        expect(data, CARD, file, "a list of batches with turns, as chat.json has them")
        chat = _Chat(distinct(file.parent.name or file.stem, ids), problems)
        trajectory = chat.read(data)
        trajectories.append(trajectory)
        beside = next((found for name in _QUESTIONS if (found := file.parent / name).is_file()), None)
        if beside is not None:
            questions.extend(chat.questions(reader.json(beside)))
    return Corpus(CARD, tuple(trajectories), tuple(questions), (), tuple(problems), reader.hash)


def parse_anchor(text: str) -> datetime | None:
    """Read `March-15-2024`; the corpus names no zone, so UTC. None if it is no such day."""
    match = _ANCHOR.fullmatch(text.strip())
    if match is None:
        return None
    try:
        return datetime(int(match[3]), MONTHS[match[1].lower()], int(match[2]), tzinfo=UTC)
    except (ValueError, KeyError):
        return None


class _Chat:
    """One chat on its way in."""

    def __init__(self, id: str, problems: list[Problem]) -> None:
        self.id, self.problems = id, problems
        self._day: datetime | None = None
        self._turns_on: Counter[datetime] = Counter()
        self._named: defaultdict[str, list[str]] = defaultdict(list)
        self._taken: set[str] = set()

    def read(self, data: list[Any]) -> Trajectory:
        """The trajectory of a file."""
        turns = [turn for number, batch in enumerate(_batches(data)) for turn in self._batch(batch, number)]
        return Trajectory(self.id, tuple(turns))

    def questions(self, data: object) -> Iterator[Question]:
        """The probing questions of a file."""
        for ability, listed in data.items() if isinstance(data, Mapping) else ():
            for number, raw in enumerate(listed if isinstance(listed, list) else []):
                id, text = f"{self.id}/{ability}/{number}", text_of(raw, "question")
                if not text:
                    self.problems.append(Problem(Fault.BAD_QUESTION, id))
                    continue
                gold = self._evidence(raw.get("source_chat_ids"), id)
                if not gold:
                    self.problems.append(Problem(Fault.NO_EVIDENCE, id))
                answer = next((raw[key] for key in _ANSWERS if isinstance(raw.get(key), str)), None)
                yield Question(
                    id=id,
                    text=text,
                    trajectory=self.id,
                    group=ability,
                    gold_turns=gold,
                    answer=answer,
                    answerable=ability != ABSTENTION,
                )

    def _evidence(self, value: object, id: str) -> tuple[str, ...]:
        gold: list[str] = []
        for name in dict.fromkeys(_numbers(value)):
            found = self._named.get(name, [])
            if len(found) == 1:
                gold.append(found[0])
            elif name == "":
                self.problems.append(Problem(Fault.EVIDENCE_UNREADABLE, id))
            else:
                self.problems.append(Problem(Fault.EVIDENCE_AMBIGUOUS if found else Fault.EVIDENCE_DANGLING, id))
        return tuple(gold)

    def _batch(self, batch: Mapping[str, Any], number: int) -> Iterator[NewTurn]:
        self._dated(batch)
        groups = batch.get("turns")
        messages = [m for group in groups if isinstance(group, list) for m in group] if isinstance(groups, list) else []
        for message in messages:
            name, role = _number(message), _ROLES.get(text_of(message, "role") or "")
            text = text_of(message, "content")
            where = f"{self.id}/{number}:{name}"
            if name is None or role is None or text is None:
                self.problems.append(Problem(Fault.BAD_TURN, where))
                continue
            self._dated(message)
            clean = _MARK.sub("", text)
            if not clean.strip():
                self.problems.append(Problem(Fault.EMPTY_TURN, where))
                continue
            if clean != text:
                self.problems.append(Problem(Fault.GOLD_IN_TEXT, where))
            source = distinct(name, self._taken)
            if source != name:
                self.problems.append(Problem(Fault.DUPLICATE_ID, where))
            self._named[name].append(source)
            yield NewTurn(role, clean, time=self._time(), session=f"batch {number + 1}", source_id=source)

    def _dated(self, holder: Any) -> None:
        written = text_of(holder, "time_anchor")
        if not written:
            return
        day = parse_anchor(written)
        if day is None:
            self.problems.append(Problem(Fault.BAD_DATE, self.id))
        self._day = day or self._day

    def _time(self) -> datetime | None:
        if self._day is None:
            return None
        self._turns_on[self._day] += 1
        return self._day + timedelta(seconds=min(self._turns_on[self._day], _SECONDS_A_DAY) - 1)


def _batches(data: object) -> Iterator[Mapping[str, Any]]:
    """Batches in order; the longest chats wrap them in plans."""
    for entry in mappings(data):
        if "turns" in entry:
            yield entry
        else:
            for inner in entry.values():
                yield from _batches(inner)


def _number(message: Any) -> str | None:
    found = list(_numbers([message.get("id")])) if isinstance(message, Mapping) else []
    return found[0] if found and found[0] else None


def _numbers(value: object) -> Iterator[str]:
    """Ids in any nesting of lists and objects; "" for what is no id."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _numbers(inner)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, str) and value.strip().isdecimal():
        yield value.strip()
    elif value is not None:
        yield ""
