"""A `Writer` that needs no model: it grounds by rule and summarises by choosing sentences, in the language of the
text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from ..protocols import SpanReader
from ..types import Mention, Record, Reference, Snippet, Turn
from .dates import DateSpan, find_dates
from .languages import sentences
from .mentions import mentions_of
from .naming import label_name, scope_name
from .record_rules import read_records
from .references import resolve
from .sentences import central, key_phrases, summary_of

GIST_LIMIT = 400
"""Longest gist of a scope, in characters."""

_CORE_TERMS = 6
_NEW_TERMS = 6
_SEPARATOR = "; "
_DATE_CONFIDENT = 0.6


class ExtractiveWriter:
    """Grounds and summarises without a model. Stateless: the same input gives the same text.

    Source: the coreference step and the canonical summary of STITCH, section 3.2, by rule.

    Args:
        spans: reads values for records beside the rules; None leaves them to the rules alone.
    """

    _spans: SpanReader | None = None

    def __init__(self, spans: SpanReader | None = None) -> None:
        self._spans = spans

    @property
    def name(self) -> str:
        """Who writes; it stands on every text."""
        return "extractive"

    def ground(self, turn: Turn, known: Sequence[Mention]) -> Snippet:
        """Make a turn readable on its own: who said it and when, and in brackets what its references and dates
        stand for.

        `grounded` is `<speaker or role> (<YYYY-MM-DD>): <text>`, the words as they were with insertions such as
        "it [Apollo Hotel]" and "yesterday [2023-05-07]", captions of attachments after it. Offsets of `references`
        and `mentions` are into `turn.text`. A name that its sentence already shows is not inserted again.
        """
        mentions = mentions_of(turn)
        references = sorted([*resolve(turn, known, mentions), *date_references(turn)], key=lambda r: (r.start, r.end))
        text = insert(turn.text, references)
        captions = turn.searchable_text[len(turn.text) :]
        head = f"{turn.speaker or turn.role} ({turn.time.date().isoformat()}): "
        summary = summary_of(text, [m.name for m in mentions]) or captions.strip()
        return Snippet(turn.id, f"{head}{text}{captions}", summary, tuple(references), tuple(mentions), self.name)

    def name_scope(self, turn: Turn, taken: Sequence[str]) -> str:
        """A label of two to five words from the turn that opens a scope, unlike any in `taken`; never empty."""
        return scope_name(turn, taken)

    def name_label(self, turn: Turn, kind: str, taken: Sequence[str]) -> tuple[str, str]:
        """A generic name and a description, or ("", "") where the turn says nothing generic or the name is taken."""
        return label_name(turn, kind, taken)

    def gist(self, previous: str, turn: Turn) -> str:
        """Key terms of a scope, at most `GIST_LIMIT` characters: those that opened it or came back first, then the
        newest, then the rest.
        """
        old = [term for term in previous.split(_SEPARATOR) if term]
        names = [m.name for m in mentions_of(turn)]
        new = [p.replace(";", ",").strip() for p in key_phrases(turn.text, names)[:_NEW_TERMS]]
        keys = {term.casefold() for term in new}
        again = [term for term in old if term.casefold() in keys]
        core = [term for term in old[:_CORE_TERMS] if term not in again]
        held = [*core, *again] if len(again) < _CORE_TERMS else [*again, *core]
        seen = {term.casefold() for term in held}
        fresh = [term for term in new if term and term.casefold() not in seen]
        rest = [term for term in old if term.casefold() not in seen | {t.casefold() for t in fresh}]
        return _fitting([*held, *fresh, *rest]) or previous[:GIST_LIMIT] or turn.text.strip()[:GIST_LIMIT]

    def summarise(self, turns: Sequence[Turn]) -> str:
        """One to three most central sentences of an episode in the order of time, each with who said it; empty for
        no text.
        """
        chosen = central([turn.text for turn in turns], 1 if len(turns) < 3 else 2 if len(turns) < 8 else 3)
        return " ".join(f"{turns[i].speaker or turns[i].role}: {sentence[:300]}" for i, sentence in chosen)

    def records(self, turns: Sequence[Turn], snippets: Mapping[str, Snippet]) -> tuple[Record, ...]:
        """Values, names and plain statements of an episode, each verbatim at its place; see `record_rules`."""
        return read_records(turns, snippets, self._spans)

    def unsupported(self, turns: Sequence[Turn]) -> int:
        """None: a record is made of the words of its turn."""
        return 0


def insert(text: str, references: Sequence[Reference]) -> str:
    """The text with ` [target]` after each reference; nothing is taken away.

    A target that the sentence of the reference shows already, in its own words or by an earlier insertion, is not
    repeated.
    """
    if not references:
        return text
    bounds = sentences(text)
    shown: set[tuple[int, str]] = set()
    parts, last = [], 0
    for reference in references:
        where, said = _sentence(bounds, reference.start)
        target = reference.target
        if (where, target) in shown or (reference.kind != "date" and target in text[said[0] : said[1]]):
            continue
        shown.add((where, target))
        parts += [text[last : reference.end], f" [{target}]"]
        last = reference.end
    return "".join([*parts, text[last:]])


def _sentence(bounds: Sequence[tuple[int, int]], at: int) -> tuple[int, tuple[int, int]]:
    index = bisect_right(bounds, at, key=lambda span: span[0]) - 1
    return index, bounds[index] if index >= 0 else (at, at)


def date_references(turn: Turn) -> list[Reference]:
    """Relative dates of a turn against its own time; a bare time of day is not one."""
    return [
        Reference(d.start, d.end, d.surface, d.iso, "date", d.confidence)
        for d in find_dates(turn.text, turn.time)
        if d.relative and d.confidence >= _DATE_CONFIDENT and _says_more(d)
    ]


def _says_more(date: DateSpan) -> bool:
    return date.granularity not in ("hour", "minute") or any(
        c.isalpha() for c in date.surface.replace("am", "").replace("pm", "")
    )


def _fitting(terms: Sequence[str]) -> str:
    text = ""
    for term in terms:
        longer = f"{text}{_SEPARATOR}{term}" if text else term
        if len(longer) <= GIST_LIMIT:
            text = longer
    return text
