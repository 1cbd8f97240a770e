"""The best that any policy can do on a small scenario, to compare learned policies with.

For Poisson arrivals, exponential service and a flow that is a task, a seq of tasks or an and of two tasks, each
activity once. Prints the optimum's mean cycle time and the optimal policy, played in the simulator on the random
streams of ``--mode evaluate --seed 0``, beside the heuristics.
Usage: python research/processes/optimum.py SCENARIO.json [--episodes 300] [--policies spt,fifo] [--json FILE]
"""

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from numba import njit

from longstride.errors import UserError
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import load_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.simulators.simulator import Function
from longstride.training.evaluation.evaluate import evaluate, paired_values, summarise
from research.processes.decision_problem import Problem, build_problem
from research.processes.queue_control import Model, build_model
from research.processes.value_iteration import Solution, solve

FIRST_OPEN_CASES, CASES_PER_LEAD = 48, 12
MOST_STATES, MOST_OPEN_CASES = 400_000, 800
TRUNCATION_TOLERANCE, BOUNDS_TOLERANCE = 3e-3, 2e-5
"""Relative: the change by doubling the truncation at which to stop, and the distance of the bounds on the mean."""


@dataclass(frozen=True)
class Optimum:
    """The optimum of a scenario.

    Attributes:
        model: the scenario's decision problem.
        problem: its states up to ``open_cases``.
        solution: the optimal policy.
        open_cases: at which arrivals are turned away, the truncation.
        change: of the mean, relative, by the last doubling of the truncation.
    """

    model: Model
    problem: Problem
    solution: Solution
    open_cases: int
    change: float


def find_optimum(scenario: Scenario, open_cases: int = FIRST_OPEN_CASES) -> Optimum:
    """Solve a scenario, doubling the truncation until it does not matter.

    Raises:
        UserError: the scenario is of another kind, too large or overloaded.
    """
    previous = 0.0
    while open_cases <= MOST_OPEN_CASES:
        model = build_model(scenario, lead=max(1, open_cases // CASES_PER_LEAD))
        problem = build_problem(model, open_cases, MOST_STATES)
        solution = solve(problem, scenario.horizon.value, BOUNDS_TOLERANCE)
        change = solution.mean / previous - 1.0 if previous else math.inf
        if abs(change) <= TRUNCATION_TOLERANCE:
            return Optimum(model, problem, solution, open_cases, change)
        previous, open_cases = solution.mean, 2 * open_cases
    raise UserError(f"arrivals: {previous:.0f} open cases and growing; the resources can hardly carry the arrivals.")


def optimal_heuristic(optimum: Optimum) -> Function:
    """Return the optimal policy as a heuristic of the process simulator: one look into a sorted table."""
    encode, base = optimum.model.encode(), int(optimum.problem.codes.max()) + 1
    width = optimum.problem.codes.shape[1]
    if base**width >= 2**63:
        raise UserError(f"{width} queues and resources are too many for the table of the policy.")
    decides = (optimum.problem.assign >= 0).any(axis=1)
    keys = optimum.problem.codes[decides] @ base ** np.arange(width)[::-1]
    order = np.argsort(keys)
    keys, actions = keys[order], optimum.solution.action[decides][order].astype(np.int16)
    queues = len(optimum.model.p.activity_pairs) - 1

    @njit(nogil=True)
    def optimal(state, p, mask, rng):
        code = np.empty(width, np.int64)
        encode(state, p, code)
        while True:
            key, longest = 0, 0
            for i in range(width):
                key = key * base + code[i]
            row = np.searchsorted(keys, key)
            if code.max() < base and row < len(keys) and keys[row] == key:
                return np.int64(actions[row])
            for a in range(queues):  # more cases than the table has: act as with fewer
                longest = max(longest, code[a])
                code[a] -= code[a] > 1
            if longest <= 1:
                return -1  # a state that cannot be: refused by the loop as an action that is not allowed

    return optimal


def play(scenario: Scenario, optimum: Optimum, others: list[str], episodes: int) -> dict[str, dict[str, float]]:
    """Return mean, low and high of the mean cycle time of each policy, and of the others' difference to the optimum.

    Raises:
        UserError: there is no heuristic of such a name.
    """
    simulator = ProcessSimulator(scenario)
    for name in others:
        if name not in simulator.heuristics:
            raise UserError(f"--policies: there is no {name!r}; choose from {', '.join(simulator.heuristics)}.")
    simulator.heuristics = {**simulator.heuristics, "optimum": optimal_heuristic(optimum)}
    simulator.bounds = {}
    records = evaluate(simulator, ["optimum", *others], None, episodes, seed=0).records
    metric = simulator.main_metric
    table = {name: summarise(of)[metric] for name, of in records.items()}
    for name in others:
        pairs = zip(*paired_values(records[name], records["optimum"], metric), strict=True)
        table[f"{name} - optimum"] = summarise([{metric: a - b} for a, b in pairs])[metric]
    return table


def main(arguments: list[str] | None = None) -> int:
    """Solve, play and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--episodes", type=int, default=300, help="played with each policy; 0 only solves")
    parser.add_argument("--policies", default="spt,fifo", help="heuristics to play beside the optimum")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(arguments)
    try:
        run(options)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def run(options: argparse.Namespace) -> None:
    """Print what :func:`main` promises."""
    scenario = load_scenario(options.scenario)
    optimum = find_optimum(scenario)
    rate, solution = scenario.arrivals.rate, optimum.solution
    result = {
        "states": len(optimum.problem.cost),
        "open_cases": optimum.open_cases,
        "change_by_doubling": optimum.change,
        "mean_open_cases": solution.mean,
        "mean_cycle_time": solution.mean / rate,
        "mean_cycle_time_over_horizon": solution.horizon_cost / rate,
    }
    print(f"{scenario.name}: {result['states']:,} states, at most {optimum.open_cases} open cases")
    print(f"long run:       {solution.mean:.4f} ± {solution.error:.0e} open cases (bounds of value iteration),")
    print(f"                mean cycle time {result['mean_cycle_time']:.3f} by Little's law")
    print(
        f"from empty:     mean cycle time {result['mean_cycle_time_over_horizon']:.3f} up to {scenario.horizon.value:g}"
    )
    print(f"truncation:     doubling it, to {optimum.open_cases}, changed the long run by {optimum.change:+.3%}")
    if options.episodes > 0:
        names = [name.strip() for name in options.policies.split(",") if name.strip()]
        result["episodes"], result["played"] = options.episodes, play(scenario, optimum, names, options.episodes)
        print(f"mean cycle time of {options.episodes} episodes, 95 % interval of the mean:")
        for name, figures in result["played"].items():
            print(f"{name:>16}  {figures['mean']:8.3f} ± {(figures['high'] - figures['low']) / 2:.3f}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
