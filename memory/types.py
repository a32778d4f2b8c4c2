"""The values that travel between the stages: turns, intents, mentions, hits.

All are frozen. Times are timezone-aware `datetime`s; probabilities and confidences are in [0, 1]; ids are
stable strings. The names are those of STITCH (turn, scope, event type, entity type), EnSIMem (episode) and
EMIR2 (link).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""One vector, (D,) float32, or a matrix of them, (N, D) float32, L2-normalised unless said otherwise."""

ROLES = ("user", "assistant", "system", "tool")
Role = Literal["user", "assistant", "system", "tool"]
TimeSource = Literal["given", "inherited", "clock"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """Something that came with a turn. Its caption and metadata are searchable; its bytes stay where they are."""

    kind: str = "image"
    uri: str | None = None
    caption: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


def with_captions(text: str, attachments: tuple[Attachment, ...]) -> str:
    """A text with the captions of its attachments: what is embedded and indexed."""
    return "\n".join([text, *(f"[{a.kind}: {a.caption}]" for a in attachments if a.caption)])


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn on its way in.

    `time` None means unknown (it is then inherited from the turn before it in the same call, else taken from the
    clock, and marked so). `session` is the sitting the turn belongs to: episodes and neighbourhoods do not cross it.
    `source_id` is the caller's own id: adding the same one twice to a trajectory is a no-op.
    """

    role: Role
    text: str
    speaker: str | None = None
    time: datetime | None = None
    session: str | None = None
    attachments: tuple[Attachment, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    source_id: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """A stored turn. `row` is its integer key in SQLite and in the vector index, never reused."""

    id: str
    row: int
    namespace: str
    trajectory: str
    seq: int
    role: Role
    text: str
    speaker: str | None
    time: datetime
    time_source: TimeSource
    session: str | None
    attachments: tuple[Attachment, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    source_id: str | None = None

    @property
    def searchable_text(self) -> str:
        """The text with the captions of its attachments: what is embedded and indexed."""
        return with_captions(self.text, self.attachments)

    @property
    def named_speaker(self) -> str | None:
        """Who speaks, where that is more than a role."""
        return named(self.speaker)

    @property
    def passage(self) -> str:
        """What is embedded: the searchable text, after the name of its speaker where there is one."""
        return spoken(self.speaker, self.searchable_text)


def named(speaker: str | None) -> str | None:
    """A speaker, where that is more than a role."""
    return None if speaker is None or speaker.casefold() in ROLES else speaker


def spoken(speaker: str | None, text: str) -> str:
    """A text, after the name of its speaker where there is one."""
    return f"{name}: {text}" if (name := named(speaker)) else text


@dataclass(frozen=True, slots=True)
class Scored:
    """A label's id with the probability that it applies."""

    id: str
    probability: float


class ScopeMove(StrEnum):
    """How a turn relates to the scopes before it (STITCH, section 3.1)."""

    CONTINUE = "continue"
    RETURN = "return"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Intent:
    """Contextual intent of one turn: iota = (scope, event types, entity types) (STITCH, section 3).

    `near` holds labels that were weighed and not given: a question may match them softly.
    """

    turn: str
    scope: Scored
    move: ScopeMove
    events: tuple[Scored, ...]
    entity_types: tuple[Scored, ...]
    near: tuple[Scored, ...] = ()
    decided_by: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity as one turn names it.

    `start` and `end` are character offsets into the turn's own text. `entity_type` is a lower-case noun for what it
    is where the text says so ("restaurant", "hotel"), else None. `slot` is the part of a plan it was named under
    ("day 1", "day 2 dinner"), lower-case, else None.
    """

    name: str
    start: int
    end: int
    entity_type: str | None = None
    slot: str | None = None
    turn: str = ""
    seq: int = 0
    speaker: str | None = None
    role: Role = "user"


@dataclass(frozen=True, slots=True)
class Reference:
    """A resolved reference: `text[start:end]` stands for `target`, with a confidence."""

    start: int
    end: int
    surface: str
    target: str
    kind: Literal["pronoun", "definite", "ordinal", "date"]
    confidence: float


@dataclass(frozen=True, slots=True)
class Snippet:
    """A turn made readable on its own: m = (step, intent, canonical summary) (STITCH, section 3.2)."""

    turn: str
    grounded: str
    summary: str
    references: tuple[Reference, ...] = ()
    mentions: tuple[Mention, ...] = ()
    decided_by: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    """An entry of a growing vocabulary. `canonical` names the label it was merged into; `parent` the coarser one."""

    id: str
    kind: str
    name: str
    description: str = ""
    parent: str | None = None
    canonical: str | None = None
    origin: Literal["seed", "grown", "hand"] = "grown"


@dataclass(frozen=True, slots=True)
class Scope:
    """A latent goal; it owns any number of non-adjacent episodes."""

    id: str
    label: str
    gist: str
    turns: int
    parent: str | None = None
    canonical: str | None = None
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class Episode:
    """A contiguous run of turns of one scope and one session (EnSIMem, section 3)."""

    id: str
    trajectory: str
    scope: str
    first_seq: int
    last_seq: int
    summary: str
    closed: bool


ENTITY_TYPES = ("person", "organization", "place", "object", "event", "activity", "concept", "other")
MODALITIES = ("observed", "planned", "desired", "hypothetical", "negated", "uncertain")


@dataclass(frozen=True, slots=True)
class RecordDraft:
    """A claim as it was read from an episode: [entity][entity type][property: value] (EnSIMem, section 3).

    entity_type: one of `ENTITY_TYPES`. modality: one of `MODALITIES`. condition: what it holds under, "" for none.
    relation: whether the value is itself an entity. valid_time: as the turns say it, "" for never; `valid_at` is that
    in ISO form, "" where it names no date. evidence: ids of the turns that say it, at least one.
    """

    entity: str
    entity_type: str
    property: str
    value: str
    evidence: tuple[str, ...]
    condition: str = ""
    modality: str = "observed"
    relation: bool = False
    valid_time: str = ""
    valid_at: str = ""
    speaker: str = ""
    decided_by: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A turn that says a claim; `text[start:end]` of it is the value where its place is known, else both are None."""

    turn: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A claim: [entity][entity type][property: value], under a condition, with its evidence (EnSIMem, section 3).

    modality: one of `MODALITIES`; "observed" leaves it to the wording of the evidence. condition: "" for none, or for
    one that the wording gives. valid_time: as the turns say it. valid_from, valid_to: bounds that are known, the
    second one outside; None where the wording is to tell. evidence: at least one turn. episode: "" for none.
    """

    entity: str
    property: str
    value: str
    evidence: tuple[Evidence, ...]
    entity_type: str = "other"
    condition: str = ""
    modality: str = "observed"
    relation: bool = False
    valid_time: str = ""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    speaker: str = ""
    episode: str = ""
    decided_by: str = ""


StateStatus = Literal["current", "superseded", "retracted", "pending"]


@dataclass(frozen=True, slots=True)
class State:
    """One version of a fact (EMIR2, section 3.2).

    It holds from `valid_from` up to `valid_to`, None where open or unknown. status: "pending" is not held to be true:
    a plan, a doubt, or a contradiction of the version `rival`. modality: how it was said ("asserted", "planned", ...).
    reason: why it is pending, or no longer holds. said: when it was first said. evidence: ids of turns; records: of
    what was read from them. supersedes: id of the version it took the place of, "" for none.
    """

    id: str
    entity: str
    property: str
    condition: str
    version: int
    value: str
    status: StateStatus
    said: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    confidence: float
    evidence: tuple[str, ...]
    records: tuple[str, ...]
    modality: str = "asserted"
    reason: str = ""
    supersedes: str = ""
    rival: str = ""
    decided_by: str = ""

    def holds_at(self, moment: datetime) -> bool:
        """Whether the value was true then, as far as is known."""
        if self.status == "pending" or (self.status != "current" and self.valid_to is None):
            return False
        begun = self.valid_from is None or self.valid_from <= moment
        return begun and (self.valid_to is None or moment < self.valid_to)


Trust = Literal["explicit", "inferred", "derived"]
"""How a link is known: the turns say it, a decider judged it, or it follows from scopes or states."""


@dataclass(frozen=True, slots=True)
class Link:
    """A typed, directed relation of two closed episodes: source `type` target (EMIR2, section 3.1).

    type: one of `LINK_TYPES`; that of an inverse label is its opposite, with the ends exchanged. evidence: ids of turns
    of both episodes.
    """

    id: str
    source: str
    target: str
    type: str
    confidence: float
    trust: Trust
    evidence: tuple[str, ...]
    decided_by: str = ""

    @property
    def symmetric(self) -> bool:
        """Whether it says the same of both ends."""
        return self.type == "same_event"


LINK_TYPES = ("causes", "contributes_to", "context_for", "enables", "part_of", "follow_up_of", "same_event")


@dataclass(frozen=True, slots=True)
class Filters:
    """What may be searched. Applied before any cut, so that `limit` results come back where they exist.

    Times are inclusive of `since` and exclusive of `until`; `as_of` hides every turn after that instant. Each of the
    collections means "any of these"; None means no restriction. `labels` holds, for each of a user's own labelers, the
    labels of which a turn must carry one; `rows` are the turns that do, once looked up.
    """

    roles: tuple[str, ...] | None = None
    speakers: tuple[str, ...] | None = None
    trajectories: tuple[str, ...] | None = None
    sessions: tuple[str, ...] | None = None
    scopes: tuple[str, ...] | None = None
    events: tuple[str, ...] | None = None
    entity_types: tuple[str, ...] | None = None
    labels: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    rows: frozenset[int] | None = None
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What made a vector. Vectors of two fingerprints are never compared."""

    name: str
    weights: str
    dimension: int
    query_prefix: str = ""
    passage_prefix: str = ""
    normalised: bool = True

    def __str__(self) -> str:
        prefixes = f"|{self.query_prefix!r}|{self.passage_prefix!r}" if self.query_prefix or self.passage_prefix else ""
        return f"{self.name}@{self.weights[:12]}/{self.dimension}{prefixes}" + ("" if self.normalised else "/raw")
