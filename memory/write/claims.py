"""Records read against the turns that say them: who says it, how it is meant, for when it holds."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..errors import InputError
from ..types import MODALITIES, Evidence, Record, RecordDraft, Turn
from ..versions import Authority, Claim, ReadRecord, Said, StateKey
from .claim_clauses import clause_of
from .claim_keys import condition_key, entity_key, folded, is_plural, is_unique, is_user, property_key, value_key
from .entities import name_key, same_name
from .languages import PERSON_NOUNS, WORD, sentences
from .modality import Modality, Reading, read_claim
from .periods import Period, read_period

_DOUBTS = {"planned": "planned", "desired": "desired", "hypothetical": "hypothetical", "uncertain": "uncertain"}
_LINKED = re.compile(
    r"(?:,|\band\b|\bor\b|&|\bas well as\b|\bplus\b|/)\s*(?:an?|the|my|in|at|to|some|also|then)?\s*$", re.IGNORECASE
)
_FIRST_PERSON = re.compile(r"\b(?:i|i['’]m|i['’]ve|i['’]d|i['’]ll|my|mine|we|our|me)\b")
_MINE = re.compile(r"\b(?:my|our) (?:\w+ )??(\w+)")
_HIMSELF = re.compile(r"\b(?:i|we|me|us|i['’](?:m|ve|d|ll)|we['’](?:re|ve|d|ll))\b")
_OTHERS = PERSON_NOUNS | {"friend", "company", "team", "employer", "parents", "kids", "family", "friends", "colleagues"}
_THIRD_PERSON = frozenset(("he", "she", "they", "it", "him", "her", "them"))
_MOST_CHARACTERS = 2000


def as_record(draft: RecordDraft | Record) -> Record:
    """A draft of an episode as a record."""
    if isinstance(draft, Record):
        return draft
    return Record(
        entity=draft.entity,
        property=draft.property,
        value=draft.value,
        evidence=tuple(Evidence(turn) for turn in draft.evidence),
        entity_type=draft.entity_type,
        condition=draft.condition,
        modality=draft.modality,
        relation=draft.relation,
        valid_time=draft.valid_time,
        speaker=draft.speaker,
        decided_by=draft.decided_by,
    )


def checked(record: Record, field: str) -> Record:
    """The record, if it can be stored.

    Raises:
        InputError: a part of it is empty, too long or outside its vocabulary; names it.
    """
    for name in ("entity", "property", "value"):
        text = getattr(record, name)
        if not isinstance(text, str) or not folded(text) or len(text) > _MOST_CHARACTERS or "\0" in text:
            raise InputError(f"{field}.{name}", f"{text!r} is not a usable text", "pass a non-empty, short text")
    if record.modality not in MODALITIES:
        raise InputError(f"{field}.modality", f"{record.modality!r} is unknown", f"one of {', '.join(MODALITIES)}")
    if not record.evidence:
        raise InputError(f"{field}.evidence", "is empty", "name the turns that say it")
    bounds = [moment for moment in (record.valid_from, record.valid_to) if moment is not None]
    if any(moment.tzinfo is None for moment in bounds):
        raise InputError(f"{field}.valid_from", "has no time zone", "pass aware datetimes")
    if len(bounds) == 2 and bounds[0] >= bounds[1]:
        raise InputError(f"{field}.valid_to", "is not after valid_from", "an interval ends after it begins")
    return record


def read_records(records: Sequence[Record], turns: Mapping[str, Turn]) -> list[ReadRecord]:
    """Read records against their turns. Other values of the same property in a turn are no wording around a value: a
    date among them is not its time, "on Mondays" not its condition.

    Args:
        records: checked records.
        turns: their evidence turns by id.
    """
    located = [_located(record, turns) for record in records]
    values: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    for record in located:
        for place in record.evidence:
            if place.start is not None and place.end is not None:
                values[place.turn, property_key(record.property)].add((place.start, place.end))
    read = []
    for record in located:
        masked = {
            place.turn: _masked(turns[place.turn], values[place.turn, property_key(record.property)], place)
            for place in record.evidence
        }
        read.append(_read(record, masked))
    return read


def _masked(turn: Turn, spans: Iterable[tuple[int, int]], place: Evidence) -> Turn:
    text = turn.text
    for start, end in spans:
        if place.start is None or place.end is None or end <= place.start or place.end <= start:
            text = text[:start] + "x" * (end - start) + text[end:]
    return replace(turn, text=text)


def _located(record: Record, turns: Mapping[str, Turn]) -> Record:
    """The record with the place of its value in its turns; in the likeliest sentence of the last where none says it."""
    places = [_place(record, evidence, turns[evidence.turn]) for evidence in record.evidence]
    if not any(place.start is not None for place in places):
        places[-1] = _nearest(record, places[-1], turns[places[-1].turn])
    return replace(record, evidence=tuple(places))


def _read(record: Record, turns: Mapping[str, Turn]) -> ReadRecord:
    lead = next(place for place in record.evidence if place.start is not None)
    reading, speaker = _reading(record, lead, turns[lead.turn]), turns[lead.turn].named_speaker or ""
    full = replace(record, condition=record.condition or reading.condition)
    condition = condition_key(full.condition) if full.condition else ""
    key = StateKey(entity_key(record.entity, speaker), property_key(record.property), condition)
    identity = _identity(full, key, lead)
    return ReadRecord(
        id=identity,
        record=full,
        key=key,
        said=tuple(_said(full, identity, key.entity, place, turns[place.turn]) for place in record.evidence),
        plural=is_plural(record.property),
    )


def _identity(record: Record, key: StateKey, lead: Evidence) -> str:
    """The same claim of the same place in a turn is the same record, however often it is read."""
    parts = (key.text(), value_key(record.value), record.modality, lead.turn, str(lead.start))
    return f"record_{hashlib.sha256(chr(0).join(parts).encode('utf-8', 'replace')).hexdigest()[:16]}"


def _place(record: Record, evidence: Evidence, turn: Turn) -> Evidence:
    """The evidence with the place of the value in its turn, where that says it."""
    if evidence.start is not None and evidence.end is not None:
        if 0 <= evidence.start < evidence.end <= len(turn.text):
            return evidence
        place = f"[{evidence.start}:{evidence.end}]"
        raise InputError("evidence", f"{place} lies outside {turn.id!r}", "pass offsets of its text")
    words = r"\W+".join(re.escape(word) for word in WORD.findall(record.value)) or re.escape(record.value)
    found = re.search(rf"(?<!\w){words}(?!\w)", turn.text, re.IGNORECASE)
    found = found or re.search(re.escape(record.value), turn.text, re.IGNORECASE)
    return Evidence(turn.id, *found.span()) if found else Evidence(turn.id)


def _nearest(record: Record, evidence: Evidence, turn: Turn) -> Evidence:
    """The sentence that shares most words with a record whose value is in none of its turns."""
    wanted = set(WORD.findall(folded(f"{record.value} {record.property}")))
    spans = sentences(turn.text) or [(0, len(turn.text))]
    best = max(spans, key=lambda span: len(wanted & set(WORD.findall(folded(turn.text[slice(*span)])))))
    return replace(evidence, start=best[1], end=best[1])


def _reading(record: Record, evidence: Evidence, turn: Turn) -> Reading:
    start, end = (evidence.start, evidence.end) if evidence.start is not None else (len(turn.text), len(turn.text))
    return read_claim(turn.text, start, end or start, record.property)


def _said(record: Record, identity: str, entity: str, evidence: Evidence, turn: Turn) -> Said:
    reading = _reading(record, evidence, turn)
    own = _is_own(entity, record, evidence, turn)
    doubt, authority = _standing(reading, entity, own, turn)
    denied = record.modality == "negated" and not reading.ended
    doubt = doubt or _DOUBTS.get(record.modality, "")
    period = _period(record, evidence, turn)
    since, until = period.since, period.until
    if reading.ended and until is None:
        since, until = None, since
    start = evidence.start if evidence.start is not None else len(turn.text)
    claim = Claim(
        record=identity,
        turn=turn.id,
        value=record.value,
        key=value_key(record.value),
        said=turn.time.timestamp(),
        order=(turn.row, start),
        end=evidence.end or start,
        linked=bool(_LINKED.search(turn.text[:start])),
        source=" ".join(name_key(turn.named_speaker or turn.role)),
        authority=authority,
        repeats=turn.role == "assistant" and not own,
        doubt=doubt,
        negated=reading.negated or denied,
        ended=reading.ended,
        corrects=reading.corrects,
        updates=reading.updates and not (own and _is_anothers(record, evidence, turn)),
        # "My favourite is also X" compares; it does not make a second favourite.
        adds=reading.adds and not (is_unique(record.property) and not is_plural(record.property)),
        only=reading.only,
        swaps=reading.swaps,
        since=since,
        until=until,
    )
    return Said(evidence, claim, states=evidence.start is not None)


def _period(record: Record, evidence: Evidence, turn: Turn) -> Period:
    if record.valid_from is not None or record.valid_to is not None:
        return Period(
            record.valid_from.timestamp() if record.valid_from else None,
            record.valid_to.timestamp() if record.valid_to else None,
        )
    if evidence.start is None:
        return Period()
    end = evidence.end or evidence.start
    found = read_period(turn.text, evidence.start, end, turn.time)
    if found == Period() and record.valid_time and folded(record.valid_time) != folded(record.value):
        said = f"{record.value} {record.valid_time}"
        found = read_period(said, 0, len(record.value), turn.time)
    return found


def _is_own(entity: str, record: Record, evidence: Evidence, turn: Turn) -> bool:
    """Whether the speaker speaks of himself, or of what is his."""
    key = tuple(entity.split())
    if turn.named_speaker:
        speaker = name_key(turn.named_speaker)
        return bool(speaker) and (same_name(key, speaker) or key[: len(speaker)] == speaker)
    if turn.role != "user":
        return False
    if is_user(entity) or is_user(key[0] if key else ""):
        return True
    at = evidence.start if evidence.start is not None else len(turn.text)
    sentence = folded(clause_of(turn.text, at, evidence.end or at).sentence)
    # The user by name: it is himself of whom he speaks in the first person without naming anyone.
    return bool(_FIRST_PERSON.search(sentence)) and not set(key) & set(WORD.findall(sentence))


def _is_anothers(record: Record, evidence: Evidence, turn: Turn) -> bool:
    """Whether a change told around an own value is that of someone else: "my friend moved to X"."""
    at = evidence.start if evidence.start is not None else len(turn.text)
    before = clause_of(turn.text, at, evidence.end or at).before
    others = {match[1] for match in _MINE.finditer(before)} & _OTHERS
    return bool(others - set(WORD.findall(folded(record.property)))) and not _HIMSELF.search(before)


def _standing(reading: Reading, entity: str, own: bool, turn: Turn) -> tuple[str, Authority]:
    """What stays doubtful of a claim, and how well its speaker knows."""
    doubt = reading.doubt.value if reading.doubt else ""
    if turn.role == "assistant" and not own:
        # What an assistant says to have changed, it has; what it repeats, it was told.
        acts = reading.updates and not is_user(entity) and not doubt
        return doubt, Authority.OTHER if acts else Authority.ASSISTANT
    if reading.doubt is Modality.HEARSAY:
        reported = name_key(reading.attributed)
        themselves = bool(reported) and (reported[0] in _THIRD_PERSON or same_name(reported, tuple(entity.split())))
        if own:
            return "", Authority.SECOND_HAND
        return ("", Authority.OTHER) if themselves else (doubt, Authority.SECOND_HAND)
    if reading.hedged and not own:
        return Modality.UNCERTAIN.value, Authority.SECOND_HAND
    return doubt, Authority.SELF if own else Authority.OTHER
