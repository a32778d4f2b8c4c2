"""What the words around a value say that it is a value of (EnSIMem, section 3: properties of intermediate granularity).

General English: verbs and nouns of time, place and money, none tied to a corpus.
"""

from __future__ import annotations

import re

from .value_spans import ValueKind


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ROLES = re.compile(
    r"\b(?:(?P<departure>depart\w*|leav(?:e|es|ing)\b|sets? (?:off|out)|tak(?:e|es|ing) off|outbound|outgoing)"
    r"|(?P<arrival>arriv\w*|land(?:s|ing)?\b|(?:gets?|getting) (?:in|there)\b)"
    r"|(?P<return>return\w*|(?:com(?:e|es|ing)|get(?:ting)?|go(?:ing)?|be|fly(?:ing)?|head(?:ing)?) back\b|inbound)"
    r"|(?P<check_in>check(?:ing|ed)?(?:[ -](?:me|us|you))?[ -]?in(?:g)?\b)"
    r"|(?P<check_out>check(?:ing|ed)?[ -]?out\b)"
    r"|(?P<pickup>pick(?:ed|ing|s)?(?: (?:it|them|him|her|you|me|the \w+))?[ -]?up\b|pickup)"
    r"|(?P<drop_off>drop(?:ped|ping|s)?(?: (?:it|them|the \w+))?[ -]?off\b|dropoff|hand(?:ing)? (?:it )?back)"
    r"|(?P<opening>opens?\b|opening)|(?P<closing>closes?\b|closing)"
    r"|(?P<start>start\w*|begin\w*)|(?P<end>ends?\b|ending|until\b|till\b|finish\w*)"
    r"|(?P<appointment>appointments?\b)|(?P<visit>visit\w*)|(?P<birth>born\b|birthday)"
    r"|(?P<due>due\b|deadline)|(?P<release>releas\w*|published))"
)
_TRAVELS = re.compile(
    r"\b(?:flights?|fly\w*|travel\w*|trips?|train|bus|buses|ride|tickets?|go|goes|going|head\w*|journey|depart\w*|"
    r"leav(?:e|es|ing)|return\w*|driv\w+|arriv\w*|destination|com(?:e|ing))\b"
)
_AMOUNT = re.compile(
    r"\b(?:(?P<total>total|overall|altogether|in all)|(?P<balance>balance)|(?P<fare>fare)|(?P<rent>rents?\b)|"
    r"(?P<budget>budget)|(?P<salary>salary|earns?\b|income)|(?P<deposit>deposit)|(?P<fee>fees?\b)|(?P<discount>discount)|"
    r"(?P<price>price|costs?|charges?|pay))"
)
_OF = re.compile(r"^ (?:chance|possibility|probability) of (?P<what>[a-z]+)|^ (?P<noun>humidity|discount|off)\b")
_NOUN_BEFORE = re.compile(
    r"\b(?:the|its|their|his|her|my|your|average|an?) (?P<noun>(?:[a-z]+ )??[a-z]+)"
    r"(?: (?:is|are|was|will be|should be|of|at|around|about|approximately|currently|likely|to be))+ $"
)
_SIMPLE = {"email": "email address", "website": "website", "phone": "phone number", "address": "address"}
_WHICH = re.compile(
    r"\b(?:what|which)(?:['’]s| is| are| was)?(?: the| your| their| its| his| her)? "
    r"(?P<noun>(?:(?:type|kind|sort|name) of (?:the |an? )?)?[a-z]+)"
)
_NOT_PROPERTIES = _words(
    """
    about are can could did do does else for i if in is it kind like me more of on one other sort that the there they
    this type was we will would you your thing things option options information details name
    """
)
_MADE = re.compile(
    r"(?:(?P<director>directed)|(?P<author>written|authored)|(?P<cast>starring|acted)|"
    r"(?P<album>(?:from|on|in) the album)"
    r"|(?P<artist>(?:sung|performed|song|songs|music|track|tracks|album|something|anything)(?: by)?))(?: by)? $"
)
_REACH = 90
"""Characters before a value that may say which it is."""


def time_property(kind: ValueKind, before: str, after: str, question: str) -> str:
    """Which date or time a value is: by the word right after it, else the nearest one before it, else the question."""
    role = ""
    following = _ROLES.search(after[:22])
    if following and re.fullmatch(r"[ -]*(?:for the |for an? )?", after[: following.start()]):
        role = str(following.lastgroup)
    else:
        for match in _ROLES.finditer(before[-_REACH:]):
            role = str(match.lastgroup)
        if not role and question:
            asked = [str(match.lastgroup) for match in _ROLES.finditer(question)]
            role = asked[0] if len(set(asked)) == 1 else ""
    return f"{role.replace('_', ' ')} {kind}".strip()


def measure_property(kind: ValueKind, before: str, after: str, question: str) -> str:
    """The property of a value that is no date or time, "" where the words do not say."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind == "rating":
        return "rating"
    if kind == "temperature":
        return "temperature"
    if kind == "money":
        return _amount(before, after, question)
    if kind == "duration":
        return "duration" if before.endswith("for ") or "how long" in question or "how many" in question else ""
    following = _OF.search(after)
    if following:
        what = following["what"]
        return f"chance of {what}" if what else "discount" if following["noun"] == "off" else following["noun"]
    preceding = _NOUN_BEFORE.search(before)
    return preceding["noun"] if preceding and preceding["noun"] not in _NOT_PROPERTIES else ""


def _amount(before: str, after: str, question: str) -> str:
    names = [str(match.lastgroup) for match in _AMOUNT.finditer(before[-60:])]
    names = names or [str(match.lastgroup) for match in _AMOUNT.finditer(after[:20])]
    names = names or [str(match.lastgroup) for match in _AMOUNT.finditer(question)]
    if "total" in names:
        return "total price"
    return names[-1] if names else "price"


def place_property(before: str, is_place: bool, question: str) -> str:
    """What a name after a preposition of place is: where something is, or where a way begins or ends; "" for none.

    Args:
        before: the sentence before the name, lower-case.
        is_place: whether the text says that the name is a building or another place to be at.
        question: the question that the turn answers, lower-case, "" for none.
    """
    preposition = re.search(r"\b(in|near|around|at|from|to|for|into)(?: the)? $", before)
    if preposition is None:
        return asked_property(question) if not before.strip() else ""
    word = preposition[1]
    if word in ("from", "to", "into") and (_TRAVELS.search(before) or _TRAVELS.search(question)):
        return "origin" if word == "from" else "destination"
    roles = [str(match.lastgroup) for match in _ROLES.finditer(before[-_REACH:])]
    if roles and roles[-1] in ("pickup", "drop_off"):
        return f"{roles[-1].replace('_', ' ')} location"
    if word in ("in", "near", "around"):
        return "location" if is_place else "city"
    return "location" if word == "at" else ""


def maker_property(before: str) -> str:
    """What a name is that a work is said to be by, from or with; "" for none."""
    match = _MADE.search(before[-40:])
    return str(match.lastgroup) if match else ""


def asked_property(question: str) -> str:
    """The property that a question asks for, where it asks for one; "" otherwise."""
    found = {match["noun"].split()[-1] for match in _WHICH.finditer(question)} - _NOT_PROPERTIES
    if re.search(r"\bwhere\b", question):
        leaving = re.search(r"\b(?:from|leaving|departing|coming|starting)\b", question)
        going = re.search(
            r"\b(?:to|going|heading|headed|travell?ing|destination)\b(?! (?:look|search|find|leave))", question
        )
        found.add("" if leaving and going else "origin" if leaving else "destination" if going else "location")
    return found.pop() if len(found) == 1 else ""
