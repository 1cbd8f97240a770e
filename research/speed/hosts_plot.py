"""The picture of ``hosts_on_paper.py``, where matplotlib is installed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

TITLES = {"slow": "a step of 180 µs", "loan_desk": "loan desk, 4.4 µs"}


def plot(rows: Sequence[dict[str, Any]], path: Path) -> str:
    """Draw the seconds of an iteration over the number of hosts for each simulator; return a sentence about it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return f'No {path}: matplotlib is not installed (pip install -e ".[plots]").'
    names = list(dict.fromkeys(row["simulator"] for row in rows))
    figure = Figure(figsize=(4.8 * len(names), 4.2), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for form, style in (("rows", "-"), ("actions", "--")):
            for kind, gpus, color in (
                ("in_step", 1, "tab:red"),
                ("in_step", 8, "tab:orange"),
                ("ahead", 8, "tab:blue"),
            ):
                some = [r for r in rows if (r["simulator"], r["form"], r["gpus"]) == (name, form, gpus)]
                when = "ahead" if kind == "ahead" else f"in step, {gpus} GPU{'s' if gpus > 1 else ''}"
                xs, ys = [r["hosts"] for r in some], [r[kind] for r in some]
                axes.plot(xs, ys, style, color=color, marker="o", markersize=3, label=f"{form}, {when}")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set(title=TITLES.get(name, name), xlabel="hosts of 32 cores", ylabel="seconds of an iteration")
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=80)
    return f"Written to {path}."
