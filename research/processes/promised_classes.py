"""Two classes of cases with due dates: the optimum by dynamic programming, and policies trained with the defaults.

Nine cases arrive at known times, each gold or plain at random. One person serves them; times are constant. The
weighted tardiness or, with ``--objective late``, the weight of late cases is minimised. Dynamic programming takes the
mean over the classes of the cases to come, knows when they come, and may wait for them; policies do not know it. So a
second optimum works whenever a case waits. Of two cases of a class the older one goes first, as in the simulator. For
tardiness an exchange of the two shows that to be optimal. For late cases it is not, because a newer case may still be
in time. With ``--late-cases last`` the simulator serves such a case first, and the optimum has any order. Values are
exact: each of the 512 sequences of classes is played and weighted by its probability.

Instances: ``nine`` has been looked at while the rule ``atc`` was made; in ``equal`` EDD is optimal; seeds draw others.

Usage: python research/processes/promised_classes.py FOLDER [--objective late] [--late-cases last] [--instances nine 1]
    [--steps N] [--seed N] [--prior fifo]
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from longstride.policies.loaded_policy import LoadedPolicy
from longstride.process.kernel import dynamics
from longstride.process.kernel.counter_rng import advance, child, uniform
from longstride.process.load import from_source
from longstride.process.scenario.aims import LAST
from longstride.simulators.simulator import compile_functions, new_state
from longstride.training.evaluation.trained_policy import load_arrays, policy_folder, trained_policy

GOLD, HORIZON, NAMES = 0.4, 60.0, ("gold", "plain")
"""Probability of a gold case, end of an episode, classes."""

TARDINESS, LATE = "tardiness", "late"
"""Objectives."""

Queue = tuple[int, ...]


class Instance(NamedTuple):
    """Times of arrival; service times, allowances and weights of gold and plain cases."""

    arrivals: tuple[float, ...]
    times: tuple[float, float]
    allowances: tuple[float, float]
    weights: tuple[float, float]


def instance(name: str) -> Instance:
    """Return an instance by its name or by the seed that draws it."""
    if name == "nine":
        arrivals = 0.0, 0.31, 0.77, 1.43, 2.71, 4.19, 5.57, 6.23, 6.91
        return Instance(arrivals, (2.0, 1.0), (4.0, 1.5), (3.0, 1.0))
    if name == "equal":
        arrivals = 0.0, 0.2, 0.5, 0.6, 0.8, 1.1, 1.3, 1.7, 1.9
        return Instance(arrivals, (1.0, 1.0), (2.0, 5.0), (1.0, 1.0))
    draw = np.random.default_rng(int(name))
    times = np.round(np.cumsum(draw.exponential(0.9, 9)), 2)
    arrivals = tuple(round(float(time), 2) for time in times - times[0])
    service, allowances = (tuple(np.round(draw.uniform(*ends, 2), 1).tolist()) for ends in ((0.5, 2.2), (0.5, 6.0)))
    return Instance(arrivals, service, allowances, (float(np.round(draw.uniform(1.0, 4.0))), 1.0))


def scenario(of: Instance, objective: str = TARDINESS, late_cases: str = "in turn") -> dict[str, object]:
    """Return the scenario as JSON values; ``objective`` is a quantity."""
    return {
        "schema": "resource-allocation-scenario/1",
        "name": "promised_classes",
        "horizon": {"value": HORIZON},
        "arrivals": {"process": "replay", "times": list(of.arrivals)},
        "activities": [f"A · {name}" for name in NAMES],
        "resources": ["Ann"],
        "service": [
            {"activity": f"A · {name}", "resource": "Ann", "distribution": "constant", "mean": of.times[c]}
            for c, name in enumerate(NAMES)
        ],
        "flow": {
            "classes": [
                {"name": name, "p": p, "flow": {"task": f"A · {name}"}}
                for name, p in zip(NAMES, (GOLD, 1.0 - GOLD), strict=True)
            ]
        },
        "aims": {
            "objective": {objective: 1.0},
            "late_cases": late_cases,
            "class_weights": {"gold": of.weights[0]},
            "due": {"by_class": {name: {"after": of.allowances[c]} for c, name in enumerate(NAMES)}},
        },
    }


def optimum(of: Instance, objective: str = TARDINESS, waits: bool = True, any_order: bool = False) -> float:
    """Return the least mean weighted tardiness of a case, or the least mean weight of late cases.

    ``waits`` lets the person wait for a case to come while others wait for her; ``any_order`` lets a newer case of a
    class go first.
    """
    cases = len(of.arrivals)

    def cost(c: int, arrival: float, end: float) -> float:
        """Return the cost of a case of a class that ends at a time."""
        beyond = end - arrival - of.allowances[c]
        return of.weights[c] * (float(beyond > 1e-9) if objective == LATE else max(beyond, 0.0))

    @cache
    def value(now: float, arrived: int, queues: tuple[Queue, Queue]) -> float:
        """Return the least expected cost from now on; the person is free, ``queues`` have the waiting cases."""
        choices = []
        for c, queue in enumerate(queues):
            for place in range(len(queue) if any_order else min(len(queue), 1)):
                end, rest = now + of.times[c], queue[:place] + queue[place + 1 :]
                left = (rest, queues[1]) if c == 0 else (queues[0], rest)
                choices.append(cost(c, of.arrivals[queue[place]], end) + after(end, arrived, left))
        if arrived < cases and (waits or not any(queues)):
            choices.append(after(of.arrivals[arrived], arrived, queues))
        return min(choices, default=0.0)

    def after(time: float, arrived: int, queues: tuple[Queue, Queue]) -> float:
        """Return the expected value at a time, over the classes of the cases that arrive until then."""
        coming = [i for i in range(arrived, cases) if of.arrivals[i] <= time + 1e-9]
        total = 0.0
        for classes in product((0, 1), repeat=len(coming)):
            gold = queues[0] + tuple(i for i, c in zip(coming, classes, strict=True) if c == 0)
            plain = queues[1] + tuple(i for i, c in zip(coming, classes, strict=True) if c == 1)
            chance = GOLD ** classes.count(0) * (1.0 - GOLD) ** classes.count(1)
            total += chance * value(round(time, 9), arrived + len(coming), (gold, plain))
        return total

    return value(of.arrivals[0], 0, ((), ())) / cases


@njit
def seeds_of_sequences(cases, share):  # type: ignore[no-untyped-def]
    """Return int64[2 ** cases], a seed of the simulator for each sequence of classes; bit 1 is a plain case."""
    seeds, left, seed = np.full(2**cases, -1), 2**cases, 0
    while left > 0:
        code = 0
        for case in range(cases):
            code = 2 * code + (uniform(advance(child(np.uint64(seed), case + 1))) >= share)
        if seeds[code] < 0:
            seeds[code], left = seed, left - 1
        seed += 1
    return seeds


def exact(simulator: Any, choose: Callable[[Any, Any, np.ndarray], int]) -> float:
    """Return the expected objective of a policy: over the sequences of classes, each played."""
    functions, state, p = compile_functions(simulator), new_state(simulator)[0], simulator.parameters
    cases, actions, total = len(simulator.scenario.arrivals.times), len(p.pair_mean) + 1, 0.0
    for code, seed in enumerate(seeds_of_sequences(cases, GOLD)):
        plain = code.bit_count()
        state.seed = np.uint64(seed)
        dynamics.clear(state, p)
        dynamics.run_to_step(state, p)
        while not state.ended:
            mask = np.ones(actions, np.bool_)
            functions.action_mask(state, p, mask)
            reward, _ = functions.step(state, p, choose(state, p, mask), np.random.default_rng(0))
            total -= GOLD ** (cases - plain) * (1.0 - GOLD) ** plain * reward
    return total


def values_of(run: Path) -> dict[str, float]:
    """Return the exact objective of a run's policy, whose actions are the likeliest ones, and of the rules."""
    tensors, metadata = load_arrays(policy_folder(run), print)
    simulator, trained = from_source(metadata["source"], {}), trained_policy(tensors, metadata)
    policy, functions = LoadedPolicy(trained.spec, trained.actor_params), compile_functions(simulator)
    observation = np.zeros(simulator.observation_size, np.float32)

    def choose(state: Any, p: Any, mask: np.ndarray) -> int:
        features = np.zeros((len(mask), simulator.action_feature_size), np.float32)
        functions.observe(state, p, observation)
        functions.action_features(state, p, mask, features)
        return int(policy.act(observation, mask, features, greedy=True))

    rules = {name: rule for name, rule in simulator.heuristics.items() if name != "random"}
    print(f"  the policy began like {metadata['source'].get('prior', 'rule')}", flush=True)
    values = {"trained": exact(simulator, choose)}
    for name, rule in rules.items():
        values[name] = exact(
            simulator, lambda state, p, mask, rule=rule: rule(state, p, mask, np.random.default_rng(0))
        )
    return values


def train(folder: Path, of: Instance, options: argparse.Namespace) -> Path:
    """Train a policy and return the run directory."""
    folder.mkdir(parents=True, exist_ok=True)
    file, run = folder / "scenario.json", folder / "run"
    file.write_text(json.dumps(scenario(of, options.objective, options.late_cases)), encoding="utf-8")
    command = [sys.executable, "-m", "longstride", "--mode", "train", "--scenario", str(file), "--seed"]
    command += [str(options.seed), "--total-steps", str(options.steps), "--policy-prior", options.prior]
    subprocess.run([*command, "--run-directory", str(run)], check=True, capture_output=True)
    return run


def main() -> None:
    """Print the optimum of each instance and a line for each policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where scenarios and runs go")
    parser.add_argument("--instances", nargs="+", default=["nine", "equal", "1", "2", "3"], help="nine, equal or seeds")
    parser.add_argument("--steps", type=int, default=400_000, help="steps of each training")
    parser.add_argument("--seed", type=int, default=0, help="seed of the trainings")
    parser.add_argument("--prior", default="auto", help="POLICY_PRIOR: how the policy begins")
    parser.add_argument("--objective", choices=[TARDINESS, LATE], default=TARDINESS, help="what is minimised")
    parser.add_argument("--late-cases", choices=["in turn", LAST], default="in turn", help="order within a class")
    given = parser.parse_args()
    for name in given.instances:
        of = instance(name)
        any_order = given.late_cases == LAST
        least, busy = (optimum(of, given.objective, waits, any_order) for waits in (True, False))
        print(f"{name}: optimum {least:.4f}, without waiting for cases to come {busy:.4f}", flush=True)
        folder = given.folder / "-".join((given.objective, *given.late_cases.split(), name, given.prior))
        run = train(folder / str(given.seed), of, given)
        for policy, value in values_of(run).items():
            above = (f"{100.0 * (value / best - 1.0):+.2f} %" for best in (least, busy))
            print(f"  {policy}: {value:.4f} ({', without waiting '.join(above)})", flush=True)


if __name__ == "__main__":
    main()
