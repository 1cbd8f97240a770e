"""How close learning comes to the optimum: problems whose optimum is known or published, one configuration for all.

Every run has the defaults of the project; only the training episodes and the algorithm can be set. Its policy is
evaluated greedily and by sampling, on random streams that all seeds and heuristics of a problem share. A gap is the
mean cost over the reference of the problem, less 1.
Usage: python research/learning/optima.py [--problems P ...] [--seeds 3] [--training-episodes 50]
    [--evaluation-episodes 10] [--algorithm ppo|crn] [--directory DIR] [--json FILE]
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

from rich.console import Console
from rich.table import Table
from scipy.stats import t

import longstride

PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "lost_sales-poisson-1-4": ("lost_sales", {"demand": "poisson", "lead_time": 1, "penalty": 4}),
    "lost_sales-poisson-2-4": ("lost_sales", {"demand": "poisson", "lead_time": 2, "penalty": 4}),
    "lost_sales-poisson-4-9": ("lost_sales", {"demand": "poisson", "lead_time": 4, "penalty": 9}),
    "lost_sales-geometric-1-39": ("lost_sales", {"demand": "geometric", "lead_time": 1, "penalty": 39}),
    "lost_sales-poisson-4-39": ("lost_sales", {"demand": "poisson", "lead_time": 4, "penalty": 39}),
    "lost_sales-geometric-2-9": ("lost_sales", {"demand": "geometric", "lead_time": 2, "penalty": 9}),
    "criss_cross-balanced-0.9": ("criss_cross", {"kind": "balanced", "arrival_rate": 0.9}),
    "criss_cross-balanced-0.6": ("criss_cross", {"kind": "balanced", "arrival_rate": 0.6}),
    "criss_cross-imbalanced-0.9": ("criss_cross", {"kind": "imbalanced", "arrival_rate": 0.9}),
    "n_model": ("n_model", {}),
    "tandem": ("tandem", {}),
    "base_stock": ("base_stock", {}),
    "reentrant_line-1-2": ("reentrant_line", {"layout": 1, "stations": 2}),
    "reentrant_line-2-5": ("reentrant_line", {"layout": 2, "stations": 5}),
    "hospital": ("hospital", {}),
}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "ppo": {},
    "crn": {"algorithm": "grpo"},
}
METRIC = "mean_cost"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=3, help="training runs of each problem, seeds 0, 1, ...")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--training-episodes", type=int, default=50)
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="ppo", help="PPO, or GRPO on common random numbers")
    parser.add_argument("--evaluation-episodes", type=int, default=10)
    parser.add_argument("--directory", type=Path, default=Path("runs/benchmark_optima"))
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(arguments)
    results: dict[str, list[dict[str, Any]]] = {}
    for name in options.problems:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            result = train_and_evaluate(name, seed, options)
            results.setdefault(name, []).append(result)
            print(f"{name}, seed {seed}: {result['means']}, {result['seconds']:.0f} s", file=sys.stderr, flush=True)
            if options.json:  # after each run, so that a benchmark that is cut off leaves what it measured
                options.json.write_text(json.dumps(results, indent=1) + "\n")
    Console(width=160).print(table_of(results))


def train_and_evaluate(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return references, seconds of training, and the mean cost of each policy; heuristics for the first seed only."""
    simulator, simulator_options = PROBLEMS[name]
    hyperparameters = longstride.Hyperparameters(
        simulator_options=simulator_options,
        training_episodes=options.training_episodes,
        seed=seed,
        **ALGORITHMS[options.algorithm],
    )
    begin = time.perf_counter()
    run = longstride.train(simulator, hyperparameters, run_directory=options.directory / f"{name}-{seed}", quiet=True)
    seconds = time.perf_counter() - begin
    heuristics = None if seed == options.first_seed else []
    table = longstride.evaluate(run, episodes=options.evaluation_episodes, policies=heuristics, quiet=True)
    means = {policy: row["metrics"][METRIC]["mean"] for policy, row in table.rows.items()}
    return {"seconds": seconds, "means": means, "references": table.as_json()["references"]}


def table_of(results: dict[str, list[dict[str, Any]]]) -> Table:
    """Return a row for each problem: the reference, the gap of the best heuristic, and the gaps over the seeds."""
    table = Table("problem", "reference", "value", "best heuristic", "its gap", "greedy", "worst seed", "sampled", "s")
    for name, runs in results.items():
        reference, value = next(iter(runs[0]["references"].items()))
        costs = {policy: mean for policy, mean in runs[0]["means"].items() if not policy.startswith("trained")}
        best = min(costs, key=lambda policy: costs[policy])
        greedy, sampled = (
            [run["means"][policy] / value - 1.0 for run in runs] for policy in ("trained", "trained_sampled")
        )
        cells = [f"{costs[best] / value - 1.0:+.1%}", over_seeds(greedy), f"{max(greedy):+.1%}", over_seeds(sampled)]
        table.add_row(name, reference, f"{value:.4g}", best, *cells, f"{max(run['seconds'] for run in runs):.0f}")
    return table


def over_seeds(gaps: list[float]) -> str:
    """Return mean and 95 % interval (Student's t) over seeds."""
    if len(gaps) < 2:
        return f"{gaps[0]:+.1%}"
    half = t.ppf(0.975, len(gaps) - 1) * statistics.stdev(gaps) / len(gaps) ** 0.5
    return f"{statistics.fmean(gaps):+.1%} ± {half:.1%}"


if __name__ == "__main__":
    main()
