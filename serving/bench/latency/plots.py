"""Plots of a run: latency distributions, cost against agreement, throughput against concurrency."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intentmem.memory.errors import MissingExtraError

from ..report import Row
from .figures import A_THOUSAND

if TYPE_CHECKING:
    from .run import Run

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's, which colour-blind readers tell apart."""
_MARKERS = "osD^vP*X"
_COLUMNS, _PANEL = 3, (4.2, 3.0)
_GREY = "#666666"
_NEAR, _LINE = 1.6, 0.04
"""Ratio of costs, and difference of agreements, within which two labels would cover each other."""
_WIDE = 200.0
"""Ratio of the ends of an axis from which only powers of ten are named."""


def draw(run: Run, folder: Path) -> list[Path]:
    """Write the plots that the figures allow as PNG; returns their paths.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    subjects = list(dict.fromkeys(found.place.subject for found in run.measured))
    styles = {name: (_COLOURS[n % len(_COLOURS)], _MARKERS[n % len(_MARKERS)]) for n, name in enumerate(subjects)}
    made = []
    for name, plot in (("latency", _latency), ("cost", _cost), ("throughput", _throughput)):
        figure = plot(run, styles)
        if figure is not None:
            path = folder / f"{name}.png"
            figure.savefig(path, dpi=130, bbox_inches="tight")
            made.append(path)
    return made


def _figure(panels: int) -> tuple[Any, list[Any]]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "bench") from error
    columns = min(_COLUMNS, panels)
    rows = -(-panels // columns)
    figure = Figure(figsize=(_PANEL[0] * columns, _PANEL[1] * rows + 0.6), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel())
    for spare in axes[panels:]:
        spare.set_axis_off()
    return figure, axes[:panels]


def _panels(run: Run, styles: dict[str, tuple[str, str]], title: str, fill: Callable[[Any, str], bool]) -> Any | None:
    """One panel a group that has something to show; None where none has."""
    groups = [g for g in dict.fromkeys(found.place.group for found in run.measured) if fill(None, g)]
    if not groups:
        return None
    figure, axes = _figure(len(groups))
    for ax, group in zip(axes, groups, strict=True):
        fill(ax, group)
        ax.set_title(group, fontsize=10, loc="left")
        ax.grid(True, which="major", color="#dddddd", linewidth=0.6)
        ax.tick_params(labelsize=8)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    _titled(figure, title, run)
    drawn: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        drawn |= {label: handle for handle, label in zip(handles, labels, strict=True) if label not in drawn}
    named = [name for name in styles if name in drawn]
    figure.legend([drawn[n] for n in named], named, loc="outside lower center", ncols=min(4, len(named)), fontsize=9)
    return figure


def _titled(figure: Any, title: str, run: Run) -> None:
    stand_ins = run.report.header["stand_ins"]
    notes = [f"{', '.join(stand_ins)}: a stand-in, no model"] if stand_ins else []
    hardware = run.report.header["hardware"]
    notes.append(f"{hardware['gpu'] or hardware['cpu']}, {hardware['cores']} cores")
    figure.suptitle(f"{title}\n{'; '.join(notes)}", fontsize=10, x=0.01, ha="left")


def _latency(run: Run, styles: dict[str, tuple[str, str]]) -> Any | None:
    """Share of the requests answered within a time, of the first closed loop."""

    def fill(ax: Any, group: str) -> bool:
        for found in run.measured:
            answered = found.loads[0].answered
            if found.place.group != group or not answered:
                continue
            if ax is None:
                return True
            times = np.sort([sample.seconds for sample in answered]) * A_THOUSAND
            shares = np.arange(1, len(times) + 1) / len(times)
            colour, _ = styles[found.place.subject]
            ax.step([times[0], *times], [0, *shares], where="post", color=colour, label=found.place.subject)
        if ax is not None:
            ax.set_xscale("log")
            ax.set_ylim(0, 1.02)
            ax.set_xlabel("milliseconds", fontsize=8)
            ax.set_ylabel("share answered", fontsize=8)
        return False

    first = run.measured[0].loads[0].name if run.measured else ""
    return _alike(_panels(run, styles, f"Latency of a request, closed loop ({first}), warm", fill), x=True)


def _throughput(run: Run, styles: dict[str, tuple[str, str]]) -> Any | None:
    """Answered requests a second at each number at once."""

    def fill(ax: Any, group: str) -> bool:
        ticks: set[int] = set()
        for found in run.measured:
            points = [
                (int(load.name[1:]), len(load.answered) / load.seconds)
                for load in found.loads
                if load.name.startswith("c") and load.answered
            ]
            if found.place.group != group or len(points) < 2:
                continue
            if ax is None:
                return True
            colour, marker = styles[found.place.subject]
            ticks |= {at for at, _ in points}
            ax.plot(*zip(*sorted(points), strict=True), color=colour, marker=marker, ms=4, label=found.place.subject)
        if ax is not None:
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_xticks(sorted(ticks), [str(tick) for tick in sorted(ticks)])
            ax.set_xlabel("requests at once", fontsize=8)
            ax.set_ylabel("answered a second", fontsize=8)
        return False

    return _alike(_panels(run, styles, "Throughput against concurrency, closed loop", fill), x=False)


def _alike(figure: Any | None, x: bool) -> Any | None:
    """One scale for all panels: what is noise in one must not look like a difference in another."""
    drawn = [ax for ax in figure.axes if ax.lines] if figure is not None else []
    limits = [ax.get_xlim() if x else ax.get_ylim() for ax in drawn]
    for ax in drawn:
        (ax.set_xlim if x else ax.set_ylim)(min(low for low, _ in limits), max(high for _, high in limits))
        _plain_logarithms(ax, x)
    return figure


def _cost(run: Run, styles: dict[str, tuple[str, str]]) -> Any | None:
    """Price of a thousand decisions against agreement with the teacher; the median latency where prices are missing."""
    rows = {(row.subject, row.group, row.metric): row for row in run.report.rows}
    points = [
        (row, rows.get((row.subject, row.group, "money_per_1000")), rows.get((row.subject, row.group, "p50_ms")))
        for row in _agreements(run)
    ]
    if all(agreement.subject == run.report.header["teacher"] for agreement, *_ in points):
        return None
    figure, axes = _figure(2)
    prices = run.report.header["prices"]
    for ax, column, label in (
        (axes[0], 1, f"{prices['currency']} for 1,000 requests ({prices['date']})"),
        (axes[1], 2, "median milliseconds"),
    ):
        _scatter(ax, [(point[0], found) for point in points if (found := point[column]) is not None], styles)
        ax.set_xlabel(label, fontsize=8)
        ax.set_ylabel("agreement with the teacher", fontsize=8)
        ax.set_ylim(-0.05, 1.15)
        ax.grid(True, color="#dddddd", linewidth=0.6)
        ax.tick_params(labelsize=8)
    paid = [money.value for _, money, _ in points if money is not None and money.value > 0]
    if paid:
        axes[0].set_xscale("symlog", linthresh=min(paid))
    axes[0].set_xlim(-0.05 * min(paid, default=1.0), 2 * max(paid, default=1.0))
    axes[0].xaxis.set_major_formatter("{x:g}")
    axes[1].set_xscale("log")
    axes[1].margins(x=0.2)
    _plain_logarithms(axes[1])
    if any(ax.get_legend_handles_labels()[0] for ax in axes):
        handles, labels = next(found for ax in axes[::-1] if (found := ax.get_legend_handles_labels())[0])
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    _titled(figure, f"Cost against agreement, teacher: {run.report.header['teacher']}", run)
    return figure


def _agreements(run: Run) -> Iterator[Row]:
    """Agreement of every subject; the teacher's own is 1 by definition."""
    teacher = run.report.header["teacher"]
    groups = {row.group for row in run.report.rows if row.metric == "agreement"}
    for row in run.report.rows:
        if row.metric == "agreement":
            yield row
        elif row.subject == teacher and row.metric == "p50_ms" and row.group in groups:
            yield Row(row.corpus, row.subject, row.group, "agreement", 1.0, None, None, row.n)


def _scatter(ax: Any, points: Sequence[tuple[Row, Row]], styles: dict[str, tuple[str, str]]) -> None:
    if not points:
        ax.text(0.5, 0.5, "no price for these models", transform=ax.transAxes, ha="center", color=_GREY, fontsize=9)
        ax.set_xticks([])
        return
    labelled: set[str] = set()
    for agreement, cost in points:
        colour, marker = styles[agreement.subject]
        label = agreement.subject if agreement.subject not in labelled else None
        labelled.add(agreement.subject)
        low, high = agreement.low, agreement.high
        spread = None if low is None or high is None else [[agreement.value - low], [high - agreement.value]]
        ax.errorbar(
            cost.value, agreement.value, yerr=spread, color=colour, marker=marker, ms=6, lw=1, ls="none", label=label
        )
    for x, y, text in _labels(points):
        ax.annotate(text, (x, y), xytext=(6, 4), textcoords="offset points", fontsize=7, color=_GREY)


def _labels(points: Sequence[tuple[Row, Row]]) -> Iterator[tuple[float, float, str]]:
    """Names of the groups at their points, those of points that lie close together in one."""
    together: list[tuple[float, float, list[str]]] = []
    for agreement, cost in sorted(points, key=lambda point: point[1].value):
        near = next((t for t in together if cost.value <= _NEAR * t[0] and abs(agreement.value - t[1]) < _LINE), None)
        if near is None:
            together.append((cost.value, agreement.value, [agreement.group]))
        else:
            near[2].append(agreement.group)
    for x, y, groups in together:
        yield x, y, ", ".join(groups)


def _plain_logarithms(ax: Any, x: bool = True) -> None:
    """Ticks as numbers: 10, not ten to the first."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axis = ax.xaxis if x else ax.yaxis
    low, high = axis.get_view_interval()
    wide = low > 0 and high / low > _WIDE
    axis.set_major_locator(LogLocator(10, subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=8))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(NullLocator())
