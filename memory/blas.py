"""Numpy's linear algebra in one thread while encoders are at work.

After a threaded product, OpenBLAS keeps its threads spinning for tens of milliseconds. The encoder that runs next has
threads of its own: on two cores a question then took twice as long. The products of a search are small, and lose
nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController


class _Limit:
    """The limit on all BLAS libraries of the process, in force as long as anybody holds it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._held: Any = None
        self._modules = 0
        self._controller: ThreadpoolController | None = None

    def take(self) -> None:
        with self._lock:
            self._holders += 1
            if self._holders == 1:
                self._held = self._known().limit(limits=1, user_api="blas")

    def give_back(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._held.restore_original_limits()

    def _known(self) -> ThreadpoolController:
        """The libraries that are loaded: looked for anew, which takes a millisecond, when modules were imported."""
        if self._controller is None or len(sys.modules) != self._modules:
            self._controller, self._modules = ThreadpoolController(), len(sys.modules)
        return self._controller


_LIMIT = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One thread for BLAS while the block runs, in the whole process; the former number after the last such block."""
    _LIMIT.take()
    try:
        yield
    finally:
        _LIMIT.give_back()
