"""The seven tasks of decisionrl: Longstride and the PPO of Stable-Baselines3 beside the package's published figures.

Tasks, steps and evaluation are those of its own verification (examples/verify_applied_claims.py): 20 episodes with the
seeds 100, 101, ..., greedily. Its best rule of each task is searched and evaluated here as it does there.
Usage: python research/learning/public/decision_tasks.py [--tasks T ...] [--sides S ...] [--seeds 0 1 2]
    [--steps K] [--json FILE]   (needs pip install decisionrl==0.4.0)
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import poisson

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from research.learning.public.sides import Result, note, table, train_and_score

FIRST_SEED, EPISODES = 100, 20
SIDES = ("longstride", "sb3", "rule", "optimum")


@dataclass(frozen=True)
class Problem:
    """A task of decisionrl.

    Attributes:
        kind: name of its class in ``decisionrl.envs``.
        steps: that decisionrl's verification trains.
        search: function of ``decisionrl.baselines`` that finds the best rule of a family; empty for the bang-bang rule.
        ends: whether the time limit terminates an episode here; decisionrl truncates it.
    """

    kind: str
    steps: int
    search: str
    ends: bool = False


PROBLEMS: dict[str, Problem] = {
    "nonstationary_inventory": Problem("NonstationaryInventory", 100_000, "best_base_stock"),
    "supply_chain": Problem("SupplyChain", 20_000, "best_supply_base_stock"),
    "admission": Problem("QueueAdmissionControl", 30_000, "best_value_threshold"),
    "microgrid": Problem("EnergyMicrogrid", 20_000, "best_price_threshold_battery"),
    "thermostat": Problem("Thermostat", 15_000, ""),
    "inventory": Problem("InventoryManagement", 40_000, "best_base_stock"),
    "pricing": Problem("DynamicPricing", 60_000, "best_fixed_action"),
    "pricing_that_ends": Problem("DynamicPricing", 60_000, "best_fixed_action", ends=True),
}


def make(name: str) -> Any:
    """Return a task as a Gymnasium environment."""
    from decisionrl import envs
    from decisionrl.envs.gym import to_gymnasium

    environment = to_gymnasium(getattr(envs, PROBLEMS[name].kind)())
    if PROBLEMS[name].ends:
        step = environment.step

        def ending(action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            observation, reward, terminated, truncated, info = step(action)
            return observation, reward, terminated or truncated, False, info

        environment.step = ending
    return environment


def score_of_rule(name: str) -> float:
    """Return the score of a task's best classical rule, searched and evaluated as decisionrl does."""
    from decisionrl import baselines, envs

    kind, search = getattr(envs, PROBLEMS[name].kind), PROBLEMS[name].search
    if not search:
        return float(baselines.rollout_return(kind, baselines.bang_bang(), seed=FIRST_SEED))
    return float(getattr(baselines, search)(kind, seed=FIRST_SEED)[1])


def optimum_of_pricing() -> float:
    """Return the largest expected revenue of dynamic pricing, by backward induction over stock and periods left."""
    from decisionrl import envs

    task = envs.DynamicPricing()
    values = np.zeros(task.initial_inventory + 1)
    for _ in range(task.horizon):
        revenue = np.zeros((len(task.prices), len(values)))
        for choice, price in enumerate(task.prices):
            for stock in range(1, len(values)):
                sold = np.arange(stock + 1)
                chance = poisson.pmf(sold, task._demand_mean(price))
                chance[stock] = 1.0 - chance[:stock].sum()  # demand of the whole stock or more
                revenue[choice, stock] = chance @ (price * sold + values[stock - sold])
        values = revenue.max(axis=0)
    return float(values[-1])


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tasks", nargs="+", choices=PROBLEMS, default=[name for name in PROBLEMS if not PROBLEMS[name].ends]
    )
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=["longstride", "sb3"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=0, help="of each training; 0 for those of decisionrl")
    parser.add_argument("--rollout-steps", type=int, default=0, help="of Longstride, in each of 8 environments")
    parser.add_argument("--directory", type=Path, default=Path("runs/public_decisions"))
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(arguments)
    results: list[Result] = []
    for name in options.tasks:
        for result in results_of(name, options):
            results.append(result)
            note(results, options.json)
    print(table(results))


def results_of(name: str, options: argparse.Namespace) -> Iterator[Result]:
    """Yield the result of each side and seed for a task."""
    problem = PROBLEMS[name]
    for side in options.sides:
        if side == "rule":
            yield Result(name, side, 0, 0, score_of_rule(name), 0.0)
        elif side == "optimum" and problem.kind == "DynamicPricing":
            yield Result(name, side, 0, 0, optimum_of_pricing(), 0.0)
        elif side in ("longstride", "sb3"):
            for seed in options.seeds:
                yield train_and_score(
                    name,
                    partial(make, name),
                    side,
                    options.steps or problem.steps,
                    seed,
                    episodes=EPISODES,
                    first_seed=FIRST_SEED,
                    directory=options.directory,
                    rollout_steps=options.rollout_steps,
                )


if __name__ == "__main__":
    main()
