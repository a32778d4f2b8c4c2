"""References of a turn resolved against what its scope has named (STITCH, section 3.2): right, or left alone.

A wrong name does more harm to a memory than a missing one, so each rule asks for a single candidate that agrees in
kind, slot and who named it. Where the text leaves several, only the one in focus in the turn just before is taken;
else the reference stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Mention, Reference, Turn
from .anaphora import LAST, Anaphor, find_anaphors
from .entities import Entity, entities_of
from .languages import Cover
from .mentions import mentions_of
from .slots import same_slot

CONFIDENT = 0.7
"""References below this confidence are left out."""

MOST = 50
"""References of one turn that are looked at; a longer text names what it speaks of."""

FOCUS_TURNS = 4
"""A pronoun reaches back this many turns at most."""


def resolve(turn: Turn, known: Sequence[Mention], own: Sequence[Mention] | None = None) -> list[Reference]:
    """Resolve the references of a turn's text.

    Args:
        turn: the turn.
        known: mentions of its scope before it, oldest first.
        own: mentions of the turn itself, where the caller has them; else they are found.

    Returns:
        The confident references, in order. Confidence: .9 a single thing of the scope fits; .85 an ordinal counted
        among things of the kind, slot or speaker it names; .75 one of several, in focus in the turn before. Offsets
        are into `turn.text`.
    """
    anaphors = find_anaphors(turn.text)
    if not anaphors:
        return []
    own = mentions_of(turn) if own is None else own
    cover = Cover(len(turn.text))
    for mention in own:
        cover.take(mention.start, mention.end)
    found: list[Reference] = []
    things, named = entities_of(known), 0
    for anaphor in anaphors[:MOST]:
        if not cover.is_free(anaphor.start, anaphor.end):
            continue
        earlier = sum(1 for m in own if m.end <= anaphor.start)
        if earlier != named:
            things, named = entities_of([*known, *own[:earlier]]), earlier
        target, confidence = _target(anaphor, things, turn)
        if target is not None and confidence >= CONFIDENT:
            surface = turn.text[anaphor.start : anaphor.end]
            found.append(Reference(anaphor.start, anaphor.end, surface, target.name, anaphor.kind, confidence))
    return found


def _target(anaphor: Anaphor, things: Sequence[Entity], turn: Turn) -> tuple[Entity | None, float]:
    fitting = _fitting(anaphor, things, turn)
    if anaphor.kind == "ordinal":
        return _by_rank(anaphor, fitting, turn)
    if anaphor.kind == "definite":
        return _by_kind(anaphor, fitting, things, turn)
    return _by_focus(anaphor, fitting, things, turn)


def _fitting(anaphor: Anaphor, things: Sequence[Entity], turn: Turn) -> list[Entity]:
    """Things that agree with what the phrase says, in order of first mention."""
    fitting = []
    for thing in things:
        mentions = thing.mentions
        if anaphor.by:
            mentions = [m for m in mentions if _named_by(m, anaphor.by, turn) and m is thing.first]
        if anaphor.slot:
            mentions = [m for m in mentions if same_slot(anaphor.slot, m.slot)]
        if not mentions or not _agrees(anaphor, thing):
            continue
        fitting.append(thing)
    return fitting


def _named_by(mention: Mention, by: str, turn: Turn) -> bool:
    same = mention.speaker == turn.speaker and mention.role == turn.role
    return same if by == "speaker" else not same


def _agrees(anaphor: Anaphor, thing: Entity) -> bool:
    if anaphor.noun:
        return anaphor.noun in thing.types
    if anaphor.place:
        return thing.is_place()
    if anaphor.kind == "pronoun":
        return thing.is_thing() and not thing.is_seldom_it()
    return thing.is_thing() or (anaphor.kind == "ordinal" and not thing.types)


def _by_rank(anaphor: Anaphor, fitting: Sequence[Entity], turn: Turn) -> tuple[Entity | None, float]:
    """Count in order of first mention: over the scope where the phrase says what to count, else in the list just
    given.
    """
    listed = _last_list(fitting, turn)
    specific = bool(anaphor.by or anaphor.slot)
    pool = list(fitting) if specific else listed
    index = anaphor.rank - 1 if anaphor.rank != LAST else len(pool) - 1
    if anaphor.recent and len(pool) != 2:
        return None, 0.0
    if not 0 <= index < len(pool) or (anaphor.rank == LAST and len(pool) < 2):
        return None, 0.0
    if not specific and not anaphor.noun and len({e.is_thing() for e in pool}) > 1:
        return None, 0.0
    return pool[index], 0.85


def _last_list(fitting: Sequence[Entity], turn: Turn) -> list[Entity]:
    """The things that the latest turn to name two or more of them first named or repeated, in the order of that
    turn.
    """
    by_turn: dict[int, list[tuple[int, int]]] = {}
    for i, thing in enumerate(fitting):
        for mention in thing.mentions:
            by_turn.setdefault(mention.seq, []).append((mention.start, i))
    for seq in sorted(by_turn, reverse=True):
        order = list(dict.fromkeys(i for _, i in sorted(by_turn[seq])))
        if len(order) > 1:
            return [fitting[i] for i in order] if turn.seq - seq <= FOCUS_TURNS else []
    return []


def _by_kind(
    anaphor: Anaphor, fitting: Sequence[Entity], things: Sequence[Entity], turn: Turn
) -> tuple[Entity | None, float]:
    """The only one of the kind, or the one in focus. A later name of which nothing is said may be of that kind as
    well.
    """
    target, confidence = (fitting[0], 0.9) if len(fitting) == 1 else (_focused(fitting, turn), 0.75)
    if target is None or anaphor.by or anaphor.slot:
        return target, confidence
    unknown = [e for e in things if not e.types and e.last_seq >= target.last_seq and e.first.seq >= target.first.seq]
    return (None, 0.0) if unknown else (target, confidence)


def _by_focus(
    anaphor: Anaphor, fitting: Sequence[Entity], things: Sequence[Entity], turn: Turn
) -> tuple[Entity | None, float]:
    """The only name of the last few turns; else the only one of this turn or the turn before. Another name there
    that the pronoun might mean as well, of whatever kind, leaves it open.
    """
    rivals = [e for e in things if not e.is_person() and (anaphor.place or not e.is_seldom_it())]
    recent = [e for e in rivals if turn.seq - e.last_seq <= FOCUS_TURNS]
    if len(recent) == 1:
        return (recent[0], 0.9 if len(rivals) == 1 else 0.8) if recent[0] in fitting else (None, 0.0)
    focused = _focused(recent, turn)
    return (focused, 0.75) if focused in fitting else (None, 0.0)


def _focused(fitting: Sequence[Entity], turn: Turn) -> Entity | None:
    """The only one that the turn itself, or else the turn just before, has named."""
    for seq in (turn.seq, turn.seq - 1):
        named = [e for e in fitting if e.last_seq == seq]
        if named:
            return named[0] if len(named) == 1 else None
    return None
