"""What makes a critic know which action is better? Critics fitted to many rollouts of one trained policy of `n_model`.

The policy of a run stays as it is. Its rollouts (32 instances of 256 steps, a quarter of them excursions) are collected
as in training, and a critic learns from the first R of them. Its gaps between actions are compared with exact ones as
in critic_gaps.py: by one step (lambda 0), and as expected advantages with the actor's lambda of 0.8. A fit stops where
its values are closest to the exact ones, which a run cannot know: small rollouts look better than they are.
Usage: python research/learning/critic_fits.py RUN ... [--forms FORM ...], runs of optima.py --problems n_model
"""

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

import numpy as np
import torch
from critic_gaps import (
    ARRIVALS,
    EDGE,
    JOBS,
    RATES,
    SIDE,
    Trained,
    action_values,
    correlation,
    exact_values,
    model_of,
    moves,
    read,
    simulated,
)
from least_squares import powers, traces_of
from policy_rollouts import STEPS, Rollouts, collect, joined
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from longstride.policies.networks import ActorCritic

BATCH, LOOKS, GAE_LAMBDA = 512, 10, 0.8
"""Steps of a minibatch, as in training; looks at a fit; lambda of the actor."""

GRID = JOBS.reshape(2, -1).T.astype(np.float32)


class Form(NamedTuple):
    """What is fitted, and how."""

    rollouts: int = 16
    new: bool = False  # from new parameters, not from those of the run
    value_lambda: float = 0.95
    steps: int = 2_000
    rate: float = 1e-3
    anneal: bool = True  # whether the rate falls to 0
    average: float = 0.0  # share of the averaged parameters that each step leaves; 0 for none
    natural: bool = False  # without excursions
    inputs: str = "as in training"
    hidden: tuple[int, ...] = (256, 256, 256)
    tanh: bool = False
    pairs: float = 0.0  # weight of differences in pairs that share random numbers, as a share of their variance; or 0
    linear: int = 0  # degree of the powers in which the values are linear; 0 for a network


FORMS = {
    **{f"{n} rollouts": Form(n) for n in (1, 4, 16, 64)},
    **{f"{n} rollouts, linear in powers to {k}": Form(n, linear=k) for k in (2, 3, 4) for n in (16, 64, 256)},
    **{f"64 rollouts, lambda {x}, linear in powers to 3": Form(64, linear=3, value_lambda=x) for x in (0.0, 0.8)},
    "64 rollouts, without excursions, linear in powers to 3": Form(64, natural=True, linear=3),
    "64 rollouts, without excursions": Form(64, natural=True),
    "64 rollouts, lambda 1.0": Form(64, value_lambda=1.0),
    "64 rollouts, 4 times the steps": Form(64, steps=8_000),
    "16 rollouts, rate 0.005, constant": Form(rate=5e-3, anneal=False),
    "16 rollouts, rate 0.005, constant, averaged": Form(rate=5e-3, anneal=False, average=0.995),
    "64 rollouts, pairs": Form(64, pairs=1.0),
    **{
        f"64 rollouts, new, lambda 0.99{name}": Form(64, new=True, value_lambda=0.99, **what)
        for name, what in {
            "": {},
            ", inputs with logarithms": {"inputs": "logs"},
            ", inputs with squares": {"inputs": "squares"},
            ", counts as inputs": {"inputs": "counts"},
            ", tanh": {"tanh": True},
            ", 2 layers of 64": {"hidden": (64, 64)},
        }.items()
    },
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Collect, fit, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs")
    parser.add_argument("--forms", nargs="*", choices=FORMS, default=list(FORMS), metavar="FORM", help="what is fitted")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for run in options.runs:
        judge, model = Judge(read(run)), model_of(run)
        most = max(FORMS[name].rollouts for name in options.forms)
        rollouts = {pairs: collect(run, model, most, pairs) for pairs in {FORMS[n].pairs > 0.0 for n in options.forms}}
        print(f"{run.name}: {judge.figures(judge.trained.values)}, the run's own", flush=True)
        for name in options.forms:
            begin = time.perf_counter()
            form = FORMS[name]
            values = fitted(form, joined(rollouts[form.pairs > 0.0][: form.rollouts]), model, judge)
            print(f"  {judge.figures(values)}, {time.perf_counter() - begin:3.0f} s: {name}", flush=True)


class Judge:
    """Compares values on the grid with the exact ones of a policy."""

    def __init__(self, trained: Trained) -> None:
        self.trained, self._scale = trained, (trained.decay, trained.divisor)
        self.exact = exact_values(trained.help_probability, *self._scale)
        visits = simulated(trained.help_probability, 400_000, 0)[1]
        self.inner = visits * (JOBS < SIDE - EDGE).all(axis=0)
        both = self.inner * (JOBS[0] >= 1) * (JOBS[1] >= 2)
        self._weights, self.inner = both / both.sum(), self.inner / self.inner.sum()
        self._gap = self._gaps(self.exact, 0.0)

    def error(self, values: np.ndarray) -> float:
        """Return the deviation of the values' error over visits."""
        difference = values - self.exact
        return float(np.sqrt((self.inner * (difference - (self.inner * difference).sum()) ** 2).sum()))

    def figures(self, values: np.ndarray) -> str:
        """Return what there is to say of values."""
        texts, stakes = [f"error of values {self.error(values):5.1f}"], self._weights * abs(self._gap)
        for gae_lambda in (0.0, GAE_LAMBDA):
            own = self._gaps(values, gae_lambda)
            wrong = np.sign(own) != np.sign(self._gap)
            texts.append(
                f"lambda {gae_lambda}: gaps {correlation(own, self._gap, self._weights):5.2f}, wrong "
                f"{(self._weights * wrong).sum():4.0%}, by size {(stakes * wrong).sum() / stakes.sum():4.0%}"
            )
        return "; ".join(texts)

    def _gaps(self, values: np.ndarray, gae_lambda: float) -> np.ndarray:
        """Return the expected advantage of action 1 less that of action 0."""
        helps, (first, second) = self.trained.help_probability, action_values(values, *self._scale)
        difference = (1.0 - helps) * first + helps * second - values
        advantage, later = difference, [np.zeros_like(values)] * 2
        for _ in range(80 if gae_lambda else 0):
            later = [gae_lambda * self._next(advantage, action) for action in range(2)]
            advantage = difference + (1.0 - helps) * later[0] + helps * later[1]
        return second + later[1] - first - later[0]

    def _next(self, numbers: np.ndarray, action: int) -> np.ndarray:
        """Return the discounted expectation of numbers in the next state."""
        total = ARRIVALS.sum() + RATES[:, :, action].sum(axis=-1) + self.trained.decay
        return sum(rate * numbers.ravel()[to] for to, rate in moves(action)) / total


def fitted(form: Form, rollouts: Rollouts, model: ActorCritic, judge: Judge) -> np.ndarray:
    """Return the values of a fitted critic on the grid."""
    rollouts = rollouts.where(rollouts.natural) if form.natural else rollouts
    fit = linear_values if form.linear else network_values
    return fit(form, rollouts, model, judge).reshape(SIDE, SIDE)


class Inputs:
    """What a critic sees of the jobs of each class."""

    def __init__(self, form: Form, rollouts: Rollouts, model: ActorCritic) -> None:
        self._kind, self._model, self._shift, self._scale = form.inputs, model, 0.0, 1.0
        if form.inputs != "as in training":
            seen = self._of(rollouts.observations)
            self._shift, self._scale = seen.mean(dim=0), 1.0 / seen.std(dim=0)
            if form.inputs == "counts":
                self._shift, self._scale = torch.zeros(2), torch.full((2,), 0.1)

    def __call__(self, jobs: np.ndarray) -> Tensor:
        """Return float32[N, I] for float32[N, 2]."""
        return (self._of(jobs) - self._shift) * self._scale

    def _of(self, jobs: np.ndarray) -> Tensor:
        counts = torch.from_numpy(jobs)
        if self._kind == "logs":
            return torch.cat([counts, torch.log1p(counts)], dim=1)
        if self._kind == "squares":
            seen = self._model.normalised(counts)
            return torch.cat([seen, seen.square(), seen.prod(dim=1, keepdim=True)], dim=1)
        return counts if self._kind == "counts" else self._model.normalised(counts)


def network(form: Form, inputs: int, model: ActorCritic) -> nn.Sequential:
    """Return the run's critic, or a new one."""
    sizes, layers = [inputs, *form.hidden], list[nn.Module]()
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.Tanh() if form.tanh else nn.ReLU()]
        nn.init.orthogonal_(layers[-2].weight, 2.0**0.5)
        nn.init.zeros_(layers[-2].bias)
    layers.append(nn.Linear(sizes[-1], 1))
    nn.init.zeros_(layers[-1].weight)
    nn.init.zeros_(layers[-1].bias)
    found = nn.Sequential(*layers)
    if not form.new:
        with torch.no_grad():
            for mine, (weight, bias) in zip(found[::2], model.layers("critic"), strict=True):
                mine.weight.copy_(weight.T)
                mine.bias.copy_(bias)
    return found


def network_values(form: Form, rollouts: Rollouts, model: ActorCritic, judge: Judge) -> np.ndarray:
    """Fit a network in minibatches; as in training, its targets are computed anew after 48 steps."""
    torch.manual_seed(0)
    see = Inputs(form, rollouts, model)
    jobs, places = unique(rollouts)
    seen, grid = see(jobs), see(GRID)
    critic = network(form, seen.shape[1], model)
    averaged = AveragedModel(critic, multi_avg_fn=get_ema_multi_avg_fn(form.average))
    scale = [float(model.tensors[f"value_{name}"]) for name in ("mean", "std")]
    optimizer = torch.optim.Adam(critic.parameters(), form.rate, eps=1e-5)
    rows, best, least, done = len(rollouts.rewards), np.zeros(len(GRID)), np.inf, 0
    order = np.empty(0, np.int64)
    each = 3 * min(-(-rows // BATCH), 16)
    while done < form.steps:
        values = valued(critic, seen) * scale[1] + scale[0]
        targets = rollouts.returns(values[places[0]], values[places[1]], form.value_lambda)
        if done == 0 and form.new:
            scale = [float(targets.mean()), float(targets.std())]
        goals = torch.from_numpy((targets - np.float32(scale[0])) / np.float32(scale[1]))
        order = np.concatenate([order, *(order_of(form, rows, done + k) for k in range(1 + each * BATCH // rows))])
        unlike = goals.view(-1, 2, STEPS).diff(dim=1).square().mean() if form.pairs else torch.ones(())
        for _ in range(min(each, form.steps - done)):
            chosen, order = order[:BATCH], order[BATCH:]
            errors = critic(seen[places[0][chosen]]).squeeze(1) - goals[chosen]
            loss = errors.square().mean()
            if form.pairs:
                first, second = errors.view(2, -1)
                loss = loss + form.pairs / unlike * (first - second).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(critic.parameters(), 0.5)
            optimizer.param_groups[0]["lr"] = form.rate * (1.0 - done / form.steps if form.anneal else 1.0)
            optimizer.step()
            if form.average:
                averaged.update_parameters(critic)
            done += 1
            if done % (form.steps // LOOKS) == 0:
                values = valued(averaged if form.average else critic, grid) * scale[1] + scale[0]
                if (error := judge.error(values.reshape(SIDE, SIDE))) < least:
                    best, least = values, error
    return best


def order_of(form: Form, rows: int, seed: int) -> np.ndarray:
    """Return int64[rows], an order; with pairs, the second half of each minibatch has the partners of the first."""
    generator = np.random.default_rng(seed)
    if not form.pairs:
        return generator.permutation(rows)
    first = generator.permutation(rows // 2)
    first = first // STEPS * 2 * STEPS + first % STEPS
    return np.stack([first, first + STEPS]).reshape(2, -1, BATCH // 2).transpose(1, 0, 2).ravel()


def unique(rollouts: Rollouts) -> tuple[np.ndarray, np.ndarray]:
    """Return float32[S, 2], the different observations, and int64[2, N], the place of each and of the next one."""
    both = np.concatenate([rollouts.observations, rollouts.next_observations])
    jobs, places = np.unique(both, axis=0, return_inverse=True)
    return jobs, places.reshape(2, -1)


@torch.no_grad()
def valued(critic: nn.Module, seen: Tensor) -> np.ndarray:
    """Return float32[S], the outputs of a critic."""
    return np.concatenate([critic(part).squeeze(1).numpy() for part in seen.split(8192)])


def linear_values(form: Form, rollouts: Rollouts, model: ActorCritic, judge: Judge) -> np.ndarray:
    """Fit values that are linear in powers, by least squares of temporal differences with lambda (Boyan, 2002)."""
    see = Inputs(form, rollouts, model)
    features = [powers(see(jobs).double().numpy(), form.linear) for jobs in rollouts[:2]]
    discounts = rollouts.gamma**rollouts.elapsed
    differences = features[0] - discounts[:, None] * features[1]
    traces = traces_of(features[0], discounts * form.value_lambda**rollouts.elapsed, rollouts.ended)
    matrix, right = traces.T @ differences, traces.T @ rollouts.rewards
    weights = np.linalg.lstsq(matrix, right, rcond=1e-12)[0]
    return powers(see(GRID).double().numpy(), form.linear) @ weights


if __name__ == "__main__":
    main()
