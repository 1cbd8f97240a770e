"""Learning on process scenarios: several seeds each, with the defaults of the project, beside the heuristics.

Each run is the command that a user would type, in a process of its own and timed; its policy is then evaluated on
random streams that all seeds and all heuristics share. Written to DIRECTORY/scenarios.json as it goes, so that an
interrupted benchmark goes on where it stopped.
Usage: python research/learning/scenarios.py SCENARIO.json ... [--seeds 5] [--training-episodes 24]
    [--evaluation-episodes 300] [--flags "--policy-network pointer"] [--directory DIRECTORY]
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from scipy.stats import t

ROOT = Path(__file__).resolve().parents[2]
METRIC = "mean_cycle_time"


def main() -> None:
    """Train, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--training-episodes", type=int, default=24)
    parser.add_argument("--evaluation-episodes", type=int, default=300)
    parser.add_argument("--flags", type=shlex.split, default=[], help="further flags of the trainings")
    parser.add_argument("--directory", type=Path, default=Path("runs/benchmark_scenarios"))
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    results_path = options.directory / "scenarios.json"
    results: dict[str, Any] = json.loads(results_path.read_text()) if results_path.exists() else {}
    for seed in range(options.seeds):
        for scenario in options.scenarios:
            seeds = results.setdefault(scenario.stem, {})
            if str(seed) not in seeds:
                seeds[str(seed)] = train_and_evaluate(scenario, seed, options)
                results_path.write_text(json.dumps(results, indent=1))
                Console().print(table_of(results))


def train_and_evaluate(scenario: Path, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the training's seconds and the mean of each policy; heuristics are only played for the first seed."""
    run = options.directory / f"{scenario.stem}-{seed}"
    train = ["--mode", "train", "--scenario", str(scenario), "--run-directory", str(run), "--seed", str(seed)]
    begin = time.perf_counter()
    command(*train, "--training-episodes", str(options.training_episodes), *options.flags)
    seconds = time.perf_counter() - begin
    evaluate = ["--mode", "evaluate", "--checkpoint", str(run), "--seed", "0"]
    heuristics = [] if seed == 0 else ["--policy", "spt"]
    command(*evaluate, *heuristics, "--evaluation-episodes", str(options.evaluation_episodes))
    policies = json.loads((run / "evaluation.json").read_text())["policies"]
    return {"seconds": seconds, "policies": {name: metrics[METRIC] for name, metrics in policies.items()}}


def command(*flags: str) -> None:
    """Run scripts/train.py; end with what it said if it fails."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "train.py"), *flags], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(
            f"train.py {' '.join(flags)} ended with {done.returncode}: {done.stderr.strip() or done.stdout[-500:]}"
        )


def table_of(results: dict[str, Any]) -> Table:
    """Return one row a scenario: heuristics, then mean and 95 % interval over the seeds of the trained policies."""
    table = Table("scenario", "fifo", "spt", "trained, greedy", "worst seed", "sampled", "slowest run, s")
    for name, seeds in results.items():
        runs = list(seeds.values())
        first = runs[0]["policies"]
        trained, sampled = ([run["policies"][p]["mean"] for run in runs] for p in ("trained", "trained_sampled"))
        heuristics = [f"{first[p]['mean']:.2f} ± {first[p]['high'] - first[p]['mean']:.2f}" for p in ("fifo", "spt")]
        slowest = f"{max(run['seconds'] for run in runs):.0f}"
        table.add_row(name, *heuristics, over_seeds(trained), f"{max(trained):.2f}", over_seeds(sampled), slowest)
    return table


def over_seeds(values: list[float]) -> str:
    """Return mean and 95 % interval (Student's t) over seeds."""
    if len(values) < 2:
        return f"{values[0]:.2f}"
    half = t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.fmean(values):.2f} ± {half:.2f}"


if __name__ == "__main__":
    main()
