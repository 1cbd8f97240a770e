"""Learning curve of a run: the main metric over the iterations, with intervals and the heuristics as lines."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from longstride.errors import one_line
from longstride.escaping import plot_text
from longstride.text import Scale, in_words, scale_of
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.files import write_atomically
from longstride.training.run_directory.metrics_log import whole_records
from longstride.training.run_directory.read_json import EVALUATION, read_json
from longstride.training.run_directory.save_figure import save_figure

_WINDOWS = 12
"""Windows that a curve is divided into for its moving mean, where there are enough iterations."""

_FEWEST = 5
"""Iterations of the smallest window."""


class Style(NamedTuple):
    """Colours of a picture."""

    ink: str  # text and axes
    muted: str  # what stands behind
    grid: str  # lines of the grid
    series: tuple[str, ...]  # curves, in their order


PRINT = Style("#222222", "#777777", "#dddddd", ("#2563ab", "#c2571a", "#2e8b57", "#7d4fa8", "#a33d5e", "#5f6b2d"))
"""Colours on white."""


@dataclass(frozen=True)
class Curve:
    """The main metric of a run over its iterations."""

    metric: str  # what the values are: the main metric, the return or the mean reward
    unit: str  # unit of the values, "" for none
    iterations: np.ndarray  # int64[n], iterations that have a value
    values: np.ndarray  # float64[n]
    mean: np.ndarray  # float64[n], mean of the iterations around
    low: np.ndarray  # float64[n], lower end of its 95 % interval, Student's t
    high: np.ndarray  # float64[n], upper end
    window: int  # iterations of that mean; 0 where there are too few
    # (iteration, mean, low, high) of each evaluation while the run trained
    evaluations: list[tuple[int, float, float, float]] = field(default_factory=list)

    @property
    def scale(self) -> Scale:
        """Scale that suits the last part of the curve."""
        return scale_of(self.unit, float(np.median(self.values[-_FEWEST:])) if len(self.values) else 0.0)


def curve_of(records: Sequence[dict[str, Any]], metric: str, unit: str = "") -> Curve:
    """Return the learning curve in the records of metrics.jsonl.

    Where the metric is not known of an iteration, the return is taken, and where most end no episode, the mean reward.
    """
    values = [r["metrics"].get(metric, r["return"]) for r in records]
    if metric != "return" and not any(metric in r["metrics"] for r in records):
        metric, unit = "return", ""
    if 2 * sum(not _is_number(value) for value in values) > len(values):
        metric, unit, values = "mean_reward", "", [r.get("mean_reward") for r in records]
    known = [(r["iteration"], v) for r, v in zip(records, values, strict=True) if _is_number(v)]
    iterations, found = np.array([i for i, _ in known], np.int64), np.array([v for _, v in known], np.float64)
    window = max(_FEWEST, round(len(found) / _WINDOWS)) if len(found) >= 2 * _FEWEST else 0
    mean, low, high = _moving(found, window)
    evaluations = [
        (r["iteration"], at["mean"], at["low"], at["high"])
        for r in records
        if (at := ((r.get("evaluation") or {}).get("metrics") or {}).get(metric))
        and all(_is_number(at.get(end)) for end in ("mean", "low", "high"))
    ]
    return Curve(metric, unit, iterations, found, mean, low, high, window, evaluations)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _moving(values: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean and 95 % interval (Student's t) of the window around each value; it is shifted at the ends."""
    from scipy.special import stdtrit  # as in :mod:`longstride.training.evaluation.statistics`

    if not window:
        return values, values, values
    begins = np.clip(np.arange(len(values)) - window // 2, 0, len(values) - window)
    around = values[begins[:, None] + np.arange(window)]
    mean, half = around.mean(axis=1), stdtrit(window - 1, 0.975) * around.std(axis=1, ddof=1) / np.sqrt(window)
    return mean, mean - half, mean + half


def baselines_of(evaluation: dict[str, Any], metric: str) -> dict[str, float]:
    """Return the means of heuristics, bounds and references in the content of an evaluation.json."""
    kinds = evaluation.get("kinds", {})
    means = {n: v[metric]["mean"] for n, v in evaluation.get("policies", {}).items() if metric in v}
    rows = {name: mean for name, mean in means.items() if _is_number(mean)}
    lines = {name: mean for name, mean in rows.items() if kinds.get(name) in ("heuristic", "bound")}
    return lines | (evaluation.get("references", {}) if metric == evaluation.get("main_metric") else {})


def draw_curve(
    axes: Any, curves: dict[str, Curve], baselines: dict[str, float], scale: Scale, style: Style = PRINT
) -> None:
    """Draw curves by name with their intervals, and baselines as lines where they are in sight.

    A baseline that is so far away that the curves would be flat is left out, and its value named in the legend.
    """
    from matplotlib.ticker import MaxNLocator

    for colour, (name, curve) in zip(_cycle(style.series, len(curves)), curves.items(), strict=True):
        label, factor = plot_text(name or "training"), scale.factor
        axes.plot(curve.iterations, curve.values * factor, ".", color=colour, alpha=0.4, markersize=4)
        around = f", mean of {curve.window} iterations" if curve.window else ""
        axes.plot(curve.iterations, curve.mean * factor, color=colour, linewidth=1.8, label=f"{label}{around}")
        axes.fill_between(curve.iterations, curve.low * factor, curve.high * factor, color=colour, alpha=0.18, lw=0)
        if curve.evaluations:
            at, mean, low, high = np.array(curve.evaluations).T
            bars = np.abs(np.array([mean - low, high - mean])) * factor
            named = plot_text(f"{name} evaluated".strip())
            axes.errorbar(at, mean * factor, bars, fmt="D", ms=4, color=style.ink, capsize=3, lw=1, label=named)
    low, high = axes.get_ylim()
    room = 2.0 * (high - low)
    for i, (name, value) in enumerate(sorted(baselines.items(), key=lambda item: item[1])):
        line, shown = ("--", ":", "-.")[i % 3], value * scale.factor
        label = plot_text(f"{name} {shown:,.4g}{scale.suffix}")
        if low - room <= shown <= high + room:
            axes.axhline(shown, color=style.muted, linestyle=line, linewidth=1.2, label=label)
        else:
            axes.plot([], [], " ", label=f"({label}, not drawn)")
    only = next(iter(curves.values()))
    axes.set_xlabel("iteration")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(plot_text(scale.header(only.metric)))
    axes.grid(color=style.grid, linewidth=0.6)
    axes.legend(fontsize="small", frameon=False)


def _cycle(colours: Sequence[str], count: int) -> list[str]:
    return [colours[i % len(colours)] for i in range(count)]


def read_evaluation(directory: RunDirectory) -> dict[str, Any]:
    """Return the content of evaluation.json; nothing where there is none, or a damaged one."""
    try:
        return read_json(directory.evaluation, EVALUATION)
    except (OSError, ValueError):
        return {}


def plot_learning_curve(directory: Path, metric: str, unit: str = "") -> str:
    """Draw a metric over the iterations to ``learning_curve.png``; say where it is or why it is not.

    Heuristics and bounds are lines in it after an evaluation.
    """
    paths = RunDirectory(directory)
    path = paths.learning_curve
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return f"No {path.name}: matplotlib is not installed (pip install matplotlib)."
    picture = io.BytesIO()
    try:
        curve = curve_of(whole_records(directory), metric, unit)
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        draw_curve(axes, {"": curve}, baselines_of(read_evaluation(paths), curve.metric), curve.scale)
        interval = " with 95 % intervals" if curve.window or curve.evaluations else ""
        axes.set_title(plot_text(f"{in_words(curve.metric).capitalize()} of {directory.name}{interval}"))
        save_figure(figure, picture, dpi=120)
        write_atomically(path, picture.getvalue())
    except OSError as error:
        return f"No {path.name}: {error.strerror}."
    except Exception as error:  # the run is saved, and a picture of it must not change its exit code
        return f"No {path.name}: {type(error).__name__}: {one_line(error)}."
    return f"Learning curve: {path}."
