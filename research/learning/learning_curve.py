"""The curve of learning on a process: what is reached after how many steps, for several sizes of an iteration.

Each run is the command that a user would type, in a process of its own. The greedy policy is evaluated some ten times
on the way, on the same random streams in all runs. Figures between two evaluations are interpolated. The learning rate
falls to zero over a run, so a shorter run would end below the middle of these curves.
Written to DIRECTORY/curves.json as it goes, so that an interrupted benchmark goes on where it stopped.
Usage: python research/learning/learning_curve.py [--scenario SCENARIO.json] [--seeds 5] [--sizes S ...]
    [--directory DIR] [--plot FILE.png]
"""

import argparse
import json
import statistics
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from rich.console import Console
from rich.table import Table

from research.learning.scenarios import METRIC, command, over_seeds

SIZES = {
    "1 episode": "--evaluate-every 5 --training-episodes 50",
    "6 episodes": "--evaluate-every 1 --training-episodes 8 --num-envs 6",
    "32 parts of 1950 steps": "--evaluate-every 5 --training-episodes 50 --num-envs 32 --rollout-steps 1950",
    "32 parts of 256 steps": "--evaluate-every 38 --training-episodes 378 --num-envs 32 --rollout-steps 256",
    "grows": "--evaluate-every 20 --training-episodes 50 --grow-rollouts",
}
"""Flags of each size of an iteration: about 3.1 million steps of the bundled loan desk, whose episode has 62,000."""
AT = [0.25e6, 0.5e6, 1e6, 1.5e6, 2e6, 2.5e6, 2.95e6]
"""Steps at which the table looks at the curves."""

Curve = dict[str, list[float]]


def main() -> None:
    """Train, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", type=Path, help="default: the bundled loan desk")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--directory", type=Path, default=Path("runs/benchmark_curve"))
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    path = options.directory / "curves.json"
    curves: dict[str, dict[str, Curve]] = json.loads(path.read_text()) if path.exists() else {}
    for seed in range(options.seeds):
        for size in options.sizes:
            runs = curves.setdefault(size, {})
            if str(seed) not in runs:
                runs[str(seed)] = train(size, seed, options)
                path.write_text(json.dumps(curves))
    Console(width=160).print(table_of(curves))
    if options.plot:
        draw(curves, options.plot)


def train(size: str, seed: int, options: argparse.Namespace) -> Curve:
    """Return the steps of a run's evaluations and the mean cycle time of the greedy policy at each."""
    run = options.directory / f"{size.replace(' ', '_')}-{seed}"
    scenario = [] if options.scenario is None else ["--scenario", str(options.scenario)]
    fixed = ["--mode", "train", "--run-directory", str(run), "--seed", str(seed), "--evaluation-episodes", "10"]
    command(*fixed, *scenario, *SIZES[size].split())
    return curve_of([json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()])


def curve_of(records: list[dict[str, Any]]) -> Curve:
    """Return the curve in the records of a run; an evaluation is of the policy after its iteration's update."""
    steps = accumulate(record["steps"] for record in records)
    found = [(at, record["evaluation"]) for at, record in zip(steps, records, strict=True) if record["evaluation"]]
    return {"steps": [at for at, _ in found], METRIC: [e["metrics"][METRIC]["mean"] for _, e in found]}


def table_of(curves: dict[str, dict[str, Curve]]) -> Table:
    """Return one row a size: mean and 95 % interval (Student's t) over seeds at each number of steps."""
    table = Table("an iteration", *(f"{at / 1e6:g} M" for at in AT), "worst seed")
    for size, runs in curves.items():
        at_steps = [np.interp(AT, run["steps"], run[METRIC]) for run in runs.values()]
        cells = [over_seeds([float(run[k]) for run in at_steps]) for k in range(len(AT))]
        table.add_row(size, *cells, f"{max(run[-1] for run in at_steps):.1f}")
    return table


def draw(curves: dict[str, dict[str, Curve]], path: Path) -> None:
    """Draw the median over seeds of each size, and the range of its seeds; the worst twentieth of all is cut off."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes, shown = figure.subplots(), []
    for size, runs in curves.items():
        begin = max(run["steps"][0] for run in runs.values())
        grid = np.linspace(begin, min(run["steps"][-1] for run in runs.values()), 100)
        lines = np.array([np.interp(grid, run["steps"], run[METRIC]) for run in runs.values()])
        shown.append(lines)
        (line,) = axes.plot(grid / 1e6, np.median(lines, axis=0), label=size)
        axes.fill_between(grid / 1e6, lines.min(axis=0), lines.max(axis=0), color=line.get_color(), alpha=0.15)
    seeds = statistics.mode(len(runs) for runs in curves.values())
    limits = 0.99 * np.concatenate(shown).min(), 1.01 * np.quantile(np.concatenate(shown), 0.95)
    axes.set(xlabel="million steps", ylabel="mean cycle time, greedy", title=f"Median and range of {seeds} seeds")
    axes.set_ylim(*limits)
    axes.grid(alpha=0.3)
    axes.legend(title="an iteration")
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    main()
