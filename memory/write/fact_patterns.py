"""Sentences that state a fact outright: "my X is Y", "the X of Y is Z", "I live in X" (EnSIMem, section 3).

English. A value ends where its clause does; one that is too long to be a value, or no more than a pronoun or an
adjective of judgement, is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .languages import COMMON_ADJECTIVES, FUNCTION_WORDS, PERSON_NOUNS, lower_ascii

SELF = "I"
"""The entity of what a speaker says of himself."""


@dataclass(frozen=True, slots=True)
class Fact:
    """`text[start:end]` is the value of a property of an entity, `SELF` for whoever speaks."""

    entity: str
    property: str
    start: int
    end: int
    relation: bool = False


_NOUN = r"(?:[a-z][a-z-]*(?:['’]s)? ){0,2}?[a-z][a-z-]*"
_BE = r"(?: is|['’]s| are| was)(?: now| currently| called| named)*"
_MY = re.compile(rf"\bmy (?P<property>{_NOUN}){_BE} (?=(?P<value>\S.*))")
_OF = re.compile(
    rf"\b[Tt]he (?P<property>{_NOUN}) (?:of|for|at) (?:the )?(?P<entity>[A-Z][\w'’&-]*"
    r"(?: (?:of |the |de |and )?[A-Z0-9][\w'’&-]*)*)"
    r" (?:is|are|was|will be) (?=(?P<value>\S.*))"
)
_POSSESSIVE = re.compile(
    rf"\b(?P<entity>[A-Z][\w&-]*(?: [A-Z0-9][\w&-]*)*)['’]s (?P<property>{_NOUN})"
    r" (?:is|are|was|will be) (?=(?P<value>\S.*))"
)
_ADVERB = r"(?:(?:now|currently|still|also|just|recently|usually|really|mostly|always) )?"
_SELF_VERBS = tuple(
    (
        re.compile(
            rf"\b(?:I|we|I['’]m|I['’]ve|we['’]ve|I am|I have|we have) ?{_ADVERB}{verb} (?=(?P<value>\S.*))", re.I
        ),
        name,
        relation,
    )
    for verb, name, relation in (
        (r"(?:live|living|reside|based) in", "residence", True),
        (r"(?:moved|relocated) (?:from [A-Z]\w+(?: [A-Z]\w+)* )?to", "residence", True),
        (r"(?:was )?born in", "birthplace", True),
        (r"(?:grew up|raised) in", "hometown", True),
        (r"(?:am |come |originally )*from", "origin", True),
        (r"(?:am )?allergic to", "allergy", False),
        (r"(?:work|working) (?:for|at)", "employer", True),
        (r"(?:work|working) as", "occupation", False),
        (r"(?:am )?married to", "spouse", True),
        (r"(?:study|studied|studying) (?:at)", "education", True),
        (r"(?:graduated from)", "education", True),
        (r"speak", "language", False),
        (r"drive", "vehicle", False),
    )
)
_NAMED = re.compile(
    r"\b(?:I|we) (?:have|own|had|adopted|got|bought) (?:an?|my|our|two|three) (?:[a-z-]+ ){0,2}?(?P<property>[a-z-]+)"
    r",? (?:called|named|whose name is) (?=(?P<value>[A-Z].*))"
)
_HAS_NOT = re.compile(r"\bnot? |n['’]t |\bnever ")
_END = re.compile(
    r"[,;:!?()\n—–]|\.(?=\s|$)| - | (?:and|but|because|so|since|when|which|that|if|though|although|while|who|where"
    r"|than|then|these days|now|right now|at the moment|anymore|any more|as well|too|already|instead|again|please"
    r"|thanks"
    r"|for|with|after|before|until|till|as|from|by|last|this|next)(?= |[.,!?]|$)",
    re.IGNORECASE,
)
_MOST_WORDS = 6
_OPENERS = frozenset(("a", "an", "the", "my", "near", "in", "at", "on", "one"))
"""Function words that a value may begin with."""
_PLACES = frozenset(("residence", "birthplace", "hometown", "origin", "employer", "spouse", "education", "language"))
_PRONOUN = re.compile(
    r"(?:the |a |an )?(?:one|ones|it|this|that|same|here|there|home|me|you|him|her|them|us|everyone)$"
)
_VERB_LIKE = re.compile(r"(?:\w+ing|going|gonna|not|n't|\w+ed)\b")
_SPLIT_VERBS = re.compile(r"\b(?:if|whether|what|how|suppose|imagine|wish|think)\b")


def find_facts(text: str, own: bool) -> Iterator[Fact]:
    """Facts that one sentence states.

    Args:
        text: the sentence.
        own: whether its speaker may speak of himself: not an assistant.
    """
    lowered = lower_ascii(text)
    if own and (" my " in f" {lowered}" or lowered.startswith(("i", "we")) or " i" in lowered):
        yield from _own(text)
    for pattern in (_OF, _POSSESSIVE) if " of " in text or "'s " in text or "’s " in text or " for " in text else ():
        for match in pattern.finditer(text):
            yield from _fact(text, match, match["entity"], match["property"])


def _own(text: str) -> Iterator[Fact]:
    for match in _MY.finditer(lower_ascii(text[:1]) + text[1:]):
        words = match["property"].split()
        person = words[-1] in PERSON_NOUNS
        if FUNCTION_WORDS & set(words) or (person and not text[match.start("value")].isupper()):
            continue
        yield from _fact(text, match, SELF, match["property"], relation=person)
    named = _NAMED.search(text)
    if named:
        yield from _fact(text, named, SELF, named["property"], capitalised=True)
        return
    for pattern, name, relation in _SELF_VERBS:
        said = pattern.search(text)
        if said and not _SPLIT_VERBS.search(lower_ascii(text[: said.start()])):
            yield from _fact(text, said, SELF, name, relation, name in _PLACES)


def _fact(
    text: str, match: re.Match[str], entity: str, name: str, relation: bool = False, capitalised: bool = False
) -> Iterator[Fact]:
    start = match.start("value")
    stop = _END.search(text, start)
    end = stop.start() if stop else len(text)
    while end > start and text[end - 1] in " .\"'":
        end -= 1
    for article in ("the ", "The "):
        if capitalised and text.startswith(article, start):
            start += len(article)
    value = lower_ascii(text[start:end])
    words = value.split()
    if (
        not words
        or words[0] in FUNCTION_WORDS - _OPENERS
        or len(words) > _MOST_WORDS
        or (capitalised and not text[start].isupper())
    ):
        return
    if (words[0] in COMMON_ADJECTIVES and len(words) == 1) or _VERB_LIKE.match(value) or _PRONOUN.fullmatch(value):
        return
    if FUNCTION_WORDS.issuperset(words) or (_HAS_NOT.search(match[0][: match.start("value") - match.start()])):
        return
    yield Fact(entity, name, start, end, relation)
