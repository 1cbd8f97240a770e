"""The seven tasks of decisionrl: Longstride and the PPO of Stable-Baselines3 beside the package's published figures.

Tasks, steps and evaluation are those of its own verification (examples/verify_applied_claims.py): 20 episodes with the
seeds 100, 101, ..., greedily. Its best rule of each task is searched and evaluated here as it does there.
Usage: python research/learning/public/decision_tasks.py [--tasks T ...] [--sides S ...] [--seeds 0 1 2]
    [--steps K] [--json FILE]   (needs pip install decisionrl==0.4.0)
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from research.learning.public.sides import Result, note, table, train_and_score

FIRST_SEED, EPISODES = 100, 20


@dataclass(frozen=True)
class Problem:
    """A task of decisionrl.

    Attributes:
        kind: name of its class in ``decisionrl.envs``.
        steps: that decisionrl's verification trains.
        search: function of ``decisionrl.baselines`` that finds the best rule of a family; empty for the bang-bang rule.
    """

    kind: str
    steps: int
    search: str


PROBLEMS: dict[str, Problem] = {
    "nonstationary_inventory": Problem("NonstationaryInventory", 100_000, "best_base_stock"),
    "supply_chain": Problem("SupplyChain", 20_000, "best_supply_base_stock"),
    "admission": Problem("QueueAdmissionControl", 30_000, "best_value_threshold"),
    "microgrid": Problem("EnergyMicrogrid", 20_000, "best_price_threshold_battery"),
    "thermostat": Problem("Thermostat", 15_000, ""),
    "inventory": Problem("InventoryManagement", 40_000, "best_base_stock"),
    "pricing": Problem("DynamicPricing", 60_000, "best_fixed_action"),
}


def make(name: str) -> Any:
    """Return a task as a Gymnasium environment."""
    from decisionrl import envs
    from decisionrl.envs.gym import to_gymnasium

    return to_gymnasium(getattr(envs, PROBLEMS[name].kind)())


def score_of_rule(name: str) -> float:
    """Return the score of a task's best classical rule, searched and evaluated as decisionrl does."""
    from decisionrl import baselines, envs

    kind, search = getattr(envs, PROBLEMS[name].kind), PROBLEMS[name].search
    if not search:
        return float(baselines.rollout_return(kind, baselines.bang_bang(), seed=FIRST_SEED))
    return float(getattr(baselines, search)(kind, seed=FIRST_SEED)[1])


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
                    results.append(Result(name, side, 0, seed, score_of_rule(name), 0.0))
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
