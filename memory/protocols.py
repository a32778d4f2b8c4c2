"""The seams: what the pipeline needs from an encoder, a decider, a writer and a clock.

Each has a real implementation elsewhere (an encoder and students in `distill`, a served model in `serving`) and one
that needs no model in this package (`hashing`, `deciders`, `write.extractive`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

from .tasks import Candidates, Decision, Item, Task
from .types import Fingerprint, Mention, Record, RecordDraft, Snippet, Turn, Vector

TextKind = Literal["query", "passage", "label"]


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What made the vectors: it stands on each one that is stored."""
        ...

    def encode(self, texts: Sequence[str], kind: TextKind) -> Vector:
        """Encode to (N, D) float32, one row a text, in order. The profile's prefix for `kind` is applied here.

        A text longer than the model's window is encoded as overlapping windows and averaged, never cut silently.

        Raises:
            EmbedderError: the encoder failed or returned another shape.
        """
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text by the encoder's own tokenizer, special tokens left out."""
        ...


class Decider(Protocol):
    """Answers tasks, always in batches."""

    @property
    def name(self) -> str:
        """Who decides; it stands on every decision."""
        ...

    @property
    def reads_window(self) -> bool:
        """Whether the turns before the present one are worth rendering for it."""
        ...

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        """Decide each item; results in order.

        Raises:
            DecisionError: the task is not one that this decider can answer.
        """
        ...


class Writer(Protocol):
    """Generates the texts that the pipeline needs."""

    @property
    def name(self) -> str:
        """Who writes; it stands on every text."""
        ...

    def ground(self, turn: Turn, known: Sequence[Mention]) -> Snippet:
        """Resolve the references of a turn against entities named earlier in its scope, oldest first."""
        ...

    def name_scope(self, turn: Turn, taken: Sequence[str]) -> str:
        """Name a new scope from the turn that opens it, unlike any name in `taken`."""
        ...

    def name_label(self, turn: Turn, kind: str, taken: Sequence[str]) -> tuple[str, str]:
        """Name and describe a new event or entity type from a turn that no known one fits; ("", "") to decline."""
        ...

    def gist(self, previous: str, turn: Turn) -> str:
        """The running gist of a scope after one more of its turns."""
        ...

    def summarise(self, turns: Sequence[Turn]) -> str:
        """Summary of a closed episode."""
        ...

    def records(self, turns: Sequence[Turn], snippets: Mapping[str, Snippet]) -> Sequence[RecordDraft | Record]:
        """Records of a closed episode, each with evidence among its turns (EnSIMem, section 3).

        Args:
            turns: the episode's, in order.
            snippets: theirs by turn id, with the names and references that grounding found.
        """
        ...

    def unsupported(self, turns: Sequence[Turn]) -> int:
        """How many records of an episode just read were dropped, because none of its turns says them."""
        ...


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """`text[start:end]` of a turn is a value of a property; characters of the turn's own text.

    confidence: probability that it is a value. sure: whether the reader stands by the property, or a rule that names
    one knows better. also: properties about as likely: a rule that names one of them is right.
    """

    start: int
    end: int
    property: str
    confidence: float
    sure: bool = True
    also: tuple[str, ...] = ()


class SpanReader(Protocol):
    """Finds values in turns, where there is something better for it than rules."""

    @property
    def name(self) -> str:
        """Who reads; it stands on every record."""
        ...

    def read(self, turns: Sequence[Turn]) -> Sequence[Sequence[ReadSpan]]:
        """Values of each turn in order, none overlapping; each turn is read after those before it.

        Args:
            turns: consecutive, in order.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Upcoming:
    """A turn about to be labelled, with all that is known before any decision on it.

    before: the turns of its trajectory directly before it, oldest first. events, entity_types: the vocabularies.
    vector: (D,), the turn's.
    """

    turn: Turn
    before: tuple[Turn, ...]
    events: Candidates
    entity_types: Candidates
    vector: Vector


@runtime_checkable
class Decomposer(Protocol):
    """A writer that can split questions too."""

    def sub_questions(self, question: str, now: datetime) -> Sequence[str]:
        """A question as simpler ones, in order; `{1}` in one stands for the answer to the first. Itself, alone, where
        it cannot be split.

        Raises:
            ModelError: the model failed.
        """
        ...


class Foreseer(Protocol):
    """Is told what will be asked, so that a served model is asked many things at once and each thing once."""

    @property
    def reach(self) -> int:
        """Turns before a step that it reads."""
        ...

    def steps(self, steps: Sequence[Upcoming]) -> None:
        """These turns are labelled next; their decisions and texts are asked for afterwards, one by one.

        Raises:
            IntentMemError: the model failed on some; what it answered for the others is kept.
        """
        ...

    def episodes(self, episodes: Sequence[Sequence[Turn]]) -> None:
        """These episodes have closed; their summaries are asked for afterwards.

        Raises:
            IntentMemError: as for `steps`.
        """
        ...


class Payer(Protocol):
    """Puts requests to a served model in the ledger."""

    def paying(self, namespace: int, operation: str = "", background: bool = False) -> AbstractContextManager[None]:
        """Within it, this thread's requests are charged to a namespace.

        Args:
            namespace: ordinal of the namespace that pays.
            operation: id of the operation that they belong to, "" for a question.
            background: nobody waits for them: they may be refused when a budget is used up.
        """
        ...


class Clock(Protocol):
    """The present."""

    def now(self) -> datetime:
        """The present instant, timezone-aware."""
        ...
