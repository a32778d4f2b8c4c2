"""What the wording around a value says of change: that it is new, ended, was wrong, or stands beside others."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from .claim_clauses import Clause


@dataclass(frozen=True, slots=True)
class Change:
    """What a clause says of its value; see `Reading` for each."""

    negated: bool = False
    ended: bool = False
    corrects: bool = False
    updates: bool = False
    adds: bool = False
    only: bool = False
    swaps: bool = False


def cue(source: str) -> re.Pattern[str]:
    """A pattern for any of some words or phrases, whole."""
    return re.compile(rf"\b(?:{source})(?!\w)")


_BEGUN = (
    r"moved|relocated|transferred|switched|changed|converted|became|become|turned(?! (?:out|down|up|off|on|around)\b)|"
    r"went (?:back )?(?:to|from)|"
    r"started|began|begun|joined|took (?:over|up|on)|taken (?:over|up|on)|picked up|bought|purchased|acquired|"
    r"adopted|"
    r"hired|promoted|upgraded|downgraded|replaced|swapped|traded|renamed|rebranded|rescheduled|postponed|delayed|"
    r"pushed|brought forward|shifted|extended|raised(?! in)|increased|reduced|lowered|dropped|cut|rose|risen|"
    r"grew(?! up)|grown(?! up)|fell(?! in)|"
    r"fallen|gone (?:up|down)|went (?:up|down)|got(?= \ufffc)|got (?:a|an|my|promoted|married|engaged|divorced|"
    r"hired|transferred)|"
    r"settled|landed|returned|updated|revised|amended|modified|adjusted|reassigned|elected|appointed"
)
CHANGED = cue(_BEGUN)
"""Verbs, in the past, of something that came to be otherwise."""

_UPDATES = cue(
    _BEGUN + r"|nowadays|these days|at (?:the moment|present)|as of|from now on|since then|instead|any ?more|no longer|"
    r"currently|presently|(?:starting|beginning) (?:today|now|this)|recently|lately|today|"
    r"used to|(?:my|our|his|her|their|its|the|a|'s|’s) (?:new|newest|latest|updated|current)|newly|"
    r"(?:has|have|'ve|'s|’ve|’s) (?:now )?been (?:moved|changed|switched|updated|replaced|postponed|rescheduled)|"
    r"things (?:have )?changed|quick update|update on|an update|(?:am|is|are|'m|’m|'s|’s) (?:down|up) to|"
    r"until (?:recently|now|last \w+)|no more"
)
_NOW = re.compile(
    r"(?<!by )(?<!until )(?<!till )(?<!for )(?<!every )(?<!just )(?<!even )\bnow\b(?! and (?:then|again))"
)
_NOW_OPENS = re.compile(r"^\W*now,")
_ORDERS = re.compile(
    r"^\W*(?:(?:please|ok|okay|so|and|yes|no|hey|actually|sorry|oh)\W+)*(?:let['’]s |can you |could you )?"
    r"(?:change|move|switch|update|make it|make that|reschedule|set|push|bump|swap|replace|rename|postpone|use)\b"
)
_ANNOUNCED = cue(
    r"(?:that|this|it|things|everything|something)(?:['’]s| has| have)? (?:just )?changed|quick update|update:|"
    r"an update|"
    r"big news|(?:some|good|bad) news"
)

_ENDED = cue(
    r"no longer|used to|formerly|previously|once (?:lived|worked|owned|had|was)|until (?:recently|now|last \w+)|"
    r"(?:isn't|aren't|don't|doesn't|didn't|am not|'m not|is not|are not|do not|does not|haven't|hasn't|can't|never)"
    r"\b[^,;]*\b(?:any ?more|any longer)"
)
_ANYMORE = cue(r"any ?more|any longer")
_NEGATOR = cue(
    r"not|never|nor|neither|no|without|(?:is|are|was|were|do|does|did|have|has|had|ca|could|wo|would|"
    r"should)n['’]t|cannot"
)
_NO_NEGATION = cue(
    r"not only|not just|no doubt|don't forget|do not forget|why not|can't wait|couldn't be (?:happier|better)|"
    r"not to mention|"
    r"no wonder|no problem|no worries|if not|whether or not|not bad|no idea|not until|no later than|no more than|"
    r"no less than|"
    r"no (?=,)|not sure|don't think|don't believe|can't believe|don't know|never mind|nevermind"
)
_NO_OPENS = re.compile(r"^\W*(?:no|nope|oh no)\b[,.!]?\s")
_DENIED_AFTER = re.compile(
    r"^\W*(?:is|are|was|were|'s|’s)(?:n['’]t| not| no longer)\b|^\W*(?:does|do|did)(?:n['’]t| not)\b|"
    r"^\W*(?:any ?more|any longer)\b|^\W*(?:is|are|was) (?:wrong|incorrect|not right|outdated|out of date)"
)
_ENDED_AFTER = re.compile(
    r"^[^,;.]*\b(?:any ?more|any longer|no longer|is over|has ended|ended|fell through|is cancell?ed|was cancell?ed|"
    r"got cancell?ed|has been cancell?ed|is outdated|is out of date)\b"
)
_PARTED = re.compile(
    r"^ and (?:i|we) (?:just |have |recently )?(?:broke up|split|separated|parted|divorced|got divorced)\b"
)
_LEAVES = (
    r"left|quit|resigned(?: from| as)?|retired(?: from| as)?|sold|dropped|ditched|cancell?ed|gave up|given up|"
    r"broke up with|"
    r"split (?:up )?(?:with|from)|divorced|got rid of|moved out of|moved away from|stopped|finished|ended|abandoned|"
    r"withdrew from|lost|fired from|laid off from|got over|outgrew|donated|gave away|returned|threw (?:out|away)|"
    r"closed|"
    r"deleted|removed|unsubscribed from|dissolved|sworn off|swore off|over with|done with|away from|"
    r"(?:took|taken) (?:me|him|her|us|them) off|came off|come off|gone off"
)
_LEFT = cue(rf"(?:{_LEAVES})")
_CALLS_OFF = re.compile(
    r"^\W*(?:(?:please|ok|okay|so|and|yes|no|hey|can you|could you)\W+)*"
    r"(?:cancel|remove|delete|drop|unsubscribe|discard|stop(?! (?:by|at|in)\b))\b"
)
_TOWARDS = cue(r"to|for|with|and|in favou?r of|then")
_GOING_ON = re.compile(r"(?:stopped|quit|gave up|given up|finished|ended|left) \w+ing\b")
_FROM = re.compile(
    r"\b(?:from|instead of|rather than|in place of|in lieu of|no longer|not|over|than|replac(?:ed|ing|es)|"
    r"swapp(?:ed|ing)|"
    r"trad(?:ed|ing)(?: in)?|ditch(?:ed|ing)|leaving|left behind)"
    r"(?: (?:my|our|his|her|their|the|a|an|old|former|previous|being|using|working|living|in|at|as|"
    r"[a-z]+(?= \ufffc)))*\W*$"
)
_FROM_WORD = re.compile(r"\b(?:from|over|than)\b")
_BARE_FROM = re.compile(
    r"\b(?:am|is|are|was|were|be|come|comes|came|originally|hail|hails|'m|’m|'s|’s) (?:\w+ly )?from\b"
)
_NOT_BUT = re.compile(r"\bnot (?:in |at |on |a |an |the |for |with )*\W*$")

_CORRECTS = cue(
    r"i mean|i meant|meant to (?:say|write|type)|sorry|apologies|my bad|my mistake|my apologies|correction|"
    r"to correct|"
    r"correct that|let me correct|i (?:mis\w+|got (?:that|it) wrong|was wrong|was mistaken|made a mistake)|misspoke|"
    r"mis(?:typed|spoke|stated|remembered|said)|"
    r"scratch that|strike that|oops|whoops|typo|actually|in fact|to be (?:precise|exact|clear)|that(?:'s|’s| is|"
    r" was) "
    r"(?:wrong|incorrect|not (?:right|correct|true)|a mistake|a typo|an error)|wait|or rather|i stand corrected|"
    r"not what i (?:said|meant)|ignore (?:that|what)|forget (?:that|what)|should (?:have been|be|read)|"
    r"(?:the )?(?:right|correct|real|actual) (?:\w+ )?(?:is|was|one|name|date|number|answer|spelling)"
)
_CORRECTED_BEFORE = cue(
    r"that(?:'s|’s| is| was) (?:wrong|incorrect|not (?:right|correct|true)|a mistake|a typo|an error)|i misspoke|"
    r"my mistake|"
    r"my bad|scratch that|strike that|correction|i was (?:wrong|mistaken)|i made a mistake|i got (?:that|it) wrong|"
    r"ignore (?:that|what i said)|forget (?:that|what i said)|oops|typo|i (?:said|told you|wrote)\b.*\b(?:earlier|"
    r"before|wrong)"
)
_ADDS = cue(
    r"also|too|as well|in addition|additionally|besides|on top of|another|plus|along with|not only|not just|added|"
    r"alongside|furthermore|moreover|as another|one more|second|both|apart from|aside from|other than that"
)
_ONLY = cue(r"only|exclusively|solely|nothing but|just the|are now|is now|from now on")
_SWAPS = cue(
    r"instead|switched|replaced|swapped|converted|rather than|traded|changed (?:\w+ )*(?:to|from)|moved|relocated|"
    r"transferred"
)


def read_change(clause: Clause) -> Change:
    """Read the change that the words around a value tell of."""
    before, after, segment = clause.before, clause.next, clause.segment
    corrects = bool(_CORRECTS.search(segment)) or bool(_CORRECTED_BEFORE.search(clause.previous))
    corrects = corrects or bool(_NO_OPENS.search(clause.sentence.lower()))
    old = _is_old(clause)
    ended = old or _is_ended(clause)
    negated = not ended and _is_negated(clause)
    updates = (
        bool(_UPDATES.search(segment))
        or bool(_ORDERS.search(segment))
        or (bool(_NOW.search(segment)) and not _NOW_OPENS.search(segment))
        or bool(_ANNOUNCED.search(clause.previous))
        or bool(_LEFT.search(before))
        or bool(CHANGED.search(clause.lead))
    )
    return Change(
        negated=negated,
        ended=ended,
        corrects=corrects and not negated,
        updates=updates,
        adds=bool(_ADDS.search(segment)),
        only=bool(_ONLY.search(before) or re.match(r"[^,;]*\bonly\b", after)),
        swaps=bool(_SWAPS.search(segment)),
    )


def _is_old(clause: Clause) -> bool:
    """Whether the value stands where the old one does: "from X to", "instead of X", "replaced X with"."""
    found = _FROM.search(clause.before)
    if found is None or _NOT_BUT.search(clause.before):
        return False
    if not _FROM_WORD.match(found[0]):
        return True
    # "I am from Lyon" and "a flight from Lyon" are not changes; "changed from X", "from X to Y" with a change are.
    return bool(CHANGED.search(clause.before[: found.start()])) and not _BARE_FROM.search(clause.before)


def _is_ended(clause: Clause) -> bool:
    near = clause.near
    ended = _last(_ENDED, near)
    if ended is not None and not _supersedes(near[ended.end() :]):
        return True
    if _ENDED_AFTER.search(clause.next) or _PARTED.search(clause.after):
        return True
    if _ANYMORE.search(clause.next) and _NEGATOR.search(clause.before):
        return True
    if _CALLS_OFF.match(near) and not _TOWARDS.search(near):
        return True
    left = _last(_LEFT, near)
    if left is None:
        return False
    rest = near[left.end() :]
    if _last(CHANGED, rest) is not None:
        return False
    return bool(_GOING_ON.match(near[left.start() :])) or not _TOWARDS.search(rest)


def _supersedes(rest: str) -> bool:
    """Whether a later verb of change stands between the end of the old and the value."""
    return CHANGED.search(rest) is not None


def _is_negated(clause: Clause) -> bool:
    if _DENIED_AFTER.search(clause.next):
        return True
    if _NOT_BUT.search(clause.before):
        return True
    near = _NO_NEGATION.sub(" ", _NO_OPENS.sub(" ", clause.near))
    return _NEGATOR.search(near) is not None


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)
