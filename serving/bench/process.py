"""What a process uses: resident memory while something runs, and bytes on the disk."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from intentmem.memory.errors import MissingExtraError

_EVERY_SECONDS = 0.02
_MB = 2**20


class PeakMemory:
    """Samples this process' resident memory while the block runs. Megabytes are 2**20 bytes.

    Raises:
        MissingExtraError: psutil is not installed.
    """

    def __init__(self) -> None:
        self._process = _process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.before_mb = self.peak_mb = 0.0

    @property
    def added_mb(self) -> float:
        """The peak above what was resident before."""
        return self.peak_mb - self.before_mb

    def __enter__(self) -> Self:
        self.before_mb = self.peak_mb = self._now()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self.peak_mb = max(self.peak_mb, self._now())

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            self.peak_mb = max(self.peak_mb, self._now())

    def _now(self) -> float:
        return float(self._process.memory_info().rss) / _MB


def disk_mb(folder: Path) -> float:
    """Size of all files under a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / _MB


def _process() -> Any:
    try:
        import psutil
    except ImportError as error:
        raise MissingExtraError("psutil", "bench") from error
    return psutil.Process()
