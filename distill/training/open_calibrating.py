"""What open students say of their own answers: chances, thresholds and confidence, on a split of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import MissingExtraError
from intentmem.memory.tasks import Candidates, Item

from ..students.base import Encodings
from ..students.open import ONE, OpenStudent, log_shares, together
from ..traces import LabelSet, Trace

_FIRST = 3
_LOST = 0.02
_GRID = np.linspace(0.1, 0.9, 81)
Doubles = NDArray[np.float64]


def calibrated(student: OpenStudent, traces: Sequence[Trace], encodings: Encodings) -> OpenStudent:
    """The student with its options set on traces that it was not trained on; as it is where there are none.

    Raises:
        MissingExtraError: scikit-learn is absent.
    """
    found = list(_scored(student, traces, encodings))
    if not found:
        return student
    scores = [row for row, _ in found]
    applies = [gold for _, gold in found]
    fit = _best_first if student.settings.kind == ONE else _each
    return fit(student, scores, applies)


def shared_items(traces: Sequence[Trace]) -> list[Item]:
    """The questions of traces; those that were offered the same labels share one object of candidates."""
    made: dict[str, Candidates] = {}
    return [Item(dict(trace.fields), _candidates(trace.options, made)) for trace in traces]


def _candidates(options: LabelSet, made: dict[str, Candidates]) -> Candidates:
    if options.key not in made:
        made[options.key] = Candidates(options.ids, options.texts)
    return made[options.key]


def _scored(
    student: OpenStudent, traces: Sequence[Trace], encodings: Encodings
) -> Iterator[tuple[Doubles, NDArray[np.bool_]]]:
    """Scores (L,) of each trace, and which of the labels apply."""
    by_offer: dict[str, list[int]] = {}
    for place, trace in enumerate(traces):
        if trace.options.ids:
            by_offer.setdefault(trace.options.key, []).append(place)
    items = shared_items(traces)
    for places in by_offer.values():
        rows = {label: row for row, label in enumerate(traces[places[0]].options.ids)}
        for start in range(0, len(places), 256):
            batch = places[start : start + 256]
            for place, row in zip(batch, student.scores([items[p] for p in batch], encodings), strict=True):
                applies = np.zeros(len(rows), bool)
                applies[[rows[label] for label in traces[place].labels]] = True
                yield np.asarray(row, np.float64), applies


def _best_first(student: OpenStudent, scores: Sequence[Doubles], applies: Sequence[NDArray[np.bool_]]) -> OpenStudent:
    """Chances from the likeliest labels of each turn; the floor is one that few right answers fall below."""
    logs = [log_shares(row, student.settings.temperature) for row in scores]
    first = [np.argsort(-row, kind="stable")[:_FIRST] for row in logs]
    pairs = [
        (log[places], row[places], gold[places])
        for log, row, gold, places in zip(logs, scores, applies, first, strict=True)
    ]
    features = np.stack([np.concatenate([log for log, _, _ in pairs]), np.concatenate([row for _, row, _ in pairs])])
    right = np.concatenate([gold for _, _, gold in pairs])
    if right.all() or not right.any():
        return student
    weights, offset = _logistic(features.T, right)
    fitted = _with(student, chance=(float(weights[0]), float(weights[1]), offset))
    best = np.array([fitted.chances(log[:1], row[:1])[0] for log, row, _ in pairs])
    sure = np.array([bool(gold[0]) for _, _, gold in pairs])
    others = np.concatenate([fitted.chances(log[1:], row[1:]) for log, row, _ in pairs])
    apply = np.concatenate([gold[1:] for _, _, gold in pairs])
    floor = float(np.quantile(best[sure], _LOST)) if sure.any() else 0.0
    missed = int(sum(gold.sum() for gold in applies)) - int(apply.sum())
    return _with(fitted, floor=floor, threshold=_best_threshold(others, apply, int(sure.sum()), len(best), missed))


def _each(student: OpenStudent, scores: Sequence[Doubles], applies: Sequence[NDArray[np.bool_]]) -> OpenStudent:
    """Chances from all pairs of turn and label, the threshold for the best micro-F1, confidence in the whole set."""
    flat, right = np.concatenate(list(scores)), np.concatenate(list(applies))
    if right.all() or not right.any():
        return student
    weights, offset = _logistic(flat[:, None], right)
    fitted = _with(student, chance=(0.0, float(weights[0]), offset))
    chances = [fitted.chances(np.zeros_like(row), row) for row in scores]
    threshold = _best_threshold(np.concatenate(chances), right)
    odds = np.array([together(row, threshold) for row in chances])
    exact = np.array([bool(((row >= threshold) == gold).all()) for row, gold in zip(chances, applies, strict=True)])
    certainty = (1.0, 0.0)
    if exact.any() and not exact.all():
        slope, shift = _logistic(odds[:, None], exact)
        certainty = (float(slope[0]), shift)
    return _with(fitted, threshold=threshold, certainty=certainty)


def _best_threshold(
    chances: Doubles, right: NDArray[np.bool_], hits: int = 0, given: int = 0, missed: int = 0
) -> float:
    """The threshold of the best micro-F1, where `given` labels are given anyway, `hits` of them right.

    missed: labels that apply and are not among `chances`; the hits count among them.
    """
    wanted = int(right.sum()) + missed

    def f1(threshold: float) -> float:
        said = chances >= threshold
        return 2 * (hits + int((said & right).sum())) / max(1, given + int(said.sum()) + wanted)

    return float(max(_GRID, key=f1))


def _logistic(features: Doubles, right: NDArray[np.bool_]) -> tuple[Doubles, float]:
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "train") from error
    fitted: Any = LogisticRegression(C=100.0, max_iter=1000).fit(features, right)
    return np.asarray(fitted.coef_[0], np.float64), float(fitted.intercept_[0])


def _with(student: OpenStudent, **options: Any) -> OpenStudent:
    return OpenStudent(student.task, student.adapter, student.scoring, replace(student.settings, **options))
