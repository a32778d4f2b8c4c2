"""Records of an episode without a model: typed values, names and plain statements (EnSIMem, section 3).

Right, or left alone: a value whose property or entity the words do not give makes no record. Each record carries the
place of its value in its turn, so that it is verbatim by construction.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..protocols import ReadSpan, SpanReader
from ..types import Evidence, Mention, Record, Reference, Snippet, Turn
from .claim_keys import property_key
from .fact_patterns import SELF, find_facts
from .languages import CLASS_NOUNS, FUNCTION_WORDS, PERSON_NOUNS, PLACE_NOUNS, lower_ascii, sentences, singular
from .mentions import LOCATION
from .property_cues import asked_property, maker_property, measure_property, place_property, time_property
from .record_spans import NOTHING_NAMED, names_a_thing, thing_kind
from .value_spans import ValueSpan, find_values

DECIDED_BY = "rules"
_PEOPLE = PERSON_NOUNS | {"person", "doctor", "dentist"}
_KIND = re.compile(r"[a-z]+")
_KINDS = CLASS_NOUNS | {"flight", "ticket", "reservation", "appointment", "room", "table", "trip", "meeting", "house"}
_SORT = re.compile(
    r"\b(?P<value>[A-Z][a-z]+(?:ian|ean|ese|ish|can)"
    r"|French|Greek|Thai|Indian) (?=(?:food|cuisine|restaurants?|dishes|place)\b)"
)
_OFFERED = re.compile(
    r"\b(?:how about|what about|recommend|suggest|found(?: you)?|there(?: is|['’]s)|it is|it['’]s|called|named|titled|"
    r"name (?:is|of)|try|is playing|play|watch|see|listen to|tickets? (?:for|to)|heard of|think (?:about|of)|"
    r"say (?:about|to)|confirm)(?: an?| the)?(?: \w+)? $"
    r"|\b(?:reserv\w+|tables?|rooms?|appointments?|stay\w*)\b.{0,30}\b(?:at|with)(?: the)? $"
)
_SAID_OF_IT = re.compile(
    r"\"? (?:is|has|by|was|plays|directed|starring|which|from the album|sounds?|looks?|in [A-Z])\b"
)
_LISTED = re.compile(r",? ?(?:and|or|,) (?:the )?$")
_DENIES = re.compile(r"(?<!^)\b(?:not|never|no)\b|^(?:not|never)\b|n['’]t\b")
_COUNTED = re.compile(r"\d+ \w+s\b")
_STANDS_AT = re.compile(r"\b(?:in|at|from|to|near|into|around)(?: the)? $")
_GOES_ON = re.compile(
    r"(?: (?:city|creek|beach|springs|valley|hills|island|islands|county)\b|(?<=[A-Z]\.[A-Z])\.|, [A-Z][A-Za-z]+\b)+"
)
_THANKS = re.compile(r"\b(?:help|assist\w*|anything|nothing|all|else|day)\b")
_ASKS = re.compile(r"(?:^|, |\b(?:and|so|ok|okay|sure) )(?:in |at |from |to |on |for )?(?:what|which|where|when|how)\b")
_MAKERS = {
    "song": "artist",
    "album": "artist",
    "music": "artist",
    "book": "author",
    "novel": "author",
    "movie": "director",
} | {"film": "director"}
_POLITE = re.compile(
    r"^\W*(?:(?:yes|yeah|no|ok|okay|sure|please|well|actually|thanks|hi|hello|um|great|i think|i would like|i'd like|"
    r"i want|i prefer|i need|make it|let's say|let's do|can you|could you|do|try|check|search|look)\W+)*"
    r"(?:(?:it |them )?(?:in|at|near|around|for|from|to|on) )?(?:the )?"
)
_TAIL = re.compile(r"(?:,? (?:please|would be (?:good|great|fine)|is fine|area|thanks|thank you|for me))*[.!]*$")
_MOST_WORDS = 4


@dataclass(slots=True)
class _Focus:
    """What an episode speaks of: the thing named last, the kind of thing asked for, and the open question."""

    thing: tuple[str, str] | None = None
    kind: str = ""
    question: str = ""
    appointment: bool = False


@dataclass(slots=True)
class _Reading:
    """One turn being read."""

    turn: Turn
    lowered: str
    bounds: Sequence[tuple[int, int]]
    things: Sequence[Mention]
    references: Sequence[Reference]
    by: str = DECIDED_BY
    records: list[Record] = field(default_factory=list)
    taken: list[tuple[int, int]] = field(default_factory=list)
    facts: int = 0

    def sentence(self, at: int) -> tuple[int, int]:
        """The sentence of a place."""
        index = bisect_right(self.bounds, at, key=lambda span: span[0]) - 1
        return self.bounds[index] if index >= 0 else (0, len(self.lowered))

    def around(self, start: int, end: int) -> tuple[str, str]:
        """What comes before and after a place in its sentence, lower-case."""
        first, last = self.sentence(start)
        return self.lowered[first:start], self.lowered[end : max(last, end)]


def read_records(
    turns: Sequence[Turn], snippets: Mapping[str, Snippet], reader: SpanReader | None = None
) -> tuple[Record, ...]:
    """Records of an episode, in order.

    Args:
        turns: of the episode, in order.
        snippets: the turns' snippets by id; a turn without one is read without its names.
        reader: finds values; what it does not find, or not name, is left to rules.
    """
    focus, found = _Focus(), list[Record]()
    read = reader.read(turns) if reader is not None else [()] * len(turns)
    for turn, spans in zip(turns, read, strict=True):
        snippet = snippets.get(turn.id)
        mentions = snippet.mentions if snippet else ()
        things = _things(mentions, turn.text, focus)
        references = [r for r in snippet.references if r.kind != "date"] if snippet else []
        reading = _Reading(turn, lower_ascii(turn.text), sentences(turn.text), things, references)
        _read(reading, mentions, focus)
        if reader is not None and spans:
            reading = _with_spans(reading, spans, focus, reader.name)
        found += reading.records
        _follow(reading, focus)
    return tuple(found)


def _with_spans(rules: _Reading, spans: Sequence[ReadSpan], focus: _Focus, by: str) -> _Reading:
    """The turn as a reader and the rules know it together: facts stated outright first, then what the reader found."""
    text = rules.turn.text
    named = [
        Mention(text[span.start : span.end], span.start, span.end, thing_kind(span.property))
        for span in spans
        if names_a_thing(span.property)
    ]
    others = [m for m in rules.things if all(m.end <= span.start or span.end <= m.start for span in spans)]
    things = sorted([*named, *others], key=lambda mention: mention.start)
    both = _Reading(rules.turn, rules.lowered, rules.bounds, things, rules.references, by)
    both.records, both.taken = rules.records[: rules.facts], rules.taken[: rules.facts]
    for span in spans:
        ruled = _ruled(rules, span)
        likely = span.sure and property_key(ruled) not in {property_key(name) for name in span.also}
        name = span.property if likely or not ruled else ruled
        if names_a_thing(name):
            kind = thing_kind(name) or ""
            _add(both, text[span.start : span.end], _entity_type(kind), name, span.start, span.end, "observed")
        else:
            _add_of(both, focus, name, span.start, span.end)
    for record, place in zip(rules.records[rules.facts :], rules.taken[rules.facts :], strict=True):
        if not any(place[0] < b and a < place[1] for a, b in both.taken):
            both.records.append(record)
            both.taken.append(place)
    return both


def _ruled(rules: _Reading, span: ReadSpan) -> str:
    """What the rules call the value that a span is, or lies across; "" where they found none."""
    for record, (start, end) in zip(rules.records, rules.taken, strict=True):
        if start < span.end and span.start < end:
            return record.property
    return ""


def _read(reading: _Reading, mentions: Sequence[Mention], focus: _Focus) -> None:
    text, own = reading.turn.text, reading.turn.role == "user" or bool(reading.turn.named_speaker)
    for first, last in reading.bounds:
        for fact in find_facts(text[first:last], own):
            _add(reading, fact.entity, "person" if fact.entity == SELF else "other", fact.property,
                 first + fact.start, first + fact.end, "observed", fact.relation)  # fmt: skip
    reading.facts = len(reading.records)
    for span in find_values(text):
        before, after = reading.around(span.start, span.end)
        if text[span.start : span.end].casefold() == "today" and _THANKS.search(before + after):
            continue
        if name := _property(span, before, after, focus):
            _add_of(reading, focus, name, span.start, span.end)
    for mention in mentions:
        _name(reading, mention, focus)
    for match in _SORT.finditer(text):
        _add_of(reading, focus, "cuisine", match.start("value"), match.end("value"))
    if own and not reading.records and focus.question:
        _fragment(reading, focus)


def _property(span: ValueSpan, before: str, after: str, focus: _Focus) -> str:
    if span.kind not in ("date", "time"):
        return measure_property(span.kind, before, after, focus.question)
    name = time_property(span.kind, before, after, focus.question)
    return f"appointment {name}" if name == span.kind and focus.appointment else name


def _name(reading: _Reading, mention: Mention, focus: _Focus) -> None:
    before, _ = reading.around(mention.start, mention.end)
    kind = mention.entity_type or ""
    if mention in reading.things:
        kind = kind if kind not in ("", LOCATION) else focus.kind if focus.kind in CLASS_NOUNS else ""
        _add(reading, mention.name, _entity_type(kind), f"{kind} name".strip(), mention.start, mention.end, "observed")
    elif made := _made(reading, before, mention.start, focus):
        _add_of(reading, focus, made, mention.start, mention.end, relation=True)
    elif (kind in ("", LOCATION) or kind in PLACE_NOUNS) and (
        name := place_property(before, kind in PLACE_NOUNS, focus.question)
    ):
        _add_of(reading, focus, name, mention.start, _place_end(reading.turn.text, mention.end), relation=True)


def _made(reading: _Reading, before: str, start: int, focus: _Focus) -> str:
    """What a name is that stands after "by": said outright, or by the kind of work named right before."""
    work = next((m for m in reading.things if 0 <= start - m.end <= 5), None)
    if work is not None and before.endswith(" by "):
        return _MAKERS.get(work.entity_type or focus.kind, "")
    return maker_property(before)


def _place_end(text: str, end: int) -> int:
    """A place goes on with the region it lies in, or a word for what it is: "London, England", "Foster city"."""
    match = _GOES_ON.match(text, end)
    return match.end() if match else end


def _fragment(reading: _Reading, focus: _Focus) -> None:
    """A turn that is no more than the answer to a question for one property."""
    name = asked_property(focus.question)
    start, end = _POLITE.match(reading.lowered).end(), _TAIL.search(reading.lowered).start()  # type: ignore[union-attr]
    words = reading.lowered[start:end].split()
    plain = re.fullmatch(r"[\w .'’&-]+", reading.turn.text[start:end])
    if name and plain and 0 < len(words) <= _MOST_WORDS and not FUNCTION_WORDS & set(words):
        _add_of(reading, focus, name, start, end)


def _things(mentions: Sequence[Mention], text: str, focus: _Focus) -> list[Mention]:
    """Names of what is talked about, rather than of a place or a person that something is said of."""
    found: list[Mention] = []
    for mention in mentions:
        before = lower_ascii(text[max(0, mention.start - 60) : mention.start])
        listed = (
            bool(found)
            and mention.start - found[-1].end <= 6
            and bool(_LISTED.fullmatch(before[-(mention.start - found[-1].end) :]))
        )
        if listed or _is_thing(mention, text, before, bool(found or focus.thing)):
            found.append(mention)
    return found


def _is_thing(mention: Mention, text: str, before: str, spoken_of: bool) -> bool:
    kind = mention.entity_type
    if kind == "address" or len(mention.name) < 3 or _COUNTED.match(mention.name):
        return False
    offered = bool(_OFFERED.search(before))
    if kind not in (None, LOCATION):
        return offered or not (spoken_of and kind in PLACE_NOUNS and _STANDS_AT.search(before))
    return kind is None and (offered or (not before.strip() and bool(_SAID_OF_IT.match(text, mention.end))))


def _entity_type(kind: str) -> str:
    if kind in _PEOPLE:
        return "person"
    return "place" if kind in PLACE_NOUNS else "object" if kind in CLASS_NOUNS else "other"


def _add_of(reading: _Reading, focus: _Focus, name: str, start: int, end: int, relation: bool = False) -> None:
    """Add a record of what the turn speaks of at a place; none where nothing is spoken of."""
    thing = _thing_at(reading, start) or focus.thing
    if thing is not None:
        _add(reading, *thing, name, start, end, "observed", relation)
        return
    if reading.turn.role == "user":
        if _DENIES.search(reading.around(start, end)[0]):
            return
        # Nothing has been named yet: it is what the user asks for, which is no fact about him.
        _add(reading, SELF, "person", name, start, end, "desired", relation)
    elif kind := _kind(reading.lowered) or focus.kind or (NOTHING_NAMED if reading.by != DECIDED_BY else ""):
        _add(reading, kind, "concept", name, start, end, "uncertain", relation)


def _thing_at(reading: _Reading, at: int) -> tuple[str, str] | None:
    before = [m for m in reading.things if m.end <= at]
    if before:
        return before[-1].name, _entity_type(before[-1].entity_type or "")
    meant = [r for r in reading.references if r.end <= at]
    if meant:
        return meant[-1].target, "other"
    _first, last = reading.sentence(at)
    after = next((m for m in reading.things if at < m.start < last), None)
    return (after.name, _entity_type(after.entity_type or "")) if after else None


def _kind(lowered: str) -> str:
    kinds = [singular(word) for word in _KIND.findall(lowered)]
    return next((kind for kind in kinds if kind in _KINDS), "")


def _add(
    reading: _Reading,
    entity: str,
    entity_type: str,
    name: str,
    start: int,
    end: int,
    modality: str,
    relation: bool = False,
) -> None:
    if any(start < last and first < end for first, last in reading.taken):
        return
    reading.taken.append((start, end))
    turn = reading.turn
    reading.records.append(
        Record(
            entity=entity,
            property=name,
            value=turn.text[start:end],
            evidence=(Evidence(turn.id, start, end),),
            entity_type=entity_type,
            modality=modality,
            relation=relation,
            speaker=turn.speaker or turn.role,
            decided_by=reading.by,
        )
    )


def _follow(reading: _Reading, focus: _Focus) -> None:
    """What the next turn is read after."""
    if reading.things:
        last = reading.things[-1]
        focus.thing = (last.name, _entity_type(last.entity_type or ""))
    elif reading.references:
        focus.thing = (reading.references[-1].target, "other")
    focus.kind = _kind(reading.lowered) or focus.kind
    focus.appointment = focus.appointment or "appointment" in reading.lowered
    said = [reading.lowered[first:last] for first, last in reading.bounds]
    focus.question = next((text for text in reversed(said) if "?" in text or _ASKS.search(text)), "")
