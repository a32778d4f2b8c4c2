"""Requests under load: a closed loop of so many at once, or an open loop of so many a second.

In a closed loop each worker sends its next request when its last one was answered. In an open loop requests arrive by a
Poisson process whatever became of those before, and a latency counts from the arrival that was due, so that a server
which falls behind cannot hide it (coordinated omission).
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intentmem.memory.errors import DecisionError, IntentMemError
from intentmem.serving.llm.requests import Usage

FAILURES = (IntentMemError, sqlite3.Error, OSError, RuntimeError)
"""What makes a request count as failed; anything else is a fault of the benchmark and ends it."""

_MOST_WORKERS = 256
_PARTS = 16
"""Workers that an open loop tells apart: how many namespaces it writes to."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a request came to. first_token, first_output: instants (`time.perf_counter`) of a stream, else None."""

    value: Any = None
    usage: Usage = field(default_factory=Usage)
    first_token: float | None = None
    first_output: float | None = None


Call = Callable[[int, int], Reply]
"""Sends the request of a number by a worker of a number."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One request. seconds: from when it was due. error: why it failed, "" where it was answered."""

    number: int
    seconds: float
    reply: Reply
    error: str = ""
    first_token_seconds: float | None = None
    first_output_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of one load. name: `c4` for four at once, `r5` for five a second. seconds: from first to last."""

    name: str
    samples: Sequence[Sample]
    seconds: float

    @property
    def answered(self) -> list[Sample]:
        """Those that did not fail: only they have a latency."""
        return [sample for sample in self.samples if not sample.error]

    @property
    def errors(self) -> list[str]:
        """Why the others failed."""
        return [sample.error for sample in self.samples if sample.error]


class Unanswerable(Exception):
    """This subject does not answer this task."""


def once(call: Call, number: int, worker: int = 0, due: float | None = None) -> Sample:
    """Send one request.

    Raises:
        Unanswerable: the decider does not answer this task.
    """
    start = time.perf_counter() if due is None else due
    try:
        reply = call(number, worker)
    except DecisionError as error:
        raise Unanswerable(str(error)) from error
    except FAILURES as error:
        return Sample(number, time.perf_counter() - start, Reply(), f"{type(error).__name__}: {error}")
    seconds = time.perf_counter() - start
    first, output = (None if at is None else at - start for at in (reply.first_token, reply.first_output))
    return Sample(number, seconds, reply, "", first, output)


def closed_loop(call: Call, requests: int, concurrency: int, first: int = 0) -> Load:
    """Send `requests` requests, numbered from `first` on, `concurrency` at a time."""
    guard, left = threading.Lock(), iter(range(first, first + requests))
    found: list[Sample] = []

    def work(worker: int) -> None:
        while True:
            with guard:
                number = next(left, None)
            if number is None:
                return
            sample = once(call, number, worker)
            with guard:
                found.append(sample)

    start = time.perf_counter()
    if concurrency == 1:
        work(0)
    else:
        with ThreadPoolExecutor(concurrency) as pool:
            for future in [pool.submit(work, worker) for worker in range(concurrency)]:
                future.result()
    seconds = time.perf_counter() - start
    return Load(f"c{concurrency}", sorted(found, key=lambda sample: sample.number), seconds)


def open_loop(call: Call, requests: int, rate: float, seed: int, first: int = 0) -> Load:
    """Send requests as they are due, `rate` a second on average; equal seeds give equal arrivals."""
    gaps = np.random.default_rng(seed).exponential(1 / rate, requests)
    start = time.perf_counter()
    due = start + np.cumsum(gaps)
    with ThreadPoolExecutor(min(requests, _MOST_WORKERS)) as pool:
        futures = []
        for place in range(requests):
            if (wait := due[place] - time.perf_counter()) > 0:
                time.sleep(wait)
            futures.append(pool.submit(once, call, first + place, place % _PARTS, float(due[place])))
        samples = [future.result() for future in futures]
    return Load(f"r{rate:g}", samples, time.perf_counter() - start)
