import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class Forks:
    """Starts, awaits and kills the writers of `forks.py`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forks.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def _ask(self, **message: Any) -> dict[str, int]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        answer: dict[str, int] = json.loads(self._process.stdout.readline())
        return answer

    def start(self, job: str, folder: Path, **arguments: Any) -> int:
        """The pid of a new process."""
        return self._ask(job=job, folder=str(folder), **arguments)["pid"]

    def wait(self, pid: int) -> int:
        """The exit status of a process, negative for a signal."""
        return self._ask(job="wait", pid=pid)["status"]

    def kill(self, pid: int) -> None:
        """SIGKILL."""
        os.kill(pid, signal.SIGKILL)
        assert self.wait(pid) == -signal.SIGKILL

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    made = Forks()
    yield made
    made.close()
