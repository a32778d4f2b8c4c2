"""What states are made of: claims as they were said, choices between them, and versions of a value in time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from .types import Evidence, Record, StateStatus


class Authority(IntEnum):
    """How well a speaker knows."""

    ASSISTANT = 0
    SECOND_HAND = 1
    OTHER = 2
    SELF = 3


class Operation(StrEnum):
    """What a claim does to the fact of its key (EMIR2, section 3.2). `REJECT` is a person's: it is dismissed."""

    REINFORCE = "reinforce"
    ADD = "add"
    REPLACE = "replace"
    RETRACT = "retract"
    PENDING = "pending"
    REJECT = "reject"


BY_RULE, BY_HAND = "rules", "hand"


@dataclass(frozen=True, slots=True)
class Claim:
    """One turn's word for a value. Times are seconds since 1970.

    record, turn: where it stands. key: the value as it is compared. said, order: when, and its place among claims of
    one instant (row of the turn, place of the value), end: where the value ends. linked: whether "and" or a comma comes
    directly before it. source: who says it. repeats: whether it is an assistant, which may only say again
    what it was told. doubt: why it is only tentative ("planned", "hearsay"), "" where it is asserted.
    The flags are those of a `Reading`. joined: another value of the key stands beside it in the same turn, which the
    reduction finds. since, until: the bounds of its validity that are given.
    """

    record: str
    turn: str
    value: str
    key: str
    said: float
    order: tuple[int, int] = (0, 0)
    end: int = 0
    linked: bool = False
    source: str = ""
    authority: Authority = Authority.OTHER
    repeats: bool = False
    doubt: str = ""
    negated: bool = False
    ended: bool = False
    corrects: bool = False
    updates: bool = False
    adds: bool = False
    only: bool = False
    swaps: bool = False
    joined: bool = False
    since: float | None = None
    until: float | None = None

    @property
    def denies(self) -> bool:
        """Whether it says that the value does not hold, or no longer."""
        return self.negated or self.ended

    @property
    def is_plain(self) -> bool:
        """Whether it is asserted, and of the value."""
        return not self.doubt and not self.denies

    @property
    def is_over(self) -> bool:
        """Whether the time that it speaks of was over when it was said."""
        return self.until is not None and self.until <= self.said


@dataclass(frozen=True, slots=True)
class Said:
    """A record's word in one turn. `states` False: the turn does not say the value, but helps to read the others."""

    evidence: Evidence
    claim: Claim
    states: bool = True


@dataclass(frozen=True, slots=True)
class StateKey:
    """What makes two claims speak of the same: entity, property and condition as they are compared, never the value."""

    entity: str
    property: str
    condition: str = ""

    def text(self) -> str:
        """The key as it is stored."""
        return json.dumps([self.entity, self.property, self.condition], ensure_ascii=False)

    @classmethod
    def read(cls, text: str) -> StateKey:
        """A key as it was stored."""
        return cls(*json.loads(text))


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A record with its identity, its key, and what each of its turns says. plural: its property's name is plural."""

    id: str
    record: Record
    key: StateKey
    said: tuple[Said, ...]
    plural: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """What was decided for a claim against a fact, outside the rules."""

    operation: Operation
    decided_by: str


Choices = Mapping[tuple[str, str], Choice]
"""By (record of the claim, record that opened the fact); with "" for the fact, against whatever is there."""


@dataclass(slots=True)
class Version:
    """A value with the time for which it holds: from `since`, up to `until`, None where open or unknown.

    record: what opened it. reason: why it is pending or no longer holds. rival: of a pending contradiction, the
    record that opened the fact. supersedes: the record that opened the version it took the place of. bounded: whether
    its time was said, rather than taken from the turn's. ender: the turn that closed it.
    """

    record: str
    value: str
    key: str
    status: StateStatus
    said: float
    since: float | None
    until: float | None = None
    confidence: float = 0.0
    authority: Authority = Authority.OTHER
    source: str = ""
    modality: str = "asserted"
    reason: str = ""
    rival: str = ""
    supersedes: str = ""
    decided_by: str = BY_RULE
    bounded: bool = False
    ender: str = ""
    evidence: list[str] = field(default_factory=list)
    records: list[str] = field(default_factory=list)

    def identity(self, key: str) -> str:
        """An id that stays: of the key, and of what opened the version."""
        text = "\0".join((key, self.record, self.modality, self.evidence[0]))
        return f"state_{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"
