"""Schema-Guided Dialogue (Rastogi et al., 2020): task dialogues with acts, intents, slots and value spans.

The mapping: a service with its active intent is the scope; act, slot and intent name the event; slots are entity types;
slot values with their character spans are entity-property records with exact evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intentmem.memory.types import NewTurn, Role

from .files import Reader, distinct, expect, find_files, mappings, text_of, texts
from .schemas import Card, Corpus, EventGold, Fault, Problem, Trajectory, TurnGold, ValueSpan
from .sgd_labels import NO_INTENT, Schema, load_schema, scope_name, words

CARD = Card(
    "sgd",
    "Schema-Guided Dialogue",
    "CC BY-SA 4.0",
    "train",
    "https://github.com/google-research-datasets/dstc8-schema-guided-dialogue",
)
_ROLES: Mapping[str, Role] = {"USER": "user", "SYSTEM": "assistant"}
_INTENT_SLOT = "intent"
_COUNT_SLOT = "count"


def load(path: str | Path) -> Corpus:
    """Load a split's folder (`dialogues_*.json` with `schema.json`), or one of its files, whole.

    `labels` are the vocabulary: every entity type and scope of the schema, and the events that occur.

    Raises:
        InputError: the path is absent, its schema is absent, or a file is not in this format.
    """
    reader = Reader()
    problems: list[Problem] = []
    schema = _schema(path, reader)
    trajectories = tuple(_stream(path, reader, schema, problems))
    return Corpus(CARD, trajectories, (), schema.labels(), tuple(problems), reader.hash)


def iter_trajectories(path: str | Path, problems: list[Problem] | None = None) -> Iterator[Trajectory]:
    """The dialogues of a split, one file in memory at a time. `problems` collects the faults met.

    Raises:
        InputError: as for `load`; that of a later file is raised when it is reached.
    """
    reader = Reader()
    return _stream(path, reader, _schema(path, reader), [] if problems is None else problems)


def _schema(path: str | Path, reader: Reader) -> Schema:
    return load_schema(find_files(path, CARD, "dialogues_*.json", "*.json")[0].parent, reader)


def _stream(path: str | Path, reader: Reader, schema: Schema, problems: list[Problem]) -> Iterator[Trajectory]:
    taken: set[str] = set()
    for file in find_files(path, CARD, "dialogues_*.json", "*.json"):
        data = reader.json(file)
        expect(data, CARD, file, "a list of objects with dialogue_id, services and turns")
        split = file.resolve().parent.name
        for index, entry in enumerate(data):
            raw_id = text_of(entry, "dialogue_id")
            listed = entry.get("turns") if raw_id is not None else None
            if raw_id is None or not isinstance(listed, list):
                problems.append(Problem(Fault.BAD_TURN, f"{file.name}[{index}]"))
                continue
            id = distinct(f"{split}/{raw_id}", taken)
            if id != f"{split}/{raw_id}":
                problems.append(Problem(Fault.DUPLICATE_ID, id))
            yield _Dialogue(id, schema, problems).read(listed, split)


@dataclass(frozen=True, slots=True)
class _Frame:
    service: str
    actions: Sequence[Mapping[str, Any]]
    slots: Sequence[Mapping[str, Any]]
    active_intent: str | None

    def values(self, act: str) -> list[str]:
        return [v for a in self.actions if text_of(a, "act") == act for v in texts(a.get("values"))]


@dataclass(slots=True)
class _Dialogue:
    """Reads one dialogue, carrying the active intent of each service and the scope from turn to turn."""

    id: str
    schema: Schema
    problems: list[Problem]
    intents: dict[str, str] = field(default_factory=dict)
    scope: tuple[str, str] | None = None

    def read(self, listed: Sequence[object], split: str) -> Trajectory:
        turns: list[NewTurn] = []
        gold: dict[str, TurnGold] = {}
        for index, raw in enumerate(listed):
            source = f"{self.id}:{index}"
            speaker, text = text_of(raw, "speaker") or "", text_of(raw, "utterance")
            role = _ROLES.get(speaker)
            if role is None or text is None or not isinstance(raw, Mapping):
                self.problems.append(Problem(Fault.BAD_TURN, source))
            elif not text.strip():
                self.problems.append(Problem(Fault.EMPTY_TURN, source))
            else:
                frames = [_frame(entry) for entry in mappings(raw.get("frames"))]
                gold[source] = self._gold(speaker, text, frames, source, first=not turns)
                turns.append(NewTurn(role, text, session=self.id, source_id=source))
        return Trajectory(self.id, tuple(turns), split, gold)

    def _gold(self, speaker: str, text: str, frames: Sequence[_Frame], source: str, first: bool) -> TurnGold:
        before = self.scope
        if speaker == "USER":
            for frame in frames:
                self.intents[frame.service] = frame.active_intent or self.intents.get(frame.service, NO_INTENT)
            self._move(frames)
        events = dict.fromkeys(event for frame in frames for event in self._events(speaker, frame))
        return TurnGold(
            scope=scope_name(*self.scope) if self.scope else None,
            domain=self.scope[0] if self.scope else None,
            shift=None if first else self.scope != before,
            events=tuple(events),
            entity_types=tuple(dict.fromkeys(words(event.slot) for event in events if event.slot)),
            spans=tuple(self._spans(text, frames, source)),
        )

    def _move(self, frames: Sequence[_Frame]) -> None:
        """A user's turn serves the goal it states, else the last one that it acts upon; thanks keep the former goal."""
        acting = [frame for frame in frames if frame.actions and self.intents[frame.service] != NO_INTENT]
        stating = [frame for frame in acting if frame.values("INFORM_INTENT")]
        if chosen := (stating or acting):
            self.scope = (chosen[-1].service, self.intents[chosen[-1].service])

    def _events(self, speaker: str, frame: _Frame) -> Iterator[EventGold]:
        known = self.intents.get(frame.service, NO_INTENT)
        active = None if known == NO_INTENT else known
        for action in frame.actions:
            act, slot = text_of(action, "act"), text_of(action, "slot")
            if act is None:
                continue
            if slot == _INTENT_SLOT:
                for intent in texts(action.get("values")):
                    yield self.schema.event(speaker, act, frame.service, intent, None)
            else:
                about = None if not slot or slot == _COUNT_SLOT else slot
                yield self.schema.event(speaker, act, frame.service, active, about)

    def _spans(self, text: str, frames: Iterable[_Frame], source: str) -> Iterator[ValueSpan]:
        for frame in frames:
            for entry in frame.slots:
                slot, start, end = text_of(entry, "slot"), entry.get("start"), entry.get("exclusive_end")
                if (
                    slot is not None
                    and isinstance(start, int)
                    and isinstance(end, int)
                    and 0 <= start < end <= len(text)
                ):
                    yield ValueSpan(frame.service, slot, text[start:end], start, end)
                else:
                    self.problems.append(Problem(Fault.BAD_SPAN, source))


def _frame(entry: Mapping[str, Any]) -> _Frame:
    return _Frame(
        text_of(entry, "service") or "",
        mappings(entry.get("actions")),
        mappings(entry.get("slots")),
        text_of(entry.get("state"), "active_intent"),
    )
