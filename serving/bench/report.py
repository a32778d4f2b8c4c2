"""The one format of every benchmark's report: a header that says what was measured on what, and rows of figures."""

from __future__ import annotations

import json
import math
import os
import platform
import sqlite3
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import intentmem.memory
from intentmem.memory.errors import InputError

PACKAGES = ("intentmem", "torch", "transformers", "sentence-transformers", "faiss-cpu", "faiss-gpu-cu12", "bm25s")
_COMMAND_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Args:
        corpus: what it was measured on.
        subject: what was measured: a recipe, a baseline or a stage.
        group: the part of the corpus, `all` for the whole.
        metric: name of the figure, unit included where it has one (`p50_ms`).
        value: the figure; low and high: its 95% interval (or its spread over repeats), None where there is none.
        n: how many questions, turns, vectors or calls it rests on.
    """

    corpus: str
    subject: str
    group: str
    metric: str
    value: float
    low: float | None
    high: float | None
    n: int

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                raise InputError(f"{self.subject}/{self.group}/{self.metric}.{name}", f"is {number}, not a figure")


@dataclass(frozen=True, slots=True)
class Report:
    """What a benchmark found. Rows keep their order."""

    header: Mapping[str, Any]
    rows: Sequence[Row]

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"header": dict(self.header), "rows": [asdict(row) for row in self.rows]}

    def write(self, path: Path | str) -> None:
        """Write as JSON; a reader sees the former file or the whole new one.

        Raises:
            InputError: the file cannot be written.
        """
        write_whole(path, json.dumps(self.to_dict(), ensure_ascii=False, indent=1, allow_nan=False) + "\n", "json")


def write_whole(path: Path | str, text: str, field: str) -> None:
    """Write a file so that a reader sees the former one or the whole new one.

    Raises:
        InputError: it cannot be written; names the option `field`.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise InputError(field, f"{target} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise InputError(field, f"{target} cannot be written: {error.strerror}") from error


def read_report(path: Path | str) -> Report:
    """A written report.

    Raises:
        InputError: the file is absent or no report.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        return Report(data["header"], tuple(Row(**row) for row in data["rows"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError("path", f"{path} is no benchmark report: {error}") from error


def header(
    benchmark: str,
    configuration: Mapping[str, Any],
    command: str,
    seconds: float,
    failures: Mapping[str, int] | None = None,
    data_hash: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """What a reader needs to judge figures and to repeat them.

    Args:
        benchmark: its name on the command line.
        configuration: every setting that the figures depend on.
        command: the command line that repeats it.
        seconds: how long it took.
        failures: how often each subject failed; failures are never scored.
        data_hash: sha256 over the source files.
        more: further fields of this benchmark.
    """
    return {
        "benchmark": benchmark,
        "commit": commit(),
        "command": command,
        "configuration": dict(configuration),
        "data_hash": data_hash,
        "seconds": round(seconds, 3),
        "failures": dict(failures or {}),
        **more,
        "versions": versions(),
        "hardware": hardware(),
    }


def versions() -> dict[str, str | None]:
    """Versions of what the figures depend on; None where it is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def hardware() -> dict[str, Any]:
    """The processor, how many of its cores are ours, memory in bytes, and the GPU if there is one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": _cpu(), "cores": cores, "memory_bytes": _memory_bytes(), "gpu": _gpu()}


@cache
def commit() -> str:
    """The commit of the checkout this runs from (`+` where it was changed since), else the package's version."""
    root = Path(intentmem.memory.__file__).resolve().parents[1]
    # An installed package may lie inside the repository of another project.
    ours = _git(root, "rev-parse", "--show-toplevel") == str(root)
    if ours and (found := _git(root, "rev-parse", "--verify", "HEAD")):
        return found + ("+" if _git(root, "status", "--porcelain") else "")
    return f"version {versions()['intentmem']}"


def _git(root: Path, *arguments: str) -> str:
    return _output(["git", "-C", str(root), *arguments])


def _output(command: list[str]) -> str:
    """What a command says; nothing where it fails or is not installed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _gpu() -> str | None:
    """Names of the GPUs, from their driver: asking torch would load it into runs that do without."""
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return ", ".join(_output(query).splitlines()) or None
