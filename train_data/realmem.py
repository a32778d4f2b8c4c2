"""RealMem (Bian et al., 2026; arXiv 2601.06966): one persona a file, projects pursued over interleaved sessions.

`memory_used`, `extracted_memory`, `topic` and `session_identifier` are gold: they never reach a turn. The order of the
file is the order of ingestion; one published persona dates two whole projects to a single early day, so dates alone
would put evidence after its question. Some assistant turns quote the identifiers of their gold, such as
`【Project_1:S1_01-schedule-2】`: those are cut out of the text, and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from intentmem.memory.types import NewTurn, Role

from .files import Reader, distinct, expect, find_files, mappings, need, text_of, texts
from .schemas import Card, Corpus, Fault, MemoryGold, Problem, Question, Trajectory, TurnGold

CARD = Card("realmem", "RealMem", "Apache-2.0", "train", "https://github.com/AvatarMemory/RealMemBench")
SPLITS = {"Adeleke_Okonjo": "train", "Ethan_Hunt": "train", "Kenta_Tanaka": "train", "Kim_Ji_young": "dev"}
"""Personas to train on and to choose settings on; every other one is `test`."""

DISTRACTOR = "Enhanced"
_ROLES: Mapping[str, Role] = {"User": "user", "Assistant": "assistant"}
_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:\s*\((\w+)\))?", re.ASCII)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERED = re.compile(r"\w+_\d+", re.ASCII)
_SNAPSHOT_PREFIX = 80
_SECONDS_A_DAY = 86_400


def load(path: str | Path) -> Corpus:
    """Load a persona's JSON file, or every `*_dialogues*.json` of a folder.

    A question's group is its `category_name`; its gold sessions are those that the next assistant turn names, as far as
    they lie before its own session. `gold_turns` are derived, for training: the source turns of the memories used.
    Turns get the day of their session, plus one second for each turn already dated to that day.

    Raises:
        InputError: the path is absent, or a file is not in this format.
    """
    reader = Reader()
    problems: list[Problem] = []
    trajectories: list[Trajectory] = []
    questions: list[Question] = []
    ids: set[str] = set()
    for file in find_files(path, CARD, "*_dialogues*.json", "*.json"):
        data = reader.json(file)
        expect(data, CARD, file, "an object with _metadata and dialogues")
        dialogues = need(data, "dialogues", list, file.name)
        name = text_of(data.get("_metadata"), "person_name") or file.stem.split("_dialogues")[0]
        persona = _Persona(distinct(name, ids), problems, _identifiers(dialogues))
        for entry in dialogues:
            persona.add(entry)
        trajectories.append(persona.trajectory(SPLITS.get(name, "test")))
        questions.extend(persona.questions())
    return Corpus(CARD, tuple(trajectories), tuple(questions), (), tuple(problems), reader.hash)


def parse_day(text: str) -> tuple[date, bool] | None:
    """Read `2025-12-15 (Monday)`: the day, and whether the weekday (if any) is that day's. None if it is no date."""
    match = _DAY.fullmatch(text.strip())
    if match is None:
        return None
    try:
        day = date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None
    return day, match[4] is None or match[4].lower() == _WEEKDAYS[day.weekday()]


def scope_of(identifier: str) -> str:
    """The scope that a session identifier names: its project, or a distractor session's whole identifier.

    Distractor sessions share a prefix but no goal: each is a scope of its own.
    """
    project = identifier.split(":", 1)[0]
    return identifier if project == DISTRACTOR else project


@dataclass(frozen=True, slots=True)
class _Session:
    """One session: its id here, its place, its raw turns, and the kept turns by their raw index."""

    id: str
    place: int
    first_seq: int
    raw: list[Mapping[str, Any]]
    kept: dict[int, NewTurn]


@dataclass(slots=True)
class _Persona:
    id: str
    problems: list[Problem]
    identifiers: re.Pattern[str] | None = None
    turns: list[NewTurn] = field(default_factory=list)
    gold: dict[str, TurnGold] = field(default_factory=dict)
    memories: list[MemoryGold] = field(default_factory=list)
    sessions: dict[str, _Session] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _turns_on: Counter[date] = field(default_factory=Counter)
    _latest: date = date.min

    def add(self, entry: object) -> None:
        """Take in one session of the file."""
        raw_id = text_of(entry, "session_uuid")
        if raw_id is None or not isinstance(entry, Mapping):
            self._fault(Fault.BAD_TURN, f"session {len(self.sessions)}")
            return
        id = distinct(raw_id, self._taken)
        if id != raw_id:
            self._fault(Fault.DUPLICATE_ID, id)
        day = self._day(entry, id)
        listed = entry.get("dialogue_turns")
        raw = [turn if isinstance(turn, Mapping) else {} for turn in listed] if isinstance(listed, list) else []
        session = _Session(id, len(self.sessions), len(self.turns), raw, {})
        self.sessions[id] = session
        scope = scope_of(text_of(entry, "session_identifier") or id)
        for index, raw_turn in enumerate(raw):
            turn = self._turn(raw_turn, session, index, day)
            if turn is not None and turn.source_id is not None:
                session.kept[index] = turn
                self.turns.append(turn)
                self.gold[turn.source_id] = TurnGold(scope=scope)
        for memory in mappings(entry.get("extracted_memory")):
            self._memory(memory, session)

    def trajectory(self, split: str) -> Trajectory:
        """All that was added."""
        return Trajectory(self.id, tuple(self.turns), split, self.gold, tuple(self.memories))

    def questions(self) -> Iterable[Question]:
        """The retrieval queries, in order."""
        sources = {(m.session, m.content): m.turn for m in self.memories}
        for session in self.sessions.values():
            answered: set[int] = set()
            for index, raw in enumerate(session.raw):
                if raw.get("is_query") is not True:
                    continue
                reply = next((i for i in range(index + 1, len(session.raw)) if _is_reply(session.raw[i])), None)
                answered |= set() if reply is None else {reply}
                if index in session.kept:
                    yield self._question(session, index, {} if reply is None else session.raw[reply], sources)
                else:
                    self._fault(Fault.BAD_QUESTION, f"{session.id}:{index}")
            for index, raw in enumerate(session.raw):
                if raw.get("memory_session_uuids") and index not in answered:
                    self._fault(Fault.GOLD_WITHOUT_QUESTION, f"{session.id}:{index}")

    def _question(
        self,
        session: _Session,
        index: int,
        reply: Mapping[str, Any],
        sources: Mapping[tuple[str, str], str | None],
    ) -> Question:
        turn = session.kept[index]
        where = f"{session.id}:{index}"
        named = tuple(dict.fromkeys(texts(reply.get("memory_session_uuids"))))
        gold = tuple(g for g in named if g in self.sessions and self.sessions[g].place < session.place)
        for other in named:
            if other not in self.sessions:
                self._fault(Fault.EVIDENCE_DANGLING, where)
            elif other not in gold:
                self._fault(Fault.EVIDENCE_NOT_BEFORE_QUESTION, where)
        if not gold:
            self._fault(Fault.NO_EVIDENCE, where)
        used = mappings(reply.get("memory_used"))
        keys = [(text_of(m, "session_uuid") or "", text_of(m, "content") or "") for m in used]
        gold_turns = [sources.get(key) for key in keys if key[0] in gold]
        return Question(
            id=f"{self.id}/{where}",
            text=turn.text,
            trajectory=self.id,
            group=text_of(session.raw[index], "category_name") or "uncategorised",
            time=turn.time,
            searchable_until=session.first_seq,
            context=tuple(kept for place, kept in session.kept.items() if place < index),
            gold_turns=tuple(dict.fromkeys(t for t in gold_turns if t is not None)),
            gold_sessions=gold,
            answer=text_of(reply, "content"),
        )

    def _day(self, entry: Mapping[str, Any], id: str) -> date | None:
        parsed = parse_day(text_of(entry, "current_time") or "")
        if parsed is None:
            self._fault(Fault.BAD_DATE, id)
            return None
        day, weekday_holds = parsed
        if not weekday_holds:
            self._fault(Fault.WEEKDAY_MISMATCH, id)
        if day < self._latest:
            self._fault(Fault.DATE_OUT_OF_ORDER, id)
        self._latest = max(self._latest, day)
        return day

    def _turn(self, raw: Mapping[str, Any], session: _Session, index: int, day: date | None) -> NewTurn | None:
        where = f"{session.id}:{index}"
        role, text = _ROLES.get(text_of(raw, "speaker") or ""), text_of(raw, "content")
        if role is None or text is None:
            self._fault(Fault.BAD_TURN, where)
            return None
        if not text.strip():
            self._fault(Fault.EMPTY_TURN, where)
            return None
        if self.identifiers is not None and self.identifiers.search(text):
            self._fault(Fault.GOLD_IN_TEXT, where)
            text = self.identifiers.sub("", text)
        time = None
        if day is not None:
            midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
            time = midnight + timedelta(seconds=min(self._turns_on[day], _SECONDS_A_DAY - 1))
            self._turns_on[day] += 1
        return NewTurn(role, text, time=time, session=session.id, source_id=where)

    def _memory(self, memory: Mapping[str, Any], session: _Session) -> None:
        content = text_of(memory, "content")
        if content is None:
            return
        source = _source_index(memory, session)
        if source is None:
            self._fault(Fault.MEMORY_WITHOUT_SOURCE, session.id)
        turn = None if source is None else session.kept[source].source_id
        self.memories.append(MemoryGold(content, text_of(memory, "type") or "", session.id, turn))

    def _fault(self, fault: Fault, where: str) -> None:
        self.problems.append(Problem(fault, f"{self.id}/{where}"))


def _identifiers(dialogues: list[Any]) -> re.Pattern[str] | None:
    """Matches the identifiers of a file's projects, with what marks a session, memory or schedule entry of one.

    Only names that end in a number: a project named by a plain word could not be told from that word.
    """
    projects = {scope_of(text_of(entry, "session_identifier") or "") for entry in dialogues}
    named = sorted((re.escape(p) for p in projects if _NUMBERED.fullmatch(p)), key=len, reverse=True)
    return re.compile(rf"【?(?<!\w)(?:{'|'.join(named)})(?!\w)(?:[:-][\w-]+)?】?") if named else None


def _is_reply(raw: Mapping[str, Any]) -> bool:
    return raw.get("speaker") == "Assistant"


def _source_index(memory: Mapping[str, Any], session: _Session) -> int | None:
    """Index of the turn that a memory was drawn from.

    `source_turn` counts from 1, with exceptions, while the snapshot of the turn's text is right wherever it is found:
    so the snapshot decides, and the number only among several turns of one text or where the snapshot was cut.
    """
    number = memory.get("source_turn")
    stated = number - 1 if isinstance(number, int) else -1
    snapshot = (text_of(memory, "source_content_snapshot") or "").strip()
    if not snapshot:
        return None
    raw = {index: (text_of(session.raw[index], "content") or "").strip() for index in session.kept}
    same = [index for index, text in raw.items() if text == snapshot]
    if same:
        return min(same, key=lambda index: abs(index - stated))
    text = raw.get(stated, "")
    length = min(len(text), len(snapshot), _SNAPSHOT_PREFIX)
    return stated if length and text[:length] == snapshot[:length] else None
