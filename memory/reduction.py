"""States of one key from the claims about it: a pure function, so that what it gives never depends on when it runs.

A key is (entity, property, condition), never a value (EMIR2, section 3.2). Its claims are taken in the order in which
they were said. One that differs from what holds either says what it does (a change, a correction, one more of a
set), or comes from one who knows better, or stays pending: nothing is overwritten on a guess. Taking a claim away and
reducing again is how evidence is deleted: what it superseded holds again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from .types import StateStatus
from .versions import BY_RULE, Authority, Choice, Choices, Claim, Operation, Version

_FIRST_CONFIDENCE = {Authority.SELF: 0.8, Authority.OTHER: 0.7, Authority.SECOND_HAND: 0.5, Authority.ASSISTANT: 0.5}
_CONTRADICTS = ("hearsay", "uncertain")
_BESIDE = 16
"""Characters between two values of an enumeration, at most."""
QUESTION, NEGATED, PLANNED = "question", "negated", "planned"


def reduce_claims(claims: Sequence[Claim], is_set: bool = False, choices: Choices | None = None) -> list[Version]:
    """The versions of one key, in the order in which they were opened.

    Args:
        claims: all claims about the key, in any order; the same one twice counts once.
        is_set: whether values stand beside each other as far as is known from elsewhere.
        choices: what was decided by a decider or by hand.
    """
    unique = list({(claim.record, claim.turn): claim for claim in claims}.values())
    ordered = sorted(_read_together(_aligned(unique)), key=lambda c: (c.said, c.order, c.record))
    reducer = _Reducer(is_set or any((c.adds or c.joined) and c.is_plain for c in ordered), choices or {})
    for claim in ordered:
        reducer.take(claim)
    return reducer.versions


def _aligned(claims: Sequence[Claim]) -> list[Claim]:
    """A value with more said to it ("Oslo, Norway") is the value, unless two say different things to it."""
    longer: dict[str, set[str]] = defaultdict(set)
    keys = {claim.value.casefold(): claim.key for claim in claims}
    for text, key in keys.items():
        for end in (at for at, character in enumerate(text) if character in ",("):
            short = keys.get(text[:end].rstrip(), key)
            if short != key:
                longer[short].add(key)
    alias = {key: short for short, keys in longer.items() if len(keys) == 1 for key in keys}
    return [replace(claim, key=alias[claim.key]) if claim.key in alias else claim for claim in claims]


def _read_together(claims: Sequence[Claim]) -> list[Claim]:
    """What one turn says of several values: "not X but Y" corrects, "from X to Y" names what it replaces."""
    turns: dict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        turns[claim.turn].append(claim)
    together = []
    for claim in claims:
        others = [other for other in turns[claim.turn] if other.key != claim.key and not other.doubt]
        if any(_stand_side_by_side(claim, other) for other in others):
            claim = replace(claim, joined=True)
        if claim.negated and any(other.is_plain for other in others):
            claim = replace(claim, corrects=True)
        elif claim.is_plain and any(other.denies for other in others):
            denied = any(other.negated for other in others) and not claim.updates
            claim = replace(claim, corrects=claim.corrects or denied, only=False, swaps=False)
        together.append(claim)
    return together


def _stand_side_by_side(claim: Claim, other: Claim) -> bool:
    """Whether two values of one turn are an enumeration: "X and Y", "X, Y"."""
    first, second = sorted((claim, other), key=lambda c: c.order)
    near = 0 <= second.order[1] - first.end <= _BESIDE
    return near and second.linked and claim.is_plain and other.is_plain


class _Reducer:
    def __init__(self, many: bool, choices: Choices) -> None:
        self.versions: list[Version] = []
        self._many = many
        self._choices = choices

    def take(self, claim: Claim) -> None:
        """Apply one claim, the next in time."""
        by_hand = self._choices.get((claim.record, ""))
        if by_hand is not None:
            self._choose(claim, by_hand)
        elif claim.doubt == QUESTION or self._is_echo(claim):
            return
        elif claim.doubt:
            self._doubt(claim)
        elif claim.ended and claim.is_over and claim.since is not None:
            self._past(claim)
        elif claim.denies:
            self._deny(claim)
        elif claim.is_over:
            self._past(claim)
        elif claim.since is not None and claim.since > claim.said:
            self._pend(replace(claim, doubt=PLANNED), "lies ahead")
        else:
            self._assert(claim)

    def _current(self) -> list[Version]:
        return [version for version in self.versions if version.status == "current"]

    def _same(self, claim: Claim, status: StateStatus) -> list[Version]:
        return [version for version in self.versions if version.status == status and version.key == claim.key]

    def _is_echo(self, claim: Claim) -> bool:
        """An assistant's repetition of what was said is no evidence for it."""
        return claim.repeats and any(version.key == claim.key for version in self.versions)

    # Doubts, denials and the past

    def _doubt(self, claim: Claim) -> None:
        if claim.denies or self._same(claim, "current"):
            return
        facts = self._current()
        contradicts = facts and claim.doubt in _CONTRADICTS and not self._many
        self._pend(claim, claim.doubt, facts[-1].record if contradicts else "")

    def _pend(self, claim: Claim, reason: str, rival: str = "") -> None:
        modality = claim.doubt or "asserted"
        for version in self._same(claim, "pending"):
            if version.modality == modality and version.reason == reason:
                self._support(version, claim)
                return
        pending = self._open(claim, claim.since, reason)
        pending.status, pending.modality, pending.rival, pending.until = "pending", modality, rival, claim.until

    def _deny(self, claim: Claim) -> None:
        for version in self._same(claim, "pending"):
            if self._may_change(claim, version):
                version.status, version.until, version.reason = "retracted", version.since, "taken back"
        held = self._same(claim, "current")
        if not held:
            if claim.ended and not self._same(claim, "superseded") and not self._same(claim, "retracted"):
                past = self._open(claim, claim.since, "told of as past")
                past.status, past.until = "superseded", claim.until
            return
        fact = held[-1]
        if not self._may_change(claim, fact):
            self._pend(replace(claim, doubt=NEGATED), "denies what is held", fact.record)
            return
        wrong = claim.corrects and not claim.ended
        end = claim.until if claim.until is not None else claim.since if claim.since is not None else claim.said
        reason = "said to be wrong" if wrong else "said to hold no longer"
        _close(fact, fact.since if wrong else _end(end, fact), claim, "retracted", reason)

    def _past(self, claim: Claim) -> None:
        """A time that is over: it stands beside the others unless it contradicts one of them."""
        assert claim.until is not None
        for version in self.versions:
            if version.key != claim.key or version.status == "pending":
                continue
            if claim.since is None and version.status == "current" and (version.since or 0.0) < claim.until:
                _close(version, claim.until, claim, "superseded", "its time is over")
                return
            if version.bounded and (version.since, version.until) == (claim.since, claim.until):
                self._support(version, claim)
                return
        rival = next((version for version in self.versions if not self._many and _clash(version, claim)), None)
        if rival is not None:
            self._pend(claim, "contradicts what is held for that time", rival.record)
        else:
            self._open_past(claim)

    def _open_past(self, claim: Claim, decided_by: str = BY_RULE) -> None:
        past = self._open(claim, claim.since, "its time is over", decided_by)
        past.status, past.until, past.bounded = "superseded", claim.until, True

    # Assertions

    def _assert(self, claim: Claim) -> None:
        held = self._same(claim, "current")
        if held:
            self._reinforce(held[-1], claim)
            return
        facts = self._current()
        operation, reason, decided_by = self._operation(claim, facts)
        if operation is Operation.PENDING:
            self._pend(claim, reason, facts[-1].record)
        else:
            self._settle(claim, facts, operation, reason, decided_by)

    def _operation(self, claim: Claim, facts: Sequence[Version]) -> tuple[Operation, str, str]:
        """What an asserted claim does to facts of other values: (operation, reason, who decided)."""
        if not facts:
            return Operation.ADD, "", BY_RULE
        fact = facts[-1]
        choice = self._choices.get((claim.record, fact.record))
        if choice is not None and choice.operation is not Operation.PENDING:
            return choice.operation, "decided", choice.decided_by
        corrects = claim.corrects and not claim.updates
        if self._many and not corrects and (claim.adds or not (claim.only or claim.swaps)):
            return Operation.ADD, "", BY_RULE
        if claim.swaps and len([f for f in facts if claim.turn not in f.evidence]) > 1:
            return Operation.PENDING, "does not say which of them it replaces", BY_RULE
        if self._may_change(claim, fact):
            if corrects:
                return Operation.REPLACE, "corrected", BY_RULE
            later = claim.since is not None and fact.since is not None and claim.since > fact.since
            reaches_back = claim.since is not None and fact.bounded and not later
            if later or (claim.updates and not reaches_back):
                return Operation.REPLACE, "changed", BY_RULE
        if claim.authority > fact.authority:
            return Operation.REPLACE, "said by one who knows better", BY_RULE
        return Operation.PENDING, "contradicts what is held", BY_RULE

    @staticmethod
    def _may_change(claim: Claim, fact: Version) -> bool:
        return claim.authority >= fact.authority or (claim.source == fact.source and claim.source != "")

    def _settle(
        self, claim: Claim, facts: Sequence[Version], operation: Operation, reason: str, decided_by: str
    ) -> None:
        """Open the version that the claim asks for, and close those that it takes the place of."""
        since = claim.since if claim.since is not None else claim.said
        corrected = reason == "corrected"
        if operation is Operation.REINFORCE:
            self._support(facts[-1], claim)
            return
        if operation is Operation.RETRACT:
            for fact in facts:
                _close(fact, _end(since, fact), claim, "retracted", reason)
            return
        replaced: list[Version] = []
        if operation is Operation.REPLACE:
            replaced = [_meant(claim, facts)] if corrected else [f for f in facts if claim.turn not in f.evidence]
        ended = [v for v in self.versions if v.ender == claim.turn and v.status == "retracted"]
        if corrected and claim.since is None:
            since = replaced[0].since or since
        elif claim.corrects and ended and claim.since is None:
            since = ended[-1].since or since
        self._settle_pending(claim, bool(replaced or ended))
        opened = self._open(claim, since, "", decided_by)
        opened.until, opened.bounded = claim.until, claim.since is not None
        for fact in replaced:
            status: StateStatus = "retracted" if corrected else "superseded"
            _close(fact, fact.since if corrected else _end(since, fact), claim, status, reason)
        for fact in ended:
            # What one turn ends and replaces was not merely taken back.
            if fact.reason == "said to hold no longer":
                fact.status, fact.reason = "superseded", "changed"
        taken = [*replaced, *ended]
        opened.supersedes = taken[-1].record if taken else ""

    def _reinforce(self, version: Version, claim: Claim) -> None:
        self._support(version, claim)
        if claim.since is not None and (version.since is None or claim.since < version.since):
            version.since, version.bounded = claim.since, True
        if self._many and claim.only and claim.updates:
            for other in self._current():
                if other is not version and claim.turn not in other.evidence:
                    _close(other, _end(claim.said, other), claim, "superseded", "changed")

    def _support(self, version: Version, claim: Claim) -> None:
        """Another turn that says the same halves the distance of the confidence to 1 (EMIR2, section 3.2)."""
        if claim.turn not in version.evidence:
            version.evidence.append(claim.turn)
            version.confidence = 1 - (1 - version.confidence) / 2
        if claim.record not in version.records:
            version.records.append(claim.record)
        if claim.authority > version.authority:
            version.authority, version.source = claim.authority, claim.source

    def _settle_pending(self, claim: Claim, replaces: bool) -> None:
        """What was pending for this value has come true; older contradictions are over after a change."""
        for version in self.versions:
            if version.status != "pending":
                continue
            if version.key == claim.key and version.modality != NEGATED:
                version.status, version.until, version.reason = "superseded", version.since, "came true"
            elif replaces and version.rival:
                version.status, version.until, version.reason = "superseded", version.since, "overtaken by a change"

    def _open(self, claim: Claim, since: float | None, reason: str, decided_by: str = BY_RULE) -> Version:
        version = Version(
            record=claim.record,
            value=claim.value,
            key=claim.key,
            status="current",
            said=claim.said,
            since=since,
            confidence=_FIRST_CONFIDENCE[claim.authority],
            authority=claim.authority,
            source=claim.source,
            reason=reason,
            decided_by=decided_by,
            evidence=[claim.turn],
            records=[claim.record],
        )
        self.versions.append(version)
        return version

    def _choose(self, claim: Claim, choice: Choice) -> None:
        """A person's word for one claim goes before every rule."""
        held = self._same(claim, "current")
        if choice.operation is Operation.REJECT:
            rejected = self._open(claim, None, "dismissed", choice.decided_by)
            rejected.status = "retracted"
        elif claim.denies:
            for fact in held:
                _close(fact, _end(claim.said, fact), claim, "retracted", "confirmed by hand")
        elif held:
            self._support(held[-1], claim)
        elif claim.is_over:
            self._open_past(claim, choice.decided_by)
        else:
            self._settle(claim, self._current(), choice.operation, "chosen", choice.decided_by)


def _close(version: Version, end: float | None, claim: Claim, status: StateStatus, reason: str) -> None:
    version.status, version.until, version.reason, version.ender = status, end, reason, claim.turn


def _end(moment: float, fact: Version) -> float:
    """Where a fact ends that another took the place of: never before it began."""
    return max(moment, fact.since) if fact.since is not None else moment


def _meant(claim: Claim, facts: Sequence[Version]) -> Version:
    """The fact that a correction is about: the last one by the same speaker, else the last one."""
    return next((fact for fact in reversed(facts) if fact.source == claim.source), facts[-1])


def _clash(version: Version, claim: Claim) -> bool:
    """Whether two values share more than half of the shorter of their times."""
    if version.key == claim.key or version.status == "pending" or version.since is None or claim.since is None:
        return False
    end, until = version.until or claim.said, claim.until or claim.said
    shared = min(end, until) - max(version.since, claim.since)
    return shared > max(0.0, min(end - version.since, until - claim.since) / 2)
