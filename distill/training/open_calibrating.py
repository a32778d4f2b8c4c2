"""What open students say of their own answers: chances, thresholds and confidence, on a split of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import MissingExtraError
from intentmem.memory.tasks import Candidates, Item

from ..students.base import Encodings
from ..students.open import CONSIDERED, ONE, OpenStudent, Vocabulary, together
from ..traces import LabelSet, Trace

_FIRST = 3
_BATCH = 256
_LOST = 0.02
_GRID = np.linspace(0.1, 0.9, 81)
Doubles = NDArray[np.float64]


def calibrated(student: OpenStudent, traces: Sequence[Trace], encodings: Encodings) -> OpenStudent:
    """The student with its options set on traces that it was not trained on; as it is where there are none.

    Raises:
        MissingExtraError: scikit-learn is absent.
    """
    found = list(_scored(student, traces, encodings))
    applies = [one.applies for one in found]
    if not found or not any(row.any() for row in applies):
        return student
    return (_best_first if student.settings.kind == ONE else _each)(student, found)


def shared_items(traces: Sequence[Trace]) -> list[Item]:
    """The questions of traces; those that were offered the same labels share one object of candidates."""
    made: dict[str, Candidates] = {}
    return [Item(dict(trace.fields), _candidates(trace.options, made)) for trace in traces]


def _candidates(options: LabelSet, made: dict[str, Candidates]) -> Candidates:
    if options.key not in made:
        made[options.key] = Candidates(options.ids, options.texts)
    return made[options.key]


class _Asked(NamedTuple):
    """One trace: scores (L,), which of the labels apply (L,) bool, and the vocabulary they are of."""

    scores: Doubles
    applies: NDArray[np.bool_]
    vocabulary: Vocabulary


def _scored(student: OpenStudent, traces: Sequence[Trace], encodings: Encodings) -> Iterator[_Asked]:
    by_offer: dict[str, list[int]] = {}
    for place, trace in enumerate(traces):
        if trace.options.ids:
            by_offer.setdefault(trace.options.key, []).append(place)
    items = shared_items(traces)
    for places in by_offer.values():
        rows = {label: row for row, label in enumerate(traces[places[0]].options.ids)}
        for start in range(0, len(places), _BATCH):
            batch = places[start : start + _BATCH]
            scores, vocabulary = student.scores([items[place] for place in batch], encodings)
            for place, row in zip(batch, scores, strict=True):
                applies = np.zeros(len(rows), bool)
                applies[[rows[label] for label in traces[place].labels]] = True
                yield _Asked(np.asarray(row, np.float64), applies, vocabulary)


def _best_first(student: OpenStudent, asked: Sequence[_Asked]) -> OpenStudent:
    """Chances from the likeliest labels of each turn; the floor is one that few right answers fall below."""
    fitted, weighed = _weighed(student, asked, _FIRST)
    best = np.array([one.chances[0] for one in weighed])
    sure = np.array([bool(one.right[0]) for one in weighed])
    floor = float(np.quantile(best[sure], _LOST)) if sure.any() else 0.0
    others = np.concatenate([one.chances[1:] for one in weighed])
    apply = np.concatenate([one.right[1:] for one in weighed])
    threshold = _best_threshold(others, apply, _wanted(asked), int(sure.sum()), len(best))
    return _with(fitted, floor=floor, threshold=threshold)


def _each(student: OpenStudent, asked: Sequence[_Asked]) -> OpenStudent:
    """Chances of all labels that are weighed, the threshold for the best micro-F1, confidence in the whole set."""
    fitted, weighed = _weighed(student, asked, CONSIDERED)
    chances, right = (np.concatenate(part) for part in zip(*weighed, strict=True))
    threshold = _best_threshold(chances, right, _wanted(asked))
    exact = np.array(
        [
            int(((one.chances >= threshold) & one.right).sum()) == int(whole.applies.sum())
            and not ((one.chances >= threshold) & ~one.right).any()
            for one, whole in zip(weighed, asked, strict=True)
        ]
    )
    fitted = _with(fitted, threshold=threshold)
    if exact.all() or not exact.any():
        return fitted
    odds = np.array([together(one.chances, threshold) for one in weighed])
    return _with(fitted, certainty=_logistic(odds[:, None], exact))


class _Weighed(NamedTuple):
    """The labels of one trace that are weighed, likeliest first: chances (K,), and whether each applies (K,)."""

    chances: Doubles
    right: NDArray[np.bool_]


def _weighed(student: OpenStudent, asked: Sequence[_Asked], first: int) -> tuple[OpenStudent, list[_Weighed]]:
    """The student with chances fitted to the first so many labels of each trace, and what it then says of all."""
    found = [one.vocabulary.signs(one.scores) for one in asked]
    right = [one.applies[rows] for one, (rows, _) in zip(asked, found, strict=True)]
    known = np.concatenate([row[:first] for row in right])
    if known.any() and not known.all():
        student = _with(student, chance=_logistic(np.concatenate([signs[:first] for _, signs in found]), known))
    return student, [
        _Weighed(student.settings.chances(signs), row) for (_, signs), row in zip(found, right, strict=True)
    ]


def _wanted(asked: Sequence[_Asked]) -> int:
    return int(sum(one.applies.sum() for one in asked))


def _best_threshold(chances: Doubles, right: NDArray[np.bool_], wanted: int, hits: int = 0, given: int = 0) -> float:
    """The threshold of the best micro-F1 where `wanted` labels apply; `given` are given anyway, `hits` rightly."""

    def f1(threshold: float) -> float:
        said = chances >= threshold
        return 2 * (hits + int((said & right).sum())) / max(1, given + int(said.sum()) + wanted)

    return float(max(_GRID, key=f1))


def _logistic(features: Doubles, right: NDArray[np.bool_]) -> tuple[float, ...]:
    """Weights and offset of log-odds."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "train") from error
    fitted: Any = LogisticRegression(C=100.0, max_iter=1000).fit(features, right)
    return tuple(float(value) for value in (*fitted.coef_[0], fitted.intercept_[0]))


def _with(student: OpenStudent, **options: Any) -> OpenStudent:
    return OpenStudent(student.task, student.adapter, student.scoring, replace(student.settings, **options))
