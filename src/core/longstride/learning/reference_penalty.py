"""A penalty on leaving the policy that a run began with: part of the reward, as in RLHF."""

import numpy as np
import torch

from longstride.learning.algorithms.interface import RolloutBatch, Samples
from longstride.learning.steps.interface import Stepper
from longstride.learning.steps.log_probs import log_probs_under
from longstride.policies.networks import ActorCritic


class Penalty:
    """Charges each decision for the log-ratio of the policy to a reference, times a coefficient.

    The log-ratio is the estimator k1 of the KL divergence (Schulman, "Approximating KL divergence", 2020). In the
    reward its gradient is that of the divergence; in the loss it would not be (Tang and Munos, "On a few pitfalls in KL
    divergence gradient estimation for RL", 2025). The reference is a copy of ``model``, but for the scales of the
    observations, which are those of the present policy.
    """

    def __init__(self, model: ActorCritic, coefficient: float) -> None:
        self._coefficient = coefficient
        self._reference = ActorCritic(model.spec, model.flat.device, on_card=model.on_card)
        with torch.no_grad():
            self._reference.flat.copy_(model.flat)

    def charge(self, stepper: Stepper, rollout: RolloutBatch, samples: Samples) -> RolloutBatch:
        """Return a rollout whose rewards have the penalty taken off; samples are those of all its steps."""
        for name in ("observation_mean", "observation_scale"):
            self._reference.tensors[name].copy_(stepper.model.tensors[name])
        log_probs = log_probs_under(self._reference, samples, stepper.memory, "reference").cpu().numpy()
        penalties = rollout.split(log_probs)
        trajectories = [
            t._replace(rewards=t.rewards - np.float32(self._coefficient) * (t.log_probs - reference))
            for t, reference in zip(rollout.trajectories, penalties, strict=True)
        ]
        return rollout._replace(trajectories=trajectories)
