"""What a served model answers from a memory, graded as MemConflict does (Tao et al., 2026; arXiv 2605.20926).

- AA, answer accuracy: 1 right, .5 partly right, 0 wrong; of a condition, right or wrong only.
- UOCS, of dynamic conflicts: 1 where the answer says that something changed, old to new in the right order.
- CRS, of static conflicts: 1 where the answer recognises the contradiction, or that it is uncertain.

As in the benchmark's own script a language model is the judge; here it is the served one, which answers too, one
constrained token a grade: figures of different models are not comparable. An abstention is wrong and recognises
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from intentmem.memory.errors import ModelError
from intentmem.memory.memory import Memory
from intentmem.serving.llm.answer import answer
from intentmem.serving.llm.prompts import load_prompt
from intentmem.serving.llm.requests import ChoiceRequest, lettered
from intentmem.serving.llm.texts import shown
from intentmem.train_data import Question

if TYPE_CHECKING:
    from intentmem.serving.llm.port import ModelClient

CORPUS = "memconflict"
"""The corpus that these grades belong to."""

_RIGHT, _PARTLY, _WRONG = (
    "it says the same in what matters",
    "it says a right part, and leaves out or blurs the rest",
    "it says something else, or nothing of it",
)
_YES, _NO = "yes", "no"
_SHOWN = 2000


@dataclass(frozen=True, slots=True)
class _Grade:
    """One grade: its metric, and what each option is worth."""

    metric: str
    worth: Mapping[str, float]


_PARTS = _Grade("AA", {_RIGHT: 1.0, _PARTLY: 0.5, _WRONG: 0.0})
_WHOLE = _Grade("AA", {_RIGHT: 1.0, _WRONG: 0.0})
_ORDER = _Grade("UOCS", {_YES: 1.0, _NO: 0.0})
_RECOGNISED = _Grade("CRS", {_YES: 1.0, _NO: 0.0})
_OF_KIND: Mapping[str, tuple[_Grade, ...]] = {
    "dynamic": (_PARTS, _ORDER),
    "static": (_PARTS, _RECOGNISED),
    "conditional": (_WHOLE,),
}


class ConflictReader:
    """Answers questions from a memory, and grades the answers, with one served model."""

    def __init__(self, memory: Memory, client: ModelClient) -> None:
        self._memory = memory
        self._client = client

    @property
    def configuration(self) -> dict[str, Any]:
        """Who answers and grades, with which prompts."""
        prompts = {name: load_prompt(name).hash for name in ("answer", "judge")}
        return {"reader": self._client.name, "reader_prompts": prompts}

    def score(self, question: Question, options: Mapping[str, Any]) -> dict[str, float]:
        """Grades by metric, in [0, 1]; none where the corpus has no answer.

        Raises:
            ModelError: the model failed to answer or to grade.
            InputError: an option of the search cannot be used.
        """
        if not question.answer:
            return {}
        grades = _OF_KIND.get(question.group, (_PARTS,))
        said = answer(self._memory, self._client, question.text, **options)
        if said.abstained:
            return {grade.metric: 0.0 for grade in grades}
        return dict(self._graded(question, said.text, grades))

    def _graded(self, question: Question, said: str, grades: tuple[_Grade, ...]) -> Iterator[tuple[str, float]]:
        prompt = load_prompt("judge")
        requests = []
        for grade in grades:
            messages = prompt.messages(
                question=shown(question.text, _SHOWN),
                reference=shown(question.answer or "", _SHOWN),
                answer=shown(said, _SHOWN),
                asked=prompt.tasks[grade.metric],
                options=lettered(list(grade.worth)),
            )
            requests.append(ChoiceRequest(messages, tuple(grade.worth), task="judge"))
        for grade, choice in zip(grades, self._client.choose(requests), strict=True):
            if isinstance(choice, ModelError):
                raise choice
            best = max(range(len(choice.probabilities)), key=lambda at: choice.probabilities[at])
            yield grade.metric, list(grade.worth.values())[best]
