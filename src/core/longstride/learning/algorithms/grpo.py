"""Group relative policy optimisation (Shao et al., "DeepSeekMath", arXiv 2402.03300) for long simulations.

As Liu et al., "Understanding R1-Zero-like training" (arXiv 2503.20783), propose, advantages are not divided by the
deviation of their group, every decision has the same weight, and nothing holds the policy near its start by default.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from longstride.learning.advantages import Total
from longstride.learning.algorithms.interface import Loss, PolicyOutputs, RolloutBatch, Samples, Targets
from longstride.learning.algorithms.ppo import LossTerms, PolicyTerms, PpoCoefficients, policy_terms, total_loss
from longstride.learning.group_advantages import group_advantages


@dataclass(frozen=True)
class Grpo:
    """Rollouts in groups that share start and random streams: an ``Algorithm`` of ``interface.py``.

    The members of a group follow each other in the rollout. There is no critic, so its coefficients are not used; they
    are those at the start of a run.
    """

    group_size: int
    coefficients: PpoCoefficients
    divide_by_group_deviation: bool = False
    needs_critic: ClassVar[bool] = False
    learns_from_all: ClassVar[bool] = False
    terms: ClassVar[tuple[str, ...]] = PolicyTerms._fields

    def targets(
        self, rollout: RolloutBatch, values: Sequence[np.ndarray], next_values: Sequence[np.ndarray]
    ) -> Targets:
        """Return the advantages of each group; steps that could not be compared, or made no difference, are left out.

        ``identical_groups`` counts the comparisons without a difference, out of ``compared_groups``.
        """
        starts = range(0, len(rollout.trajectories), self.group_size)
        groups = [
            group_advantages(rollout.trajectories[rows], rollout.discounts[rows], self.divide_by_group_deviation)
            for rows in (slice(begin, begin + self.group_size) for begin in starts)
        ]
        advantages = np.concatenate([each for group in groups for each in group.advantages])
        learned_from = np.concatenate([each for group in groups for each in group.compared])
        figures = {
            "compared_groups": sum(group.comparisons for group in groups),
            "identical_groups": sum(group.identical for group in groups),
            "compared_steps": int(learned_from.sum()),
        }
        scaled, figures = _of_unit_size(advantages, learned_from, rollout.total), _everywhere(figures, rollout.total)
        return Targets(scaled, np.zeros_like(scaled), learned_from, figures)

    def loss(self, outputs: PolicyOutputs, samples: Samples, weights: Tensor, coefficients: PpoCoefficients) -> Loss:
        """Return PPO's loss without a critic; see the protocol."""
        terms = policy_terms(outputs, samples, weights, coefficients.clip_range)
        return Loss(total_loss(LossTerms(value_loss=0.0, **terms._asdict()), coefficients), terms)


def _everywhere(counts: dict[str, int], total: Total | None) -> dict[str, int]:
    """Return counts added up over several processes."""
    if total is None:
        return counts
    return dict(zip(counts, total(np.array([*counts.values()], np.float64)).astype(int).tolist(), strict=True))


def _of_unit_size(advantages: np.ndarray, learned_from: np.ndarray, total: Total | None) -> np.ndarray:
    """Return float32[N] advantages divided by the root of their mean square over the steps that are learned from.

    One divisor for the whole rollout, of all processes: the groups keep their weights.
    """
    squares = np.square(advantages[learned_from])
    if total is None:
        size = float(np.sqrt(np.mean(squares))) if learned_from.any() else 0.0
    else:
        whole, count = total(np.array([squares.sum(dtype=np.float64), len(squares)]))
        size = float(np.sqrt(whole / count)) if count else 0.0
    scaled: np.ndarray = (advantages / size if size > 0.0 else advantages).astype(np.float32)
    return scaled
