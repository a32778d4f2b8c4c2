"""One subject in one group: the first request, the warm-up, then each load, every request about something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..report import Row
from .figures import A_THOUSAND, Labels, Place, cost_rows, load_rows
from .load import Call, Load, Sample, closed_loop, once, open_loop
from .plan import LatencyPlan
from .prices import Prices


@dataclass(slots=True)
class Measured:
    """What was measured. cold: the first request; warmup: those after it; loads: the rest, closed loops first."""

    place: Place
    cold: Sample
    warmup: list[Sample]
    loads: list[Load]
    model: str | None = None
    more: list[Row] = field(default_factory=list)

    @property
    def samples(self) -> Iterator[Sample]:
        """Every request."""
        yield self.cold
        yield from self.warmup
        for load in self.loads:
            yield from load.samples

    @property
    def labels(self) -> dict[int, Labels]:
        """Labels by the place of the item, of all requests that were answered with some."""
        found: dict[int, Labels] = {}
        for sample in self.samples:
            if not sample.error and isinstance(sample.reply.value, Mapping):
                found |= sample.reply.value
        return found

    @property
    def errors(self) -> Counter[str]:
        """How often each error was met."""
        return Counter(sample.error for sample in self.samples if sample.error)

    def rows(self, plan: LatencyPlan, prices: Prices) -> Iterator[Row]:
        """Figures: cold and warm apart, the first closed loop without an ending, cost, and whatever else there is."""
        place = self.place
        if not self.cold.error:
            yield place.row("cold_ms", self.cold.seconds * A_THOUSAND, 1)
        if warm := [sample.seconds * A_THOUSAND for sample in self.warmup if not sample.error]:
            yield place.row("warmup_p50_ms", np.percentile(np.array(warm), 50), len(warm))
        for number, load in enumerate(self.loads):
            yield from load_rows(place, load, plan.limit_ms, plain=not number)
        yield from cost_rows(place, self.loads[0], self.model, prices)
        yield from self.more


def measure(place: Place, call: Call, plan: LatencyPlan, model: str | None = None) -> Measured:
    """Send all requests of a group.

    Raises:
        Unanswerable: the subject does not answer this task.
    """
    cold = once(call, 0)
    warmup = [once(call, number) for number in range(1, 1 + plan.warmup)]
    first, loads = 1 + plan.warmup, []
    for concurrency in plan.concurrencies:
        loads.append(closed_loop(call, plan.requests, concurrency, first))
        first += plan.requests
    for number, rate in enumerate(plan.rates):
        loads.append(open_loop(call, plan.requests, rate, plan.seed + number, first))
        first += plan.requests
    return Measured(place, cold, warmup, loads, model)
