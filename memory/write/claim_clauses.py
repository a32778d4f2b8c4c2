"""The part of a sentence that a value stands in: what is said in another part is not said of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .languages import lower_ascii, sentences

_SUBJECT = r"(?:i|we|he|she|they|it|my|our|his|her|their)\b"
_MAJOR = re.compile(
    rf"[;—–]|\s-\s|\b(?:but|however|whereas|although|though|yet)\b|,?\s\b(?:and|so|then)\s+(?:now\s+|then\s+)?{_SUBJECT}"
)
_MINOR = re.compile(r"[,;—–]|\s-\s|\b(?:but|however|whereas|although|though|yet|and then)\b")
_PLACE = "\ufffc"
_JOINED = re.compile(rf"(?=({_SUBJECT}|now\s|then\s))")


@dataclass(frozen=True, slots=True)
class Clause:
    """A value's surroundings, lower-case, the value itself replaced by one character at `at`.

    segment: the independent clause, up to "but" or the next subject. before, near: what comes before the value in
    it, and in its part between commas. after: what follows in the sentence. written: the segment before the value as
    it was written, then what follows. previous: the sentence before, of the same turn. value_start, value_end: place
    of the value in `sentence`.
    """

    sentence: str
    segment: str
    at: int
    near: str
    after: str
    written: str
    previous: str
    value_start: int
    value_end: int

    @property
    def whole(self) -> tuple[int, int]:
        """Where the segment lies in the sentence."""
        return self.value_start - self.at, self.value_end + len(self.next)

    @property
    def part(self) -> tuple[int, int]:
        """Where the part between commas lies in the sentence."""
        stop = _MINOR.search(self.next)
        return self.value_start - len(self.near), self.value_end + (stop.start() if stop else len(self.next))

    @property
    def lead(self) -> str:
        """What a semicolon or dash ties to the segment, before it: "we moved; the address is X"."""
        head = lower_ascii(self.sentence[: self.value_start - self.at])
        return head[:-1] if head.rstrip().endswith((";", "—", "–", " -")) else ""

    @property
    def before(self) -> str:
        """What comes before the value in its segment."""
        return self.segment[: self.at]

    @property
    def next(self) -> str:
        """What follows the value in its segment."""
        return self.segment[self.at + 1 :]


def clause_of(text: str, start: int, end: int) -> Clause:
    """The surroundings of `text[start:end]`; an empty range has all of its sentence before it."""
    spans = sentences(text) or [(0, len(text))]
    number = next((n for n, (_, last) in enumerate(spans) if start < last), len(spans) - 1)
    first, last = spans[number]
    last = max(last, next((b for _, b in spans[number:] if end <= b), last))
    if start >= end:
        start = end = last
    sentence = text[first:last]
    left, right = text[first:start], text[end:last]
    lowered_left, lowered_right = lower_ascii(left), lower_ascii(right)
    cut = _last(_MAJOR, lowered_left)
    stop = _MAJOR.search(lowered_right)
    before = lowered_left[cut:]
    segment_right = lowered_right[: stop.start()] if stop else lowered_right
    previous = lower_ascii(text[slice(*spans[number - 1])]) if number else ""
    return Clause(
        sentence=sentence,
        segment=f"{before}{_PLACE}{segment_right}",
        at=len(before),
        near=before[_last(_MINOR, before) :],
        after=lowered_right,
        written=f"{left[cut:]}{_PLACE}{right[: len(segment_right)]}",
        previous=previous,
        value_start=start - first,
        value_end=end - first,
    )


def _last(pattern: re.Pattern[str], text: str) -> int:
    """Where the part after the last separator begins; a subject that separates belongs to that part."""
    end = 0
    for match in pattern.finditer(text):
        joined = _JOINED.search(match[0])
        end = match.start() + joined.start() if joined else match.end()
    return end
