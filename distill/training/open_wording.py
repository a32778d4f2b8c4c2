"""Label texts in other words, so that a student learns to read labels and not to recognise them."""

from __future__ import annotations

import random

_NAME_ALONE, _DESCRIPTION_ALONE, _OTHER_VERB = 0.18, 0.08, 0.24
VERBS: tuple[tuple[str, ...], ...] = (
    ("give", "state", "tell", "specify", "provide", "say which"),
    ("ask for", "ask about", "request", "inquire about", "ask"),
    ("prompt for", "request", "ask the other to specify", "ask which"),
    ("answer with", "inform about", "tell", "report", "reply with"),
    ("check", "confirm", "verify", "ask confirmation of", "repeat"),
    ("offer to", "propose to", "suggest to", "offer help to"),
    ("offer", "suggest", "recommend", "present", "propose"),
    ("want to", "intend to", "request to", "ask to", "need to"),
    ("agree to", "accept to", "accept the offer to"),
    ("choose", "select", "decide for", "pick"),
    ("accept what was proposed", "confirm", "agree", "accept offer", "say yes"),
    ("reject what was proposed", "disagree", "decline offer", "deny", "say no"),
    ("ask for alternatives", "request other options", "ask for something else"),
    ("give thanks", "thank", "express gratitude"),
    ("say goodbye", "take leave", "close the conversation"),
    ("tell how many were found", "report the number of results"),
    ("report success", "confirm completion", "confirm that it is done"),
    ("report failure", "say that it failed", "report that it could not be done"),
    ("ask whether more is wanted", "ask if anything else", "offer further help"),
    ("decline further help", "say that nothing more is needed", "decline more"),
)
"""Verbs that label names begin with, each with others that mean the same; of two that fit, the longer one counts."""
_LONGEST_FIRST = sorted(VERBS, key=lambda words: -len(words[0]))


def reworded(text: str, rng: random.Random) -> str:
    """A label's text `name: description` as it is, without one of the two, or with another verb."""
    name, _, description = text.partition(": ")
    draw = rng.random()
    if draw < _NAME_ALONE:
        return name
    if draw < _NAME_ALONE + _DESCRIPTION_ALONE:
        return description or name
    if draw < _NAME_ALONE + _DESCRIPTION_ALONE + _OTHER_VERB:
        name = _with_other_verb(name, rng)
        return f"{name}: {description}" if description and rng.random() < 0.5 else name
    return text


def _with_other_verb(name: str, rng: random.Random) -> str:
    for first, *others in _LONGEST_FIRST:
        if name == first or name.startswith(f"{first} "):
            return rng.choice(others) + name[len(first) :]
    return name
