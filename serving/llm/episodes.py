"""One call a closed episode: its summary, and the records that it gives (EnSIMem, section 3)."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intentmem.memory.types import ENTITY_TYPES, MODALITIES, RecordDraft, Turn
from intentmem.memory.write.dates import find_dates

from .asking import Asker, first_error
from .prompts import load_prompt
from .requests import JsonRequest
from .schema import LONG, SHORT, listing, one_name, record_of
from .texts import fault_of, shared, shown_turn

MOST_RECORDS, _RECORDS_A_TURN = 24, 2
SUMMARY_LIMIT = 800
_CHARACTERS = 9000
"""Of all turns shown together: about 2,300 tokens of English."""
_LEAST_SHOWN = 160
_KEPT = 256
_LEAST_SUPPORT = 0.3
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EpisodeReading:
    """What was read from an episode. Faulty parts are left out: `summary` is then "", and `faults` say why."""

    summary: str
    records: tuple[RecordDraft, ...]
    faults: tuple[str, ...]

    @property
    def unsupported(self) -> int:
        """Number of records that were left out."""
        return sum(fault.startswith("record ") for fault in self.faults)


class EpisodeReader:
    """Reads closed episodes, many at once."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._prompt = load_prompt("episode")
        self._known: OrderedDict[tuple[str, str, int], EpisodeReading] = OrderedDict()
        self._guard = threading.Lock()

    def read(self, episodes: Sequence[Sequence[Turn]]) -> None:
        """Read episodes, each of at least one turn; those read already are not asked for again.

        Raises:
            ModelError: some failed; the others' answers are kept.
        """
        fresh = [turns for turns in episodes if self._known.get(_key(turns)) is None]
        found = self._asker.structured(self._prompt, [(turns[-1], self._request(turns)) for turns in fresh])
        for turns, answer in zip(fresh, found, strict=True):
            if isinstance(answer, tuple):
                reading = self._checked(turns, answer[0])
                with self._guard:
                    self._known[_key(turns)] = reading
                    while len(self._known) > _KEPT:
                        self._known.popitem(last=False)
        if (error := first_error(found)) is not None:
            raise error

    def of(self, turns: Sequence[Turn]) -> EpisodeReading:
        """What an episode says; asked for now where it was not read ahead.

        Raises:
            ModelError: it could not be had.
        """
        for _ in range(2):
            with self._guard:
                if (found := self._known.get(_key(turns))) is not None:
                    return found
            self.read([turns])
        raise AssertionError("an episode that was read is known")

    def _request(self, turns: Sequence[Turn]) -> JsonRequest:
        room = max(_LEAST_SHOWN, _CHARACTERS // len(turns))
        lines = [shown_turn(turn, room, f"T{number}") for number, turn in enumerate(turns, 1)]
        record = record_of(
            {
                "entity": SHORT,
                "entity_type": one_name(ENTITY_TYPES),
                "property": SHORT,
                "value": LONG,
                "condition": SHORT,
                "modality": one_name(MODALITIES),
                "kind": one_name(("aspect", "relation")),
                "time": SHORT,
                "speaker": SHORT,
                "turns": listing(one_name([f"T{number}" for number in range(1, len(turns) + 1)]), 8),
            }
        )
        most = min(MOST_RECORDS, 2 + _RECORDS_A_TURN * len(turns))
        schema = record_of({"summary": LONG, "records": listing(record, most)})
        messages = self._prompt.messages(turns="\n".join(lines))
        return JsonRequest(messages, schema, 1536, task="episode")

    def _checked(self, turns: Sequence[Turn], answer: Mapping[str, Any]) -> EpisodeReading:
        texts = [f"{turn.speaker or turn.role} {turn.searchable_text}" for turn in turns]
        summary = str(answer.get("summary") or "").strip()
        denied = self._prompt.example_texts
        # A summary joins what many turns say: more of its words are its own.
        faults = []
        if fault := fault_of(summary, [*texts, *(str(turn.time.year) for turn in turns)], SUMMARY_LIMIT, denied):
            faults.append(f"summary {fault}")
            summary = ""
        records = []
        for raw in answer.get("records") or ():
            record = self._record(turns, raw)
            if isinstance(record, str):
                faults.append(f"record {record}")
            elif record not in records:
                records.append(record)
        for fault in faults:
            _log.warning("episode of turn %s: %s", turns[0].id, fault)
        return EpisodeReading(summary, tuple(records), tuple(faults))

    def _record(self, turns: Sequence[Turn], raw: Mapping[str, Any]) -> RecordDraft | str:
        """A record, or why it is not one."""
        part = {key: value.strip() if isinstance(value, str) else value for key, value in raw.items()}
        numbers = {f"T{number}": turn for number, turn in enumerate(turns, 1)}
        evidence = [numbers[name] for name in dict.fromkeys(part["turns"]) if name in numbers]
        if not evidence:
            return "names no turn"
        for key in ("entity", "property", "value"):
            if not any(character.isalnum() for character in part[key]):
                return f"has no {key}"
        said = "\n".join(f"{turn.speaker or turn.role} {turn.searchable_text}" for turn in turns)
        example = set(self._prompt.example_texts)
        if part["entity"] in example and part["entity"].casefold() not in said.casefold():
            return "is an example of the prompt"
        proof = "\n".join(turn.searchable_text for turn in evidence)
        if shared(part["value"], proof) < _LEAST_SUPPORT:
            return "has a value that its turns do not say"
        dates = find_dates(part["time"], evidence[0].time) if part["time"] else []
        return RecordDraft(
            entity=part["entity"],
            entity_type=part["entity_type"],
            property=part["property"],
            value=part["value"],
            evidence=tuple(turn.id for turn in evidence),
            condition=part["condition"],
            modality=part["modality"],
            relation=part["kind"] == "relation",
            valid_time=part["time"],
            valid_at=dates[0].iso if dates else "",
            speaker=part["speaker"],
            decided_by=self._asker.name,
        )


def _key(turns: Sequence[Turn]) -> tuple[str, str, int]:
    return turns[0].id, turns[-1].id, len(turns)
