"""Timing on machines that others use too: subjects take turns, and ratios are taken between neighbours in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .report import Row

MILLISECONDS = 1000.0


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def interleaved(
    subjects: Mapping[str, Callable[[str], object]], inputs: Sequence[str], rounds: int
) -> dict[str, NDArray[np.float64]]:
    """Seconds of each subject on each input, (rounds, inputs); subjects take turns and the one to begin changes."""
    names = list(subjects)
    found = {name: np.zeros((rounds, len(inputs))) for name in names}
    for number in range(rounds):
        for place, text in enumerate(inputs):
            first = (number + place) % len(names)
            for name in names[first:] + names[:first]:
                found[name][number, place] = seconds(lambda name=name, text=text: subjects[name](text))  # type: ignore[misc]
    return found


def latency_rows(corpus: str, subject: str, group: str, found: NDArray[np.float64]) -> list[Row]:
    """`p50_ms` and `p95_ms` of seconds (rounds, inputs): medians over rounds, with the least and the most."""
    rows = []
    for percent in (50, 95):
        each = np.percentile(found, percent, axis=1) * MILLISECONDS
        rows.append(spread(corpus, subject, group, f"p{percent}_ms", each, found.size))
    return rows


def ratio_row(
    corpus: str, subject: str, group: str, metric: str, found: NDArray[np.float64], floor: NDArray[np.float64]
) -> Row:
    """Median ratio of neighbours in time, subject to floor, each (rounds, inputs); ends are those of the rounds."""
    ratios = found / np.maximum(floor, 1e-9)
    each = np.median(ratios, axis=1)
    return Row(
        corpus, subject, group, metric, float(np.median(ratios)), float(each.min()), float(each.max()), found.size
    )


def spread(
    corpus: str, subject: str, group: str, metric: str, repeats: Sequence[float] | NDArray[np.float64], n: int
) -> Row:
    """A figure measured several times: its median, with the least and the most."""
    values = np.asarray(repeats, np.float64)
    return Row(corpus, subject, group, metric, float(np.median(values)), float(values.min()), float(values.max()), n)
