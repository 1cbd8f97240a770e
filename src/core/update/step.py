"""One minibatch step: forward, loss, backward in microbatches; clip; optimiser."""

from dataclasses import dataclass

import torch
from torch import Tensor

from core.policy.networks import ActorCritic
from core.update.loss import Batch, LossTerms, ppo_loss
from core.update.precision import Precision, autocast, grad_scaler


@dataclass(frozen=True)
class StepSettings:
    """What a step needs to know.

    Attributes:
        clip_range: PPO's epsilon.
        entropy_coefficient: weight of the entropy bonus.
        value_coefficient: weight of the value loss.
        max_grad_norm: the gradients of actor and of critic are each clipped to this norm.
        microbatch: most samples in one forward pass (memory, not learning).
        precision: of the matrix products.
    """

    clip_range: float
    entropy_coefficient: float
    value_coefficient: float
    max_grad_norm: float
    microbatch: int
    precision: Precision


class Stepper:
    """Runs minibatch steps on one model.

    Args:
        model: changed by :meth:`step`.
        settings: constant over a run.
        learning_rate_actor: of Adam (Kingma and Ba, 2015), initially.
        learning_rate_critic: the same for the critic.
    """

    def __init__(
        self,
        model: ActorCritic,
        settings: StepSettings,
        learning_rate_actor: float,
        learning_rate_critic: float,
    ) -> None:
        self.model, self.settings = model, settings
        self.device = model.flat.device
        self._parts = [model.part_parameters("actor"), model.part_parameters("critic")]
        rates = (learning_rate_actor, learning_rate_critic)
        groups = [{"params": p, "lr": rate} for p, rate in zip(self._parts, rates, strict=True)]
        # Epsilon 1e-5 as in the reference implementations of PPO (Huang et al., "The 37 implementation details", 2022).
        self.optimizer = torch.optim.Adam(groups, eps=1e-5, fused=True)
        self.scaler = grad_scaler(self.device, settings.precision)

    def set_learning_rates(self, actor: float, critic: float) -> None:
        """Set the learning rates of the coming steps."""
        for group, rate in zip(self.optimizer.param_groups, (actor, critic), strict=True):
            group["lr"] = rate

    def step(self, rollout: Batch, indices: Tensor, weights: Tensor) -> Tensor:
        """Take one optimiser step.

        Args:
            rollout: all samples of the rollout on the device.
            indices: int64[S], the samples of this minibatch.
            weights: float32[S], their weights, which add up to 1.

        Returns:
            float32[7], the fields of :class:`LossTerms` for this minibatch before the step, still on the device.
        """
        self.optimizer.zero_grad(set_to_none=True)
        report = torch.zeros(len(LossTerms._fields), device=self.device)
        size = self.settings.microbatch
        for begin in range(0, len(indices), size):
            batch = gather(rollout, indices[begin : begin + size], weights[begin : begin + size])
            terms = self.loss(batch)
            self.scaler.scale(terms.total).backward()  # type: ignore[no-untyped-call]
            values = torch.stack([term.detach() for term in terms])
            largest = torch.maximum(report[-1], values[-1])  # the ratio error is a maximum, the others are sums
            report += values
            report[-1] = largest
        self.scaler.unscale_(self.optimizer)
        for part in self._parts:
            torch.nn.utils.clip_grad_norm_(part, self.settings.max_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return report

    def loss(self, batch: Batch) -> LossTerms:
        """Return the loss terms of some samples."""
        with autocast(self.device, self.settings.precision):
            logits = self.model.logits(batch.observations)
            values = self.model.values(batch.observations)
        s = self.settings
        return ppo_loss(logits, values, batch, s.clip_range, s.entropy_coefficient, s.value_coefficient)


def gather(rollout: Batch, indices: Tensor, weights: Tensor) -> Batch:
    """Return the samples at some indices, with these weights."""
    return Batch(*(column.index_select(0, indices) for column in rollout[:-1]), weights)
