"""The simulation: a user and an assistant, or two speakers, work on many things at once, a few exchanges at a time.

What makes it hard is made on purpose: answers that say only "it", options referred to by their number, the same name
under two things, decisions revised long after, and things that are left and taken up again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..questions.templates import choose, fill
from .kinds import Kind, SetSplit, SlotKind, Value, make_value, taking_up, wording
from .world import Candidate, Reference, Slot

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")
_OPEN = 5
_ASIDE, _TAIL, _SHARED, _BARE = 0.07, 0.3, 0.35, 0.1
_OWN_ONLY, _OWN_CUES = 0.5, 0.3
"""Share of worlds to train on that take things up in the kind's own few ways alone, and share of them in the others."""
_REVISIT, _PAUSE = 0.22, 0.1
_START = datetime(2025, 5, 15, 8)


@dataclass(frozen=True, slots=True)
class SetTurn:
    """A turn as it is written, with its gold."""

    id: str
    role: str
    content: str
    partition: list[str]
    action: str
    action_object: str


@dataclass(slots=True)
class _Exchange:
    """One turn of the asker and the answer, with their gold."""

    action: str
    object: str
    said: str
    answer: str


class Simulation:
    """A world that grows; `slots` is what it has established."""

    def __init__(self, kind: Kind, seed: int | str, split: SetSplit, several_groups: bool) -> None:
        self.kind = kind
        self.slots: list[Slot] = []
        self.turns = 0
        self._rng = random.Random(f"{kind.name} {seed} {split}")
        self._split: SetSplit = split
        self._several = several_groups
        self._own_cues = 1.0 if split == "test" or self._rng.random() < _OWN_ONLY else _OWN_CUES
        self._groups = kind.group_names(self._rng)
        self._planned: Iterator[Slot] = iter(())
        self._open: list[Slot] = []
        self._last: Slot | None = None
        self._asides: list[int] = []
        self._time = _START

    def segment(self) -> Iterator[SetTurn]:
        """The next run of turns about one thing, which starts with the asker."""
        slot = self._choose()
        if self._rng.random() < _PAUSE:
            self._time += timedelta(hours=self._rng.randint(1, 14))
        fresh = not slot.candidates and not slot.fields
        slot.focus = None
        for number in range(self._rng.randint(2, 6)):
            position = self.turns
            aside = number > 0 and self._rng.random() < _ASIDE
            exchange = self._aside() if aside else self._exchange(slot, f"{position}", f"{position + 1}")
            if exchange is None:
                break
            said = exchange.said
            if number == 0 and not (self._rng.random() < _BARE and self._tells(slot, said)):
                said = self._taken_up(slot, fresh, said)
            yield self._turn(slot, 0, said, exchange.action, exchange.object)
            yield self._turn(slot, 1, exchange.answer, f"answer: {exchange.action}", exchange.object)
            if "deci" in exchange.action:
                break
        self._last = slot
        if slot in self._open and self._done(slot):
            self._open.remove(slot)

    def label(self, slot: Slot, rng: random.Random) -> str:
        """The slot in words, one of several."""
        text = choose(slot.kind.label, rng).format(part=slot.part, group=slot.group)
        return self.kind.several.format(slot=text, group=slot.group) if self._several else text

    def _tells(self, slot: Slot, said: str) -> bool:
        """Whether a text names an option of this slot and of no other, so that it can be taken up without a word."""
        holders = [one for one in self.slots if any(candidate.name in said for candidate in one.candidates)]
        return holders == [slot]

    def _say(self, key: str, **gaps: str) -> str:
        return fill(self._say_raw(key), gaps)

    def _taken_up(self, slot: Slot, fresh: bool, said: str) -> str:
        """What is said, with the slot named so that it is clear what it is about."""
        gaps = {"slot": self.label(slot, self._rng), "said": _capital(said)}
        if self._own_cues == 1.0 or self._rng.random() < self._own_cues:
            way = self._say_raw("enter" if fresh else "again")
        else:
            way = self._rng.choice(taking_up(fresh))
        opening = _capital(fill(way, gaps)).strip()
        if "{said}" in way:
            return opening
        return f"{opening} {said if opening.endswith((':', ',')) else _capital(said)}"

    def _turn(self, slot: Slot, side: int, text: str, action: str, object: str) -> SetTurn:
        id = str(self.turns)
        self.turns += 1
        self._time += timedelta(minutes=self._rng.randint(1, 9))
        text = _capital(text)
        if side and self._rng.random() < _TAIL:
            text = f"{text} {self._say('tail')}"
        if self.kind.stamps:
            text = stamped(text, self._time)
        return SetTurn(id, slot.speakers[side], text, slot.partition, action, object)

    def _choose(self) -> Slot:
        settled = [
            slot for slot in self.slots if slot not in self._open and slot.revisions > 0 and slot is not self._last
        ]
        if settled and self._rng.random() < _REVISIT:
            return self._rng.choice(settled)
        if len(self._open) < 2 or (len(self._open) < _OPEN and self._rng.random() < 0.4):
            return self._new_slot()
        return self._rng.choice([slot for slot in self._open if slot is not self._last])

    def _new_slot(self) -> Slot:
        slot = next(self._planned, None)
        if slot is None:
            self._planned = iter(self._plan_group(next(self._groups)))
            slot = next(self._planned)
        slot.goal = len(self.slots)
        self.slots.append(slot)
        self._open.append(slot)
        return slot

    def _plan_group(self, group: str) -> list[Slot]:
        rng = self._rng
        by_part = self.kind.slots[0].part is None
        parts = self.kind.parts[: rng.randint(3, self.kind.most_parts) if self._several else None]
        kinds: list[tuple[SlotKind, str]] = (
            [(kind, part) for part in parts for kind in self.kind.slots]
            if by_part
            else [(kind, str(kind.part)) for kind in self.kind.slots]
        )
        planned = []
        for kind, part in kinds:
            first = kind.label.removeprefix("[").split("|")[0].removesuffix("]")
            label = first.format(part=part, group=group)
            slot = Slot(kind, group, part, label, 0, wanted=rng.randint(3, 6), revisions=rng.randint(0, 3))
            if self.kind.speakers:
                asker, answerer = rng.sample(self.kind.speakers, 2)
                slot.speakers = (asker, answerer)
            planned.append(slot)
        if not by_part:
            rng.shuffle(planned)
        return planned

    def _done(self, slot: Slot) -> bool:
        return bool(slot.choices) and len(slot.candidates) >= slot.wanted

    def _exchange(self, slot: Slot, asked: str, answered: str) -> _Exchange | None:
        """What comes next in a slot; None where nothing is left to do."""
        rng = self._rng
        if self._done(slot):
            return self._later(slot, asked, answered)
        moves = ["raise"] * 3
        if slot.kind.fields and len(slot.fields) < len(slot.kind.fields):
            moves += ["field"]
        if slot.candidates:
            moves += ["inquire"] * 6
        if sum(c.rejected is None for c in slot.candidates) > 1 and slot.focus is not None:
            moves += ["reject"]
        if len(slot.candidates) >= min(3, slot.wanted) and not slot.choices:
            moves += ["decide"] * 2
        if len(slot.candidates) >= slot.wanted:
            moves = [move for move in moves if move != "raise"] + ["decide"] * 4 * (not slot.choices)
        return self._do(rng.choice(moves), slot, asked, answered)

    def _aside(self) -> _Exchange:
        self._asides = self._asides or self._rng.sample(range(len(self.kind.say["aside"])), len(self.kind.say["aside"]))
        number = self._asides.pop()
        return _Exchange("small talk", "", self.kind.say["aside"][number], self.kind.say["aside_reply"][number])

    def _later(self, slot: Slot, asked: str, answered: str) -> _Exchange | None:
        """After the decision: revisions, and now and then one more question."""
        if slot.revisions <= 0:
            return self._inquire(slot, answered) if self._rng.random() < 0.5 else None
        if self._rng.random() < 0.4:
            return self._inquire(slot, answered)
        slot.revisions -= 1
        changeable = [name for name in slot.kind.fields if name in slot.fields]
        if changeable and self._rng.random() < 0.45:
            return self._field(slot, self._rng.choice(changeable), asked)
        return self._decide(slot, asked)

    def _do(self, move: str, slot: Slot, asked: str, answered: str) -> _Exchange | None:
        if move == "raise":
            return self._raise(slot, asked, answered)
        if move == "field":
            left = [name for name in slot.kind.fields if name not in slot.fields]
            return self._field(slot, self._rng.choice(left), asked)
        if move == "reject":
            return self._reject(slot, asked)
        if move == "decide":
            return self._decide(slot, asked)
        return self._inquire(slot, answered) or self._raise(slot, asked, answered)

    def _raise(self, slot: Slot, asked: str, answered: str) -> _Exchange:
        by_user = self._rng.random() < 0.6
        name, attributes = self._option(slot)
        slot.candidates.append(Candidate(name, attributes, asked if by_user else answered, by_user))
        slot.focus = len(slot.candidates) - 1
        if by_user:
            return _Exchange("raise", slot.kind.noun, self._say("raise", name=name), self._say("ack_raise", name=name))
        ask = self._say("ask_more" if len(slot.candidates) > 1 else "ask_suggest", noun=slot.kind.noun)
        return _Exchange("ask for a suggestion", slot.kind.noun, ask, self._say("suggest", name=name))

    def _option(self, slot: Slot) -> tuple[str, dict[str, Value]]:
        """A name that this slot has not had: sometimes one from another slot, with what does not vary the same."""
        specs = self.kind.attributes
        taken = {candidate.name for candidate in slot.candidates}
        others = [
            candidate
            for other in self.slots[-24:]
            if other is not slot and other.kind.names == slot.kind.names and other.group == slot.group
            for candidate in other.candidates
            if candidate.name not in taken and set(candidate.attributes) == set(slot.kind.attributes)
        ]
        fresh = {name: make_value(specs[name], self._rng) for name in slot.kind.attributes}
        if others and self._rng.random() < _SHARED:
            same = self._rng.choice(others)
            kept = {k: v for k, v in same.attributes.items() if not specs[k].get("varies")}
            return same.name, {**fresh, **kept}
        here = {c.name for other in self.slots if other.group == slot.group for c in other.candidates}
        head, tail = self.kind.names[slot.kind.names]
        for _ in range(200):
            name = f"{self._rng.choice(head)} {self._rng.choice(tail)}"
            if name not in here:
                break
        return name, fresh

    def _inquire(self, slot: Slot, answered: str) -> _Exchange | None:
        open_ = [
            (index, attribute)
            for index, candidate in enumerate(slot.candidates)
            for attribute in slot.kind.attributes
            if attribute not in candidate.told
        ]
        near = [pair for pair in open_ if pair[0] == slot.focus]
        if not open_:
            return None
        index, attribute = self._rng.choice(near if near and self._rng.random() < 0.6 else open_)
        spec = self.kind.attributes[attribute]
        said, _ = self._refer(slot, index, wording(spec["ask"], self._split, self._rng))
        candidate = slot.candidates[index]
        candidate.told[attribute] = answered
        slot.focus = index
        answer = fill(wording(spec["tell"], self._split, self._rng), {"value": candidate.attributes[attribute].text})
        return _Exchange(f"{spec['name']} inquiry", str(spec["name"]), said, answer)

    def _reject(self, slot: Slot, asked: str) -> _Exchange | None:
        left = [i for i, c in enumerate(slot.candidates) if c.rejected is None and not self._is_chosen(slot, i)]
        if not left:
            return self._inquire(slot, str(int(asked) + 1))
        index = slot.focus if slot.focus in left and self._rng.random() < 0.6 else self._rng.choice(left)
        reason = self._rng.choice(self.kind.reasons)
        said, named = self._refer(slot, index, self._say_raw("reject").replace("{reason}", reason))
        candidate = slot.candidates[index]
        candidate.rejected, candidate.reason = Reference(index, asked, named), reason
        slot.focus = None
        return _Exchange("reject", slot.kind.noun, said, self._say("ack_reject"))

    def _decide(self, slot: Slot, asked: str) -> _Exchange | None:
        current = slot.choices[-1].candidate if slot.choices else None
        left = [i for i, c in enumerate(slot.candidates) if c.rejected is None and i != current]
        if not left:
            return None
        index = self._rng.choice(left)
        key = "revise" if slot.choices else "decide"
        said, named = self._refer(slot, index, self._say_raw(key))
        slot.choices.append(Reference(index, asked, named))
        slot.focus = index
        action = "revise the decision" if key == "revise" else "decide"
        return _Exchange(action, slot.kind.noun, said, self._say(f"ack_{key}"))

    def _field(self, slot: Slot, name: str, asked: str) -> _Exchange:
        spec = self.kind.fields[name]
        known = slot.fields.setdefault(name, [])
        value = make_value(spec, self._rng)
        while any(value.text == old.text for old, _ in known):
            value = make_value(spec, self._rng)
        verb = "change" if known else "set"
        known.append((value, asked))
        said = fill(wording(spec[verb], self._split, self._rng), {"value": value.text})
        return _Exchange(f"{verb} {spec['name']}", str(spec["name"]), said, self._say("ack_field"))

    def _say_raw(self, key: str) -> str:
        return wording(self.kind.say[key], self._split, self._rng)

    def _refer(self, slot: Slot, index: int, text: str) -> tuple[str, bool]:
        """The text with `{it}` as a pronoun, an ordinal or the name, and whether it is the name."""
        candidate = slot.candidates[index]
        article = "the " if "the {name}" in self.kind.say["raise"][0] else ""
        ways = [f"{article}{candidate.name}"]
        if index < len(ORDINALS) and len(slot.candidates) > 1:
            who = "one" if self._rng.random() < 0.5 else slot.kind.noun
            ways.append(f"the {ORDINALS[index]} {who}")
        if index == slot.focus:
            ways += ["it" if slot.kind.noun != "person" else "this person", "that one"]
        way = self._rng.choice(ways)
        return fill(text, {"it": way}), way is ways[0]

    @staticmethod
    def _is_chosen(slot: Slot, index: int) -> bool:
        return bool(slot.choices) and slot.choices[-1].candidate == index


def stamped(text: str, time: datetime) -> str:
    """A text with the time at its end, as CAME-Bench's travel set has it."""
    return f"{text}----TIMESTAMP: {time:%Y-%m-%dT%H:%M}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
