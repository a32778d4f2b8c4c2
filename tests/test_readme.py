"""The README is run: its Python, its commands, its tables of commands and settings."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from intentmem.serving import explain_settings
from intentmem.serving.cli import main
from intentmem.serving.cli.app import app

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "INTENTMEM_EMBEDDER__PROFILE": "hash"}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=folder, env=environment)


def commands() -> Iterator[list[str]]:
    for block in blocks("bash"):
        for line in block.splitlines():
            if line.startswith("intentmem "):
                yield shlex.split(line)[1:]


def names(group: object, before: tuple[str, ...] = ()) -> Iterator[str]:
    for name, command in getattr(group, "commands", {}).items():
        if getattr(command, "commands", None):
            yield from names(command, (*before, name))
        else:
            yield " ".join((*before, name))


def test_the_first_code_comes_early() -> None:
    lines = README.splitlines()
    assert next(number for number, line in enumerate(lines, 1) if line.startswith("```")) < 12
    assert next(number for number, line in enumerate(lines, 1) if line == "```python") < 25


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_the_python_examples_run(number: int, tmp_path: Path) -> None:
    done = run(tmp_path, "-c", blocks("python")[number])
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTENTMEM_EMBEDDER__PROFILE", "hash")
    for command in commands():
        monkeypatch.setattr(sys, "argv", ["intentmem", *command])
        try:
            main()
        except SystemExit as stop:
            assert not stop.code, f"{command}: {capsys.readouterr().err}"
        assert capsys.readouterr().out.strip(), command


def test_every_command_has_help_and_is_in_the_readme() -> None:
    group = typer.main.get_command(app)
    known = sorted(names(group))
    assert {"demo", "ingest", "search", "doctor", "config show"} <= set(known)
    for name in known:
        command: object = group
        for part in name.split():
            command = getattr(command, "commands")[part]  # noqa: B009  # a group's type is private to typer
        assert getattr(command, "help", None), f"{name} has no help"
        shown = "bench" if name.startswith("bench ") else name
        assert f"intentmem {shown}" in README, f"{name} is not in the README"


def test_every_command_in_the_readme_exists() -> None:
    known = {name.split()[0] for name in names(typer.main.get_command(app))}
    assert set(re.findall(r"`intentmem ([a-z]+)", README)) <= known


def test_the_table_of_settings_is_complete() -> None:
    documented = set(re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \|", README, re.MULTILINE))
    assert documented == {setting.name for setting in explain_settings()}


def test_every_extra_in_the_readme_is_declared() -> None:
    from importlib.metadata import metadata

    declared = set(metadata("intentmem").get_all("Provides-Extra") or [])
    for extras in re.findall(r'"intentmem\[([a-z,]+)\]"', README):
        assert set(extras.split(",")) <= declared
