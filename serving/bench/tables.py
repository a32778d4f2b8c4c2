"""Reports as tables: a table a group, a line a subject, a column a metric, intervals beneath the figures."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from rich.table import Table

from .report import Report, Row

_STYLE = re.compile(r"\[/?dim\]")


def tables(report: Report, only: Collection[str] | None = None) -> Iterator[Table]:
    """One table for each corpus and group, in the order of the rows; `only` these metrics where they are named."""
    for (corpus, group), rows in _by_group(report, only).items():
        yield _table(f"{corpus}, {group}", rows)


def ablation_tables(report: Report, only: Collection[str] | None = None) -> Iterator[Table]:
    """As `tables`, a line for every part: its figures, below them the differences to the full system."""
    parts = [f"without {part}" for part in report.header["configuration"]["parts"]]
    for (corpus, group), rows in _by_group(report, None).items():
        metrics = [
            m for m in dict.fromkeys(row.metric for row in rows if row.subject == "full") if not only or m in only
        ]
        found = {(row.subject, row.metric): row for row in rows}
        table = Table(title=f"{corpus}, {group}", title_justify="left")
        for name in ("subject", "n", *metrics):
            table.add_column(name, justify="left" if name == "subject" else "right", no_wrap=name in ("subject", "n"))
        for subject in ("full", *parts):
            mine = [found[subject, metric] for metric in metrics if (subject, metric) in found]
            if subject.removeprefix("without ") in report.header["not_in_use"]:
                table.add_row(subject, "not in use", *("" for _ in metrics))
            elif mine:
                changes = [found.get((subject, f"difference {metric}")) for metric in metrics]
                cells = [
                    "" if (row := found.get((subject, metric))) is None else _change(row, change)
                    for metric, change in zip(metrics, changes, strict=True)
                ]
                table.add_row(subject, f"{mine[0].n:,}", *cells)
        yield table


def markdown(tables: Iterable[Table], lines: Iterable[str]) -> str:
    """Tables in Markdown, then lines of text."""
    parts = []
    for table in tables:
        columns = [list(column.cells) for column in table.columns]
        rows = [[str(column.header) for column in table.columns], ["---"] * len(columns), *zip(*columns, strict=True)]
        made = ["| " + " | ".join(_plain(cell) for cell in row) + " |" for row in rows]
        parts += [f"### {table.title}", "\n".join(made)]
    return "\n\n".join([*parts, *lines]) + "\n"


def _plain(cell: object) -> str:
    return _STYLE.sub("", str(cell)).replace("\n", "<br>").replace("|", "\\|")


def _change(row: Row, change: Row | None) -> str:
    if change is None or change.low is None or change.high is None:
        return _cell(row)
    text = f"{number_text(row.value)}\n{_signed(change.value)}"
    if change.low == change.value == change.high:
        return text
    return f"{text}\n[dim]{_signed(change.low)} to {_signed(change.high)}[/dim]"


def _signed(value: float) -> str:
    return f"{round(value, 3) + 0.0:+.3f}".replace("0.", ".", 1)


def _by_group(report: Report, only: Collection[str] | None) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in report.rows:
        if only is None or row.metric in only:
            groups.setdefault((row.corpus, row.group), []).append(row)
    return groups


def notes(report: Report) -> Iterator[str]:
    """What a reader of the tables has to know: what was left out, what failed, how tokens were counted."""
    header = report.header
    configuration = header["configuration"]
    if questions := header.get("questions"):
        yield (
            f"{questions['asked']} questions asked of {questions['total']}; "
            f"{questions['without_evidence']} have no evidence and are left out."
        )
    if tokenizer := configuration.get("tokenizer"):
        budgets = ", ".join(f"{budget:,}" for budget in configuration["budgets"])
        extra = configuration["tokens_a_turn"]
        yield f"Budgets of {budgets} tokens, counted by the tokenizer of {tokenizer} plus {extra} a turn."
        yield f"Brackets are 95% intervals over {configuration['samples']:,} bootstrap resamples of the questions."
    for name in header.get("stand_ins", ()):
        yield f"{name} is a stand-in with a set delay, no model: its figures say nothing about any model."
    for subject, tasks in header.get("not_answered", {}).items():
        yield f"{subject} does not answer: {', '.join(tasks)}."
    for subject, count in header["failures"].items():
        yield f"FAILED, not scored: {subject} {count} times ({header.get('errors', {}).get(subject, 'no message')})."
    yield f"{header['seconds']:.1f} s on {header['hardware']['cpu']}, {header['hardware']['cores']} cores."


def _table(title: str, rows: list[Row]) -> Table:
    metrics = list(dict.fromkeys(row.metric for row in rows))
    subjects: dict[str, dict[str, Row]] = {}
    for row in rows:
        subjects.setdefault(row.subject, {})[row.metric] = row
    table = Table(title=title, title_justify="left")
    table.add_column("subject")
    table.add_column("n", justify="right")
    for metric in metrics:
        table.add_column(metric, justify="right")
    for subject, found in subjects.items():
        counts = sorted({row.n for row in found.values()}, reverse=True)
        cells = [_cell(found[metric]) if metric in found else "" for metric in metrics]
        table.add_row(subject, f"{counts[0]:,}", *cells)
    return table


def _cell(row: Row) -> str:
    text = number_text(row.value)
    if row.low is None or row.high is None or (row.low, row.high) == (row.value, row.value):
        return text
    return f"{text}\n[dim]{number_text(row.low)}-{number_text(row.high)}[/dim]"


def number_text(value: float) -> str:
    """A figure as a reader wants it: three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.3f}".removeprefix("0") if 0 < abs(value) < 1 else f"{value:.2f}"
