"""When is a case late anyway? The order ``late_cases: last`` with other limits, and without it, under simple rules.

The simulator serves a case last if the time to its due date is less than the mean work that it still needs. Here that
work is multiplied by several factors: 0 serves a case last once its due date has passed, 2 gives up earlier. "in turn"
is the usual order. Every row plays the same episodes; differences are from factor 1, paired.

Scenarios: one person with exponential times and allowances that are uniform, at two loads; and the loan desk.

Usage: python research/processes/late_cases.py [--episodes N] [--factors 0 0.5 1 2] [--scenarios single_0.8 loan_desk]
"""

import argparse

import numpy as np

from longstride.process.load import find_scenario
from longstride.process.read_aims import AimSettings, changed, with_aims
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import parse_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.training.evaluation.evaluate import PERIODIC, build_player
from longstride.training.evaluation.statistics import mean_and_margin

SINGLE = {"single_0.8": 0.8, "single_1.1": 1.1}
"""Scenarios of one person: cases for each mean service time."""


def scenario_of(name: str) -> Scenario:
    """Return a scenario in which late cases count."""
    if name in SINGLE:
        content = {
            "schema": "resource-allocation-scenario/1",
            "name": name,
            "horizon": {"value": 5000.0},
            "warmup": 100.0,
            "arrivals": {"process": "poisson", "rate": SINGLE[name]},
            "activities": ["A"],
            "resources": ["Ann"],
            "service": [{"activity": "A", "resource": "Ann", "distribution": "exponential", "mean": 1.0}],
            "flow": {"task": "A"},
            "aims": {"objective": {"late": 1.0}, "due": {"quantiles": [0.0, 10.0]}},
        }
        return parse_scenario(content, name)
    return changed(with_aims(find_scenario(name), AimSettings(due="2 days")), {"objective": {"late": 1.0}})


def main() -> None:
    """Print a table for each scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10, help="episodes of each row")
    parser.add_argument("--seed", type=int, default=0, help="seed of the episodes")
    parser.add_argument("--factors", nargs="+", type=float, default=[0.0, 0.5, 1.0, 1.5, 2.0], help="with 1 among them")
    parser.add_argument(
        "--scenarios", nargs="+", default=[*SINGLE, "loan_desk"], help="names, or scenarios of a process"
    )
    parser.add_argument("--rules", nargs="+", default=["fifo", "spt"], help="heuristics")
    given = parser.parse_args()
    for name in given.scenarios:
        usual = scenario_of(name)
        simulator = ProcessSimulator(changed(usual, {"late_cases": "last"}))
        work = simulator.parameters["work_left"].copy()
        player = build_player(simulator, None, 1, given.rules)
        in_turn = build_player(ProcessSimulator(usual), None, 1, given.rules)
        for rule in given.rules:
            shares = {"in turn": played(in_turn, rule, given)}
            for factor in given.factors:
                simulator.parameters["work_left"][:] = factor * work
                shares[f"factor {factor:g}"] = played(player, rule, given)
            for row, values in shares.items():
                mean, difference = (mean_and_margin(100.0 * v) for v in (values, values - shares["factor 1"]))
                print(
                    f"{name}, {rule}, {row}: {mean[0]:.2f} ± {mean[1]:.2f} % late, "
                    f"{difference[0]:+.2f} ± {difference[1]:.2f}",
                    flush=True,
                )


def played(player, rule: str, given: argparse.Namespace) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Return float64[episodes], the share of late cases."""
    records, _ = player.play(rule, None, given.episodes, given.seed, PERIODIC)
    return np.array([record["share_late"] for record in records])


if __name__ == "__main__":
    main()
