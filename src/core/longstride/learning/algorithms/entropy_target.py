"""A target under the entropy of a policy that falls over a run, held by a dual variable.

As in soft actor-critic (Haarnoja et al., "Soft actor-critic algorithms and applications", arXiv 1812.05905, section 5),
the weight of the entropy bonus rises while the entropy is below its target and falls while it is above. The target is a
share of the most that is possible: the mean over the steps of the logarithm of the number of allowed actions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longstride.learning.distributed.ranks import ALONE, Ranks
from longstride.learning.schedule import Coefficients
from longstride.rollout.trajectory import Trajectory

_UNTIL = 0.5
"""Share of the run after which the target is 0. The weight that held it then falls evenly, to 0 at the end of the run:
without it a policy may collapse within a few iterations."""

_RISE, _FALL, _MOST_AT_ONCE = 6.0, 0.25, 1.5
"""Change of the weight's logarithm for each unit below the target and above it, and the largest factor at once. Entropy
can fall within a few iterations, before which the weight must not have fallen."""

_FIRST, _LEAST, _MOST = 0.3, 1e-3, 10.0
"""Weight at first, and its bounds."""

_FIXED = 0.02
"""Share of the most possible entropy below which a policy is as good as fixed."""

_STRIDE = 8
"""Of so many steps one is looked at for the number of allowed actions."""


@dataclass
class EntropyTarget:
    """The target of a run's entropy, and the weight of the bonus that holds it.

    Attributes:
        start: share of the most possible entropy that the target begins with; 0 for no target.
        choices: numbers of values of each choice of an action; real-valued actions have none.
        weight: weight of the entropy bonus now.
        share: entropy of the last update's policy as a share of the most possible; None where that is not known.
    """

    start: float
    choices: Sequence[int] = ()
    weight: float = _FIRST
    share: float | None = None

    def at(self, share_done: float) -> float:
        """Return the target after a share of the run."""
        return self.start * max(1.0 - share_done / _UNTIL, 0.0)

    def held(self, coefficients: Coefficients, share_done: float) -> Coefficients:
        """Return the coefficients of the next update, with the weight of the bonus where it is above the scheduled.

        The loss of a program's algorithm may have no such bonus.
        """
        scheduled = getattr(coefficients.loss, "entropy_coefficient", None)
        if scheduled is None or self.start == 0.0 or not self.choices:
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
        total, count = np.array(ranks.gather(allowed_entropy(trajectories, self.choices))).sum(axis=0).tolist()
        self.share = entropy * count / total if entropy is not None and total > 0.0 else None
        target = self.at(share_done)
        if self.share is not None and target > 0.0:
            missing = target - self.share
            factor = min(math.exp((_RISE if missing > 0.0 else _FALL) * missing), _MOST_AT_ONCE)
            self.weight = min(max(self.weight * factor, _LEAST), _MOST)
        elif self.share is None:
            self.weight = 0.0

    @property
    def can_move(self) -> bool:
        """Whether the policy is far enough from a fixed one for a small divergence to mean small steps."""
        return self.left > _FIXED

    @property
    def left(self) -> float:
        """Share of the most possible entropy that is left, 0 .. 1; 1 where it is not known."""
        return 1.0 if self.share is None else self.share

    def figures(self, share_done: float) -> dict[str, float | None]:
        """Return what metrics.jsonl holds of it after an iteration."""
        return {"entropy_share": self.share, "entropy_target": self.at(share_done)}

    def state_dict(self) -> dict[str, Any]:
        """Return the JSON values that a checkpoint keeps."""
        return {"weight": self.weight, "share": self.share}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned; keep the first weight where there is nothing."""
        self.weight, self.share = state.get("weight", self.weight), state.get("share")


def allowed_entropy(trajectories: Sequence[Trajectory], choices: Sequence[int]) -> tuple[float, int]:
    """Return the sum over some steps of the most possible entropy in nats, and their number.

    Choices are the numbers of values of each choice of an action; real-valued actions have none, and a sum of 0.
    """
    total, count = 0.0, 0
    for trajectory in trajectories:
        rows = slice(None, None, _STRIDE)
        if trajectory.has_lists:
            sizes = [np.diff(trajectory.feasible[:, 0], prepend=0)[rows]]
        else:
            ends = np.cumsum(choices, dtype=np.int64)[:-1]
            sizes = [part.sum(axis=1) for part in np.split(trajectory.masks[rows], ends, axis=1)]
        total += sum(float(np.log(np.maximum(size, 1)).sum()) for size in sizes)
        count += len(trajectory.rewards[rows])
    return total, count
