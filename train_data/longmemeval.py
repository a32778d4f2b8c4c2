"""LongMemEval (Wu et al., 2025): 500 questions, each about a haystack of chat sessions of its own.

Ids of evidence sessions begin with `answer` in the published files, and `has_answer` marks evidence turns: both are
gold. Sessions are therefore known by their place here, and neither reaches a turn. The whole haystack may be searched,
as the benchmark's own evaluation does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from intentmem.memory.types import NewTurn, Role

from .files import Reader, distinct, expect, find_files, text_of, texts
from .schemas import Card, Corpus, Fault, Problem, Question, Trajectory

CARD = Card("longmemeval", "LongMemEval", "MIT", "train", "https://github.com/xiaowu0162/LongMemEval")
UNANSWERABLE = "_abs"
"""Suffix of the ids of questions whose right response is to abstain."""

_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_TIME = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})(?:\s*\(\w+\))?(?:\s+(\d{1,2}):(\d{2}))?", re.ASCII)
_FIRST = datetime.min.replace(tzinfo=UTC)


def load(path: str | Path) -> Corpus:
    """Load a JSON file (oracle, S or M) or a folder of one of them.

    A trajectory a question, by its id; a question's group is its `question_type`. Sessions are ordered by their dates.

    Raises:
        InputError: the path is absent, or a file is not in this format.
    """
    reader = Reader()
    problems: list[Problem] = []
    trajectories: list[Trajectory] = []
    questions: list[Question] = []
    ids: set[str] = set()
    for file in find_files(path, CARD, "longmemeval*.json", "*.json"):
        data = reader.json(file)
        expect(data, CARD, file, "a list of objects with question_id, question and haystack_sessions")
        for index, entry in enumerate(data):
            name, text = text_of(entry, "question_id"), text_of(entry, "question")
            if not name or not text or not isinstance(entry.get("haystack_sessions"), list):
                problems.append(Problem(Fault.BAD_QUESTION, name or f"{file.name}[{index}]"))
                continue
            id = distinct(name, ids)
            if id != name:
                problems.append(Problem(Fault.DUPLICATE_ID, id))
            haystack = _Haystack(entry, id, problems)
            trajectories.append(Trajectory(id, haystack.turns))
            questions.append(_question(entry, id, text, haystack))
    return Corpus(CARD, tuple(trajectories), tuple(questions), (), tuple(problems), reader.hash)


def parse_time(text: str) -> datetime | None:
    """Read `2023/12/18 (Mon) 04:17`; the corpus names no zone, so UTC. None if it is no such time."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute = (int(part or 0) for part in match.groups())
    try:
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        return None


class _Haystack:
    """The sessions of one question. `named` gives the session here for each id of the file."""

    def __init__(self, entry: Mapping[str, Any], id: str, problems: list[Problem]) -> None:
        self.id, self.problems = id, problems
        self.gold_turns: list[str] = []
        self.named: dict[str, str] = {}
        sessions = entry["haystack_sessions"]
        names, dates = _listed(entry, "haystack_session_ids"), _listed(entry, "haystack_dates")
        times: list[datetime | None] = []
        for place in range(len(sessions)):
            time = parse_time(str(dates[place])) if place < len(dates) else None
            if time is None:
                problems.append(Problem(Fault.BAD_DATE, f"{id}/{place}"))
            times.append(time)
            if place < len(names):
                self.named.setdefault(str(names[place]), str(place))
        order, latest = [], _FIRST
        for place, time in enumerate(times):
            latest = time or latest
            order.append((latest, place))
        self.turns = tuple(turn for _, place in sorted(order) for turn in self._session(sessions[place], place, times))

    def _session(self, raw: object, place: int, times: list[datetime | None]) -> Iterator[NewTurn]:
        entries = raw if isinstance(raw, list) else []
        for index, entry in enumerate(entries):
            source = f"{place}:{index}"
            role, text = _ROLES.get(text_of(entry, "role") or ""), text_of(entry, "content")
            if role is None or text is None:
                self.problems.append(Problem(Fault.BAD_TURN, f"{self.id}/{source}"))
                continue
            if not text.strip():
                self.problems.append(Problem(Fault.EMPTY_TURN, f"{self.id}/{source}"))
                continue
            if entry.get("has_answer") is True:
                self.gold_turns.append(source)
            yield NewTurn(role, text, time=times[place], session=str(place), source_id=source)


def _question(entry: Mapping[str, Any], id: str, text: str, haystack: _Haystack) -> Question:
    answerable = not id.endswith(UNANSWERABLE)
    kept = {turn.session for turn in haystack.turns}
    gold: list[str] = []
    for name in dict.fromkeys(texts(entry.get("answer_session_ids"))) if answerable else ():
        session = haystack.named.get(name)
        if session is None or session not in kept:
            haystack.problems.append(Problem(Fault.EVIDENCE_DANGLING, id))
        else:
            gold.append(session)
    if answerable and not gold:
        haystack.problems.append(Problem(Fault.NO_EVIDENCE, id))
    time = parse_time(text_of(entry, "question_date") or "")
    if time is None:
        haystack.problems.append(Problem(Fault.BAD_DATE, id))
    answer = entry.get("answer")
    return Question(
        id=id,
        text=text,
        trajectory=id,
        group=text_of(entry, "question_type") or "uncategorised",
        time=time,
        gold_turns=tuple(haystack.gold_turns) if answerable else (),
        gold_sessions=tuple(gold),
        answer=None if answer is None else str(answer),
        answerable=answerable,
    )


def _listed(entry: Mapping[str, Any], key: str) -> list[Any]:
    value = entry.get(key)
    return value if isinstance(value, list) else []
