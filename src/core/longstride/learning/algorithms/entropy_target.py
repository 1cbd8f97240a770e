"""A target under the entropy of a policy that falls over a run, held by a dual variable.

As in soft actor-critic (Haarnoja et al., "Soft actor-critic algorithms and applications", arXiv 1812.05905, section 5),
the weight of the entropy bonus rises while the entropy is below its target and falls while it is above. It waits while
the entropy is below but comes back: a policy follows only after some updates, and the weight would be far too large by
then.

The target is the entropy of a policy that takes other values than its favourite one with some probability, all of them
equally often. This probability is the same for any number of allowed values. It is named by its entropy for two of
them, as a share of the most possible. The same share for nine values would ask for others more than twice as often.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from longstride.learning.algorithms.entropy_floor import hold_floor
from longstride.learning.distributed.ranks import ALONE, Ranks
from longstride.learning.schedule import Coefficients
from longstride.policies.networks import ActorCritic
from longstride.rollout.trajectory import Trajectory

_UNTIL = 0.5
"""Share of the run after which the target is 0. The weight that held it then falls evenly, to 0 at the end of the run:
without it a policy may collapse within a few iterations."""

_RISE, _FALL, _MOST_AT_ONCE = 6.0, 0.25, 1.5
"""Change of the weight's logarithm for each unit below the target and above it, and the largest factor at once. Entropy
can fall within a few iterations, before which the weight must not have fallen."""

_FIRST, _LEAST, _MOST = 0.3, 1e-3, 10.0
"""Weight at first, and its bounds."""

_FLOOR = 0.5
"""Share of the target below which no update leaves the entropy."""

_FIXED = 0.02
"""Share of the most possible entropy below which a policy is as good as fixed."""

_HALVINGS = 50
"""Halvings of an interval in which a probability is looked for."""

_STRIDE = 8
"""Of so many steps one is looked at for the number of allowed actions."""


class Possible(NamedTuple):
    """What allowed actions say of the entropies that are possible, as sums over some steps."""

    most: float  # of the largest entropies, in nats
    free: int  # of the choices that have more than one allowed value
    others: float  # of the logarithms of the numbers of values besides one, over these choices
    steps: int  # number of the steps

    def entropy(self, often: float) -> float:
        """Return the sum of the entropies where each free choice takes another value than its favourite so often."""
        return self.free * binary_entropy(often) + self.others * often


@dataclass
class EntropyTarget:
    """The target of a run's entropy, and the weight of the bonus that holds it.

    Attributes:
        start: target of a choice of two values at first, as a share of its most possible entropy; 0 for no target.
        choices: numbers of values of each choice of an action; real-valued actions have none.
        weight: weight of the entropy bonus now.
        share: entropy of the last update's policy as a share of the most possible; None where that is not known.
        target: target of that update, as a share of the same.
        factor: factor of the logits that has kept its policy at the floor; 1 where it was above.
        is_held: whether the algorithm has a bonus whose weight holds the target.
    """

    start: float
    choices: Sequence[int] = ()
    weight: float = _FIRST
    share: float | None = None
    target: float = 0.0
    factor: float = 1.0
    is_held: bool = False

    def at(self, share_done: float) -> float:
        """Return the target of a choice of two values after a share of the run."""
        return self.start * max(1.0 - share_done / _UNTIL, 0.0)

    def held(self, coefficients: Coefficients, share_done: float) -> Coefficients:
        """Return the coefficients of the next update, with the weight of the bonus where it is above the scheduled.

        The loss of a program's algorithm may have no such bonus.
        """
        scheduled = getattr(coefficients.loss, "entropy_coefficient", None)
        self.is_held = scheduled is not None and self.start > 0.0 and len(self.choices) > 0
        if scheduled is None or not self.is_held:
            return coefficients
        weight = max(scheduled, self.weight * min((1.0 - share_done) / (1.0 - _UNTIL), 1.0))
        return coefficients._replace(loss=coefficients.loss._replace(entropy_coefficient=weight))

    def learn(
        self,
        entropy: float | None,
        trajectories: Sequence[Trajectory],
        share_done: float,
        ranks: Ranks = ALONE,
    ) -> None:
        """Take note of an update's mean entropy, in nats, and of this rank's part of its rollout."""
        possible, before = self._possible(trajectories, ranks), self.share
        known = entropy is not None and possible.most > 0.0
        self.share = entropy * possible.steps / possible.most if entropy is not None and known else None
        self.target = possible.entropy(often_of(self.at(share_done))) / possible.most if known else 0.0
        if self.share is not None and self.target > 0.0:
            missing = self.target - self.share
            comes_back = before is not None and self.share > before and self.factor == 1.0  # by itself
            if missing <= 0.0 or not comes_back:
                factor = min(math.exp((_RISE if missing > 0.0 else _FALL) * missing), _MOST_AT_ONCE)
                self.weight = min(max(self.weight * factor, _LEAST), _MOST)
        elif self.share is None:
            self.weight = 0.0

    def hold_floor(self, model: ActorCritic, trajectories: Sequence[Trajectory], ranks: Ranks = ALONE) -> None:
        """Keep the policy of a model on the CPU at half of the target at least, in the last update's rollout."""
        self.factor = hold_floor(model, trajectories, _FLOOR * self.target * self.is_held, ranks)

    def _possible(self, trajectories: Sequence[Trajectory], ranks: Ranks) -> Possible:
        """Return the entropies that are possible in the rollouts of all ranks."""
        return Possible(*np.array(ranks.gather(possible_entropy(trajectories, self.choices))).sum(axis=0).tolist())

    @property
    def can_move(self) -> bool:
        """Whether the policy is far enough from a fixed one for a small divergence to mean small steps."""
        return self.left > _FIXED

    @property
    def left(self) -> float:
        """Share of the most possible entropy that is left, 0 .. 1; 1 where it is not known."""
        return 1.0 if self.share is None else self.share

    def figures(self) -> dict[str, float | None]:
        """Return what metrics.jsonl holds of it after an iteration."""
        return {"entropy_share": self.share, "entropy_target": self.target, "logit_factor": self.factor}

    def state_dict(self) -> dict[str, Any]:
        """Return the JSON values that a checkpoint keeps."""
        return {"weight": self.weight, "share": self.share, "factor": self.factor}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned; keep the first weight where there is nothing."""
        self.weight, self.share = state.get("weight", self.weight), state.get("share")
        self.factor = state.get("factor", 1.0)


def binary_entropy(probability: float) -> float:
    """Return the entropy in nats of a choice of two values, one of which has this probability."""
    return -sum(p * math.log(p) for p in (probability, 1.0 - probability) if p > 0.0)


def often_of(share: float) -> float:
    """Return the probability of the rarer of two values, 0 .. 0.5, whose entropy is this share of the most possible."""
    low, high = 0.0, 0.5
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if binary_entropy(middle) < share * math.log(2.0) else (low, middle)
    return low


def possible_entropy(trajectories: Sequence[Trajectory], choices: Sequence[int]) -> Possible:
    """Return what the allowed actions of some steps say of possible entropies.

    Choices are the numbers of values of each choice of an action; real-valued actions have none, and sums of 0.
    """
    most, free, others, steps = 0.0, 0, 0.0, 0
    for trajectory in trajectories:
        rows = slice(None, None, _STRIDE)
        if trajectory.has_lists:
            sizes = [np.diff(trajectory.feasible[:, 0], prepend=0)[rows]]
        else:
            ends = np.cumsum(choices, dtype=np.int64)[:-1]
            sizes = [part.sum(axis=1) for part in np.split(trajectory.masks[rows], ends, axis=1)]
        for size in sizes:
            most += float(np.log(np.maximum(size, 1)).sum())
            free += int((size > 1).sum())
            others += float(np.log(np.maximum(size - 1, 1)).sum())
        steps += len(trajectory.rewards[rows])
    return Possible(most, free, others, steps)
