"""How a claim is meant: what the words around its value say of its truth, not what it is about.

English cues alone, none tied to a subject. A text in another language is read as a plain assertion without any sign of
change, so that it never replaces what is held to be true.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from .claim_clauses import Clause, clause_of
from .claim_cues import CHANGED, cue, read_change
from .languages import WORD, lower_ascii


class Modality(StrEnum):
    """What a sentence does with the claim in it."""

    ASSERTED = "asserted"
    PLANNED = "planned"
    DESIRED = "desired"
    HYPOTHETICAL = "hypothetical"
    HEARSAY = "hearsay"
    UNCERTAIN = "uncertain"
    QUESTION = "question"
    NEGATED = "negated"
    RETRACTION = "retraction"
    CORRECTION = "correction"


TENTATIVE = frozenset(
    (
        *(Modality.PLANNED, Modality.DESIRED, Modality.HYPOTHETICAL),
        *(Modality.HEARSAY, Modality.UNCERTAIN, Modality.QUESTION),
    )
)
"""What is never held to be true as it stands."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the words around one value say.

    doubt: why the claim is not simply asserted, None where it is. attributed: whose words it reports, as written.
    hedged: only softened by "I think". negated: it says that the value does not hold. ended: that it held and no
    longer does. corrects: that something said before was wrong. updates: that something has changed. adds: that it
    holds beside others. only: that it holds alone.
    """

    doubt: Modality | None = None
    attributed: str = ""
    hedged: bool = False
    negated: bool = False
    ended: bool = False
    corrects: bool = False
    updates: bool = False
    adds: bool = False
    only: bool = False
    swaps: bool = False
    condition: str = ""

    @property
    def modality(self) -> Modality:
        """The reading as one word, the strongest first."""
        if self.doubt is not None:
            return self.doubt
        if self.ended:
            return Modality.RETRACTION
        if self.negated:
            return Modality.NEGATED
        return Modality.CORRECTION if self.corrects else Modality.ASSERTED


_INTERROGATIVE = re.compile(
    r"^\W*(?:(?:so|and|but|hey|well|ok|okay|sorry|wait|hi|hello)\W+)*(?:who|whom|whose|what|which|when|where|why|how|"
    r"(?:is|are|was|were|do|does|did|can|could|will|would|should|has|have|had|am|isn't|aren't|don't|doesn't|didn't)"
    r" (?:i|you|he|she|it|we|they|there|my|your|his|her|our|their|the|this|that|\w+))\b"
)
_INVERTED = re.compile(r"\W*(?:do|does|did|is|are|can|could|will|would|should) (?:i|you|we|they|he|she) ")
_TAG = re.compile(
    r"^[\s,]*(?:right|correct|yes|no|eh|ok|okay|huh|or (?:not|what)|"
    r"(?:is|are|was|were|do|does|did|have|has)n't (?:i|you|he|she|it|we|they))\W*$"
)
_LATER_QUESTION = re.compile(r"[,;—–]|\s-\s|\b(?:so|and|but)\b")
_WONDERS = cue(r"i wonder|wondering|do you know|not sure (?:if|whether)|whether|can you (?:check|confirm)")
_IMAGINED = cue(
    r"imagine|suppose|supposing|assuming|what if|hypothetically|pretend|let's say|let us say|in theory|as if|even if|"
    r"were i|had i|if only|for example|say i|say we"
)
_IF = cue(r"if|provided(?: that)?|as long as|in case|unless")
_MAIN = re.compile(r",|(?<=\w \w{2} )(?:i|we|he|she|they) |(?<=\w{3} )(?:i|we|he|she|they) ")
"""Where the main clause begins after an "if" clause."""
_MODAL = cue(r"would|could|might|won't|will|shall|going to|gonna|plan to|want to|should|may")
_MODAL_SHORT = re.compile(r"\w['’](?:d|ll) (?!better|like|love|prefer|rather)")
_WOULD = re.compile(r"\bwould(?:n't| not)?(?!\w)|\w['’]d (?!better|been|already|just|never|had)")
_POLITE = re.compile(r"(?:\bwould|\w['’]d) (?:like|love|prefer|rather)\b")
_PLANS = cue(
    r"will|shall|going to|gonna|plan(?:s|ning|ned)? (?:to|on|for)|plans? (?:is|are)|intend(?:s|ing|ed)? to|about to|"
    r"looking (?:to|at|into|for)|thinking (?:of|about)|think about|considering|contemplating|debating|"
    r"aim(?:s|ing)? to|expect(?:s|ing|ed)? to|scheduled to|supposed to|decided to|agreed to|hoping to|prepar(?:e|"
    r"ing) to|"
    r"getting ready to|need(?:s)? to|have to|has to|try(?:ing)? to|tried to|someday|some day|one day|eventually|"
    r"applied (?:to|for)|applying|interview(?:ing|ed)? (?:at|with|for)|may (?:move|go|start|join|switch|change|take)"
)
_WILL_SHORT = re.compile(r"\w['’]ll(?!\w)")
_UNDER_WAY = re.compile(
    r"(?:\b(?:am|is|are)|\w['’](?:m|re|s)) (?:now |soon |probably |actually |also )?(?:moving|leaving|switching|"
    r"quitting|"
    r"starting|joining|changing|selling|buying|relocating|transferring|retiring|becoming|getting|flying|visiting)\b"
)
_AHEAD = cue(
    r"tomorrow|soon|(?:next|coming|upcoming) (?:week|weekend|month|year|spring|summer|autumn|fall|winter|quarter|"
    r"semester|"
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|"
    r"september|october|november|december)|in (?:a few|two|three|four|six|\d+) (?:days|weeks|months|years)"
)
_WANTS = cue(
    r"wish(?:es|ed)?|want(?:s|ed)?(?: to)?|hop(?:e|es|ed|ing)|dream(?:s|ing|ed)?(?: of| about)|would (?:like|"
    r"love)(?: to)?|"
    r"look(?:s|ing)? forward|long(?:s|ing)? (?:to|for)|if only"
)
_WANTS_SHORT = re.compile(r"\w['’]d (?:like|love)\b")
_HEARSAY = cue(
    r"apparently|supposedly|allegedly|reportedly|rumou?rs?|rumou?red|word is|people (?:say|said|think)|they say|"
    r"someone (?:said|says|told|mentioned|claims)|somebody (?:said|says|told|mentioned)|according to|"
    r"(?:i|we)(?:['’]ve| have)?(?: also| just| once)? (?:heard|read|saw|gather|overheard)|(?:i|we) (?:was|were) told|"
    r"is said to|are said to|you (?:said|told|mentioned|say)|it (?:seems|looks|sounds) (?:like|as if|as though|that)"
)
_REPORTS = re.compile(
    r"(?P<who>\b(?:my |our |his |her |their |the )?[A-Za-z][\w.'’-]*(?: [A-Z][\w.'’-]*)*) "
    r"(?:also |just |once |recently |always |still )?"
    r"(?:says|said|told (?:me|us|him|her|them)|tells (?:me|us)|mention(?:s|ed)|claim(?:s|ed)|thinks|believes|"
    r"insist(?:s|ed)|"
    r"swears|swore|reckons|wrote|reported|announced|assumes?)\b"
)
_NOT_OTHERS = frozenset(("i", "we", "you", "who", "that", "which", "have", "had", "just", "also", "already"))
_UNSURE = cue(
    r"maybe|perhaps|possibly|probably|likely|not (?:entirely |really |quite |completely )?(?:sure|certain)|unsure|"
    r"might|"
    r"could be|may be|may have|must be|must have|seems?|seemingly|presumably|as far as i (?:know|remember|recall)|"
    r"afaik|iirc|"
    r"if i (?:remember|recall)|can't (?:remember|recall)|don't (?:remember|recall|know)|doubt(?:s|ed)?|guessing|"
    r"almost|nearly|failed to|was going to|were going to|no idea|don't (?:think|believe)|doesn't (?:think|"
    r"believe)|joking|kidding|just kidding"
)
_SOFTENED = cue(r"(?:i|we) (?:think|guess|believe|suppose|assume|suspect|feel)")
_PAST = re.compile(r"\b(?:was|were|has|have|had|did|\w{2,}ed|\w+(?:ught|old|ent|ame|eft|ot))\b|['’]ve\b")
_CONDITION = re.compile(
    r"\b(?P<when>(?:when(?:ever)?|while|if|unless|except (?:when|on|for)|during|in case of|every time|each time)\s"
    r"(?:(?:i|we|he|she|they|it|you)\b)?(?:(?!(?<=\w\w )(?:i|we) )[^,.;!?])+)"
    r"|\b(?P<at>on (?:weekends|weekdays|holidays|vacation|\w+day(?:s| nights| mornings| evenings))|"
    r"in (?:the )?(?:summer|winter|spring|autumn|fall|summers|winters)(?!\w))"
)
_BROKEN_BY_TENSE = re.compile(
    r"\b(?:when|while) (?:i|we|he|she|they|it|you) (?:was|were|had|\w+ed|lived|got|came|went|began|left|grew|met|"
    r"saw)\b|"
    r"\bwhen \w+ing up\b|\bwhen (?:young|little)\b"
)
_ABOUT_WISHES = frozenset(
    [
        "plan",
        "plans",
        "planned",
        "planning",
        "goal",
        "goals",
        "aim",
        "intention",
        "intends",
        "intent",
        "wish",
        "wishes",
        "want",
        "wants",
        "wanted",
        "desire",
        "desired",
        "dream",
        "hope",
        "hopes",
        "interest",
        "interested",
        "preference",
        "prefers",
        "preferred",
        "request",
        "requested",
        "need",
        "needs",
        "target",
        "budget",
        "upcoming",
        "next",
        "future",
        "schedule",
        "scheduled",
        "ambition",
        "aspiration",
        "reminder",
        "todo",
        "task",
        "deadline",
    ]
)
_DOUBTS_IN_WISHES = frozenset((Modality.PLANNED, Modality.DESIRED))


@lru_cache(maxsize=512)
def read_claim(text: str, start: int, end: int, property_name: str = "") -> Reading:
    """Read what a text says about the value at `text[start:end]`.

    Args:
        text: a turn's text.
        start, end: offsets of the value; equal ones stand for no place in particular: the whole of the first sentence.
        property_name: where the property is itself a plan or a wish ("travel plan"), planning it is asserting it.
    """
    clause = clause_of(text, start, end)
    change = read_change(clause)
    doubt, attributed = _doubt(clause)
    if doubt in _DOUBTS_IN_WISHES and _ABOUT_WISHES & set(WORD.findall(property_name.casefold().replace("_", " "))):
        doubt = None
    hedged = doubt is None and bool(_SOFTENED.search(clause.segment))
    return Reading(
        doubt=doubt,
        attributed=attributed,
        hedged=hedged,
        negated=change.negated,
        ended=change.ended,
        corrects=change.corrects,
        updates=change.updates,
        adds=change.adds,
        only=change.only,
        swaps=change.swaps,
        condition="" if doubt else _condition(clause),
    )


def _doubt(clause: Clause) -> tuple[Modality | None, str]:
    """Why a claim is not simply asserted, and whose words it reports."""
    if _is_question(clause):
        return Modality.QUESTION, ""
    if _is_hypothetical(clause):
        return Modality.HYPOTHETICAL, ""
    segment = clause.segment
    reported = _attributed(clause)
    wanted = _WANTS.search(segment) or _WANTS_SHORT.search(segment)
    if wanted and wanted.start() < clause.at:
        return Modality.DESIRED, reported
    if _is_planned(clause):
        return Modality.PLANNED, reported
    if _UNSURE.search(segment) or (_WOULD.search(segment) and not _POLITE.search(segment)):
        return Modality.UNCERTAIN, reported
    if reported or _HEARSAY.search(segment):
        return Modality.HEARSAY, reported
    return None, ""


def _is_question(clause: Clause) -> bool:
    if _WONDERS.search(clause.segment[: clause.at]):
        return True
    opens = bool(_INTERROGATIVE.search(clause.segment))
    if not clause.sentence.rstrip(" \"'”’)").endswith(("?", "？")):
        return opens and bool(
            re.match(r"\W*(?:do|does|did|is|are|can|could|will|would|should) (?:i|you|we|they|he|she) ", clause.segment)
        )
    if opens:
        return True
    rest = clause.after
    later = _LATER_QUESTION.search(rest)
    if later is None:
        return True
    tail = rest[later.end() :].rstrip("?？ ")
    return bool(_TAG.search(tail)) or not _INTERROGATIVE.search(tail)


def _is_hypothetical(clause: Clause) -> bool:
    sentence = lower_ascii(clause.sentence)
    segment = clause.segment
    if _IMAGINED.search(segment[: clause.at]):
        return True
    condition = _IF.search(segment)
    if condition is None:
        return False
    main = _MAIN.search(segment, condition.end())
    inside = condition.start() < clause.at and (main is None or clause.at < main.start())
    if inside and condition[0] != "unless" and segment[condition.start() - 7 : condition.start()] != "except ":
        return True
    return bool(_MODAL.search(sentence) or _MODAL_SHORT.search(sentence))


def _is_planned(clause: Clause) -> bool:
    before, segment = clause.segment[: clause.at], clause.segment
    if _PLANS.search(before) or _WILL_SHORT.search(before):
        return True
    if _UNDER_WAY.search(before) and not CHANGED.search(before):
        return True
    return bool(_AHEAD.search(segment)) and not _PAST.search(segment)


def _attributed(clause: Clause) -> str:
    """Whose words a claim reports, as written, where the text says so before the value or right after it."""
    for match in _REPORTS.finditer(clause.written):
        who = match["who"]
        if lower_ascii(who.split()[0]) not in _NOT_OTHERS and not lower_ascii(who).startswith("you"):
            return who
    return ""


def _condition(clause: Clause) -> str:
    """The circumstances under which a habit holds, as written; empty for what is told of the past."""
    sentence = clause.sentence
    if _BROKEN_BY_TENSE.search(lower_ascii(sentence)):
        return ""
    for match in _CONDITION.finditer(lower_ascii(sentence)):
        if match.end() <= clause.value_start or match.start() >= clause.value_end:
            return sentence[match.start() : match.end()].strip()
    return ""
