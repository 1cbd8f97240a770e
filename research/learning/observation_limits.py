"""What would finished runs cost with another limit of their observations? The parameters stay as they are.

Beyond what training has seen, the outputs of a network go on along a straight line. A narrow limit holds them where
they are at the limit.
Usage: python research/learning/observation_limits.py RUN ... [--limits 10 5 4 3] [--episodes 16], runs of optima.py
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from rich.console import Console
from rich.table import Table

from longstride.simulators.loading import load_simulator
from longstride.training.evaluation.evaluate import evaluate
from longstride.training.evaluation.trained_policy import load_trained_policy
from research.learning.optima import PROBLEMS


def main(arguments: Sequence[str] | None = None) -> None:
    """Evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs of optima.py")
    parser.add_argument("--limits", nargs="+", type=float, default=[10.0, 5.0, 4.0, 3.0], help="standard deviations")
    parser.add_argument("--episodes", type=int, default=16)
    options = parser.parse_args(arguments)
    if unknown := [str(run) for run in options.runs if run.name.rpartition("-")[0] not in PROBLEMS]:
        parser.error(f"{', '.join(unknown)}: no folders of runs of optima.py, such as runs/benchmark_optima/n_model-0")
    table = Table("run", *(f"{limit:g}, likeliest / drawn" for limit in options.limits))
    for run in options.runs:
        table.add_row(run.name, *(costs(run, limit, options.episodes) for limit in options.limits))
    Console().print(table)


def costs(run: Path, limit: float, episodes: int) -> str:
    """Return the mean of the main metric of the policy of a run, taking its likeliest actions and drawing them."""
    name, of = PROBLEMS[run.name.rpartition("-")[0]]
    simulator, policy = load_simulator(name, of).simulator, load_trained_policy(run)
    limited = replace(policy, spec=replace(policy.spec, observation_limit=limit))
    records = evaluate(simulator, [], limited, episodes, 0).records
    means = (np.mean([row[simulator.main_metric] for row in records[way]]) for way in ("trained", "trained_sampled"))
    return " / ".join(f"{mean:.5g}" for mean in means)


if __name__ == "__main__":
    main()
