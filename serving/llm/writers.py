"""Texts by a served model; where one is empty or bad, the extractive writer's stands instead, and says so."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from intentmem.memory.types import Mention, RecordDraft, Reference, Snippet, Turn
from intentmem.memory.write.extractive import GIST_LIMIT, ExtractiveWriter, date_references, insert
from intentmem.memory.write.references import resolve
from intentmem.memory.write.vocabulary import name_key

from .annotate import Annotation, StepAnnotator
from .asking import Asker
from .episodes import EpisodeReader
from .prompts import Prompt, load_prompt
from .references import checked_references
from .requests import JsonRequest, LLMError
from .schema import LONG, SHORT, Schema, listing, record_of
from .texts import fault_of, shortened, shown, shown_turn

SUMMARY_LIMIT = 400
_NAME_LIMIT, _NAME_WORDS = 60, 8
_LABEL_LIMIT, _LABEL_WORDS = 40, 4
_GIST_PART = 130
_SEPARATOR = " / "
_TAKEN_SHOWN = 60
_log = logging.getLogger(__name__)


class LLMWriter:
    """Writes with a served model.

    Texts about a turn come from the annotator and those about an episode from the reader, both asked ahead where the
    pipeline does so. References and summary stand beside the words of the turn, which are never rewritten: `grounded`
    is the turn with what its references stand for in brackets.

    Args:
        asker: the served model.
        annotator: what was asked about turns ahead.
        episodes: what was asked about closed episodes ahead.
    """

    def __init__(self, asker: Asker, annotator: StepAnnotator, episodes: EpisodeReader) -> None:
        self._asker = asker
        self._annotator = annotator
        self._episodes = episodes
        self._plain = ExtractiveWriter()
        self._denied = load_prompt("annotate").example_texts

    @property
    def name(self) -> str:
        """Who writes."""
        return self._asker.name

    def ground(self, turn: Turn, known: Sequence[Mention]) -> Snippet:
        """Resolve the references of a turn and summarise it.

        References come from the model where it named usable ones, or none at all; from the rules where all that it
        named were unusable. Dates are always resolved by rule. `decided_by` names what the rules had to do.
        """
        plain = self._plain.ground(turn, known)
        annotation = self._annotator.of(turn)
        if annotation is None or not self._annotator.texts:
            return plain
        references, faults = self._references(annotation, known)
        grounded = plain.grounded.partition(": ")[0] + ": " + insert(turn.text, references)
        grounded += turn.searchable_text[len(turn.text) :]
        summary, fault = annotation.text("summary"), self._summary_fault(annotation)
        if fault:
            faults.append(f"summary {fault}")
            summary = plain.summary
        for problem in faults:
            _log.warning("turn %s: %s: the extractive writer's stands instead", turn.id, problem)
        decided_by = f"{self.name}; {plain.decided_by}: {'; '.join(faults)}" if faults else self.name
        return Snippet(turn.id, grounded, summary, tuple(references), plain.mentions, decided_by)

    def name_scope(self, turn: Turn, taken: Sequence[str]) -> str:
        """A name of two to five words, unlike any in `taken`; never empty."""
        annotation = self._annotator.of(turn)
        if annotation is not None and self._annotator.texts:
            name, denied = annotation.text("goal"), self._denied
            sources = _sources(annotation)
        else:
            prompt = load_prompt("name_scope")
            answer = self._one(prompt, prompt.messages(turn=shown_turn(turn)), {"name": SHORT}, turn, 64)
            name, denied, sources = str(answer.get("name") or "").strip(), prompt.example_texts, [_said(turn)]
        fault = fault_of(name, sources, _NAME_LIMIT, denied) or _wordy(name, _NAME_WORDS)
        if fault:
            _log.warning("name of the scope of turn %s %s", turn.id, fault)
            return self._plain.name_scope(turn, taken)
        return _unlike(" ".join(name.strip(" .\"'").split()), taken)

    def name_label(self, turn: Turn, kind: str, taken: Sequence[str]) -> tuple[str, str]:
        """A general name and a description; ("", "") where the model named nothing usable or a name that is taken."""
        annotation = self._annotator.of(turn)
        key = "new_event" if kind == "event" else "new_attribute"
        if annotation is not None and key in annotation.answer:
            name, description = annotation.text(key), ""
            denied = self._denied
        else:
            name, description, denied = self._asked_label(turn, kind, taken)
        known = {name_key(other) for other in taken}
        if not name or name_key(name) in known or label_fault(name, turn, denied):
            return "", ""
        bad = description and (description in denied or len(description) > SUMMARY_LIMIT)
        return name.casefold(), "" if bad else description

    def gist(self, previous: str, turn: Turn) -> str:
        """What opened the scope, and the latest of it, at most `GIST_LIMIT` characters; no further call."""
        annotation = self._annotator.of(turn)
        if annotation is None or not self._annotator.texts or self._summary_fault(annotation):
            return self._plain.gist(previous, turn) if _SEPARATOR not in previous else previous
        parts = [part for part in previous.split(_SEPARATOR) if part]
        new = shortened(" ".join(annotation.text("summary").split()).replace(_SEPARATOR, " "), _GIST_PART)
        parts = [*(part for part in parts if part != new), new]
        while len(parts) > 2 and len(_SEPARATOR.join(parts)) > GIST_LIMIT:
            parts.pop(1)
        return _SEPARATOR.join(parts)[:GIST_LIMIT]

    def summarise(self, turns: Sequence[Turn]) -> str:
        """Summary of a closed episode: one call an episode, which reads its records too."""
        if not turns:
            return ""
        return self._episodes.of(turns).summary or self._plain.summarise(turns)

    def records(self, turns: Sequence[Turn], snippets: Mapping[str, Snippet] | None = None) -> tuple[RecordDraft, ...]:
        """The records of a closed episode, of the same call as its summary; the model needs no snippets.

        Raises:
            ModelError: the model failed.
        """
        return self._episodes.of(turns).records if turns else ()

    def unsupported(self, turns: Sequence[Turn]) -> int:
        """Records of that call which named no turn, or a value that its turns do not say."""
        return self._episodes.of(turns).unsupported if turns else 0

    def sub_questions(self, question: str, now: datetime, least: int = 2, most: int = 4) -> tuple[str, ...]:
        """A question split into simpler ones, in order; `{1}` in one stands for the answer to the first.

        The question itself, alone, where the model gives nothing usable.
        """
        prompt = load_prompt("questions")
        messages = prompt.messages(
            least=str(least), most=str(most), now=f"{now:%Y-%m-%d %H:%M}", question=shown(question)
        )
        answer = self._one(prompt, messages, {"questions": listing(LONG, most)}, None, 256)
        parts = [str(part).strip() for part in answer.get("questions") or ()]
        good = [
            part for part in dict.fromkeys(parts) if not fault_of(_filled(part), [question], 300, prompt.example_texts)
        ]
        return tuple(good) if len(good) >= least else (question,)

    def probe(self, question: str, missing: str, made: Sequence[str], found: Sequence[str]) -> str:
        """The next search text for what is missing, "" where there is nothing new to try."""
        prompt = load_prompt("probe")
        messages = prompt.messages(
            question=shown(question),
            missing=shown(missing),
            made="\n".join(shown(text, 200) for text in made) or "(none)",
            found="\n".join(shown(text, 300) for text in found[-12:]) or "(none)",
        )
        text = str(self._one(prompt, messages, {"search": SHORT}, None, 64).get("search") or "").strip()
        sources = [question, missing, *found]
        repeated = " ".join(text.casefold().split()) in {" ".join(t.casefold().split()) for t in (*made, question)}
        return "" if not text or repeated or fault_of(text, sources, 200) else text

    def _references(self, annotation: Annotation, known: Sequence[Mention]) -> tuple[list[Reference], list[str]]:
        turn, raw = annotation.turn, list(annotation.answer.get("references") or ())
        found, faults = checked_references(turn, raw, annotation.before, known), []
        if raw and not found:
            faults = ["references name nothing that was said"]
            found = list(resolve(turn, known))
        dates = [d for d in date_references(turn) if not any(d.start < r.end and r.start < d.end for r in found)]
        return sorted([*found, *dates], key=lambda r: (r.start, r.end)), faults

    def _summary_fault(self, annotation: Annotation) -> str | None:
        return fault_of(annotation.text("summary"), _sources(annotation), SUMMARY_LIMIT, self._denied)

    def _asked_label(self, turn: Turn, kind: str, taken: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
        prompt = load_prompt("name_label")
        listed = "\n".join(f"- {name}" for name in taken[-_TAKEN_SHOWN:])
        messages = prompt.messages(kind=prompt.tasks.get(kind, ""), taken=listed, turn=shown_turn(turn))
        answer = self._one(prompt, messages, {"name": SHORT, "description": LONG}, turn, 96)
        return str(answer.get("name") or "").strip(), str(answer.get("description") or "").strip(), prompt.example_texts

    def _one(
        self, prompt: Prompt, messages: list[dict[str, str]], parts: dict[str, Schema], turn: Turn | None, room: int
    ) -> dict[str, Any]:
        request = JsonRequest(messages, record_of(parts), room, task=prompt.name if turn else f"read.{prompt.name}")
        answer = self._asker.structured(prompt, [(turn, request)])[0]
        if isinstance(answer, LLMError):
            raise answer
        return answer[0]


def label_fault(name: str, turn: Turn, denied: Sequence[str]) -> str | None:
    """Why a name cannot be a general label: too long, an example's, or with names or numbers of the turn."""
    if len(name) > _LABEL_LIMIT or (fault := _wordy(name, _LABEL_WORDS)):
        return "is too long"
    if fault := fault_of(name, [name], _LABEL_LIMIT, ()):
        return fault
    if name.casefold() in {text.casefold() for text in denied}:
        return "is an example of the prompt"
    if any(character.isdigit() for character in name):
        return "holds a number"
    # A word that the turn writes with a capital, other than at its start, is a name.
    names = {word.strip(".,!?\"'").casefold() for word in turn.text.split()[1:] if word[:1].isupper()} - {"i"}
    return "holds a name" if names & set(name.casefold().split()) else None


def _sources(annotation: Annotation) -> list[str]:
    return [_said(annotation.turn), *(_said(turn) for turn in annotation.before)]


def _said(turn: Turn) -> str:
    return f"{turn.speaker or turn.role} {turn.searchable_text}"


def _wordy(name: str, most: int) -> str | None:
    count = len(name.split())
    return f"has {count} words" if count > most else None


def _unlike(name: str, taken: Sequence[str]) -> str:
    used = {" ".join(other.casefold().split()) for other in taken}
    unique, number = name, 2
    while unique.casefold() in used:
        unique, number = f"{name} ({number})", number + 1
    return unique


def _filled(question: str) -> str:
    return question.replace("{", "").replace("}", "")
