"""Families of entity types: what kind of value a label stands for, by its head word.

Thirteen families, in the order in which they are tried; what fits none is `other`. Only evaluation uses them: a decider
that confuses "departure date" with "leaving date" knows more than one that takes it for a price.
"""

from __future__ import annotations

import re
from functools import cache

FAMILIES: tuple[tuple[str, str], ...] = (
    ("property", r"^(boolean|whether|if|is|has|offers|serves|good for|furnished|pets|allows?)\b"),
    ("contact", r"\b(phone|email|website|contact)\b"),
    ("duration", r"\b(duration|length|wait(ing)? time|number of (hours|days|nights|weeks))\b"),
    ("date", r"\b(date|day|dates)\b"),
    ("time", r"\b(time|times|hour)\b"),
    ("rating", r"\b(rating|stars?|review)\b"),
    ("money", r"\b(price|prices|fare|cost|amount|balance|rent|fee|budget|income)\b"),
    ("count", r"\b(number|count|size|travelers|passengers|party|transfers|stops|people)\b"),
    ("place", r"\b(city|location|address|area|station|airport|destination|origin|venue|street|country|where|place)\b"),
    ("name", r"\b(name|title|who|artist|director|actors?|identifier|person|album)\b"),
    ("measure", r"\b(temperature|humidity|precipitation|wind|speed|percentage|weight|distance|year)\b"),
    ("kind", r"\b(type|category|subcategory|class|genre|cuisine|kind|style|colou?r)\b"),
    ("means", r"\b(device|account|subtitles?|method|mode|transport|language|tool)\b"),
)
"""Each family with the words that tell it."""
OTHER = "other"
_WHOLE = 3


@cache
def family(text: str) -> str:
    """The family of a label's text `name: description`.

    The first three are told by the whole name, the others by its head word, else by any word of it, else by the
    description; `property` also by a description that begins as a yes or no.
    """
    name, _, description = text.lower().partition(": ")
    head = re.split(r" (?:of|for|in|from) ", name)[0].split()[-1:]
    whole, others = FAMILIES[:_WHOLE], FAMILIES[_WHOLE:]
    if re.search(whole[0][1], description):
        return whole[0][0]
    for words, families in ((name, whole), (" ".join(head), others), (name, others), (description, FAMILIES[1:])):
        for found, pattern in families:
            if re.search(pattern, words):
                return found
    return OTHER
