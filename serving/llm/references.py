"""References as a model reported them, kept where the texts bear them out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from intentmem.memory.types import Mention, Reference, Turn

_CONFIDENCE = 0.8
_LONGEST = 120


def checked_references(
    turn: Turn, raw: Sequence[Mapping[str, Any]], before: Sequence[Turn], known: Sequence[Mention]
) -> list[Reference]:
    """Those of the reported references whose phrase stands in the turn and whose target was named before it.

    A phrase that occurs several times is taken where it occurs first. Offsets are into `turn.text`.
    """
    named = "\n".join([*(other.searchable_text for other in before), *(mention.name for mention in known)])
    # The speakers of a chat are named by its turns without being in their texts.
    named += "\n" + "\n".join(other.speaker or "" for other in before)
    earlier = named.casefold()
    found: list[Reference] = []
    for entry in raw:
        phrase, target = (str(entry.get(key) or "").strip() for key in ("phrase", "stands_for"))
        if not phrase or not target or len(target) > _LONGEST or phrase.casefold() == target.casefold():
            continue
        match = _find(turn.text, phrase)
        if match is None or not any(c.isalnum() for c in target):
            continue
        # A name of the turn itself may be meant, but then one that stands before the phrase.
        if target.casefold() not in earlier and target.casefold() not in turn.text[: match.start()].casefold():
            continue
        if any(match.start() < other.end and other.start < match.end() for other in found):
            continue
        kind = "definite" if " " in phrase else "pronoun"
        found.append(
            Reference(match.start(), match.end(), match.group(), " ".join(target.split()), kind, _CONFIDENCE)  # type: ignore[arg-type]
        )
    return sorted(found, key=lambda reference: reference.start)


def _find(text: str, phrase: str) -> re.Match[str] | None:
    edge_before = r"(?<!\w)" if phrase[0].isascii() else ""
    edge_after = r"(?!\w)" if phrase[-1].isascii() else ""
    return re.search(f"{edge_before}{re.escape(phrase)}{edge_after}", text, re.IGNORECASE)
