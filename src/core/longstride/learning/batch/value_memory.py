"""How long the critic's values of natural play hold together, which says how far a horizon has to look."""

from collections.abc import Sequence
from math import log

import numpy as np
import torch

from longstride.learning.distributed.ranks import Ranks, flattened
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import Trajectory

_PARTS = 4
"""Parts of a rollout. Values at their beginnings are compared with the next ones."""

_FEWEST = 8
"""Trajectories without which a rollout says nothing."""

_KEPT = 0.9
"""Share of the old figure that a rollout leaves."""

_LEAST, _MOST = 0.02, 0.999
"""Correlations that count as this where they are below or above."""


class ValueMemory:
    """The time after which a state's value is forgotten, in steps, as the mean of many rollouts.

    If few jobs wait, few will wait for a while, and a state's value stays above the mean of all. What is decided now
    counts for as long. The correlation of values that are k steps apart falls like exp(-k / time).
    """

    def __init__(self) -> None:
        self._rate, self._weight = 0.0, 0.0

    @property
    def steps(self) -> float:
        """The time, 0 before there is one."""
        return self._weight / self._rate if self._rate > 0.0 else 0.0

    def learn(self, model: ActorCritic, trajectories: Sequence[Trajectory], ranks: Ranks) -> None:
        """Include a rollout of all ranks: those of its natural trajectories that one episode fills."""
        filled = [t for t in trajectories if t.steps >= _PARTS and not (t.terminated | t.truncated)[:-1].any()]
        found = flattened(ranks.gather([(t.steps // _PARTS, _values(model, t)) for t in filled]))
        apart = max((apart for apart, _ in found), default=0)
        values = np.array([values for each, values in found if each == apart])
        if len(values) < _FEWEST:
            return
        values -= values.mean()
        variance, difference = np.square(values).mean(), np.square(np.diff(values, axis=1)).mean()
        if 0.0 < variance < np.inf:
            correlation = float(np.clip(1.0 - difference / (2.0 * variance), _LEAST, _MOST))
            self._rate = _KEPT * self._rate - (1.0 - _KEPT) * log(correlation) / apart
            self._weight = _KEPT * self._weight + (1.0 - _KEPT)

    def state_dict(self) -> list[float]:
        """Return what a checkpoint keeps."""
        return [self._rate, self._weight]

    def load_state_dict(self, state: list[float]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self._rate, self._weight = state


@torch.no_grad()
def _values(model: ActorCritic, trajectory: Trajectory) -> np.ndarray:
    """Return float64[parts], the critic's values where the parts of a trajectory begin."""
    begins = np.arange(_PARTS) * (trajectory.steps // _PARTS)
    observations = torch.from_numpy(trajectory.observations[begins])
    return model.values(model.normalise(observations)).double().numpy()
