"""Problems that stress exploration: gaps of trained policies to exact optima, next to simple rules.

Gaps of finite problems are computed from probabilities, without a simulation, unless the policy has memory. Unknown
flags are settings of the run, as `longstride --mode train --help` lists them.

Usage: python research/learning/explore.py [--problems P ...] [--seeds S ...] [--steps 500000] [--processes 1]
    [--directory DIR] [--json FILE] [--bounds] [SETTINGS ...], such as --entropy-coefficient 0.1 --no-grow-horizon
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

from rich.console import Console
from rich.table import Table

import longstride
from longstride.errors import UserError
from longstride.setting_flags import Parser, add_flags
from longstride.settings import load_settings
from research.learning.exploration.chain import metric_of, metrics_of_rules, policy_of_network, uniform
from research.learning.exploration.problems import PROBLEMS

UNIT = 50_000
"""Steps that count as one of `--training-episodes`."""

TUNING = [name for name, problem in PROBLEMS.items() if problem.for_tuning]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, compare, print."""
    options, settings = parse(arguments)
    tasks = [(name, seed, options, settings) for name in options.problems for seed in options.seeds]
    results = []
    with ProcessPoolExecutor(options.processes, get_context("spawn"), max_tasks_per_child=1) as pool:
        for result in pool.map(result_of, tasks):
            results.append(result)
            print(json.dumps(result), file=sys.stderr, flush=True)
            if options.json:  # after each run, so that a benchmark that is cut off leaves what it measured
                options.json.write_text(json.dumps(results, indent=1) + "\n")
    Console(width=160).print(table_of(results))


def parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, dict[str, Any]]:
    """Return the options, and the settings of the run among the flags."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=TUNING, help="default: those for tuning")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, default=500_000, help="decisions of a run, in units of 50,000")
    parser.add_argument("--processes", type=int, default=1, help="runs at the same time")
    parser.add_argument("--directory", type=Path, default=Path("runs/exploration"))
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--bounds", action="store_true", help="train nothing; optimum, rules and random choice only")
    options, others = parser.parse_known_args(arguments)
    return options, settings_among(others, parser)


def settings_among(flags: Sequence[str], parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Return the settings of a run that flags name, or exit where they are none."""
    known = Parser(add_help=False, allow_abbrev=False)
    add_flags(known)
    try:
        settings = vars(known.parse_known_flags(flags))
        load_settings(None, settings)
    except UserError as error:
        parser.error(str(error))
    return settings


def result_of(task: tuple[str, int, argparse.Namespace, dict[str, Any]]) -> dict[str, Any]:
    """Return the optimum, the metrics of rules and random choice, and those of a policy that is trained here."""
    name, seed, options, settings = task
    problem = PROBLEMS[name].make()
    chain = problem.chain() if hasattr(problem, "chain") else None
    result = {"problem": name, "seed": seed, "lower_is_better": problem.main_metric_lower_is_better}
    result["optimum"] = problem.optimum()
    if chain is not None:
        result["rules"] = metrics_of_rules(problem, chain)
        result["uniform"] = metric_of(chain, uniform(chain))
    elif hasattr(problem, "known"):
        result["rules"] = problem.known()
    return result if options.bounds else {**result, **trained(problem, chain, name, seed, options, settings)}


def trained(
    problem: Any, chain: Any, name: str, seed: int, options: argparse.Namespace, settings: dict[str, Any]
) -> dict[str, Any]:
    """Train; return the metrics of the greedy and the sampled policy, and how the run went."""
    given = {"seed": str(seed), "training_episodes": str(max(1, options.steps // UNIT)), **settings}
    directory, begin = options.directory / f"{name}-{seed}", time.perf_counter()
    hyperparameters = load_settings(None, given).config
    run = longstride.train(problem, hyperparameters, run_directory=directory, quiet=True, report=False, exist_ok=True)
    found: dict[str, Any] = {"seconds": time.perf_counter() - begin, "steps": sum(r["steps"] for r in run.metrics)}
    found |= {"iterations": len(run.metrics), "entropy": [r["entropy"] for r in run.metrics]}
    network = longstride.load_policy(run.directory)
    found["draws"] = network.draws
    if chain is not None and not network.spec.has_memory:
        for kind, greedy in (("greedy", True), ("sampled", False)):
            found[kind] = metric_of(chain, policy_of_network(problem, chain, network, greedy))
    else:
        table = longstride.evaluate(run, episodes=20, policies=[], quiet=True)
        for kind, row in (("greedy", "trained"), ("sampled", "trained_sampled")):
            found[kind] = table.rows[row]["metrics"][problem.main_metric]["mean"]
    return found


def table_of(results: list[dict[str, Any]]) -> Table:
    """Return a row for each run; gaps are to the optimum."""
    table = Table(
        *(
            "problem",
            "seed",
            "optimum",
            "best rule",
            "its gap",
            "uniform",
            "greedy",
            "gap",
            "sampled, gap",
            "delivered",
        ),
        *("entropy: first, least, last", "steps", "s"),
    )
    for result in results:
        rules, sign = result.get("rules", {}), 1 if result["lower_is_better"] else -1
        rule = min(rules, key=lambda name: sign * rules[name], default="-")

        def gap(value: float | None, optimum: float = result["optimum"], sign: int = sign) -> str:
            return "-" if value is None else f"{sign * (value / optimum - 1.0):+.1%}"

        cells = [rule, gap(rules.get(rule)), gap(result.get("uniform"))]
        if "greedy" in result:
            entropy = result["entropy"]
            cells += [f"{result['greedy']:.4g}", gap(result["greedy"]), gap(result["sampled"])]
            cells += [gap(result["sampled" if result["draws"] else "greedy"])]
            cells += [f"{entropy[0]:.2f}, {min(entropy):.4f}, {entropy[-1]:.4f}"]
            cells += [f"{result['steps']:,}", f"{result['seconds']:.0f}"]
        table.add_row(result["problem"], str(result["seed"]), f"{result['optimum']:.5g}", *cells)
    return table


if __name__ == "__main__":
    main()
