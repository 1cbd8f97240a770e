"""Running scales of the descriptions of actions, as those of observations."""

from collections.abc import Sequence

import numpy as np
import torch

from longstride.learning.distributed.ranks import ALONE, Ranks, flattened
from longstride.policies.networks import ActorCritic
from longstride.policies.observation_normalizer import RunningStatistics, statistics_of, thinned
from longstride.policies.parameter_layout import ACTION_MEAN, ACTION_SCALE
from longstride.rollout.trajectory import Trajectory

PREFIX = "descriptions."
"""Begin of the names of the statistics in a checkpoint."""


class DescriptionScales:
    """Mean and standard deviation of each figure, over the feasible actions of all rollouts so far.

    ``statistics`` is None for policies that score no actions, for which nothing happens.
    """

    def __init__(self, model: ActorCritic) -> None:
        self._model = model
        size = model.spec.action_features
        self.statistics = RunningStatistics.empty(size) if model.spec.scores_actions else None

    def learn(self, trajectories: Sequence[Trajectory], ranks: Ranks = ALONE) -> None:
        """Include the descriptions of a rollout of all ranks, and set the scales of the model."""
        if self.statistics is None:
            return
        for batch in flattened(ranks.gather([statistics_of(thinned(t.features)) for t in trajectories])):
            self.statistics.include(batch)
        shift, scale = self.statistics.shift_and_scale()
        self._model.tensors[ACTION_MEAN].copy_(torch.from_numpy(shift))
        self._model.tensors[ACTION_SCALE].copy_(torch.from_numpy(scale))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a checkpoint by name."""
        return {} if self.statistics is None else {f"{PREFIX}{n}": a for n, a in vars(self.statistics).items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`arrays` returned."""
        if self.statistics is not None:
            self.statistics = RunningStatistics(**{n: arrays[f"{PREFIX}{n}"] for n in vars(self.statistics)})
