"""Questions about a simulated world, with the turns that are needed to answer each.

Evidence is the least that suffices: the turn that states the answer, and where that says only "it" or "the second
one", the turn that tells which thing is meant. Types are those of CAME-Bench: 1 incremental revision, 2 recall in
context, 3 several hops, 4 synthesis.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from .kinds import Kind
from .simulate import ORDINALS
from .world import Reference, Slot

_MOST_LISTED = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """Something to ask: the family of its wordings, the words for their gaps, the evidence and the answer.

    `slots` are the things that fill the gaps `slot` and `slot2`; `attribute` names the property that is asked for.
    """

    family: str
    slots: tuple[Slot, ...]
    gaps: Mapping[str, str]
    evidence: tuple[str, ...]
    answer: str
    entity: str | None = None
    attribute: str | None = None
    others: tuple[str, ...] = field(default=())


def examine(slots: Sequence[Slot], kind: Kind, rng: random.Random) -> list[Asked]:
    """Everything that can be asked about a world as it stands, in random order."""
    found: list[Asked] = []
    for slot in slots:
        found += _recall(slot, kind)
        found += _revision(slot, kind)
        found += _hops(slot, kind)
        found += _synthesis(slot, kind)
    found += _shared(slots, kind)
    found += _overview(slots, kind)
    rng.shuffle(found)
    return found


def _unique(turns: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(turns), key=int))


def _attribute(kind: Kind, key: str) -> str:
    return str(kind.attributes[key]["name"])


def _others(slot: Slot, kind: Kind, but: str) -> tuple[str, ...]:
    names = [_attribute(kind, key) for key in slot.kind.attributes]
    names += [str(kind.fields[key]["name"]) for key in slot.kind.fields]
    return tuple(name for name in names if name != but)


def _recall(slot: Slot, kind: Kind) -> Iterator[Asked]:
    if len(slot.candidates) > 1:
        for place, candidate in enumerate(slot.candidates[: len(ORDINALS)]):
            yield Asked("2/nth-name", (slot,), {"nth": ORDINALS[place]}, (candidate.raised,), candidate.name)
        # In a debate both sides raise things; only where one asks and one answers is "I raised" a part of them.
        raised = [candidate for candidate in slot.candidates if candidate.by_user and not kind.speakers]
        for place, candidate in enumerate(raised if len(raised) > 1 else ()):
            yield Asked("2/nth-raised", (slot,), {"nth": ORDINALS[place]}, (candidate.raised,), candidate.name)
    for place, candidate in enumerate(slot.candidates[: len(ORDINALS)]):
        for key, turn in candidate.told.items():
            name, value = _attribute(kind, key), candidate.attributes[key].text
            asked = {"attribute": name, "nth": ORDINALS[place], "number": str(place + 1), "entity": candidate.name}
            more = (_unique((candidate.raised, turn)), value, candidate.name, name, _others(slot, kind, name))
            if len(slot.candidates) > 1:
                yield Asked("2/nth-attribute", (slot,), asked, *more)
            yield Asked("2/attribute-here", (slot,), asked, *more)
        if candidate.rejected is not None:
            evidence = _unique(slot.evidence(candidate.rejected))
            yield Asked("2/reason", (slot,), {"entity": candidate.name}, evidence, candidate.reason)
    for key, said in slot.fields.items():
        name = str(kind.fields[key]["name"])
        if len(said) == 1:
            (stated, where), rest = said[0], (None, name, _others(slot, kind, name))
            yield Asked("2/field", (slot,), {"field": name}, (where,), stated.text, *rest)


def _revision(slot: Slot, kind: Kind) -> Iterator[Asked]:
    choices = slot.choices
    if len(choices) > 1:
        names = [slot.candidates[choice.candidate].name for choice in choices]
        both = _unique((*slot.evidence(choices[-2]), choices[-1].turn))
        every = _unique(turn for choice in choices for turn in slot.evidence(choice))
        yield Asked("1/final-choice", (slot,), {}, _unique(slot.evidence(choices[-1])), names[-1])
        yield Asked("1/previous-choice", (slot,), {}, both, names[-2])
        yield Asked("1/history", (slot,), {}, every, "; ".join(names))
        yield Asked("1/first-choice", (slot,), {}, _unique(slot.evidence(choices[0])), names[0])
    for key, said in slot.fields.items():
        name = str(kind.fields[key]["name"])
        if len(said) > 1:
            rest = (None, name, _others(slot, kind, name))
            yield Asked("1/field-now", (slot,), {"field": name}, (said[-1][1],), said[-1][0].text, *rest)
            turns = _unique((said[-2][1], said[-1][1]))
            yield Asked("1/field-before", (slot,), {"field": name}, turns, said[-2][0].text, *rest)


def _hops(slot: Slot, kind: Kind) -> Iterator[Asked]:
    for family, place in (("3/chosen-attribute", -1), ("3/replaced-attribute", -2)):
        if len(slot.choices) < -place:
            continue
        choice = slot.choices[place]
        yield from _told_of(slot, choice, family, kind, () if place == -1 else (slot.choices[-1].turn,))
    for candidate in slot.candidates:
        for known, asked in combinations(sorted(candidate.told), 2):
            value = candidate.attributes[known]
            if sum(other.attributes[known].text == value.text for other in slot.candidates) > 1:
                continue
            name = _attribute(kind, asked)
            gaps = {"attribute": name, "attribute2": _attribute(kind, known), "value": value.text}
            evidence = _unique((candidate.told[known], candidate.told[asked]))
            answer = candidate.attributes[asked].text
            yield Asked("3/by-value", (slot,), gaps, evidence, answer, candidate.name, name, _others(slot, kind, name))


def _told_of(slot: Slot, choice: Reference, family: str, kind: Kind, also: tuple[str, ...]) -> Iterator[Asked]:
    candidate = slot.candidates[choice.candidate]
    for key, turn in candidate.told.items():
        name = _attribute(kind, key)
        evidence = _unique((*slot.evidence(choice), candidate.raised, turn, *also))
        answer = candidate.attributes[key].text
        yield Asked(
            family, (slot,), {"attribute": name}, evidence, answer, candidate.name, name, _others(slot, kind, name)
        )


def _synthesis(slot: Slot, kind: Kind) -> Iterator[Asked]:
    names = [candidate.name for candidate in slot.candidates]
    if len(names) > 1:
        turns = _unique(candidate.raised for candidate in slot.candidates)
        yield Asked("4/all", (slot,), {}, turns, "; ".join(names))
        yield Asked("4/count", (slot,), {}, turns, str(len(names)))
    if len(slot.choices) > 2:
        turns = _unique(choice.turn for choice in slot.choices)
        yield Asked("4/changes", (slot,), {}, turns, str(len(slot.choices) - 1))
    rejected = [candidate for candidate in slot.candidates if candidate.rejected is not None]
    if len(rejected) > 1:
        turns = _unique(t for c in rejected if c.rejected is not None for t in slot.evidence(c.rejected))
        yield Asked("4/rejected", (slot,), {}, turns, "; ".join(candidate.name for candidate in rejected))
    for key in slot.kind.attributes:
        told = [(c.attributes[key].number, c) for c in slot.candidates if key in c.told]
        numbers = sorted(number for number, _ in told if number is not None)
        if len(numbers) < 2:
            continue
        for extreme, best, next_ in (("lowest", numbers[0], numbers[1]), ("highest", numbers[-1], numbers[-2])):
            if best != next_:
                winner = next(candidate for number, candidate in told if number == best)
                name = _attribute(kind, key)
                turns = _unique(turn for _, c in told for turn in (c.raised, c.told[key]))
                gaps = {"attribute": name, "extreme": extreme}
                yield Asked("4/extreme", (slot,), gaps, turns, winner.name, None, name, _others(slot, kind, name))


def _shared(slots: Sequence[Slot], kind: Kind) -> Iterator[Asked]:
    """The same name under two things of one sort."""
    named: dict[tuple[str, str], list[Slot]] = defaultdict(list)
    for slot in slots:
        for candidate in slot.candidates:
            named[slot.kind.noun, candidate.name].append(slot)
    for (_, name), holders in named.items():
        for pair in combinations(holders[:3], 2):
            one, other = (next(c for c in slot.candidates if c.name == name) for slot in pair)
            common = {c.name for c in pair[0].candidates} & {c.name for c in pair[1].candidates}
            if len(common) == 1:
                yield Asked("3/shared", pair, {}, _unique((one.raised, other.raised)), name)
            for key in one.told.keys() & other.told.keys():
                values = (one.attributes[key].text, other.attributes[key].text)
                if values[0] != values[1]:
                    evidence = _unique((one.raised, one.told[key], other.raised, other.told[key]))
                    attribute = _attribute(kind, key)
                    gaps = {"entity": name, "attribute": attribute}
                    others = _others(pair[0], kind, attribute)
                    yield Asked("3/two-goals", pair, gaps, evidence, "; ".join(values), name, attribute, others)


def _overview(slots: Sequence[Slot], kind: Kind) -> Iterator[Asked]:
    parts: dict[tuple[str, str], list[Slot]] = defaultdict(list)
    for slot in slots:
        parts[slot.group, slot.part if kind.overview_by == "part" else ""].append(slot)
    several = len({slot.group for slot in slots}) > 1
    for (group, part), members in parts.items():
        decided = [slot for slot in members if slot.choices]
        if 2 <= len(decided) <= _MOST_LISTED:
            turns = _unique(turn for slot in decided for turn in slot.evidence(slot.choices[-1]))
            answer = "; ".join(slot.candidates[slot.choices[-1].candidate].name for slot in decided)
            whole = kind.overview[several].format(part=part, group=group)
            yield Asked("4/overview", (decided[0],), {"whole": whole}, turns, answer)
