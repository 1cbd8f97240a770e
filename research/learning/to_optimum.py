"""Steps and seconds to within 5 % of an optimum: Longstride with its defaults beside Stable-Baselines3.

Stable-Baselines3 trains with its defaults (`sb3`), and with settings that were chosen for these problems (`sb3-tuned`).
Each run is a process of its own on one core with one thread; the sides take turns. Every 50,000 steps both sides'
greedy policies play the same 16 episodes of 10,000 steps; the time of that does not count, compilation does. Seconds
are those of the processor.

Usage: python research/learning/to_optimum.py [--problems P ...] [--sides S ...] [--seeds 3] [--budget 2000000]
    [--json FILE]
"""

import argparse
import dataclasses
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

from rich.console import Console
from rich.table import Table

from longstride.simulators.loading import load_simulator
from research.learning.optima import PROBLEMS
from research.learning.peers.gap import GapTask

ROOT = Path(__file__).resolve().parents[2]
COMPARED = ("lost_sales-poisson-2-4", "criss_cross-balanced-0.6", "tandem")
TUNED: dict[str, Any] = {
    **{"n_envs": 8, "normalize": True, "n_steps": 256, "batch_size": 256, "n_epochs": 10},
    **{"gamma": 0.99, "gae_lambda": 0.9, "learning_rate": 1e-3},
}
"""The better of two settings on the first problem, seed 100; the other one had 32 environments and long horizons."""

SIDES: dict[str, tuple[str, dict[str, Any]]] = {
    "longstride": ("research.learning.peers.gap_longstride", {}),
    "sb3": ("research.learning.peers.gap_stable_baselines", {}),
    "sb3-tuned": ("research.learning.peers.gap_stable_baselines", TUNED),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print the table and write the JSON."""
    options = parse(arguments)
    missing = [package for package in ("stable_baselines3", "sb3_contrib") if importlib.util.find_spec(package) is None]
    if missing:
        sys.exit("Stable-Baselines3 and sb3-contrib are not installed; pip install 'longstride[peers]' adds them.")
    runs: list[dict[str, Any]] = []
    for name in options.problems:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for side in turned(options.sides, seed):
                result = train(side, task_of(name, side, seed, options))
                runs.append({"problem": name, "side": side, "seed": seed, **result})
                print(f"{name}, {side}, seed {seed}: {in_words(result)}", file=sys.stderr, flush=True)
                if options.json:  # after each run, so that a benchmark that is cut off leaves what it measured
                    options.json.write_text(json.dumps({"runs": runs, "tuned": TUNED}, indent=1) + "\n")
    Console(width=140).print(table_of(runs))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(COMPARED))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--seeds", type=int, default=3, help="training runs of each side")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=2_000_000, help="environment steps of a run")
    parser.add_argument("--every", type=int, default=50_000, help="environment steps between evaluations")
    parser.add_argument("--within", type=float, default=0.05, help="gap that ends a run, a share of the optimum")
    parser.add_argument("--core", type=int, help="core that all runs keep to (default: the last one; -1: any)")
    parser.add_argument("--json", type=Path, help="write runs and their curves to this file, too")
    options = parser.parse_args(arguments)
    if options.core is None and hasattr(os, "sched_getaffinity"):
        options.core = max(os.sched_getaffinity(0))
    return options


def turned(sides: Sequence[str], seed: int) -> list[str]:
    """Return the sides in the order in which a seed trains them: each is first as often as the others."""
    first = seed % len(sides)
    return [*sides[first:], *sides[:first]]


def task_of(name: str, side: str, seed: int, options: argparse.Namespace) -> GapTask:
    """Return the run of a side on a problem."""
    simulator, simulator_options = PROBLEMS[name]
    references = load_simulator(simulator, simulator_options).simulator.references
    return GapTask(
        simulator,
        simulator_options,
        SIDES[side][1],
        seed,
        next(iter(references.values())),
        options.within,
        options.budget,
        options.every,
        core=None if options.core in (None, -1) else options.core,
    )


def train(side: str, task: GapTask) -> dict[str, Any]:
    """Run a task in a process of its own, which compiles what it needs, and return what it printed last."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src" / "core")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "LONGSTRIDE_KERNEL_CACHE": "off"}
    command = [sys.executable, "-m", SIDES[side][0], json.dumps(dataclasses.asdict(task))]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{side} failed on {task.simulator}, seed {task.seed}:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def in_words(result: dict[str, Any]) -> str:
    """Say how a run ended."""
    best = min((gap for _, gap in result["curve"]), default=float("nan"))
    reached = f"after {result['steps']:,} steps" if result["steps"] else f"not in {result['steps_done']:,} steps"
    return f"{reached}, {result['seconds']:.0f} s, least gap {best:+.1%}"


def table_of(runs: Sequence[dict[str, Any]]) -> Table:
    """Return a row for each problem and side; the medians are over the runs that came close enough."""
    table = Table("problem", "side", "reached", "steps, median", "seconds, median", "least gap, worst run")
    for problem, side in dict.fromkeys((run["problem"], run["side"]) for run in runs):
        own = [run for run in runs if (run["problem"], run["side"]) == (problem, side)]
        near = [run for run in own if run["steps"] is not None]
        medians = [f"{statistics.median(run[what] for run in near):,.0f}" for what in ("steps", "seconds") if near]
        worst = max(min(gap for _, gap in run["curve"]) for run in own)
        table.add_row(problem, side, f"{len(near)} of {len(own)}", *(medians or ["-", "-"]), f"{worst:+.1%}")
    return table


if __name__ == "__main__":
    main()
