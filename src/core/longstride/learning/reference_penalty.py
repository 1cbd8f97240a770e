"""A penalty on leaving the policy that a run began with: part of the reward, as in RLHF."""

from collections import deque

import numpy as np
import torch
from torch import Tensor

from longstride.learning.algorithms.interface import RolloutBatch, Samples
from longstride.learning.steps.interface import Stepper
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
        self._reference = ActorCritic(model.spec, model.flat.device)
        with torch.no_grad():
            self._reference.flat.copy_(model.flat)

    def charge(self, stepper: Stepper, rollout: RolloutBatch, samples: Samples) -> RolloutBatch:
        """Return a rollout whose rewards have the penalty taken off; samples are those of all its steps."""
        log_probs = self._log_probs(stepper, samples).cpu().numpy()
        penalties = np.split(log_probs, np.cumsum([t.steps for t in rollout.trajectories])[:-1])
        trajectories = [
            t._replace(rewards=t.rewards - np.float32(self._coefficient) * (t.log_probs - reference))
            for t, reference in zip(rollout.trajectories, penalties, strict=True)
        ]
        return rollout._replace(trajectories=trajectories)

    @torch.no_grad()
    def _log_probs(self, stepper: Stepper, samples: Samples) -> Tensor:
        """Return float32[N], log-probabilities of the samples' actions under the reference."""
        reference, log_probs = self._reference, torch.empty_like(samples.log_probs)
        for name in ("observation_mean", "observation_scale"):
            reference.tensors[name].copy_(stepper.model.tensors[name])

        @torch.no_grad()
        def evaluate(chunk: tuple[Tensor, ...]) -> None:
            observations, features, masks, actions, result = chunk
            outputs = reference.logits(reference.normalise(observations), features)
            result.copy_(reference.distribution(outputs, reference.log_std, masks, actions)[0])

        columns = samples.observations, samples.features, samples.masks, samples.actions, log_probs
        run = stepper.memory.run
        run("reference", len(log_probs), lambda: deque(stepper.memory.map_microbatches(evaluate, *columns), maxlen=0))
        return log_probs
