"""What can be asked about the threads of a trajectory: the words for a template's gaps, with evidence and answer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations, pairwise

from ..schemas import RequirementGold
from .threads import Said, Thread

NUMBERS = ("first", "second", "third", "fourth", "fifth", "sixth")
_TIME = re.compile(r"\b(date|time|day)\b")
_PLACE = re.compile(r"\b(address|location|city|area|station|destination)\b")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to ask. `target` replaces the template's own where the property says more."""

    family: str
    values: Mapping[str, str]
    evidence: tuple[str, ...]
    answer: str
    target: str | None = None
    requirements: tuple[RequirementGold, ...] = ()


def findings(threads: Sequence[Thread], times: Mapping[str, datetime | None]) -> Iterator[Finding]:
    """Everything that can be asked; `times` of the turns."""
    rivals: dict[str, list[Thread]] = defaultdict(list)
    for thread in threads:
        rivals[thread.kind].append(thread)
        if not thread.goal:
            continue
        yield from _of_names(thread)
        yield from _of_wishes(thread, times)
        yield from _of_choice(thread)
    yield from _of_attributes(threads)
    yield from _of_kinds(rivals)
    yield from _of_pairs(threads)


def target_of(property: str) -> str | None:
    """The answer target that a property implies, if it is not a plain value."""
    if property.startswith("number of"):
        return "count"
    return "time" if _TIME.search(property) else "location" if _PLACE.search(property) else None


def plural(kind: str) -> str:
    """Several of a kind."""
    return re.sub(r"(?<=[^aeiou])y$", "ie", kind) + ("es" if kind.endswith(("s", "ch", "x")) else "s")


def _turns(*said: Said) -> tuple[str, ...]:
    return tuple(dict.fromkeys(turn for one in said for turn in one.turns))


def _of_names(thread: Thread) -> Iterator[Finding]:
    gaps = {"kind": thread.kind, "kinds": plural(thread.kind), "goal": thread.goal}
    names = list(thread.offered)
    if len(names) > 1:
        firsts = tuple(thread.offered[name][0] for name in names)
        yield Finding("names", gaps, tuple(dict.fromkeys(firsts)), "; ".join(names))
        yield Finding("name-count", gaps, tuple(dict.fromkeys(firsts)), str(len(names)))
        for before, after in pairwise(names):
            evidence = tuple(dict.fromkeys((thread.offered[before][-1], thread.offered[after][0])))
            yield Finding("after-rejection", {**gaps, "entity": before}, evidence, after)
    for position, name in enumerate(names[: len(NUMBERS)] if len(names) > 1 else ()):
        nth = {**gaps, "nth": NUMBERS[position], "number": str(position + 1)}
        yield Finding("nth-name", nth, (thread.offered[name][0],), name)
        for property, said in thread.told[name].items():
            if len(said) == 1:
                evidence = tuple(dict.fromkeys((thread.offered[name][0], *said[0].turns)))
                need = (_requirement(thread, name, property),)
                yield Finding(
                    "nth-attribute", {**nth, "property": property}, evidence, said[0].value, target_of(property), need
                )


def _of_wishes(thread: Thread, times: Mapping[str, datetime | None]) -> Iterator[Finding]:
    gaps = {"kind": thread.kind, "kinds": plural(thread.kind), "goal": thread.goal}
    for property, said in thread.wanted.items():
        if thread.place in said or any(one.value == thread.style for one in said):
            continue
        asked, need = {**gaps, "property": property}, (_requirement(thread, None, property),)
        if len(said) == 1:
            yield Finding("wanted", asked, _turns(said[0]), said[0].value, target_of(property), need)
        else:
            evidence = (said[0].turns[0], said[-1].turns[0])
            yield Finding("before-change", asked, evidence, said[0].value, target_of(property), need)
            yield Finding("after-change", asked, evidence, said[-1].value, target_of(property), need)
    latest = [said[-1] for said in thread.wanted.values()]
    if len(latest) > 2:
        turns = tuple(dict.fromkeys(one.turns[0] for one in latest))
        yield Finding("requirements", gaps, turns, "; ".join(one.value for one in latest))
    if (time := times[thread.first_turn]) is not None:
        yield Finding("when-sought", gaps, (thread.first_turn,), f"{time.day} {time:%B %Y}")


def _of_choice(thread: Thread) -> Iterator[Finding]:
    if thread.chosen is None:
        return
    gaps = {"kind": thread.kind, "goal": thread.goal}
    name, turn = thread.chosen
    named = thread.offered[name][0]
    yield Finding("chosen", gaps, (named, turn), name)
    for property, said in thread.told[name].items():
        if len(said) == 1:
            evidence = tuple(dict.fromkeys((named, turn, *said[0].turns)))
            need = (_requirement(thread, name, property),)
            yield Finding(
                "chosen-attribute",
                {**gaps, "property": property},
                evidence,
                said[0].value,
                target_of(property),
                need,
            )


def _of_attributes(threads: Sequence[Thread]) -> Iterator[Finding]:
    """Of things by name; where two goals tell different values of one, the name alone does not say which is meant."""
    told: dict[tuple[str, str], list[tuple[Thread, Said]]] = defaultdict(list)
    for thread in threads:
        for name, properties in thread.told.items():
            for property, said in properties.items():
                told[name, property] += [(thread, one) for one in said]
    single = {key: found for key, found in told.items() if len({one.value.casefold() for _, one in found}) == 1}
    by_property: dict[tuple[str, str], list[tuple[str, Thread, tuple[Said, ...]]]] = defaultdict(list)
    for (name, property), found in single.items():
        thread, alike = found[0][0], tuple(one for _, one in found)
        asked, need = {"entity": name, "property": property}, _requirement(thread, name, property)
        yield Finding("attribute", asked, _turns(*alike), alike[0].value, target_of(property), (need,))
        by_property[thread.kind, property].append((name, thread, alike))
    for (_, property), entries in by_property.items():
        for (name, thread, alike), (other, thread2, alike2) in pairwise(entries):
            one, two = alike[0], alike2[0]
            if one.value.casefold() != two.value.casefold():
                gaps = {"entity": name, "entity2": other, "property": property}
                needs = (_requirement(thread, name, property), _requirement(thread2, other, property))
                answer = f"{name}: {one.value}; {other}: {two.value}"
                yield Finding("compare", gaps, _turns(one, two), answer, None, needs)


def _of_kinds(rivals: Mapping[str, Sequence[Thread]]) -> Iterator[Finding]:
    for kind, threads in rivals.items():
        gaps = {"kind": kind, "kinds": plural(kind)}
        placed = [place for thread in threads if (place := thread.place)]
        if len(threads) > 1:
            yield Finding("search-count", gaps, tuple(t.first_turn for t in threads), str(len(threads)))
        if len({place.value.casefold() for place in placed}) > 1 and len(placed) == len(threads):
            turns = tuple(dict.fromkeys(place.turns[0] for place in placed))
            yield Finding("places", gaps, turns, "; ".join(dict.fromkeys(place.value for place in placed)))


def _of_pairs(threads: Sequence[Thread]) -> Iterator[Finding]:
    placed: dict[str, list[Thread]] = defaultdict(list)
    named: dict[str, list[Thread]] = defaultdict(list)
    for thread in threads:
        if thread.place:
            placed[thread.place.value.casefold()].append(thread)
        for name in thread.offered:
            named[name].append(thread)
    for one, other in pairwise([t for t in threads if t.goal]):
        first, second = (other, one) if len(one.goal) % 2 else (one, other)
        gaps = {"goal": first.goal, "goal2": second.goal}
        yield Finding("which-earlier", gaps, (one.first_turn, other.first_turn), one.goal)
    for group in placed.values():
        for one, other in combinations(group, 2):
            alone = sum(thread.kind == one.kind for thread in group) == 1
            if one.kind != other.kind and one.offered and alone and other.goal and other.place:
                gaps = {"kind": one.kind, "kinds": plural(one.kind), "goal2": other.goal}
                turns = (other.place.turns[0], *(turns[0] for turns in one.offered.values()))
                yield Finding("same-place", gaps, tuple(dict.fromkeys(turns)), "; ".join(one.offered))
    for name, group in named.items():
        if len(group) == 2 and all(thread.goal for thread in group):
            gaps = {"kind": group[0].kind, "goal": group[0].goal, "goal2": group[1].goal}
            yield Finding("both-goals", gaps, tuple(t.offered[name][0] for t in group), name)


def _requirement(thread: Thread, entity: str | None, property: str) -> RequirementGold:
    return RequirementGold(entity, property, property, tuple(sorted(thread.properties - {property})))
