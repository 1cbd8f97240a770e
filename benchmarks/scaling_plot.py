"""The picture of ``scaling.py``, where matplotlib is installed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def plot(rows: Sequence[dict[str, Any]], phases: Sequence[str], path: Path) -> str:
    """Draw seconds of each phase and memory over the length of an episode; return a sentence about it.

    Args:
        rows: of ``lengths``.
        phases: names of the seconds in a row.
        path: of the picture.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return f'No {path}: matplotlib is not installed (pip install -e ".[plots]").'
    decisions = [row["decisions"] for row in rows]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    times, memory = figure.subplots(1, 2)
    for phase in phases:
        times.loglog(decisions, [row[phase] for row in rows], "o-", label=phase)
    times.set(ylabel="seconds a round", title="time")
    measured = [(row["decisions"], row["peak"] / 1e6) for row in rows if row["peak"]]
    memory.loglog(*zip(*measured, strict=True), "o-", label="measured peak")
    memory.loglog(decisions, [(row["trajectory"] + row["working"]) / 1e6 for row in rows], "k--", label="predicted")
    memory.set(ylabel="MB", title="memory")
    for axes in (times, memory):
        axes.set_xlabel("decisions of an episode")
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=80)
    return f"Written to {path}."
