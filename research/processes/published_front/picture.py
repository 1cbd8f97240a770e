"""Draws the fronts of several logs as changes of cost and waiting from the as-is of their own simulator."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_STYLES = {
    "trained": ("o", "#1f77b4", "trained by Longstride"),
    "search": ("s", "#ff7f0e", "static priorities, NSGA-II"),
    "rule": ("^", "#7f7f7f", "rules"),
    "log": ("*", "black", "as-is"),
}
_LEAST, _MOST = -70.0, 60.0
"""Changes in per cent beyond which points are not drawn, so that the fronts can be told apart."""


def draw(results: Sequence[Mapping[str, Any]], published: Mapping[str, Any], path: Path) -> Path:
    """Draw one panel for each log, and return the PNG file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    columns = min(4, len(results))
    rows = -(-len(results) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(3.1 * columns, 2.9 * rows), squeeze=False)
    for axis in axes.flat[len(results) :]:
        axis.axis("off")
    for axis, result in zip(axes.flat, results, strict=False):
        _panel(axis, result, published[result["log"]])
    handles = {}
    for axis in axes.flat:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncol=5, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.09 / rows + 0.02, 1, 1))
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
    return path


def _panel(axis: Any, result: Mapping[str, Any], own: Any) -> None:
    for kind, (marker, colour, label) in _STYLES.items():
        points = [row for row in result["points"] if row["kind"] == kind]
        x, y = ([row["changes"][k][0] for row in points] for k in (0, 1))
        wide, high = ([row["changes"][k][1] for row in points] for k in (0, 1))
        size = {"markersize": 9 if kind == "log" else 5, "linestyle": "none", "linewidth": 0.8, "zorder": 3}
        axis.errorbar(x, y, high, wide, marker=marker, color=colour, label=label, **size)
    values = [[100.0 * (a / b - 1.0) for a, b in zip(point, own.as_is, strict=True)] for point in own.front]
    axis.plot(
        *zip(*values, strict=True),
        "x--",
        color="#d62728",
        markersize=4,
        linewidth=0.7,
        label="published, its simulator",
    )
    axis.axhline(0.0, color="#cccccc", linewidth=0.7)
    axis.axvline(0.0, color="#cccccc", linewidth=0.7)
    low, high = axis.get_ylim()
    axis.set_ylim(max(low, -105.0), min(high, _MOST))
    axis.set_xlim(max(axis.get_xlim()[0], _LEAST), min(axis.get_xlim()[1], _MOST))
    verdict = " (no verdict)" if result["misses"] else ""
    axis.set_title(result["log"].removeprefix("LoanApp_") + verdict, fontsize=9)
    axis.set_xlabel("change of cost, %", fontsize=8)
    axis.set_ylabel("change of waiting, %", fontsize=8)
    axis.tick_params(labelsize=7)
