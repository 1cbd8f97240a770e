"""QGym's input switch and 5 x 5 network: policies trained with the defaults, and its rules, on the same episodes.

An evaluation has episodes of 50,000 events from an empty system, as QGym's tests; it prints the spread of single
episodes, too, because QGym's figure is of one sample path (its 100 test episodes have the same seed).
Usage: python research/learning/public/qgym.py [--networks N ...] [--seeds 0 1 2] [--steps 2000000] [--json FILE]
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import longstride
from research.learning.public.queueing_networks import FiveByFive, InputSwitch, InputSwitchAsCoded

NETWORKS = {"input_switch": InputSwitch, "input_switch_as_coded": InputSwitchAsCoded, "5x5": FiveByFive}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=2_000_000, help="events of each training")
    parser.add_argument("--episodes", type=int, default=100, help="of an evaluation")
    parser.add_argument("--directory", type=Path, default=Path("runs/public_qgym"))
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(arguments)
    results: list[dict[str, Any]] = []
    for network in options.networks:
        for seed in options.seeds:
            results.append({"network": network, "seed": seed, **train(network, seed, options)})
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
            if options.json:  # after each run, so that a series that is cut off leaves what it measured
                options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


def train(network: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return seconds of the training, and mean and interval of each policy's cost; rules for seed 0 only."""
    begin = time.perf_counter()
    settings = longstride.Hyperparameters(total_steps=options.steps, seed=seed)
    directory = options.directory / f"{network}-{seed}"
    run = longstride.train(NETWORKS[network](), settings, run_directory=directory, quiet=True, exist_ok=True)
    seconds = time.perf_counter() - begin
    policies = None if seed == 0 else []
    evaluation = longstride.evaluate(run, episodes=options.episodes, policies=policies, quiet=True)
    costs = {name: row["metrics"]["mean_cost"] for name, row in evaluation.rows.items()}
    return {"seconds": seconds, "costs": costs}


def table(results: list[dict[str, Any]]) -> str:
    """Return a line of Markdown for each network and policy with the costs of all seeds."""
    lines = ["| network | policy | mean cost, seed by seed | s |", "|---|---|---|---|"]
    for network in dict.fromkeys(result["network"] for result in results):
        own = [result for result in results if result["network"] == network]
        seconds = max(result["seconds"] for result in own)
        for policy in own[0]["costs"]:
            means = [result["costs"][policy]["mean"] for result in own if policy in result["costs"]]
            lines.append(f"| {network} | {policy} | {', '.join(f'{mean:.3f}' for mean in means)} | {seconds:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
