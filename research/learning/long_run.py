"""Long-run costs of finished runs of `optima.py` from stationary probabilities: gaps without the noise of episodes.

Sixteen episodes of loaded queues are too few for gaps of one percent. Here a policy's probabilities in all states give
its mean cost exactly, but for the largest queue that is looked at. It begins in the first state of an episode.
Usage: python research/learning/long_run.py RUN ... [--most 60] [--drawn]
    with runs of lost_sales, tandem, n_model (`--most 400`) or criss_cross
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import torch
from scipy import sparse

from longstride.policies.networks import ActorCritic
from longstride.simulators.loading import load_simulator
from longstride.training.evaluation.trained_policy import load_trained_policy
from research.learning.long_run_models import Model, model_of
from research.learning.optima import PROBLEMS

SOLVED = "lost_sales", "tandem", "n_model", "criss_cross"
_STEPS, _STILL, _MOST_STEPS = 200, 1e-7, 400_000
"""Steps between two looks, change of all probabilities between them that counts as none, and steps at most."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs of optima.py")
    parser.add_argument("--most", type=int, default=60, help="jobs of each class of a network")
    parser.add_argument("--drawn", action="store_true", help="costs of the policies that draw their actions, too")
    options = parser.parse_args(arguments)
    for run, model, reference in solved(options.runs, options.most, parser):
        found = {"run": run.name, "reference": reference}
        for way in ("greedy", "drawn")[: 1 + options.drawn]:
            cost, at_edge = long_run_cost(model, policy_of(run, model, way == "greedy"))
            found |= {way: cost, f"{way}_gap_%": 100 * (cost / reference - 1), f"{way}_at_the_edge": at_edge}
        print(json.dumps(found), flush=True)


def solved(runs: Sequence[Path], most: int, parser: argparse.ArgumentParser) -> Iterator[tuple[Path, Model, float]]:
    """Return each run with its problem's model and the cost of the optimum, or exit where a folder is none of these."""
    for run in runs:
        name = run.name.rpartition("-")[0]
        if name not in PROBLEMS or PROBLEMS[name][0] not in SOLVED:
            parser.error(f"{run}: no folder of a run of these problems, such as runs/benchmark_optima/tandem-0")
        simulator = load_simulator(*PROBLEMS[name]).simulator
        yield run, model_of(simulator, most), next(iter(simulator.references.values()))


@torch.no_grad()
def policy_of(run: Path, model: Model, greedy: bool) -> np.ndarray:
    """Return the probability of each action in each state under the policy of a run, float64[S, actions]."""
    trained = load_trained_policy(run)
    network = ActorCritic(trained.spec)
    network.flat[: len(trained.actor_params)] = torch.from_numpy(trained.actor_params)
    return probabilities(network, model, greedy)


@torch.no_grad()
def probabilities(network: ActorCritic, model: Model, greedy: bool) -> np.ndarray:
    """Return the same for a network."""
    logits = network.logits(network.normalised(torch.from_numpy(model.states.astype(np.float32)))).double()
    logits = torch.where(torch.from_numpy(model.allowed), logits, -torch.inf)
    choices = torch.split(logits, list(network.spec.action_space.choices), dim=1)
    if greedy:
        chances = [torch.nn.functional.one_hot(each.argmax(dim=1), each.shape[1]).double() for each in choices]
    else:
        chances = [torch.softmax(each, dim=1) for each in choices]
    columns = [torch.stack([c[:, a] for c, a in zip(chances, act, strict=True)]).prod(dim=0) for act in model.actions]
    return torch.stack(columns, dim=1).numpy()


def long_run_cost(model: Model, policy: np.ndarray) -> tuple[float, float]:
    """Return the mean cost a time unit under a policy, and how often the state is one of the last of a number."""
    matrix, costs = under(model, policy)
    share, step = np.zeros(len(costs)), matrix.T.tocsr()
    share[0] = 1.0
    for _ in range(_MOST_STEPS // _STEPS):
        before = share
        for _ in range(_STEPS):
            share = step @ share
        if np.abs(share - before).sum() < _STILL:
            break
    share /= share.sum()
    at_edge = (model.states == model.states.max(axis=0)).any(axis=1)
    return float(share @ costs * model.clock), float(share @ at_edge)


def under(model: Model, policy: np.ndarray) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return the probabilities of the next state, sparse float64[S, S], and expected costs float64[S] of a policy."""
    size, costs = len(policy), np.zeros(len(policy))
    entries = []
    for column, action in enumerate(model.actions):
        rows = np.flatnonzero(policy[:, column])
        cost, moves = model.follows(rows, action)
        costs[rows] += policy[rows, column] * cost
        entries += [(policy[rows, column] * chance, rows, to) for to, chance in moves]
    chances, rows, to = (np.concatenate(each) for each in zip(*entries, strict=True))
    return sparse.coo_matrix((chances, (rows, to)), (size, size)).tocsr(), costs


if __name__ == "__main__":
    main()
