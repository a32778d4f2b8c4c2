"""LoCoMo (Maharana et al., 2024): ten long conversations of two friends, with questions. Evaluation only.

Observations, session summaries and event summaries were derived by a model and are never read. Both speakers are
people, so both have the role `user`; a caption that the corpus gives to a picture is an attachment of its turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from intentmem.memory.types import Attachment, NewTurn

from .files import Reader, distinct, expect, find_files, need, text_of, texts
from .schemas import Card, Corpus, Fault, Problem, Question, Trajectory

CARD = Card("locomo", "LoCoMo", "CC BY-NC 4.0", "evaluation only", "https://github.com/snap-research/locomo")
ADVERSARIAL = 5
"""The category whose right response is to abstain."""

# Not from `calendar` or `strptime`: those follow the locale, the corpus does not.
MONTHS = {
    "january": 1,
    "february": 2,
    "march": 3,
    "april": 4,
    "may": 5,
    "june": 6,
    "july": 7,
    "august": 8,
    "september": 9,
    "october": 10,
    "november": 11,
    "december": 12,
}
"""English month names, lower-case, to their numbers."""
_TIME = re.compile(r"(\d{1,2}):(\d{2})\s*([ap])m\s+on\s+(\d{1,2})\s+([a-z]+),?\s+(\d{4})", re.ASCII | re.IGNORECASE)
_ID = re.compile(r"(?<![A-Za-z0-9])D\s*:?\s*(\d{1,6})\s*:\s*(\d{1,6})(?!\d)", re.ASCII | re.IGNORECASE)
_SESSION = re.compile(r"session_(\d{1,6})", re.ASCII)
_DATE_KEY = re.compile(r"(session_\d{1,6})_date_time", re.ASCII)


def load(path: str | Path) -> Corpus:
    """Load a JSON file (the published list, or one conversation) or a folder of such files.

    A question's group is `category N`: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial.

    Raises:
        InputError: the path is absent, or a file is not in this format.
    """
    reader = Reader()
    problems: list[Problem] = []
    trajectories: list[Trajectory] = []
    questions: list[Question] = []
    ids: set[str] = set()
    for file in find_files(path, CARD, "*.json"):
        data = reader.json(file)
        expect(data, CARD, file, "a list of objects with sample_id, conversation and qa")
        for index, sample in enumerate([data] if isinstance(data, Mapping) else data):
            where = f"{file.name}[{index}]"
            conversation = need(sample, "conversation", dict, where)
            id = distinct(need(sample, "sample_id", str, where), ids)
            trajectory = Trajectory(id, tuple(_turns(conversation, id, problems)))
            trajectories.append(trajectory)
            questions.extend(_questions(sample.get("qa"), trajectory, problems))
    return Corpus(CARD, tuple(trajectories), tuple(questions), (), tuple(problems), reader.hash)


def parse_session_time(text: str) -> datetime | None:
    """Read `1:56 pm on 8 May, 2023`; the corpus names no zone, so UTC. None if it is no such time."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    hour, minute, half, day, month, year = match.groups()
    if not 1 <= int(hour) <= 12:
        return None
    try:
        return datetime(
            int(year),
            MONTHS[month.lower()],
            int(day),
            int(hour) % 12 + (12 if half.lower() == "p" else 0),
            int(minute),
            tzinfo=UTC,
        )
    except (ValueError, KeyError):
        return None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Turn ids that could be read, in order and once each; entries in another form; entries with an unreadable rest."""

    ids: tuple[str, ...]
    malformed: int
    unreadable: int


def parse_evidence(entries: object) -> Evidence:
    """Read evidence ids in any of the forms met: `D8:6`, `D8:6; D9:17`, `D9:1 D4:4`, `D:11:26`, `D30:05`.

    Never raises: what is no id is counted.
    """
    found: list[str] = []
    malformed = unreadable = 0
    listed = entries if isinstance(entries, list | tuple) else [] if entries is None else [entries]
    for entry in listed:
        text = entry if isinstance(entry, str) else ""
        ids = [f"D{int(session)}:{int(turn)}" for session, turn in _ID.findall(text)]
        rest = _ID.sub(" ", text).strip(" \t\r\n,;") if ids else "no id"
        unreadable += bool(rest)
        malformed += bool(ids) and not rest and ids != [text]
        found += ids
    return Evidence(tuple(dict.fromkeys(found)), malformed, unreadable)


def _turns(conversation: Mapping[str, Any], id: str, problems: list[Problem]) -> Iterable[NewTurn]:
    sessions = {m[0]: int(m[1]) for key in conversation if (m := _SESSION.fullmatch(key))}
    dated = [m[1] for key in conversation if (m := _DATE_KEY.fullmatch(key))]
    problems.extend(Problem(Fault.DATE_WITHOUT_SESSION, f"{id}/{key}") for key in dated if key not in sessions)
    taken: set[str] = set()
    for session in sorted(sessions, key=sessions.__getitem__):
        time = parse_session_time(text_of(conversation, f"{session}_date_time") or "")
        if time is None:
            problems.append(Problem(Fault.BAD_DATE, f"{id}/{session}"))
        entries = conversation[session]
        for index, entry in enumerate(entries if isinstance(entries, list) else [None]):
            where = f"{id}/{session}[{index}]"
            source, speaker, text = (text_of(entry, key) for key in ("dia_id", "speaker", "text"))
            if source is None or speaker is None or text is None:
                problems.append(Problem(Fault.BAD_TURN, where))
                continue
            attachments = _attachments(entry)
            if not text.strip() and not any(a.caption for a in attachments):
                problems.append(Problem(Fault.EMPTY_TURN, where))
                continue
            unique = distinct(source, taken)
            if unique != source:
                problems.append(Problem(Fault.DUPLICATE_ID, where))
            yield NewTurn("user", text, speaker, time, session, attachments, source_id=unique)


def _attachments(entry: Mapping[str, Any]) -> tuple[Attachment, ...]:
    caption, query = text_of(entry, "blip_caption"), text_of(entry, "query")
    urls = [url] if (url := text_of(entry, "img_url")) else texts(entry.get("img_url"))
    if caption is None and not urls:
        return ()
    meta = {"query": query} if query else {}
    first = Attachment("image", urls[0] if urls else None, caption, meta)
    return (first, *(Attachment("image", url) for url in urls[1:]))


def _questions(entries: object, trajectory: Trajectory, problems: list[Problem]) -> Iterable[Question]:
    sessions = {turn.source_id: turn.session for turn in trajectory.turns}
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        id = f"{trajectory.id}/q{index}"
        text = text_of(entry, "question")
        category = entry.get("category") if text is not None else None
        if not text or not isinstance(category, int):
            problems.append(Problem(Fault.BAD_QUESTION, id))
            continue
        evidence = parse_evidence(entry.get("evidence"))
        gold = tuple(source for source in evidence.ids if source in sessions)
        problems += [Problem(Fault.EVIDENCE_MALFORMED, id)] * evidence.malformed
        problems += [Problem(Fault.EVIDENCE_UNREADABLE, id)] * evidence.unreadable
        problems += [Problem(Fault.EVIDENCE_DANGLING, id)] * (len(evidence.ids) - len(gold))
        if not gold:
            problems.append(Problem(Fault.NO_EVIDENCE, id))
        yield Question(
            id=id,
            text=text,
            trajectory=trajectory.id,
            group=f"category {category}",
            gold_turns=gold,
            gold_sessions=tuple(dict.fromkeys(s for source in gold if (s := sessions[source]))),
            answer=_answer(entry.get("answer")),
            wrong_answer=_answer(entry.get("adversarial_answer")) if category == ADVERSARIAL else None,
            answerable=category != ADVERSARIAL,
        )


def _answer(value: object) -> str | None:
    """An answer as text: some are published as numbers."""
    return None if value is None else str(value)
