"""One call a turn for all that does not depend on its scope: event, entity types, references, summary, names.

STITCH makes three calls a step and more (section 3.1, 3.2); this one and the choice of the scope are two.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intentmem.memory.protocols import Upcoming
from intentmem.memory.tasks import ENTITY_TYPES, EVENT, Decision
from intentmem.memory.types import Turn

from .asking import Asker, first_error
from .options import CHOSEN, NONE, Options, any_of, closest, one_of
from .prompts import load_prompt
from .requests import JsonRequest
from .schema import LONG, SHORT, listing, one_name, record_of
from .texts import shown_turn

EVENTS = 5
"""Event types that a turn is shown, as in the paper."""
TYPES = 12
_MOST_TYPES = 4
_BEFORE, _ALIGNED = 8, 4
"""Turns shown before a turn: the least, and how many turns in a row see them begin with the same one."""
_KEPT = 4096
_TURN_LIMIT, _BEFORE_LIMIT = 3000, 400
_TEXTS = ("references", "summary", "goal")
_LABELS = ("event", "entity_types")
_NEW = ("new_event", "new_attribute")


@dataclass(frozen=True, slots=True)
class Annotation:
    """What was answered about a turn. `answer` is as generated: who uses a text of it checks it first.

    before: the turns that it was read with. events, entity_types: the options shown.
    """

    turn: Turn
    answer: Mapping[str, Any]
    before: tuple[Turn, ...]
    events: Options
    entity_types: Options

    def text(self, key: str) -> str:
        """A generated text, "" where there is none."""
        return str(self.answer.get(key) or "").strip()

    def event(self, decided_by: str) -> Decision:
        """The decision of the task `event`."""
        chosen = self.events.id_of(self.text("event"))
        return Decision(() if chosen is None else (chosen,), one_of(self.events, chosen), CHOSEN, decided_by)

    def types(self, decided_by: str) -> Decision:
        """The decision of the task `entity_types`."""
        named = [self.entity_types.id_of(str(name)) for name in self.answer.get("entity_types") or ()]
        chosen = tuple(dict.fromkeys(identity for identity in named if identity is not None))[:_MOST_TYPES]
        return Decision(chosen, any_of(self.entity_types, chosen), CHOSEN, decided_by)


class StepAnnotator:
    """Asks about turns ahead of their labelling, many at once, and is then asked by deciders and writers.

    Args:
        asker: the served model.
        labels: whether event and entity types are decided.
        texts: whether references, summary and goal are written.
    """

    def __init__(self, asker: Asker, labels: bool = True, texts: bool = True) -> None:
        self._asker = asker
        self._prompt = load_prompt("annotate")
        self._keys = (*(_TEXTS if texts else ()), *(_LABELS if labels else ()), *(_NEW if labels and texts else ()))
        self.labels, self.texts = labels, texts
        self._known: OrderedDict[tuple[str, str], Annotation] = OrderedDict()
        self._guard = threading.Lock()

    @property
    def reach(self) -> int:
        """Turns before a step that it is read with."""
        return _BEFORE + _ALIGNED - 1

    def steps(self, steps: Sequence[Upcoming]) -> None:
        """Annotate turns.

        Raises:
            ModelError: some failed; the others' answers are kept and not asked for again.
        """
        shown = [
            (step, closest(step.events, step.vector, EVENTS), closest(step.entity_types, step.vector, TYPES))
            for step in steps
        ]
        asked = [(step.turn, self._request(step, events, types)) for step, events, types in shown]
        found = self._asker.structured(self._prompt, asked)
        for (step, events, types), answer in zip(shown, found, strict=True):
            if isinstance(answer, tuple):
                self._keep(Annotation(step.turn, answer[0], _shown_before(step), events, types))
        if (error := first_error(found)) is not None:
            raise error

    def of(self, turn: Turn | None) -> Annotation | None:
        """What was answered about a turn, None where it was not asked, or long ago."""
        if turn is None:
            return None
        with self._guard:
            return self._known.get((turn.namespace, turn.id))

    def _keep(self, annotation: Annotation) -> None:
        with self._guard:
            self._known[annotation.turn.namespace, annotation.turn.id] = annotation
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)

    def _request(self, step: Upcoming, events: Options, types: Options) -> JsonRequest:
        before = [shown_turn(turn, _BEFORE_LIMIT) for turn in _shown_before(step)]
        messages = self._prompt.messages(
            keys="\n".join(self._prompt.tasks[key] for key in self._keys),
            events="\n".join([*events.lines().splitlines(), f"- {NONE}"]),
            entity_types=types.lines(),
            before="\n".join(before) or "(none)",
            turn=shown_turn(step.turn, _TURN_LIMIT),
        )
        for message in messages:
            if message["role"] == "assistant":
                example = json.loads(message["content"])
                message["content"] = json.dumps({key: example[key] for key in self._keys}, ensure_ascii=False)
        return JsonRequest(messages, self._schema(events, types), 512, task="annotate", spare=tuple(before))

    def _schema(self, events: Options, types: Options) -> dict[str, Any]:
        parts = {
            "references": listing(record_of({"phrase": SHORT, "stands_for": SHORT}), 8),
            "summary": LONG,
            "goal": SHORT,
            EVENT.name: one_name([*events.names, NONE]),
            ENTITY_TYPES.name: listing(one_name(types.names), _MOST_TYPES if types.names else 0),
            "new_event": SHORT,
            "new_attribute": SHORT,
        }
        return record_of({key: parts[key] for key in self._keys})


def _shown_before(step: Upcoming) -> tuple[Turn, ...]:
    """The turns that a turn is read with. For a few turns in a row they begin alike, so that a prefix cache holds."""
    return step.before[-(_BEFORE + step.turn.seq % _ALIGNED) :]
