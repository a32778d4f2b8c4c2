"""Families of entity types: what kind of value a label stands for, by the head words of its description, then its name.

Thirteen families, in the order in which they are tried; what fits none is `other`. Only evaluation uses them: a decider
that confuses "departure date" with "leaving date" knows more than one that takes it for a price.
"""

from __future__ import annotations

import re
from functools import cache

FAMILIES: tuple[tuple[str, str], ...] = (
    ("property", r"^(boolean|whether|if|is|has|offers|serves|good for|furnished|pets|allows?)\b"),
    ("date", r"\b(date|day|dates)\b"),
    ("duration", r"\b(duration|length of|wait(ing)? time)\b"),
    ("time", r"\b(time|times|hour)\b"),
    ("contact", r"\b(phone|email|website|contact)\b"),
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


@cache
def family(text: str) -> str:
    """The family of a label's text `name: description`: its name decides, else its description."""
    name, _, description = text.lower().partition(": ")
    if re.search(FAMILIES[0][1], description) or re.search(FAMILIES[0][1], name):
        return FAMILIES[0][0]
    for words in (name, description):
        for found, pattern in FAMILIES[1:]:
            if re.search(pattern, words):
                return found
    return OTHER
