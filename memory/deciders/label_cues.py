"""Surface cues for labels: a turn of a certain form speaks for labels whose name holds a certain word.

Cues go by the words of a label's name, so they serve seed labels and grown ones alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..stemming import stem
from .cues import pattern

# (form of the turn, words of a label's name, weight)
CueTable = tuple[tuple[str, str, float], ...]

_ASKS = r"[?？]\s*$|[?？]|(吗|呢)\s*$"
_WANTS = (
    r"\b(i need|i want|i'd like|i would like|i'm looking|i am looking|looking for|find me|help me|please|"
    r"(can|could|would) you)\b|帮我|请|ください|주세요"
)
EVENT_CUES: CueTable = (
    (_ASKS, r"^(ask|request)\b", 0.6),
    (rf"^(?!.*({_ASKS})).+", r"^ask\b(?! confirmation)", -0.8),
    (_WANTS, r"^request\b", 0.8),
    (r"\bhow much\b|\b(price|cost|fare|fee)s?\b.*\?", r"\bask\b.*\bprice\b", 1.0),
    (r"\b(available|availability|open)\b.*\?|\bany (free|open)\b", r"\bask availability\b", 0.8),
    (r"\bwhen\b.*\?|\bwhat (time|date|day)\b", r"\bask (time|date)", 1.0),
    (r"\bwhere\b.*\?|\b(address|located|location)\b.*\?", r"\bask (location|place|address)", 1.0),
    (r"\b(phone|number|e-?mail|website|contact)\b.*\?", r"\bask contact", 1.0),
    (r"\b(rating|rated|stars?|any good)\b.*\?", r"\bask rating", 1.0),
    (r"\bwhy\b.*\?", r"\bask reason\b", 1.0),
    (r"\bhow (do|can|should|would|to)\b.*\?", r"\bask how to\b", 1.0),
    (r"\bhow (are|is|was|have|did) (you|it|your|things)\b.*\?", r"\b(wellbeing|ask about)\b", 0.8),
    (r"\b(recommend|suggest)\b.*\?", r"\brequest recommendation\b", 1.0),
    (r"\b(another|other|different|else)\b.*(\?|$)", r"\balternatives?\b", 0.6),
    (r"\b(confirm|correct|is that right|verify)\b|\bplease confirm\b", r"\bask confirmation\b", 1.2),
    (
        r"\b(how about|what about|there is|there's|i found|i have found|you can try|do you like)\b",
        r"\b(offer|recommend)\b",
        0.8,
    ),
    (r"\b(you should|you could|try to|consider|i suggest|i recommend|i'd recommend)\b", r"\b(advice|recommend)\b", 0.8),
    (r"\b(would you like|do you want|shall i|should i|want me to)\b.*\?", r"\boffer help\b", 0.9),
    (r"^\W*(yes|yeah|yep|correct|right|that's right|sure)\b", r"\b(confirm details|accept)\b", 0.8),
    (r"^\W*(no|nope|not)\b", r"\b(decline|deny|disagree)\b", 0.6),
    (
        r"\b(that works|sounds (good|great|perfect)|go ahead|i'll take|let's do|i like that)\b",
        r"\b(accept|select)\b",
        0.9,
    ),
    (r"\b(thank you|thanks|thx|appreciate)\b|谢谢|ありがとう|고마|감사", r"\bthank", 1.0),
    (r"^\W*(hi|hello|hey|good (morning|evening|afternoon))\b|你好|こんにちは|안녕", r"\bgreet", 0.8),
    (
        r"\b(bye|goodbye|see you|take care|have a (good|great|nice|wonderful))\b|再见|さようなら",
        r"\bgoodbye\b|\bclose\b",
        1.2,
    ),
    (r"\b(anything|something) else\b.*\?", r"\banything else\b", 1.4),
    (r"\b(that's all|that is all|nothing else|that will be all|no,? that)\b", r"\bdecline further\b", 1.2),
    (
        r"\b(has|have) been (booked|made|reserved|sent|added|scheduled|confirmed|set|paid)\b|\bsuccess",
        r"\bcompletion\b",
        1.2,
    ),
    (r"\b(unable|couldn't|could not|failed|wasn't able|was not able|unfortunately)\b", r"\bfailure\b", 0.9),
    (r"\b(book|reserve|reservation)\b", r"\b(reserv|book)", 0.6),
    (r"\b(buy|purchase|order)\b", r"\bpurchase\b", 0.6),
    (r"\b(pay|transfer|send) .*(\$|money|dollar)", r"\bpay", 0.8),
    (r"\b(cancel|call off)\b", r"\bcancel", 1.0),
    (r"\b(change|instead|rather|actually|changed my mind)\b", r"\bchange\b", 0.7),
    (r"\b(sorry|apolog)", r"\bapolog", 0.7),
    (r"\b(congrat|well done|great job|proud of you|amazing)", r"\b(compliment|encourage)", 0.7),
    (r"\b(i think|in my opinion|i believe)\b", r"\bexpress opinion\b", 0.7),
    (r"\b(i feel|i'm (so )?(happy|sad|excited|worried|tired|stressed|nervous|scared|proud))\b", r"\bfeeling\b", 0.9),
)
TYPE_CUES: CueTable = (
    (
        r"[$€£¥₩]\s?\d|\d\s?(dollars?|euros?|pounds?|yen|yuan|won|bucks)\b|\bhow much\b|多少钱|いくら|얼마",
        r"\b(price|cost)\b",
        1.2,
    ),
    (
        r"\b\d{1,2}(:\d{2})?\s?([ap]\.?m)\b|\b\d{1,2}:\d{2}\b|\b(noon|midnight|o'clock)\b|\d[点時시]",
        r"\btime of day\b|\bhour\b",
        1.3,
    ),
    (
        r"\b(monday|tuesday|wednesday|thursday|friday|saturday|sunday|today|tomorrow|tonight|yesterday)\b|"
        r"\b(january|february|march|april|may|june|july|august|september|october|november|december) \d|"
        r"\b\d{1,2}(st|nd|rd|th)\b|\b\d{4}-\d{2}-\d{2}\b|\d[日号일]",
        r"\bdate\b",
        1.3,
    ),
    (r"\b\d+\s?(minutes?|mins?|hours?|hrs?|days?|weeks?|months?|nights?)\b|\bhow long\b", r"\bduration\b", 0.9),
    (r"\d\s?%|\bpercent\b", r"\bpercent", 1.3),
    (r"\S@\S+\.\S", r"\bemail\b", 1.5),
    (r"https?://|\bwww\.", r"\b(website|url|link)\b", 1.5),
    (r"\+?\d[\d\s().-]{7,}\d", r"\bphone\b", 1.5),
    (r"\b\d+ (\w+ ){1,3}(street|st|avenue|ave|road|rd|boulevard|blvd|drive|lane|way)\b", r"\baddress\b", 1.5),
    (
        r"\b(\d+|one|two|three|four|five|six|seven|eight) (people|persons?|adults?|guests?|of us|passengers?)\b",
        r"\bpeople\b",
        1.4,
    ),
    (r"\d(\.\d)?\s?(stars?|/\s?(5|10))\b|\brat(ed|ing)\b", r"\brating\b", 1.2),
    (r"-?\d+\s?(°|degrees?)\s?[cf]?\b", r"\btemperature\b", 1.4),
    (r"\d\s?(kg|kilos?|lbs?|grams?)\b", r"\bweight\b", 1.4),
    (r"\d\s?(km|miles?|metres?|meters?)\b|\bhow far\b", r"\bdistance\b", 1.3),
    (r"\b(cheap|moderate|inexpensive|expensive|affordable)\b", r"\bprice range\b", 1.4),
    (
        r"\b(every|each) (day|week|month|year|morning|evening)\b|\bhow often\b|\b(daily|weekly|monthly)\b",
        r"\bfrequency\b",
        1.0,
    ),
    (r"\b(available|availability)\b", r"\bavailab", 1.0),
)
_NAMED = 0.8


class LabelCues:
    """The cues of one vocabulary. `read` gives what a turn's wording says for each label."""

    def __init__(self, table: CueTable, texts: Sequence[str]) -> None:
        names = [text.split(":", 1)[0] for text in texts]
        rules = []
        for form, word, weight in table:
            hits = np.array([weight * bool(pattern(word).search(name)) for name in names])
            if hits.any():
                rules.append((form, hits))
        self._rules = rules
        self._size = len(names)
        self._stems: dict[frozenset[str], list[int]] = {}
        for row, name in enumerate(names):
            self._stems.setdefault(stems(name), []).append(row)

    def read(self, text: str) -> NDArray[np.float64]:
        """(L,) in units where 1 is a clear sign; 0 where the wording says nothing."""
        total = np.zeros(self._size)
        for form, hits in self._rules:
            if pattern(form).search(text):
                total += hits
        spoken = stems(text)
        for words, rows in self._stems.items():
            if words and words <= spoken:
                total[rows] += _NAMED
        return total


def stems(text: str) -> frozenset[str]:
    """The stems of a text's words, function words left out."""
    words = pattern(r"[^\W\d_]{2,}").findall(text.lower())
    return frozenset(stem(word) for word in words if word not in _FUNCTION)


_FUNCTION = frozenset(("of", "or", "and", "the", "to", "an", "in", "on", "at", "for", "if", "how", "about"))
