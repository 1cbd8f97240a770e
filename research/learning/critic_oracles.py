"""What a better critic would gain: trainings whose critic's values are replaced by better ones, with all else as it is.

`exact`: the exact discounted values of the present policy (`n_model` alone; the grid of critic_gaps.py).
`exact-advantages`: its exact advantages, too, so that nothing in an advantage is noise.
`least-squares`: values linear in products of up to three of the observations, from the temporal differences with
lambda 0.8 of all rollouts so far (Boyan, 2002). Each rollout leaves `--kept` of the weight of those before. They are
used from the 17th rollout on.
`expected-least-squares` (`n_model` alone): the same with lambda 0, from the third rollout on. What follows a state is
averaged over actions and events by their probabilities, or over `--draws` of each action.
`own`: the critic's values.
The critic's network learns from targets with these values. Parts of the update are replaced, so this is no prototype of
a feature.
Usage: python research/learning/critic_oracles.py CRITIC [--kept 0.97] [--draws 0] [options of optima.py]
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "core"))

import numpy as np
import optima
import torch
from critic_gaps import ARRIVALS, SIDE, action_values, exact_values, helping, service
from least_squares import powers, traces_of
from numba import njit

from longstride.learning.advantages import standardise
from longstride.learning.algorithms.interface import RolloutBatch
from longstride.learning.algorithms.ppo import Ppo
from longstride.learning.batch import prepare
from longstride.policies.networks import ActorCritic

DEGREE, LAMBDA, FIRST, FIRST_EXPECTED = 3, 0.8, 16, 2
"""Of products; of temporal differences; rollouts before the values are used."""


class Exact:
    """Exact values of the present policy of `n_model`."""

    is_ready = True

    def learn(self, model: ActorCritic, rollout: RolloutBatch) -> None:
        """Solve for the values of the policy that is about to be improved."""
        scale = decay_of(rollout), 1.0
        self._values = exact_values(helping(model), *scale)
        first, second = action_values(self._values, *scale)
        self._gap = second - first

    def values(self, jobs: np.ndarray) -> np.ndarray:
        """Return float[N] for float32[N, 2]."""
        return at(self._values, jobs)

    def advantages(self, rollout: RolloutBatch) -> np.ndarray:
        """Return float32[N], the exact advantages of the actions of a rollout."""
        found = []
        for t in rollout.trajectories:
            gap, other = at(self._gap, t.observations[:-1]), 1.0 - np.exp(t.log_probs)
            found.append(other * np.where(t.actions.reshape(-1) == 1, gap, -gap))
        return np.concatenate(found).astype(np.float32)


class LeastSquares:
    """Values that are linear in products of observations."""

    def __init__(self, expected: bool, kept: float, draws: int) -> None:
        self._draws, self._random = draws, np.random.default_rng(0)
        self._expected, self._kept, self._rollouts, self._scale = expected, kept, 0, np.ones(1)
        self._matrix: Any = 0.0
        self._right: Any = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether the values are used."""
        return self._rollouts > (FIRST_EXPECTED if self._expected else FIRST)

    def learn(self, model: ActorCritic, rollout: RolloutBatch) -> None:
        """Add a rollout and solve."""
        if self._rollouts == 0:
            seen = np.concatenate([t.observations for t in rollout.trajectories])
            self._scale = np.maximum(seen.std(axis=0) + abs(seen.mean(axis=0)), 1.0)
        add = self._add_expected if self._expected else self._add
        self._matrix, self._right = self._kept * self._matrix, self._kept * self._right
        for t, discounts in zip(rollout.trajectories, rollout.discounts, strict=True):
            add(t, discounts)
        self._rollouts += 1
        norm = 1.0 / np.sqrt(np.maximum(abs(np.diag(self._matrix)), 1e-12))
        scaled = self._matrix * norm[:, None] * norm
        self._weights = norm * np.linalg.lstsq(scaled, self._right * norm, rcond=1e-12)[0]

    def values(self, observations: np.ndarray) -> np.ndarray:
        """Return float64[N] for float32[N, O]."""
        return np.asarray(self._features(observations) @ self._weights)

    def _features(self, observations: np.ndarray) -> np.ndarray:
        return powers(observations.astype(np.float64) / self._scale, DEGREE)

    def _add(self, t: Any, discounts: np.ndarray) -> None:
        """Add the temporal differences of a trajectory."""
        features = self._features(t.observations)
        before, after, cut = features[:-1], features[1:].copy(), t.truncated[:-1]
        if cut.any():
            after[:-1][cut] = self._features(t.cut_observations[: cut.sum()])
        after[t.terminated] = 0.0
        traces = traces_of(before, discounts * LAMBDA, t.terminated | t.truncated)
        self._matrix = self._matrix + traces.T @ (before - discounts[:, None] * after)
        self._right = self._right + traces.T @ t.rewards.astype(np.float64)

    def _add_expected(self, t: Any, discounts: np.ndarray) -> None:
        """Add the expected temporal differences of the states of a trajectory of `n_model`."""
        jobs, actions, decay = t.observations[:-1], t.actions.reshape(-1), -np.log(discounts[0]) / t.elapsed[0]
        before, share, left, gain = self._features(jobs), np.exp(t.log_probs.astype(np.float64)), 0.0, 0.0
        for action, weight in ((actions, share), (1 - actions, 1.0 - share)):
            rates, cost = event_rates(jobs, action), jobs @ np.array([1.0, 3.0])
            shares, time = self._shares(rates, decay)
            for part, change in zip(shares.T, ((1, 0), (0, 1), (-1, 0), (0, -1)), strict=True):
                following = self._features(np.maximum(jobs + np.array(change), 0.0))
                left = left + (weight * part)[:, None] * following
            gain = gain - weight * cost * time
        self._matrix = self._matrix + before.T @ (before - left)
        self._right = self._right + before.T @ gain

    def _shares(self, rates: np.ndarray, decay: float) -> tuple[np.ndarray, np.ndarray]:
        """Return float64[N, 4], the discounted probability of each event, and float64[N], the mean time until it."""
        total = rates.sum(axis=1)
        if not self._draws:
            return rates / (total + decay)[:, None], 1.0 / (total + decay)
        times = self._random.standard_exponential((self._draws, len(total))) / total
        events = (self._random.random((self._draws, len(total), 1)) > np.cumsum(rates / total[:, None], axis=1)).sum(-1)
        discounts = np.exp(-decay * times)
        shares = [(discounts * (np.minimum(events, 3) == k)).mean(axis=0) for k in range(4)]
        return np.stack(shares, axis=1), times.mean(axis=0)


@njit
def event_rates(jobs, actions):  # type: ignore[no-untyped-def]
    """Return float64[N, 4], rates of an arrival of each class and of a completion of each."""
    rates = np.empty((len(jobs), 4))
    for i in range(len(jobs)):
        rates[i, 0], rates[i, 1] = ARRIVALS
        rates[i, 2], rates[i, 3] = service(int(jobs[i, 0]), int(jobs[i, 1]), actions[i])
    return rates


def at(table: np.ndarray, jobs: np.ndarray) -> np.ndarray:
    """Return float64[N], the entries of a grid for float32[N, 2]."""
    places = np.minimum(jobs, SIDE - 1).astype(int)
    return np.asarray(table[places[:, 0], places[:, 1]])


def decay_of(rollout: RolloutBatch) -> float:
    """Return the discount rate of a time unit."""
    elapsed = rollout.trajectories[0].elapsed
    longest = int(elapsed.argmax())
    return float(-np.log(rollout.discounts[0][longest]) / elapsed[longest])


CRITICS: dict[str, Any] = {
    "own": lambda kept, draws: None,
    "exact": lambda kept, draws: Exact(),
    "exact-advantages": lambda kept, draws: Exact(),
    "least-squares": partial(LeastSquares, False),
    "expected-least-squares": partial(LeastSquares, True),
}


class Replaced:
    """The parts of an update that use the other values."""

    def __init__(self, name: str, kept: float, draws: int) -> None:
        self._new, self._rollout = partial(CRITICS[name], kept, draws), None
        self._critic = self._new()
        self._value, self._read, self._targets = prepare.critic_values, prepare.read_values, Ppo.targets
        self._train = optima.longstride.train
        if name != "own":
            prepare.critic_values, prepare.read_values = self.critic_values, self.read_values
            optima.longstride.train = self.train
        if name == "exact-advantages":
            Ppo.targets = lambda algorithm, *rest: self.targets(algorithm, *rest)

    def train(self, *arguments: Any, **options: Any) -> Any:
        """Begin with a new critic."""
        self._critic = self._new()
        return self._train(*arguments, **options)

    def critic_values(self, stepper: Any, rollout: RolloutBatch, *rest: Any) -> Any:
        """Learn first."""
        self._rollout = rollout
        self._critic.learn(stepper.model, rollout)
        return self._value(stepper, rollout, *rest)

    def read_values(self, *arguments: Any) -> Any:
        """Return the other values."""
        own = self._read(*arguments)
        if not self._critic.is_ready:
            return own
        trajectories = self._rollout.trajectories
        last = [part for t in trajectories for part in (t.observations[-1:], t.cut_observations) if len(part)]
        both = np.concatenate([t.observations[:-1] for t in trajectories]), np.concatenate(last)
        values, final_values = (self._critic.values(jobs).astype(np.float32) for jobs in both)
        return own._replace(values=values, final_values=final_values)

    def targets(self, algorithm: Ppo, rollout: RolloutBatch, *rest: Any) -> Any:
        """Return targets with the exact advantages."""
        targets = self._targets(algorithm, rollout, *rest)
        return targets._replace(advantages=standardise(self._critic.advantages(rollout), rollout.total))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and evaluate as optima.py does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("critic", choices=CRITICS)
    parser.add_argument("--kept", type=float, default=0.97, help="weight that a rollout leaves of those before it")
    parser.add_argument("--draws", type=int, default=0, help="draws of each action in place of probabilities; 0: none")
    options, others = parser.parse_known_args(arguments)
    torch.set_num_threads(1)
    Replaced(options.critic, options.kept, options.draws)
    optima.main(others)


if __name__ == "__main__":
    main()
