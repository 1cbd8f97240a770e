"""Does a critic know which action is better? Trained policies of `n_model` next to exact discounted values.

The gap of a state is the value of action 1 less that of action 0, followed by the policy of the run. It is computed
twice, from probabilities: with the values of the run's critic, and with the exact values of its policy (a sparse linear
system of the states with up to 259 jobs of each class). States count by their visits in 400,000 simulated events.
`--horizons` shows what the best policy for a discounted horizon costs in the long run; it needs no run.
Usage: python research/learning/critic_gaps.py [RUN ...] [--horizons 50 500], runs of optima.py --problems n_model
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

import numpy as np
import torch
from numba import njit
from safetensors.torch import load_file
from scipy.sparse import csc_matrix, csr_matrix, eye
from scipy.sparse.linalg import spsolve

import longstride
from longstride.policies.networks import ActorCritic, restore_model
from longstride.simulators.queueing.n_model import N_MODEL

SIDE, EDGE = 260, 60
"""Jobs of each class from 0 on, and how many of the largest counts are too near the edge to be compared."""

ARRIVALS = np.array(N_MODEL.arrival_rate)
JOBS = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij"))
COST = np.tensordot(N_MODEL.holding_cost, JOBS, 1)
INTERVAL = 0.31
"""Mean time between two events."""

NEAR, FAR = (20, 5), (110, 20)
"""Jobs of each class in a state that is common and in one that is rare."""


class Trained(NamedTuple):
    """A policy and its critic on the grid."""

    help_probability: np.ndarray  # float64[SIDE, SIDE], probability of action 1
    values: np.ndarray  # float64[SIDE, SIDE], the critic's
    decay: float  # discount rate of a time unit
    divisor: float  # of the rewards


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="folders of runs")
    parser.add_argument("--horizons", nargs="*", type=float, default=[], help="in events")
    options = parser.parse_args(arguments)
    for horizon in options.horizons:
        policy = best_policy(1.0 / (horizon * INTERVAL))
        costs = [simulated(policy, 20_000_000, seed)[0] for seed in range(2)]
        print(f"horizon {horizon:g}: the best policy costs {costs[0]:.2f} and {costs[1]:.2f} in the long run")
    for run in options.runs:
        print(run.name, compared(read(run)))


def read(run: Path) -> Trained:
    """Return the last policy of a run and its critic."""
    last = run / "checkpoints" / "last"
    tensors = load_file(max(last.glob("*.safetensors")))
    facts = json.loads(max(last.glob("*.json")).read_text())
    model = model_of(run)
    with torch.no_grad():
        values = model.values(seen_by(model)) * model.tensors["value_std"] + model.tensors["value_mean"]
    decay = -np.log(found(facts, "gamma")) / found(facts, "interval")
    return Trained(
        helping(model), values.double().numpy().reshape(SIDE, SIDE), decay, float(tensors["rewards.divisor"][0])
    )


def model_of(run: Path) -> ActorCritic:
    """Return the last parameters of a run."""
    model = ActorCritic(longstride.load_policy(run).spec)
    restore_model(model, load_file(max((run / "checkpoints" / "last").glob("*.safetensors"))))
    return model


def seen_by(model: ActorCritic) -> torch.Tensor:
    """Return what a model sees of the states of the grid."""
    return model.normalised(torch.from_numpy(JOBS.reshape(2, -1).T.astype(np.float32)))


@torch.no_grad()
def helping(model: ActorCritic) -> np.ndarray:
    """Return float64[SIDE, SIDE], the probabilities of action 1."""
    logits = model.logits(seen_by(model), torch.zeros(SIDE * SIDE, 2, 0)).double().numpy().reshape(SIDE, SIDE, 2)
    helps = 1.0 / (1.0 + np.exp(logits[..., 0] - logits[..., 1]))
    return np.where(JOBS[0] == 0, 1.0, np.where(JOBS[1] == 0, 0.0, helps))


def found(facts: Any, name: str) -> Any:
    """Return the first value of a name in nested JSON objects."""
    if not isinstance(facts, dict):
        return None
    return facts.get(name) or next(filter(None, (found(each, name) for each in facts.values())), None)


def compared(trained: Trained) -> str:
    """Return a sentence with what the critic says of the gaps."""
    exact = exact_values(trained.help_probability, trained.decay, trained.divisor)
    own, true = (np.subtract(*action_values(v, trained.decay, trained.divisor)[::-1]) for v in (trained.values, exact))
    visits = simulated(trained.help_probability, 400_000, 0)[1]
    both = (JOBS[0] >= 1) & (JOBS[1] >= 2) & (JOBS < SIDE - EDGE).all(axis=0)
    weights = visits * both / (visits * both).sum()
    stakes = weights * abs(true) / (weights * abs(true)).sum()
    wrong = np.sign(own) != np.sign(true)
    worse = np.where(true > 0, 1.0 - trained.help_probability, trained.help_probability)
    spread = np.sqrt((weights * true * true).sum() - (weights * true).sum() ** 2)
    return (
        f"gaps have a deviation of {spread:.1f}; "
        f"correlation of values {correlation(trained.values, exact, weights):.3f}, of gaps "
        f"{correlation(own, true, weights):.2f}; wrong sign in {(weights * wrong).sum():.0%} of visits, by size of gap "
        f"{(stakes * wrong).sum():.0%}; there the policy takes the worse action in {(stakes * worse).sum():.0%}; "
        f"of the exact value the critic has {trained.values[NEAR] / exact[NEAR]:.0%} at {NEAR} jobs, "
        f"{trained.values[FAR] / exact[FAR]:.0%} at {FAR}"
    )


def correlation(a: np.ndarray, b: np.ndarray, weights: np.ndarray) -> float:
    """Return the correlation of numbers with weights that add up to 1."""
    a, b = a - (weights * a).sum(), b - (weights * b).sum()
    return float((weights * a * b).sum() / np.sqrt((weights * a * a).sum() * (weights * b * b).sum()))


@njit
def service(first: int, second: int, action: int) -> tuple[float, float]:
    """Return the rates at which jobs of each class complete."""
    rest, rate = max(second - 1, 0), 1.0 if second > 0 else 0.0
    if first > 0 and (action == 0 or rest == 0):
        return 1.0, rate
    return 0.0, rate + (0.5 if rest > 0 else 0.0)


RATES = np.array([[[service(i, j, a) for a in range(2)] for j in range(SIDE)] for i in range(SIDE)])


def moves(action: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (index of the next state, its rate) of an action's events; what leaves the grid stays in its state."""
    pairs = list(zip(_STEPS, ARRIVALS, strict=True))
    ups = [(np.minimum(JOBS + step, SIDE - 1), np.full((SIDE, SIDE), rate)) for step, rate in pairs]
    downs = [(np.maximum(JOBS - step, 0), RATES[:, :, action, k]) for k, step in enumerate(_STEPS)]
    return [(to[0] * SIDE + to[1], rate) for to, rate in ups + downs]


_STEPS = np.eye(2, dtype=int)[:, :, None, None]


def action_values(values: np.ndarray, decay: float, divisor: float) -> list[np.ndarray]:
    """Return the value of each action, followed by a policy with these values."""
    found = []
    for action in range(2):
        total = ARRIVALS.sum() + RATES[:, :, action].sum(axis=-1) + decay
        found.append((sum(rate * values.ravel()[to] for to, rate in moves(action)) - COST / divisor) / total)
    return found


def exact_values(helps: np.ndarray, decay: float, divisor: float) -> np.ndarray:
    """Return the discounted values of a policy."""
    size, here = SIDE * SIDE, np.arange(SIDE * SIDE)
    matrix, gains = csr_matrix((size, size)), np.zeros(size)
    for action, probability in enumerate((1.0 - helps, helps)):
        total = ARRIVALS.sum() + RATES[:, :, action].sum(axis=-1) + decay
        gains -= (probability * COST / divisor / total).ravel()
        for to, rate in moves(action):
            matrix += csr_matrix(((probability * rate / total).ravel(), (here, to.ravel())), (size, size))
    return np.asarray(spsolve(csc_matrix(eye(size) - matrix), gains)).reshape(SIDE, SIDE)


def best_policy(decay: float) -> np.ndarray:
    """Return the best policy for a discount rate, by policy iteration."""
    policy = np.where(JOBS[0] == 0, 1.0, 0.0)
    while True:
        first, second = action_values(exact_values(policy, decay, 1.0), decay, 1.0)
        better = np.where(second > first + 1e-9, 1.0, np.where(first > second + 1e-9, 0.0, policy))
        if (better == policy).all():
            return policy
        policy = better


@njit
def simulated(helps: np.ndarray, events: int, seed: int) -> tuple[float, np.ndarray]:
    """Return the mean cost, and the visits of each state; beyond half of the grid the policy is that of its middle."""
    np.random.seed(seed)
    first, second, time, cost, middle = 0, 0, 0.0, 0.0, SIDE // 2
    visits = np.zeros((SIDE, SIDE))
    for _ in range(events):
        visits[min(first, SIDE - 1), min(second, SIDE - 1)] += 1
        action = int(np.random.random() < helps[min(first, middle), min(second, middle)])
        served = service(first, second, action)
        total = 0.38 + 1.235 + served[0] + served[1]
        time, cost = time + 1.0 / total, cost + (first + 3.0 * second) / total
        draw = np.random.random() * total
        if draw < 0.38:
            first += 1
        elif draw < 1.615:
            second += 1
        elif draw < 1.615 + served[0]:
            first -= 1
        else:
            second -= 1
    return cost / time, visits


if __name__ == "__main__":
    main()
