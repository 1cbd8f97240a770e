"""Means and intervals of the runs, as a table and as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import t

from research.learning.peers.problems import Problem

MEASURED = ("steps", "seconds", "setup_seconds", "cpu_seconds", "evaluation")
Run = dict[str, Any]


def mean_and_half(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and half the width of its 95 % interval (Student's t), 0 of a single value."""
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return mean, 0.0
    spread = (sum((value - mean) ** 2 for value in values) / (n - 1)) ** 0.5
    return mean, float(t.ppf(0.975, n - 1)) * spread / n**0.5


def summarise(runs: Sequence[Run], problems: Mapping[str, Problem]) -> list[dict[str, Any]]:
    """Return a row for each problem and side, in the order of the runs.

    A run that did not reach the threshold counts with the steps and seconds that it spent, so the means of its row are
    lower bounds; ``reached`` says how many did.
    """
    rows = []
    for problem, side in dict.fromkeys((run["problem"], run["side"]) for run in runs):
        own = [run for run in runs if (run["problem"], run["side"]) == (problem, side)]
        counted = [{**run, "steps": run["steps"] or run["steps_done"]} for run in own]
        row = {"problem": problem, "threshold": problems[problem].threshold, "side": side, "seeds": len(own)}
        row["reached"] = sum(run["steps"] is not None for run in own)
        rows.append(row | {name: mean_and_half([float(run[name]) for run in counted]) for name in MEASURED})
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the summary as a Markdown table."""
    lines = [
        "| problem (threshold) | side | reached | steps | seconds | of these set-up | CPU seconds | evaluation |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        least = "" if row["reached"] == row["seeds"] else "> "
        cells = [
            f"{row['problem']} ({row['threshold']:g})",
            row["side"],
            f"{row['reached']} of {row['seeds']}",
            least + _figure(row["steps"], 0),
            least + _figure(row["seconds"], 1),
            _figure(row["setup_seconds"], 1),
            least + _figure(row["cpu_seconds"], 1),
            _figure(row["evaluation"], 1),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _figure(value: tuple[float, float], digits: int) -> str:
    return f"{value[0]:,.{digits}f} ± {value[1]:,.{digits}f}"
