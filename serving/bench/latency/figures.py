"""Figures of a load: percentiles, throughput, goodput, tokens, calls, money, and agreement with the teacher."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from intentmem.memory.tasks import Task
from intentmem.serving.llm.requests import Usage

from ..bootstrap import intervals
from ..report import Row
from .load import Load
from .prices import Prices

PERCENTILES = (50, 90, 95, 99)
A_THOUSAND = 1000.0
Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where figures belong: corpus, subject and group of their rows."""

    corpus: str
    subject: str
    group: str

    def row(self, metric: str, value: float, n: int, low: float | None = None, high: float | None = None) -> Row:
        """A row of this place."""
        return Row(self.corpus, self.subject, self.group, metric, float(value), low, high, n)


def load_rows(place: Place, load: Load, limit_ms: float, plain: bool) -> Iterator[Row]:
    """Latency and throughput of a load, metrics ending in `@c4` or `@r5`; `plain` leaves the ending off.

    Failed requests have no latency and are no output; `failed` counts them among all requests.
    """
    end = "" if plain else f"@{load.name}"
    answered = load.answered
    yield place.row(f"failed{end}", len(load.errors), len(load.samples))
    if not answered:
        return
    milliseconds = np.array([sample.seconds for sample in answered]) * A_THOUSAND
    for percent in PERCENTILES:
        yield place.row(f"p{percent}_ms{end}", np.percentile(milliseconds, percent), len(answered))
    yield place.row(f"throughput_per_s{end}", len(answered) / load.seconds, len(answered))
    good = int((milliseconds <= limit_ms).sum())
    yield place.row(f"goodput_per_s{end}", good / load.seconds, len(answered))
    for name, values in (
        ("first_token", [s.first_token_seconds for s in answered if s.first_token_seconds is not None]),
        ("first_output", [s.first_output_seconds for s in answered if s.first_output_seconds is not None]),
    ):
        for percent in (50, 95) if values else ():
            figure = np.percentile(np.array(values) * A_THOUSAND, percent)
            yield place.row(f"{name}_p{percent}_ms{end}", figure, len(values))


def cost_rows(place: Place, load: Load, model: str | None, prices: Prices) -> Iterator[Row]:
    """Calls and tokens a request, as the server counted them, and the money for a thousand requests.

    Failed requests cost too: what they used is not known, so that figures are those of the answered ones.
    """
    answered = load.answered
    if not answered:
        return
    usage = sum((sample.reply.usage for sample in answered), Usage())
    n = len(answered)
    yield place.row("calls", usage.calls / n, n)
    yield place.row("tokens_in", usage.prompt_tokens / n, n)
    yield place.row("tokens_out", usage.completion_tokens / n, n)
    money = money_of(place.subject, model, usage, load.seconds, prices)
    if money is not None:
        yield place.row("money_per_1000", money / n * A_THOUSAND, n)


def money_of(subject: str, model: str | None, usage: Usage, seconds: float, prices: Prices) -> float | None:
    """Tokens and hours at their prices; 0 where nothing was called and no hour has a price, None where unknown."""
    hours = prices.of_time(subject, seconds)
    if hours is not None:
        return hours
    if not usage.calls:
        return 0.0
    return prices.of_tokens(model, usage) if model is not None else None


def agreement_row(
    place: Place,
    task: Task,
    given: Mapping[int, Labels],
    expected: Mapping[int, Labels],
    agree: Callable[[Task, Sequence[str], Sequence[str]], bool],
    samples: int,
    seed: int,
) -> Row | None:
    """Share of the items, answered by both, on which the two agree, with its interval; None where there are none."""
    both = sorted(given.keys() & expected.keys())
    if not both:
        return None
    same = np.array([[float(agree(task, given[number], expected[number]))] for number in both])
    found = intervals(same, samples, seed)[0]
    return place.row("agreement", found.mean, len(both), found.low, found.high)
