"""Surface cues: what the wording of a text says about it, whatever it is about."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

_AFFIRM = (
    r"^\W*(yes|yeah|yep|yup|no|nope|ok|okay|sure|great|perfect|alright|right|correct|exactly|fine|good|nice|cool|"
    r"awesome|thanks|thank you|sounds|and|but|so|not|what about|how about|"
    r"好的?|是的?|对|不|谢谢|那|はい|いいえ|ええ|うん|ありがとう|それ|네|예|아니|응|고마)"
)
_REFERS = r"\b(it|that|this|they|them|there|those|these|ones?)\b|这|那|它|それ|これ|그것|그거"
_SHIFTS = (
    r"\b(by the way|another|also|something else|anything else|different|instead|switch(ing)?|back to|speaking of|"
    r"new|now|unrelated|separately|meanwhile|on another note)\b|另外|对了|顺便|换个|ところで|別の|그런데|참|다른"
)
_OPENS = (
    r"^\W*(hi|hello|hey)\b|\b(i need|i want|i'd like|i would like|i'm looking|i am looking|looking for|help me|"
    r"(can|could) you (find|help|search)|please (find|search))\b|帮我|请帮|我想|手伝って|探して|欲しい|도와|찾아|싶어"
)
_QUESTION = (
    r"[?？]|^\W*(who|whom|whose|what|which|when|where|why|how|is|are|was|were|do|does|did|can|could|will|would|"
    r"should|has|have|had|may)\b|(吗|呢|么)\s*$|か[。？?]?\s*$|(까|나요|니)[.?？]?\s*$"
)
_IMPERATIVE = (
    r"^\W*(please\s+)?(find|search|show|tell|give|book|reserve|play|send|call|help|make|write|create|list|get|add|"
    r"remove|cancel|change|suggest|recommend|explain|look|check|order|buy|pay|remind|open|set)\b|\bplease\b|请|ください|주세요"
)


class TurnCues(NamedTuple):
    """What the wording of a turn says: each 0 or 1, but `words`, its length (a CJK character counts as half a word)."""

    words: float
    affirms: float
    refers: float
    shifts: float
    opens: float
    asks: float
    commands: float


@cache
def pattern(source: str) -> re.Pattern[str]:
    """The compiled pattern, ignoring case."""
    return re.compile(source, re.IGNORECASE)


def read_cues(text: str) -> TurnCues:
    """Read the cues of a turn's text. A leading `speaker:` is left out."""
    body = strip_speaker(text)
    return TurnCues(
        len(body.split()) + len(pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]").findall(body)) / 2,
        *(
            float(bool(pattern(source).search(body)))
            for source in (_AFFIRM, _REFERS, _SHIFTS, _OPENS, _QUESTION, _IMPERATIVE)
        ),
    )


def strip_speaker(text: str) -> str:
    """The text without a leading `speaker:` of one to three words, as a rendered turn has it."""
    return pattern(r"^\s*[^\W\d][\w.'-]*(?: [\w.'-]+){0,2}:\s+").sub("", text, count=1)
