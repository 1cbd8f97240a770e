"""One gap a run for problems of `optima.py`, `further.py` and `explore.py`: how far a policy is above its reference.

Runs have the defaults; unknown flags are settings, as `longstride --mode train --help` lists them. A gap is in percent,
of the most likely actions and of drawn ones, next to which of the two the run chose. It is exact where probabilities
give it, over the long run: lost sales, tandem, N-model, criss-cross, and finite problems of `explore.py`. The others
are from episodes; for networks of queues both are printed.

Usage: python research/learning/gaps.py n_model:0-4 polling:3 ... [--steps 2000000] [--processes 2] [--directory DIR]
    [--json FILE] [SETTINGS ...], such as --exploring-starts 0
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

import longstride
from longstride.errors import UserError
from longstride.settings import load_settings
from longstride.simulators.loading import load_simulator
from research.learning import explore, further, optima
from research.learning.exploration.chain import metric_of, policy_of_network
from research.learning.long_run import SOLVED, long_run_cost, policy_of
from research.learning.long_run_models import model_of

WAYS = {"greedy": "trained", "drawn": "trained_sampled"}
MOST = {"n_model": 200}
"""Jobs of each class of a network, 45 of the others, beyond which costs are cut off."""


class Task(NamedTuple):
    """A run: its problem, and what the command says of all."""

    problem: str
    seed: int
    options: argparse.Namespace
    settings: dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, compare, print a line of JSON for each run when it ends."""
    tasks, options = parse(arguments)
    found = []
    with ProcessPoolExecutor(options.processes, get_context("spawn"), max_tasks_per_child=1) as pool:
        for each in as_completed([pool.submit(gap_of, task) for task in tasks]):
            found.append(each.result())
            print(json.dumps(found[-1]), flush=True)
            if options.json:  # after each run, so that one that is cut off leaves what it measured
                options.json.write_text(json.dumps(found, indent=1) + "\n")


def parse(arguments: Sequence[str] | None) -> tuple[list[Task], argparse.Namespace]:
    """Return the runs, with the settings among the flags, and the options."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter, allow_abbrev=False)
    parser.add_argument("runs", nargs="+", help="PROBLEM:SEED or PROBLEM:FIRST-LAST")
    parser.add_argument("--steps", type=int, default=2_000_000, help="decisions of a run, in units of 50,000")
    parser.add_argument("--processes", type=int, default=1, help="runs at the same time")
    parser.add_argument("--directory", type=Path, default=Path("runs/gaps"))
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options, others = parser.parse_known_args(arguments)
    settings = explore.settings_among(others, parser)
    try:
        runs = [run for text in options.runs for run in named(text)]
    except UserError as error:
        parser.error(str(error))
    return [Task(problem, seed, options, settings) for problem, seed in runs], options


def named(text: str) -> list[tuple[str, int]]:
    """Return problem and seed of each run that a text names.

    Raises:
        UserError: it names none.
    """
    problem, _, seeds = text.rpartition(":")
    first, _, last = seeds.partition("-")
    known = [*optima.PROBLEMS, *further.PROBLEMS, *explore.PROBLEMS]
    if problem not in known or not first.isdecimal() or not (last or first).isdecimal():
        raise UserError(f"{text!r} names no run such as n_model:0 or n_model:0-4; problems: {', '.join(known)}.")
    return [(problem, seed) for seed in range(int(first), int(last or first) + 1)]


def gap_of(task: Task) -> dict[str, Any]:
    """Train, and return what is printed of the run."""
    name = task.problem
    given = {
        "seed": str(task.seed),
        "training_episodes": str(max(1, task.options.steps // explore.UNIT)),
        **task.settings,
    }
    settings, problem = load_settings(None, given).config, None
    if name in optima.PROBLEMS:
        simulator, simulator_options = optima.PROBLEMS[name]
        settings = settings.model_copy(update={"simulator_options": simulator_options})
    else:
        problem = simulator = further.PROBLEMS[name]() if name in further.PROBLEMS else explore.PROBLEMS[name].make()
    directory, begin = task.options.directory / f"{name}-{task.seed}", time.perf_counter()
    run = longstride.train(simulator, settings, run_directory=directory, quiet=True, report=False, exist_ok=True)
    found = {"problem": name, "seed": task.seed, "seconds": round(time.perf_counter() - begin)}
    found |= {"steps": sum(record["steps"] for record in run.metrics)}
    found |= {"draws": longstride.load_policy(run.directory).draws}
    return found | (of_bundled(name, run) if problem is None else of_problem(problem, run))


def of_bundled(name: str, run: Any) -> dict[str, Any]:
    """Return the gaps of a run of `optima.py`, from sixteen episodes that all seeds share, and exact where known."""
    table = longstride.evaluate(run, episodes=16, policies=[], quiet=True)
    reference, metric = next(iter(table.as_json()["references"].values())), optima.METRIC
    found = {
        f"{way}_in_episodes": gap(table.rows[row]["metrics"][metric]["mean"], reference) for way, row in WAYS.items()
    }
    if optima.PROBLEMS[name][0] in SOLVED:
        model = model_of(load_simulator(*optima.PROBLEMS[name]).simulator, MOST.get(name, 45))
        for way in WAYS:
            cost, at_edge = long_run_cost(model, policy_of(Path(run.directory), model, way == "greedy"))
            found |= {way: gap(cost, reference), f"{way}_at_the_edge": at_edge}
    return found


def of_problem(problem: Any, run: Any) -> dict[str, Any]:
    """Return the gaps of a run of another problem: exact where its chain is finite, else from episodes."""
    optimum, sign = problem.optimum(), 1 if problem.main_metric_lower_is_better else -1
    chain, policy = problem.chain() if hasattr(problem, "chain") else None, longstride.load_policy(run.directory)
    if chain is not None and not policy.spec.has_memory:
        exact = {way: policy_of_network(problem, chain, policy, way == "greedy") for way in WAYS}
        return {way: gap(metric_of(chain, each), optimum, sign) for way, each in exact.items()}
    table = longstride.evaluate(run, episodes=100 if problem.max_steps > 1_000 else 2_000, policies=[], quiet=True)
    means = {way: table.rows[row]["metrics"][problem.main_metric]["mean"] for way, row in WAYS.items()}
    return {f"{way}_in_episodes": gap(mean, optimum, sign) for way, mean in means.items()}


def gap(value: float, reference: float, sign: int = 1) -> float:
    """Return how much worse a value is than a reference, in percent; ``sign`` is -1 where larger is better."""
    return round(100.0 * sign * (value / reference - 1.0), 2)


if __name__ == "__main__":
    main()
