"""Bounded attempts: how often, how long between them, and what the model is told about its last reply."""

from __future__ import annotations

import math
import queue
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from .parsing import Fault
from .requests import Messages, Usage
from .settings import EndpointSettings

_LEAST_ROOM = 64
_FED_BACK = 1000  # characters of a faulty reply shown to the model again


@dataclass(frozen=True)
class Meter:
    """Who pays for the calls of one facade call, and where each is reported."""

    background: bool = False
    emitted: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)


@dataclass
class Trial:
    """The attempts of one request, over all forms in which it is asked, and what they cost."""

    left: int
    meter: Meter
    usage: Usage = field(default_factory=Usage)

    def take(self) -> bool:
        """Use one attempt, if there is one."""
        self.left -= 1
        return self.left >= 0


@dataclass
class Conversation:
    """The messages of a request with the faults of earlier replies.

    ceiling: bounds the room of a reply. spare: lines of the last message that may be left out, the first ones first.
    """

    messages: Messages
    max_tokens: int
    ceiling: int
    spare: tuple[str, ...] = ()
    amended: tuple[dict[str, str], ...] = ()

    def rendered(self) -> list[dict[str, str]]:
        """Messages to send; the request's own come first and unchanged, so that a prefix cache still holds."""
        return [*({key: encodable(value) for key, value in one.items()} for one in self.messages), *self.amended]

    def shorten(self) -> bool:
        """Leave out half of the lines that can be spared, then what was fed back, then half of the reply's room.

        False where nothing can be given up; a reply keeps a room of at least `_LEAST_ROOM` tokens.
        """
        if self.spare:
            half = math.ceil(len(self.spare) / 2)
            gone, self.spare = Counter(self.spare[:half]), self.spare[half:]
            *before, last = self.messages
            lines = []
            for line in last["content"].split("\n"):
                gone[line] -= 1
                if gone[line] < 0:
                    lines.append(line)
            self.messages = (*before, {**last, "content": "\n".join(lines)})
        elif self.amended:
            self.amended = ()
        elif self.max_tokens >= 2 * _LEAST_ROOM:
            self.max_tokens = self.ceiling = self.max_tokens // 2
        else:
            return False
        return True

    def amend(self, fault: Fault, room: int | None = None) -> None:
        """Tell the model what was wrong with its last reply, or give it more room.

        room: tokens that the context leaves for a reply, where known.
        """
        if fault.cut:
            self.max_tokens = max(1, min(self.max_tokens * 2, self.ceiling, self.ceiling if room is None else room))
        shown = "" if fault.cut else encodable(fault.raw[:_FED_BACK]).strip()
        # Chat templates want the roles to alternate, and some refuse an empty message.
        self.amended = (
            {"role": "assistant", "content": shown or "(no usable answer)"},
            {
                "role": "user",
                "content": f"That reply could not be used: {fault.note}. Answer again, in the form asked for, "
                "and with nothing else.",
            },
        )


def encodable(text: str) -> str:
    """Text that can be sent: half surrogates are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


def pause(settings: EndpointSettings, attempt: int, asked: float | None) -> float | None:
    """Seconds to wait after failed attempt number `attempt` (from 0); None: the server asks for too long, give up."""
    if asked is not None:
        return asked if asked <= settings.max_backoff_seconds else None
    longest = min(settings.backoff_seconds * 2.0**attempt, settings.max_backoff_seconds)
    return longest * random.uniform(0.5, 1.0)


def retry_after(value: str | None) -> float | None:
    """Seconds of a `Retry-After` header, which holds seconds or a date; None where it holds neither."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        due = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    return max(0.0, (due.replace(tzinfo=due.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
