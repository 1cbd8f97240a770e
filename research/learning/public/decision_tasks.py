"""The seven tasks of decisionrl: Longstride and the PPO of Stable-Baselines3 beside the package's published figures.

Tasks, steps and evaluation are those of its own verification (examples/verify_applied_claims.py): 20 episodes with the
seeds 100, 101, ..., greedily. Its best rule of each task is searched and evaluated here as it does there.
Usage: python research/learning/public/decision_tasks.py [--tasks T ...] [--sides S ...] [--seeds 0 1 2]
    [--steps K] [--json FILE]   (needs pip install decisionrl==0.4.0)
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from decisionrl import baselines, envs
from decisionrl.envs.gym import to_gymnasium

from research.learning.public.sides import Result, note, table, train_and_score

FIRST_SEED, EPISODES = 100, 20


@dataclass(frozen=True)
class Problem:
    """A task of decisionrl.

    Attributes:
        kind: its class.
        steps: that decisionrl's verification trains.
        rule: returns the score of its best classical rule.
    """

    kind: Callable[[], Any]
    steps: int
    rule: Callable[[], float]


def best(search: Callable[..., tuple[float, float]], kind: Callable[[], Any]) -> Callable[[], float]:
    """Return a function that searches a family of rules and returns the best score, as decisionrl does."""
    return lambda: search(kind, seed=FIRST_SEED)[1]


PROBLEMS: dict[str, Problem] = {
    "nonstationary_inventory": Problem(
        envs.NonstationaryInventory, 100_000, best(baselines.best_base_stock, envs.NonstationaryInventory)
    ),
    "supply_chain": Problem(envs.SupplyChain, 20_000, best(baselines.best_supply_base_stock, envs.SupplyChain)),
    "admission": Problem(
        envs.QueueAdmissionControl, 30_000, best(baselines.best_value_threshold, envs.QueueAdmissionControl)
    ),
    "microgrid": Problem(
        envs.EnergyMicrogrid, 20_000, best(baselines.best_price_threshold_battery, envs.EnergyMicrogrid)
    ),
    "thermostat": Problem(
        envs.Thermostat,
        15_000,
        lambda: baselines.rollout_return(envs.Thermostat, baselines.bang_bang(), seed=FIRST_SEED),
    ),
    "inventory": Problem(envs.InventoryManagement, 40_000, best(baselines.best_base_stock, envs.InventoryManagement)),
    "pricing": Problem(envs.DynamicPricing, 60_000, best(baselines.best_fixed_action, envs.DynamicPricing)),
}


def make(name: str) -> gymnasium.Env:
    """Return a task as a Gymnasium environment."""
    return to_gymnasium(PROBLEMS[name].kind())


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--sides", nargs="+", choices=("longstride", "sb3", "rule"), default=["longstride", "sb3"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=0, help="of each training; 0 for those of decisionrl")
    parser.add_argument("--directory", type=Path, default=Path("runs/public_decisions"))
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(arguments)
    results: list[Result] = []
    for name in options.tasks:
        problem = PROBLEMS[name]
        for side in options.sides:
            for seed in options.seeds if side != "rule" else [0]:
                if side == "rule":
                    results.append(Result(name, side, 0, seed, problem.rule(), 0.0))
                else:
                    results.append(
                        train_and_score(
                            name,
                            partial(make, name),
                            side,
                            options.steps or problem.steps,
                            seed,
                            episodes=EPISODES,
                            first_seed=FIRST_SEED,
                            directory=options.directory,
                        )
                    )
                note(results, options.json)
    print(table(results))


if __name__ == "__main__":
    main()
