"""A run as files: JSON, CSV, Markdown, plots."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intentmem.memory.errors import InputError

from ..report import Report, Row
from ..tables import number_text

if TYPE_CHECKING:
    from .run import Run

_MAIN = (
    *("p50_ms", "p90_ms", "p95_ms", "p99_ms", "cold_ms", "throughput_per_s", "goodput_per_s"),
    *("first_token_p50_ms", "first_output_p50_ms", "calls", "tokens_in", "tokens_out", "money_per_1000", "agreement"),
    "failed",
)
"""Columns of the Markdown tables; every figure is in the CSV and JSON."""
SHOWN = frozenset(["p50_ms", "p95_ms", "throughput_per_s", "tokens_in", "money_per_1000", "agreement", "failed"])
"""Columns on a terminal."""


def write_all(run: Run, folder: Path) -> list[Path]:
    """Write `report.json`, `report.csv`, `report.md` and the plots into a folder; returns their paths.

    Raises:
        InputError: the folder cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    from .plots import draw

    try:
        folder.mkdir(parents=True, exist_ok=True)
        plots = draw(run, folder)
        run.report.write(folder / "report.json")
        (folder / "report.csv").write_text(as_csv(run.report), encoding="utf-8")
        (folder / "report.md").write_text(as_markdown(run.report, [p.name for p in plots]), encoding="utf-8")
    except OSError as error:
        raise InputError("out", f"{folder} cannot be written: {error.strerror}") from error
    return [*(folder / f"report.{kind}" for kind in ("json", "csv", "md")), *plots]


def as_csv(report: Report) -> str:
    """The rows as CSV, one a line, with the names of their fields."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [one.name for one in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in report.rows)
    return text.getvalue()


def as_markdown(report: Report, plots: list[str]) -> str:
    """The main figures as tables, a table a group, with what is needed to judge them."""
    return "\n".join([*_facts(report), "", *_groups(report), *_plots(plots), *_definitions(report)]) + "\n"


def _facts(report: Report) -> Iterator[str]:
    header = report.header
    hardware, prices = header["hardware"], header["prices"]
    yield "# Latency"
    yield ""
    for name in header["stand_ins"]:
        yield f"**{name} is a stand-in with a set delay, no model: its figures say nothing about any model.**"
        yield ""
    memory = f"{hardware['memory_bytes'] / 2**30:.0f} GiB" if hardware["memory_bytes"] else "unknown memory"
    yield f"- commit {header['commit']}, data {header['data_hash']}"
    yield f"- `{header['command']}`"
    yield f"- {hardware['cpu']}, {hardware['cores']} cores, {memory}, GPU: {hardware['gpu'] or 'none'}"
    yield f"- prices of {prices['date']} in {prices['currency']}: {prices['source']}"
    yield f"- teacher: {header['teacher'] or 'none'}"
    if header["repeated"]:
        yield "- fewer texts than requests: some were asked twice, which caches answer faster"
    for name, about in header["subjects"].items():
        yield f"- {name}: {_told(about)}"
    for name, tasks in header["not_answered"].items():
        yield f"- {name} does not answer: {', '.join(tasks)}"
    for name, count in header["failures"].items():
        yield f"- FAILED, counted and not scored: {name} {count} times ({header['errors'].get(name, '')})"


def _told(about: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in about.items() if value is not None)


def _groups(report: Report) -> Iterator[str]:
    groups: dict[str, dict[str, dict[str, Row]]] = {}
    for row in report.rows:
        groups.setdefault(row.group, {}).setdefault(row.subject, {})[row.metric] = row
    for group, subjects in groups.items():
        columns = [metric for metric in _MAIN if any(metric in found for found in subjects.values())]
        yield f"## {group}"
        yield ""
        yield f"| subject | n | {' | '.join(columns)} |"
        yield f"| --- | --- |{' --- |' * len(columns)}"
        for subject, found in subjects.items():
            n = next((found[metric].n for metric in ("p50_ms", "failed") if metric in found), 0)
            cells = [_cell(found.get(metric)) for metric in columns]
            yield f"| {subject} | {n:,} | {' | '.join(cells)} |"
        yield ""


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    text = number_text(row.value)
    if row.low is None or row.high is None:
        return text
    return f"{text} [{number_text(row.low)}, {number_text(row.high)}] (n = {row.n:,})"


def _plots(names: list[str]) -> Iterator[str]:
    for name in names:
        yield f"![{name.removesuffix('.png')}]({name})"
        yield ""


def _definitions(report: Report) -> Iterator[str]:
    yield "## What the figures mean"
    yield ""
    for name, text in report.header["definitions"].items():
        yield f"- {name}: {text}"
    for name, text in report.header["tools"].items():
        yield f"- {name}: {text}"
