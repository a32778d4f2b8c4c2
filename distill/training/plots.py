"""What is looked at after a run: curve, confusion and reliability, as PNG beside the artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from intentmem.memory.errors import MissingExtraError

from .loop import Curve
from .outcome import Trained

_WRITTEN_UP_TO = 12
"""Rows of a confusion plot in whose fields the counts are written."""


def draw(trained: Trained, folder: Path) -> list[Path]:
    """Write `curve.png`, and `confusion.png` and `reliability.png` where there is anything to show.

    Raises:
        MissingExtraError: matplotlib is absent.
        OSError: they cannot be written.
    """
    found = [_drawn(folder / "curve.png", _curve, trained.curve)]
    if trained.confusion:
        found.append(_drawn(folder / "confusion.png", _confusion, trained.confusion))
    if trained.reliability:
        found.append(_drawn(folder / "reliability.png", _reliability, trained.reliability))
    return found


def _drawn(path: Path, draw_on: Any, values: Any) -> Path:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "train") from error
    figure: Any = Figure(figsize=(6, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    draw_on(figure.subplots(), values)
    figure.savefig(path, dpi=120)
    return path


def _curve(axes: Any, curve: Curve) -> None:
    steps = len(curve.losses)
    if steps:
        width = max(1, steps // 50)
        smooth = np.convolve(curve.losses, np.ones(width) / width, mode="valid")
        axes.plot(np.arange(len(smooth)) + width, smooth, color="tab:blue", label="loss")
    axes.set_xlabel("step")
    axes.set_ylabel("loss", color="tab:blue")
    if curve.epochs:
        scores = axes.twinx()
        each = max(1, steps // len(curve.epochs))
        scores.plot(
            (np.arange(len(curve.epochs)) + 1) * each,
            [epoch["score"] for epoch in curve.epochs],
            color="tab:orange",
            marker="o",
        )
        scores.set_ylabel("score on the development split", color="tab:orange")
        axes.set_title(f"kept: epoch {curve.best + 1}")


def _confusion(axes: Any, counts: Mapping[tuple[str, str], int]) -> None:
    names = list(dict.fromkeys(name for pair in counts for name in pair))
    table = np.array([[counts.get((given, said), 0) for said in names] for given in names], np.float64)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("student")
    axes.set_ylabel("given")
    if len(names) <= _WRITTEN_UP_TO:
        for row, line in enumerate(table):
            for column, count in enumerate(line):
                colour = "white" if shares[row, column] > 0.5 else "black"
                axes.text(column, row, f"{count:.0f}", ha="center", va="center", fontsize=8, color=colour)


def _reliability(axes: Any, bins: Sequence[tuple[float, float, int]]) -> None:
    sure, right, sizes = zip(*bins, strict=True)
    axes.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1)
    axes.plot(sure, right, color="tab:blue")
    axes.scatter(sure, right, s=20 + 200 * np.array(sizes) / sum(sizes), color="tab:blue")
    axes.set_xlabel("mean confidence")
    axes.set_ylabel("share that was right")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_title(f"calibration split, n = {sum(sizes)}; size: share of decisions")
