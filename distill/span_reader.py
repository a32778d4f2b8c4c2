"""The student that reads values, as the reader that records are written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from intentmem.memory.protocols import ReadSpan
from intentmem.memory.tasks import RECORD_SPANS
from intentmem.memory.types import Turn

from .students.spans_reading import AROUND

if TYPE_CHECKING:
    from .runtime import StudentDecider


class StudentSpanReader:
    """Values of turns, by the student that answers `record_spans` now; none where there is no such student.

    Args:
        students: gives those that answer now, loaded at the first call.
        names: gives who decides by task, as it stands on records.
    """

    def __init__(self, students: Callable[[], StudentDecider], names: Callable[[], Mapping[str, str]]) -> None:
        self._students = students
        self._names = names

    @property
    def name(self) -> str:
        """Who reads."""
        return self._names().get(RECORD_SPANS.name, f"student:{RECORD_SPANS.name}")

    def read(self, turns: Sequence[Turn]) -> list[tuple[ReadSpan, ...]]:
        """Values of consecutive turns, each read after the turns before it.

        Raises:
            ArtifactError: the students do not fit the encoder.
        """
        texts = [turn.text for turn in turns]
        before = [texts[max(0, place - AROUND) : place] for place in range(len(texts))]
        return self._students().read_spans(texts, before)
