"""What the critic's error does to the advantages that a policy learns from, where the exact ones are known.

Trains on the N-model. At some iterations it solves the Markov chain of the present policy (both queues below 141) and
compares, over the decisions with a choice, what the better action is worth: exactly, and as the critic's values say in
the mean over all luck with some GAE_LAMBDA. A correlation of 1 and an error of 0 would be a perfect critic. The mean
cost of the policy is exact, too; a finite evaluation that begins with empty queues shows less.

Usage: python benchmarks/advantage_error.py [--seed 0] [--training-episodes 40] [--value-lambda L] [--every 20]
    [--fixed-policy]
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "core"))

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy import sparse
from scipy.sparse.linalg import spsolve

import longstride
from longstride.policies.networks import ActorCritic
from longstride.simulators.queueing.n_model import N_MODEL
from longstride.training.trainer import Trainer

SIZE = 141
N1, N2 = (axis.ravel() for axis in np.indices((SIZE, SIZE)))
LAMBDAS = (0.8, 0.9, 0.95, 0.98)


class Action(NamedTuple):
    """An action in all states: probabilities of the next state, events a time unit, cost until the next event."""

    after: sparse.csr_matrix
    rate: np.ndarray
    cost: np.ndarray


def action(helps: bool) -> Action:
    """Return the action of station 1: to help with class 2 where there are two jobs of it, or to serve class 1."""
    here, (own, help_rate), (_, main) = np.arange(SIZE * SIZE), *N_MODEL.service_rate
    second = helps & (N2 > 1)
    moves = [
        (here + SIZE * (N1 < SIZE - 1), np.full(len(here), N_MODEL.arrival_rate[0])),
        (here + (N2 < SIZE - 1), np.full(len(here), N_MODEL.arrival_rate[1])),
        (here - SIZE * (N1 > 0), own * ((N1 > 0) & ~second)),
        (here - (N2 > 0), main * (N2 > 0) + help_rate * second),
    ]
    rate = sum(r for _, r in moves)
    after = sum(sparse.csr_matrix((r / rate, (here, to)), (len(here), len(here))) for to, r in moves)
    return Action(after, rate, (N_MODEL.holding_cost[0] * N1 + N_MODEL.holding_cost[1] * N2) / rate)


ACTIONS = action(False), action(True)
CHOICE = (N1 > 0) & (N2 > 0)


def solved(matrix: sparse.spmatrix, right: np.ndarray) -> np.ndarray:
    """Return x of (1 - matrix) x = right."""
    x: np.ndarray = spsolve((sparse.eye(len(right)) - matrix).tocsc(), right)
    return x


def mixed(p: np.ndarray, own: Any, helps: Any) -> Any:
    """Return the mean of a vector or matrix of both actions, float64[states] p of them helping."""
    if isinstance(own, np.ndarray):
        return (1.0 - p) * own + p * helps
    return sparse.diags(1.0 - p) @ own + sparse.diags(p) @ helps


def stationary(p: np.ndarray) -> tuple[np.ndarray, float]:
    """Return how often events find each state under a policy, and its mean cost a time unit."""
    equations = (mixed(p, *(a.after for a in ACTIONS)).T - sparse.eye(len(p))).tolil()
    equations[-1] = 1.0
    share = spsolve(equations.tocsc(), np.eye(len(p))[-1])
    costs, times = mixed(p, *(a.cost for a in ACTIONS)), mixed(p, *(1.0 / a.rate for a in ACTIONS))
    return share, float(share @ costs / (share @ times))


def compare(model: ActorCritic, rate: float) -> list[str]:
    """Return the cells of a row: mean costs, then correlation and error of the advantages for each lambda.

    ``rate`` is how much a cost loses of its weight in a unit of simulated time, continuously.
    """
    with torch.no_grad():
        x = model.normalise(torch.tensor(np.stack([N1, N2], axis=1), dtype=torch.float32))
        logits, values = model.logits(x).double().numpy(), model.values(x).double()
    critic = -(model.tensors["value_mean"] + model.tensors["value_std"] * values).numpy()
    helping = 1.0 / (1.0 + np.exp(logits[:, 0] - logits[:, 1]))
    p, greedy = (np.where(CHOICE, chosen, 1.0 * (N1 == 0)) for chosen in (helping, 1.0 * (helping > 0.5)))
    share, cost = stationary(p)
    discounted = [sparse.diags(a.rate / (a.rate + rate)) @ a.after for a in ACTIONS]
    step, costs = mixed(p, *discounted), mixed(p, *(a.cost for a in ACTIONS))
    weight = share * CHOICE * p * (1.0 - p)
    weight /= weight.sum()

    def worth(after: np.ndarray) -> np.ndarray:
        """Return what helping costs less than the own class, for the values of what comes after."""
        own, helps = (a.cost + d @ after for a, d in zip(ACTIONS, discounted, strict=True))
        return np.asarray(own - helps)

    exact, residual = worth(solved(step, costs)), costs + step @ critic - critic
    cells = [f"{cost:.1f}", f"{stationary(greedy)[1]:.1f}", f"{np.sqrt(weight @ exact**2):.1f}"]
    for each in LAMBDAS:
        estimate = worth(critic + each * solved(each * step, residual))
        product = weight @ (estimate * exact) / np.sqrt((weight @ estimate**2) * (weight @ exact**2))
        cells.append(f"{product:.2f}, {np.sqrt(weight @ (estimate - exact) ** 2):.1f}")
    return cells


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--training-episodes", type=int, default=40)
    parser.add_argument("--value-lambda", type=float, default=longstride.Hyperparameters().value_lambda)
    parser.add_argument("--every", type=int, default=20, help="iterations from one comparison to the next")
    parser.add_argument("--fixed-policy", action="store_true", help="let the critic learn alone")
    options = parser.parse_args(arguments)
    rows: list[list[str]] = []
    run_iteration = Trainer.run_iteration

    def compared(trainer: Trainer, *rest: Any) -> dict[str, Any]:
        record = run_iteration(trainer, *rest)
        if trainer.iteration % options.every == 0:
            rate = -np.log(trainer.rewards.gamma) / trainer.rewards.interval
            rows.append([str(trainer.iteration), *compare(trainer.model, rate)])
            print(*rows[-1], sep="; ", file=sys.stderr, flush=True)
        return record

    Trainer.run_iteration = compared  # type: ignore[method-assign]
    rates = {"learning_rate_actor": 1e-12} if options.fixed_policy else {}
    settings = longstride.Hyperparameters(
        seed=options.seed, training_episodes=options.training_episodes, value_lambda=options.value_lambda, **rates
    )
    with tempfile.TemporaryDirectory() as directory:
        longstride.train("n_model", settings, run_directory=Path(directory) / "run", quiet=True)
    names = [f"lambda {each}: correlation, error" for each in LAMBDAS]
    table = Table("iteration", "mean cost", "greedy", "exact size", *names)
    for row in rows:
        table.add_row(*row)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
