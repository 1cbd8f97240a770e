"""Problems of other kinds than the bundled ones, trained with the defaults: gaps to their exact optima.

They were written after the defaults had been chosen, and nothing is tuned on them.

Usage: python research/learning/further.py [--problems P ...] [--seeds 1] [--training-episodes 20] [--directory DIR]
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

from rich.console import Console
from rich.table import Table

import longstride
from research.learning.further_problems import Admission, JointOrders, Machine, Prices
from research.learning.further_problems_of_operations import (
    AssetSale,
    DualSourcing,
    Impatience,
    Perishable,
    Regulator,
    Storage,
)
from research.learning.further_problems_of_search import Maze, Polling

PROBLEMS: dict[str, Any] = {
    "machine": Machine,
    "admission": Admission,
    "joint_orders": JointOrders,
    "prices": Prices,
    "maze": Maze,
    "polling": Polling,
    "perishable": Perishable,
    "dual_sourcing": DualSourcing,
    "storage": Storage,
    "impatience": Impatience,
    "regulator": Regulator,
    "asset_sale": AssetSale,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--training-episodes", type=int, default=20, help="of at least 50,000 steps each")
    parser.add_argument("--directory", type=Path, default=Path("runs/benchmark_further"))
    options = parser.parse_args(arguments)
    table = Table("problem", "metric", "optimum", "trained, greedy", "gap to the optimum", "steps", "seconds")
    for name in options.problems:
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        runs = [train(name, seed, options) for seed in seeds]
        optimum, metric = PROBLEMS[name]().optimum(), PROBLEMS[name].main_metric
        sign = 1.0 if PROBLEMS[name].main_metric_lower_is_better else -1.0
        found = [run["score"] for run in runs]
        gaps = [f"{sign * (score / optimum - 1.0):+.1%}" for score in found]
        cells = ", ".join(f"{score:.5g}" for score in found), ", ".join(gaps), f"{runs[0]['steps']:,}"
        table.add_row(name, metric, f"{optimum:.5g}", *cells, f"{max(run['seconds'] for run in runs):.0f}")
    Console(width=140).print(table)


def train(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return score, steps and seconds of a training with the defaults."""
    settings = longstride.Hyperparameters(training_episodes=options.training_episodes, seed=seed)
    simulator, begin = PROBLEMS[name](), time.perf_counter()
    run = longstride.train(simulator, settings, run_directory=options.directory / f"{name}-{seed}", quiet=True)
    seconds = time.perf_counter() - begin
    episodes = 100 if simulator.max_steps > 1_000 else 2_000
    table = longstride.evaluate(run, episodes=episodes, policies=[], quiet=True)
    score = table.rows["trained"]["metrics"][simulator.main_metric]["mean"]
    return {"score": score, "seconds": seconds, "steps": sum(record["steps"] for record in run.metrics)}


if __name__ == "__main__":
    main()
