"""What a simulated conversation has established so far: things to decide, options, what was told, decided, revised."""

from __future__ import annotations

from dataclasses import dataclass, field

from .kinds import SlotKind, Value


@dataclass(frozen=True, slots=True)
class Reference:
    """A turn that says something of a candidate. `named`: it gives the name, so that it can be read alone."""

    candidate: int
    turn: str
    named: bool


@dataclass(slots=True, eq=False)
class Candidate:
    """An option. `raised` is the turn that names it; `told` are the attributes told so far, with the turn."""

    name: str
    attributes: dict[str, Value]
    raised: str
    by_user: bool
    told: dict[str, str] = field(default_factory=dict)
    rejected: Reference | None = None
    reason: str = ""


@dataclass(slots=True, eq=False)
class Slot:
    """One thing to decide. `choices` and each of `fields` in the order in which they were made; the last one holds."""

    kind: SlotKind
    group: str
    part: str
    label: str
    goal: int
    candidates: list[Candidate] = field(default_factory=list)
    choices: list[Reference] = field(default_factory=list)
    fields: dict[str, list[tuple[Value, str]]] = field(default_factory=dict)
    focus: int | None = None
    wanted: int = 3
    revisions: int = 0
    speakers: tuple[str, str] = ("user", "assistant")

    @property
    def partition(self) -> list[str]:
        """The gold scope: group, part and what is decided."""
        return [self.group, self.part, self.label]

    def evidence(self, reference: Reference) -> tuple[str, ...]:
        """The turns that are needed to read a reference: itself, and the one that names the candidate."""
        named = self.candidates[reference.candidate].raised
        return (reference.turn,) if reference.named else (named, reference.turn)
