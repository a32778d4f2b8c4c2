"""How two episodes are related, from what their texts say: English, with the plain words of Chinese, Japanese, Korean.

Only a sentence that names an entity of both and says how the two hang together makes a relation (the labels are those
of the task `relation`; EMIR2, section 3.1). Sharing a name, a day or a topic is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..tasks import RELATION
from .cues import pattern
from .label_rule import Chosen

NONE = "none"

# Of the source's text: what it says of the target.
_OF_THE_SOURCE: Mapping[str, tuple[float, str]] = {
    "caused_by": (
        0.7,
        r"\b(because( of)?|due to|as a (direct )?(result|consequence) of|owing to|on account of|caused by|"
        r"triggered by|that('s| is) why)\b|因为|由于|のせいで|ために|때문에",
    ),
    "enabled_by": (
        0.65,
        r"\b(thanks to|now that|made (it|this|that) possible|allowed (me|us|him|her|them) to|"
        r"using (the|that|what) .{0,40}\b(from|we got|i got))\b|多亏|おかげで|덕분에",
    ),
    "part_of": (
        0.65,
        r"\b(as (a )?part of|is (a )?part of|a (step|stage|leg|phase) (of|in)|"
        r"the (first|next|last|final) (step|stage|leg|phase) (of|in))\b|的一部分|の一部|의 일부",
    ),
    "follow_up_of": (
        0.75,
        r"\b(follow(s|ed|ing)?[- ]?up (on|to|about|with)|update on|back to|as (we|i|you) "
        r"(discussed|mentioned|said|agreed|planned)|(we|i|you)( had|'d|'ve| have)? (discussed|talked|spoke|mentioned|"
        r"asked)\b.{0,40}\b(earlier|before|last|yesterday|previously|ago|other day)|(earlier|last time|the other day)"
        r"[, ]+(we|i|you)|regarding (the|my|our|your)|remember (the|when|that|my|our|how)|still (about|on) the)\b|"
        r"跟进|之前(说|提|讨论)|上次|前回|この前|先日|지난번|저번에",
    ),
}
# Of the target's text, which is the earlier one: what it says of the source.
_OF_THE_TARGET: Mapping[str, tuple[float, str]] = {
    "enabled_by": (
        0.6,
        r"\b(to (prepare|get ready) for|in preparation for|preparing for|ahead of|"
        r"so that (i|we|you|he|she|they) can)\b|"
        r"为.{0,12}做准备|に備えて|준비",
    ),
}
_SAME = 0.6
"""Share of content words in common from which two texts that name two entities and a day alike tell of one event."""
_SAME_SURE = 0.65
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_]{4,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}")


def relate(source: str, target: str, shared: Sequence[str]) -> Chosen:
    """The relation of a source to a target, with probabilities of all labels.

    Args:
        source: text of the later episode, with its dates; target: of the earlier one.
        shared: entities that both name.
    """
    found = stated(source, target, shared)
    if not found and _one_event(source, target, shared):
        found = {"same_event": _SAME_SURE}
    label = max(found, key=lambda name: found[name], default=NONE)
    sure = found.get(label, 0.9)
    others = [option.name for option in RELATION.groups[0].options if option.name not in (label, NONE)]
    if label == NONE:
        rest = dict.fromkeys(others, (1 - sure) / len(others))
    else:
        rest = dict.fromkeys(others, 0.0) | {NONE: 1 - sure}
    return (label,), {label: sure, **rest}, sure


def stated(source: str, target: str, shared: Sequence[str]) -> dict[str, float]:
    """Relations that the wording itself gives, with how sure that is."""
    found: dict[str, float] = {}
    for text, cues in ((source, _OF_THE_SOURCE), (target, _OF_THE_TARGET)):
        for sentence in naming(text, shared):
            for label, (sure, words) in cues.items():
                if pattern(words).search(sentence):
                    found[label] = max(sure, found.get(label, 0.0))
    return found


def says_how(sentence: str) -> bool:
    """Whether a sentence says how something hangs together with something else."""
    return any(
        pattern(words).search(sentence) for cues in (_OF_THE_SOURCE, _OF_THE_TARGET) for _, words in cues.values()
    )


def naming(text: str, names: Sequence[str]) -> list[str]:
    """The sentences of a text that name one of some entities, whatever the case."""
    wanted = [name.casefold() for name in names if name]
    return [s.strip() for s in _SENTENCE.split(text) if any(_holds(s.casefold(), name) for name in wanted)]


def _holds(text: str, name: str) -> bool:
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        # Scripts without spaces have no edges of words.
        if not (_joins(before) and _joins(name[0])) and not (_joins(after) and _joins(name[-1])):
            return True
        at = text.find(name, at + 1)
    return False


def _joins(character: str) -> bool:
    return character.isalnum() and character < "\u0e00"


def _one_event(source: str, target: str, shared: Sequence[str]) -> bool:
    if len(shared) < 2 or not set(_DATE.findall(source)) & set(_DATE.findall(target)):
        return False
    if set(_NUMBER.findall(source)) != set(_NUMBER.findall(target)):
        return False  # prices, times, counts: what differs in them is another one of its kind
    first, second = (set(_WORD.findall(text.casefold())) for text in (source, target))
    return bool(first and second) and len(first & second) / len(first | second) >= _SAME
