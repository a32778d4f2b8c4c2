import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from intentmem.memory.memory import Memory
from intentmem.serving.compose import open_memory

SUBJECTS = ("kayak", "violin", "sourdough", "telescope", "orchid", "marathon")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with open_memory(tmp_path / "memory", embedder={"profile": "hash"}) as opened:
        yield opened


def _turn(session: int, number: int, text: str) -> dict[str, str]:
    return {"speaker": "Ana" if number % 2 else "Ben", "dia_id": f"D{session}:{number}", "text": text}


@pytest.fixture
def two_people(tmp_path: Path) -> Path:
    """A made-up conversation in LoCoMo's format: two sessions, a question on each subject, one without evidence."""
    conversation: dict[str, Any] = {"speaker_a": "Ana", "speaker_b": "Ben"}
    for session in (1, 2):
        conversation[f"session_{session}_date_time"] = f"1:56 pm on {session} May, 2023"
        conversation[f"session_{session}"] = [
            _turn(session, number, f"Talk {session} is about my {subject} and nothing else, part {number}.")
            for number, subject in enumerate(SUBJECTS, start=1)
        ]
    questions: list[dict[str, Any]] = [
        {"question": f"Who has a {subject}?", "answer": "both", "evidence": [f"D1:{n}", f"D2:{n}"], "category": 1}
        for n, subject in enumerate(SUBJECTS, start=1)
    ]
    questions.append({"question": "Who sings?", "adversarial_answer": "Ana", "evidence": [], "category": 5})
    questions.append({"question": "Who plays the violin?", "answer": "Ben", "evidence": ["D1:2"], "category": 4})
    file = tmp_path / "two_people.json"
    file.write_text(json.dumps([{"sample_id": "c1", "conversation": conversation, "qa": questions}]), encoding="utf-8")
    return file


@pytest.fixture
def persona(tmp_path: Path) -> Path:
    """A made-up persona in RealMem's format: a session on each subject, then one that asks about the first of them."""
    sessions = [
        _session(number, [_said("User", f"I bought a {subject} today."), _said("Assistant", f"A fine {subject}!")])
        for number, subject in enumerate(SUBJECTS)
    ]
    asking = {**_said("User", "Where did I put my kayak?"), "is_query": True, "category_name": "Recall"}
    reply = {**_said("Assistant", "By the river."), "memory_session_uuids": ["u0"]}
    sessions.append(_session(len(sessions), [asking, reply]))
    sessions.append(_session(len(sessions), [_said("User", "My kayak kayak kayak is a kayak.")]))
    file = tmp_path / "Pat_dialogues_256k.json"
    data = {"_metadata": {"person_name": "Pat"}, "dialogues": sessions}
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def _said(speaker: str, content: str) -> dict[str, Any]:
    return {"speaker": speaker, "content": content, "is_query": False}


def _session(number: int, turns: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "session_identifier": f"Project_1:S{number}",
        "session_uuid": f"u{number}",
        "current_time": f"2025-12-{number + 1:02d}",
        "dialogue_turns": turns,
    }
