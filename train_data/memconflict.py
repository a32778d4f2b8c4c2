"""MemConflict (Tao et al., 2026; arXiv 2605.20926): a persona's sessions, in which memories conflict. Evaluation only.

Everything of a session but its date and its dialogue is how the benchmark was made, and gold: session types, outlines,
attribute updates and conflict entries never reach a turn. A question is asked after its own session, and everything
up to there may be searched. Gold is a session, told by released ids alone:

- dynamic: the question's own session, which holds the update,
- static: the session of `Point_A` (the truth) of the conflict whose `Point_B` stands in the question's session,
- conditional: the session of the rule before the one that the question's session adds; where several rules are
  added, the one whose item the question or its answer names. Where that is not one rule, the question has no gold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intentmem.memory.types import NewTurn, Role

from .files import Reader, distinct, expect, find_files, mappings, parse_instant, text_of
from .schemas import Card, Corpus, Fault, Problem, Question, Trajectory

CARD = Card("memconflict", "MemConflict", "not stated", "evaluation only", "https://github.com/TaoZhen1110/MemConflict")

_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant"}
_NUMBER = re.compile(r"(\d+)\s*\Z", re.ASCII)
_POINT = re.compile(r"Point_([A-Z])", re.ASCII)
_STATIC, _CONDITIONAL = "Static_Conflict_Information", "Conditional_Conflict_Information"


def load(path: str | Path) -> Corpus:
    """Load the final JSONL file (`Step4_4.jsonl`, a line a persona), or that of a folder.

    A question's group is its kind of conflict: `dynamic`, `static` or `conditional`.

    Raises:
        InputError: the path is absent, or a file is not in this format.
    """
    reader = Reader()
    problems: list[Problem] = []
    trajectories: list[Trajectory] = []
    questions: list[Question] = []
    ids: set[str] = set()
    for file in find_files(path, CARD, "Step4_4*.jsonl", "*.jsonl"):
        lines = reader.json_lines(file)
        expect(next((e for e in lines if e is not None), None), CARD, file, "lines with ID and Full_Session_Chain")
        for number, entry in enumerate(lines):
            chain = entry.get("Full_Session_Chain") if isinstance(entry, Mapping) else None
            if not isinstance(chain, list):
                problems.append(Problem(Fault.BAD_TURN, f"{file.name}:{number + 1}"))
                continue
            persona = _Persona(distinct(str(entry.get("ID", number)), ids), problems)
            for session in mappings(chain):
                persona.add(session)
            trajectories.append(Trajectory(persona.id, tuple(persona.turns)))
            questions.extend(persona.questions())
    return Corpus(CARD, tuple(trajectories), tuple(questions), (), tuple(problems), reader.hash)


@dataclass(frozen=True, slots=True)
class _Session:
    """One session: its id here, its entries in the file, and how many turns there are up to its end."""

    id: str
    raw: Mapping[str, Any]
    until: int


@dataclass(slots=True)
class _Persona:
    id: str
    problems: list[Problem]
    turns: list[NewTurn] = field(default_factory=list)
    sessions: list[_Session] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)

    def add(self, raw: Mapping[str, Any]) -> None:
        """Take in one session of the chain."""
        id = distinct(str(raw.get("Session_ID", len(self.sessions))), self._taken)
        time = parse_instant(text_of(raw, "Date"))
        if time is None:
            self._fault(Fault.BAD_DATE, id)
        for place, message in enumerate(_messages(raw.get("Session_Dialogue"))):
            role, text = _read(message)
            if role is None or text is None:
                self._fault(Fault.BAD_TURN, f"{id}:{place}")
            elif not text.strip():
                self._fault(Fault.EMPTY_TURN, f"{id}:{place}")
            else:
                self.turns.append(NewTurn(role, text, time=time, session=id, source_id=f"{id}:{place}"))
        self.sessions.append(_Session(id, raw, len(self.turns)))

    def questions(self) -> Iterator[Question]:
        """The questions of all sessions, in order."""
        kept = {turn.session for turn in self.turns}
        for place, session in enumerate(self.sessions):
            for number, raw in enumerate(mappings(session.raw.get("Session_Questions"))):
                id = distinct(f"{self.id}/{session.id}/{text_of(raw, 'question_id') or number}", self._taken)
                text = text_of(raw, "question")
                if not text:
                    self.problems.append(Problem(Fault.BAD_QUESTION, id))
                    continue
                kind = (text_of(raw, "conflict_type") or "uncategorised").casefold().removesuffix("_conflict")
                gold = self._gold(kind, place, raw)
                if gold is not None and gold not in kept:
                    self.problems.append(Problem(Fault.EVIDENCE_DANGLING, id))
                    gold = None
                if gold is None:
                    self.problems.append(Problem(Fault.NO_EVIDENCE, id))
                answer = raw.get("answer")
                yield Question(
                    id=id,
                    text=text,
                    trajectory=self.id,
                    group=kind,
                    time=parse_instant(text_of(session.raw, "Date")),
                    searchable_until=session.until if session.until < len(self.turns) else None,
                    gold_sessions=() if gold is None else (gold,),
                    answer=None if answer is None else str(answer),
                )

    def _gold(self, kind: str, place: int, question: Mapping[str, Any]) -> str | None:
        session = self.sessions[place]
        if kind.startswith("dynamic"):
            return session.id if mappings(session.raw.get("Updated_Attributes")) else None
        if kind.startswith("static"):
            conflicts = {
                text_of(entry, "Conflict_ID")
                for entry in mappings(session.raw.get(_STATIC))
                if _rank(entry) is not None and _rank(entry) != 1
            }
            return self._found(_STATIC, place, {(conflict, 1) for conflict in conflicts})
        if kind.startswith("conditional"):
            return self._rule_before(place, question)
        return None

    def _rule_before(self, place: int, question: Mapping[str, Any]) -> str | None:
        added = mappings(self.sessions[place].raw.get(_CONDITIONAL))
        wanted = {(text_of(e, "Conflict_ID"), rank - 1) for e in added if (rank := _rank(e)) is not None and rank > 1}
        if len(wanted) > 1:
            said = f"{text_of(question, 'question')} {question.get('answer')}".casefold()
            entries = [e for s in self.sessions[: place + 1] for e in mappings(s.raw.get(_CONDITIONAL))]
            wanted = {
                (text_of(e, "Conflict_ID"), _rank(e) or 0)
                for e in entries
                if (item := text_of(e, "Item")) and item.casefold() in said
            } & wanted
        return self._found(_CONDITIONAL, place, wanted)

    def _found(self, kind: str, place: int, wanted: set[tuple[str | None, int]]) -> str | None:
        """The one session up to `place` that holds the point asked for; None where that is not one point."""
        if len(wanted) != 1:
            return None
        held = [
            session.id
            for session in self.sessions[: place + 1]
            for entry in mappings(session.raw.get(kind))
            if (text_of(entry, "Conflict_ID"), _rank(entry)) in wanted
        ]
        return held[0] if len(set(held)) == 1 else None

    def _fault(self, fault: Fault, where: str) -> None:
        self.problems.append(Problem(fault, f"{self.id}/{where}"))


def _messages(dialogue: object) -> Iterator[object]:
    """Messages in the order of their turn numbers: `dialogue_turn_10` comes after `dialogue_turn_9`."""
    if isinstance(dialogue, Mapping):
        numbered = sorted(dialogue.items(), key=lambda pair: int(m[1]) if (m := _NUMBER.search(pair[0])) else 0)
        groups = [value for _, value in numbered]
    else:
        groups = dialogue if isinstance(dialogue, list) else []
    for group in groups:
        yield from group if isinstance(group, list) else [group]


def _read(message: object) -> tuple[Role | None, str | None]:
    """Role and text of a message; a few published ones have their role as a key, around or beside the content."""
    if not isinstance(message, Mapping):
        return None, None
    role = _ROLES.get((text_of(message, "role") or "").casefold())
    text = text_of(message, "content")
    for name, known in _ROLES.items():
        if role is None and name in message:
            role = known
            inner = message[name]
            text = text if text is not None else text_of(inner, "content") if isinstance(inner, Mapping) else inner
    return role, text if isinstance(text, str) else None


def _rank(entry: Mapping[str, Any]) -> int | None:
    """1 for `Point_A`, 2 for `Point_B`, ...; None for a distractor."""
    match = _POINT.fullmatch((text_of(entry, "Role") or "").strip())
    return ord(match[1]) - ord("A") + 1 if match else None
