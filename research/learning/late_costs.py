"""What if costs come later than what causes them, and no observation shows it? Problems of `explore.py`, so changed.

Costs come at once, each so many steps late, or as a bill every so many steps. The observations stay: they show neither
what is still to be paid nor when. Long-run means stay, too, so gaps are exact, in percent above the optimum, of the
likeliest actions and of draws.
Usage: python research/learning/late_costs.py PROBLEM ... [--kinds at-once late bill] [--by 10 30] [--steps 500000]
    [--seeds 0] [--directory DIR] [SETTINGS ...]
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

import numpy as np
from numba import njit

import longstride
from longstride.settings import load_settings
from research.learning.exploration.chain import metric_of, policy_of_network
from research.learning.exploration.problems import PROBLEMS
from research.learning.explore import UNIT, settings_among

Pay = Callable[[Any, float], float]
"""Takes note of a reward in a state and returns what is paid in this step."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print a line of JSON for each run."""
    exact = [name for name, problem in PROBLEMS.items() if hasattr(problem.make(), "chain")]
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter, allow_abbrev=False)
    parser.add_argument("problems", nargs="+", choices=exact, metavar="PROBLEM", help=", ".join(exact))
    parser.add_argument("--kinds", nargs="+", choices=["at-once", *KINDS], default=["at-once", *KINDS])
    parser.add_argument("--by", nargs="+", type=int, default=[10, 30], help="steps by which costs are late")
    parser.add_argument("--steps", type=int, default=500_000, help="decisions of a run, in units of 50,000")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--directory", type=Path, default=Path("runs/late_costs"))
    options, others = parser.parse_known_args(arguments)
    settings = settings_among(others, parser)
    for name, kind, seed in product(options.problems, options.kinds, options.seeds):
        for by in options.by if kind in KINDS else [0]:
            print(json.dumps(result_of(name, kind, by, seed, options, settings)), flush=True)


def result_of(
    name: str, kind: str, by: int, seed: int, options: argparse.Namespace, settings: dict[str, Any]
) -> dict[str, Any]:
    """Train, and return the gaps of a run."""
    problem = PROBLEMS[name].make()
    given = {"seed": str(seed), "training_episodes": str(max(1, options.steps // UNIT)), **settings}
    directory = options.directory / f"{name}-{kind}-{by}-{seed}"
    run = longstride.train(
        paid_late(problem, kind, by) if by else problem,
        load_settings(None, given).config,
        run_directory=directory,
        quiet=True,
        report=False,
        exist_ok=True,
    )
    chain, network, optimum = problem.chain(), longstride.load_policy(run.directory), problem.optimum()
    sign, found = 1 if problem.main_metric_lower_is_better else -1, {"problem": name, "costs": kind, "by": by}
    for way, greedy in (("greedy", True), ("drawn", False)):
        cost = metric_of(chain, policy_of_network(problem, chain, network, greedy))
        found[way] = round(100 * sign * (cost / optimum - 1), 2)
    return {**found, "seed": seed, "draws": network.draws}


def paid_late(problem: Any, kind: str, by: int) -> Any:
    """Return the same problem, whose costs come ``by`` steps late or in bills of so many steps."""
    reset, step, pay, kept = njit(problem.reset), njit(problem.step), KINDS[kind](by), problem.state_dtype
    fields = [(name, kept[name].base, kept[name].shape) for name in kept.names]
    further = [("due", np.float64, (by,)), ("clock", np.int64)]

    class Late(type(problem)):  # type: ignore[misc]
        state_dtype = np.dtype([*fields, *further])

        def __init__(self) -> None:
            self.__dict__.update({k: v for k, v in problem.__dict__.items() if k != "state_dtype"})

        @staticmethod
        def reset(state: Any, parameters: Any, rng: np.random.Generator) -> None:
            reset(state, parameters, rng)
            state.clock = 0
            for i in range(by):
                state.due[i] = 0.0

        @staticmethod
        def step(state: Any, parameters: Any, action: Any, rng: np.random.Generator) -> tuple[float, bool]:
            reward, ended = step(state, parameters, action, rng)
            paid = pay(state, reward)
            state.clock = (state.clock + 1) % by
            return paid, ended

    return Late()


def late(by: int) -> Pay:
    """Return the rule by which each cost comes so many steps after it arose."""

    @njit
    def pay(state, reward):  # type: ignore[no-untyped-def]
        paid = state.due[state.clock]
        state.due[state.clock] = reward
        return paid

    return pay


def bill(by: int) -> Pay:
    """Return the rule by which a bill comes every so many steps."""

    @njit
    def pay(state, reward):  # type: ignore[no-untyped-def]
        state.due[0] += reward
        if state.clock < by - 1:
            return 0.0
        paid = state.due[0]
        state.due[0] = 0.0
        return paid

    return pay


KINDS = {"late": late, "bill": bill}
"""Rules by name."""


if __name__ == "__main__":
    main()
