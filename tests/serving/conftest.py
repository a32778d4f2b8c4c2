import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the command line in this process, over a memory of its own and without a model."""
    from intentmem.serving.cli import main

    monkeypatch.setenv("INTENTMEM_STORE__PATH", str(tmp_path / "memory"))
    monkeypatch.setenv("INTENTMEM_EMBEDDER__PROFILE", "hash")

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["intentmem", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Outcome(code, *capsys.readouterr())

    return run
