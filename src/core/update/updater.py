"""The update of an episode: values, advantages, epochs over minibatches, on the device that the plan chose."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.policy.networks import ActorCritic
from core.rollout.trajectory import Trajectory
from core.update.advantage import following_values, gae
from core.update.compiled.stepper import CompiledStepper
from core.update.divergence import DivergenceGuard
from core.update.loss import Batch, LossTerms
from core.update.minibatches import minibatch_shape, split
from core.update.report import UpdateReport, figures_of_steps, finite
from core.update.step import Stepper, StepSettings
from core.update.transfer import ModelTransfer, synchronise, upload

_GUARD_FACTS = "rate_factor", "fallbacks", "streak"

_VALUE_MEMORY = 0.9
"""Share of the old statistics that each rollout's returns leave of the value normalisation."""


@dataclass(frozen=True)
class UpdateSettings:
    """What an update needs to know beside :class:`StepSettings`.

    Attributes:
        epochs: passes over the samples.
        batch_size: most samples in a minibatch.
        gae_lambda: of generalised advantage estimation, for the actor.
        value_lambda: the same for the critic's targets. Closer to 1 than the actor's (Yuan et al., "VAPO", 2025,
            decoupled GAE): the critic averages noise over samples, but learns slowly from its own bias.
        target_kl: the epochs end when an epoch's mean approximate KL divergence exceeds 1.5 times this; 0 for never.
        learning_rate_actor: initial.
        learning_rate_critic: initial.
        epsilon_actor: of the actor's Adam.
    """

    epochs: int
    batch_size: int
    gae_lambda: float
    value_lambda: float
    target_kl: float
    learning_rate_actor: float
    learning_rate_critic: float
    epsilon_actor: float


class Updater:
    """Owns the model on the update's device and its optimiser.

    Args:
        host: the model whose actor the CPU copy reads; on the CPU it is also the one that is trained.
        device: where updates run.
        settings: of the update.
        step_settings: of its steps.
    """

    def __init__(
        self, host: ActorCritic, device: torch.device, settings: UpdateSettings, step_settings: StepSettings
    ) -> None:
        self.host, self.device, self.settings = host, device, settings
        self.model = host if device.type == "cpu" else _copy_to(host, device)
        self.transfer = ModelTransfer(host, self.model)
        rates = settings.learning_rate_actor, settings.learning_rate_critic
        stepper = CompiledStepper if step_settings.execution == "compiled" else Stepper
        self.stepper: Stepper = stepper(self.model, step_settings, *rates, settings.epsilon_actor)
        self.guard = DivergenceGuard(self.stepper)

    def compile(self) -> float:
        """Compile what updates need, or load it; return the seconds it took."""
        begin = time.perf_counter()
        self.stepper.compile()
        no, numbers = np.zeros(1, np.bool_), np.zeros(1, np.float32)
        gae(numbers, numbers, numbers, np.zeros(1), no, no, 1.0)
        return time.perf_counter() - begin

    def update(
        self,
        trajectories: list[Trajectory],
        discounts: list[np.ndarray],
        rng: np.random.Generator,
        learning_rate_factor: float = 1.0,
    ) -> UpdateReport:
        """Improve the model from the episodes that its CPU copy has just played.

        Args:
            trajectories: the episodes.
            discounts: float64[T] of each.
            rng: source of the permutations.
            learning_rate_factor: of the schedule, 1 at the start.
        """
        begin = time.perf_counter()
        settings, memory = self.settings, self.stepper.memory
        self.stepper.set_learning_rates(
            settings.learning_rate_actor * learning_rate_factor, settings.learning_rate_critic * learning_rate_factor
        )
        self.transfer.start_episode()
        self.transfer.to_device()
        self.guard.start_update()
        begin_upload = time.perf_counter()
        samples = sum(t.steps for t in trajectories)
        observations, final_observations = memory.run("upload", samples, lambda: self._upload(trajectories))
        synchronise(self.device)
        upload_seconds = time.perf_counter() - begin_upload
        rollout, explained_variance = self._prepare(trajectories, discounts, observations, final_observations)
        reports, epochs = self._epochs(rollout, rng)
        skipped = int(reports[:, -1].sum())
        fallback = self.guard.end_update(len(reports), skipped)
        self.transfer.to_host()
        synchronise(self.device)
        transfer_seconds = self.transfer.seconds + (upload_seconds if self.device.type != "cpu" else 0.0)
        return UpdateReport(
            **figures_of_steps(reports),
            explained_variance=finite(explained_variance),
            epochs=epochs,
            optimizer_steps=len(reports),
            skipped_steps=skipped,
            batch_size=minibatch_shape(samples, settings.batch_size)[1],
            model_transfers=self.transfer.count,
            transfer_seconds=transfer_seconds,
            update_seconds=time.perf_counter() - begin - transfer_seconds,
            out_of_memory=[event._asdict() for event in memory.take_events()],
            fallbacks=[fallback._asdict()] if fallback else [],
        )

    def fall_back(self, reason: str) -> dict[str, Any]:
        """Go back to the last good weights outside of an update; return what :class:`Fallback` says.

        Raises:
            DivergedError: there are none, or all remedies have been tried.
        """
        fallback = self.guard.fall_back(reason)
        self.transfer.to_host()
        return fallback._asdict()

    def recovery_facts(self) -> dict[str, Any]:
        """Return JSON values: what was planned, and what failures have made of it."""
        step, guard = self.stepper.settings, self.guard
        rates = self.settings.learning_rate_actor, self.settings.learning_rate_critic
        return {
            "planned": [step.microbatch, step.precision, *rates],
            "microbatch": self.stepper.memory.microbatch,
            "precision": self.stepper.precision,
            **{name: getattr(guard, name) for name in _GUARD_FACTS},
        }

    def restore_recovery(self, facts: dict[str, Any]) -> None:
        """Go on with what :meth:`recovery_facts` returned, unless something else is planned now."""
        if facts.get("planned") != self.recovery_facts()["planned"]:
            return
        self.stepper.memory.microbatch = facts["microbatch"]
        self.stepper.use_precision(facts["precision"])
        for name in _GUARD_FACTS:
            setattr(self.guard, name, facts[name])

    def receive(self) -> None:
        """Copy the host's weights to the device outside of an episode, after they were restored."""
        self.transfer.to_device()

    def _upload(self, trajectories: list[Trajectory]) -> tuple[Tensor, Tensor]:
        """Return the observations on the device: those with a decision, and of each trajectory those beyond."""
        beyond = np.concatenate([part for t in trajectories for part in (t.observations[-1:], t.cut_observations)])
        return upload([t.observations[:-1] for t in trajectories], self.device), upload([beyond], self.device)

    @torch.no_grad()
    def rescale_values(self, factor: float) -> None:
        """Multiply all that the host's critic says, before an update whose rewards are in other units."""
        if self._knows_returns(self.host):
            for name in ("value_mean", "value_std"):
                self.host.tensors[name].mul_(factor)

    @staticmethod
    def _knows_returns(model: ActorCritic) -> bool:
        """Return whether the value normalisation has seen returns; a fresh model's is mean 0 and deviation 1."""
        return not (model.tensors["value_mean"].item() == 0.0 and model.tensors["value_std"].item() == 1.0)

    @np.errstate(over="ignore", invalid="ignore")  # numbers that have exploded are looked for below
    def _prepare(
        self,
        trajectories: list[Trajectory],
        discounts: list[np.ndarray],
        observations: Tensor,
        final_observations: Tensor,
    ) -> tuple[Batch, float]:
        """Value the observations, estimate advantages, and return the rollout on the device.

        ``final_observations`` are, of each trajectory, the last one and those after its cuts.
        """
        values, final_values = self._values(observations), self._values(final_observations)
        pieces = np.split(values, np.cumsum([t.steps for t in trajectories])[:-1])
        finals = np.split(final_values, np.cumsum([1 + len(t.cut_observations) for t in trajectories])[:-1])
        results = []
        for t, discount, v, beyond in zip(trajectories, discounts, pieces, finals, strict=True):
            following = following_values(v, t.truncated, beyond)
            data = (t.rewards, v, following, discount, t.terminated, t.terminated | t.truncated)
            results.append((gae(*data, self.settings.gae_lambda)[0], gae(*data, self.settings.value_lambda)[1]))
        advantages, returns = (np.concatenate(columns) for columns in zip(*results, strict=True))
        explained_variance = 1.0 - float(np.var(returns - values)) / max(float(np.var(returns)), 1e-12)
        spread = max(float(advantages.std()), 1e-8)
        if np.isfinite(spread) and np.isfinite(returns.std()):
            self._renormalise_values(returns)
        else:  # the critic has diverged: no step of this update may be taken
            advantages[:] = np.nan
        mean, std = self.model.tensors["value_mean"].item(), self.model.tensors["value_std"].item()
        advantages = (advantages - advantages.mean()) / spread
        normalised = advantages, *((column - np.float32(mean)) / np.float32(std) for column in (returns, values))
        rest = self.stepper.memory.run("upload", len(values), lambda: self._upload_rest(trajectories, *normalised))
        return rest._replace(observations=observations), explained_variance

    def _upload_rest(
        self, trajectories: list[Trajectory], advantages: np.ndarray, returns: np.ndarray, values: np.ndarray
    ) -> Batch:
        """Return the rollout on the device, without its observations."""
        return Batch(
            observations=torch.empty(0),
            actions=upload([t.actions for t in trajectories], self.device),
            log_probs=upload([t.log_probs for t in trajectories], self.device),
            masks=upload([t.masks for t in trajectories], self.device),
            features=upload([t.features for t in trajectories], self.device),
            advantages=upload([advantages], self.device),
            returns=upload([returns], self.device),
            values=upload([values], self.device),
            weights=torch.empty(0),
        )

    def _values(self, observations: Tensor) -> np.ndarray:
        """Return float32[rows], the critic's values in units of the reward."""

        @torch.no_grad()
        def evaluate(chunk: tuple[Tensor, ...]) -> Tensor:
            return self.model.values(self.model.normalise(chunk[0]))

        normalised = self.stepper.memory.run(
            "values", len(observations), lambda: torch.cat(list(self.stepper.map_chunks(evaluate, observations)))
        )
        values = normalised * self.model.tensors["value_std"] + self.model.tensors["value_mean"]
        return np.asarray(values.cpu().numpy())

    @torch.no_grad()
    def _renormalise_values(self, returns: np.ndarray) -> None:
        """Move the value normalisation towards these returns and keep what the critic says unchanged.

        The critic's head is rescaled (van Hasselt et al., "Learning values across many orders of magnitude", 2016,
        equation 6), so no scale of the reward has to be chosen by hand.
        """
        tensors = self.model.tensors
        mean, std = tensors["value_mean"].item(), tensors["value_std"].item()
        new_mean, new_std = float(returns.mean()), max(float(returns.std()), 1e-6)
        if self._knows_returns(self.model):
            new_mean = _VALUE_MEMORY * mean + (1 - _VALUE_MEMORY) * new_mean
            new_std = _VALUE_MEMORY * std + (1 - _VALUE_MEMORY) * new_std
            weight, bias = self.model.layers("critic")[-1]
            weight.mul_(std / new_std)
            bias.mul_(std).add_(mean - new_mean).div_(new_std)
        tensors["value_mean"].fill_(new_mean)
        tensors["value_std"].fill_(new_std)

    def _epochs(self, rollout: Batch, rng: np.random.Generator) -> tuple[Tensor, int]:
        """Run the epochs; return float32[steps, 8], what the steps returned, and the number of epochs done."""
        reports: list[Tensor] = []
        for epoch in range(1, self.settings.epochs + 1):
            indices, weights = split(len(rollout.actions), self.settings.batch_size, rng)
            device_indices, device_weights = upload([indices], self.device), upload([weights], self.device)
            for i, w in zip(device_indices, device_weights, strict=True):
                reports.append(self.stepper.step(rollout, i, w))
            if self.settings.target_kl > 0.0 and epoch < self.settings.epochs:
                kl = torch.stack(reports[-len(indices) :])[:, LossTerms._fields.index("approx_kl")].mean().item()
                if kl > 1.5 * self.settings.target_kl:
                    break
        return torch.stack(reports).cpu(), epoch


def _copy_to(host: ActorCritic, device: torch.device) -> ActorCritic:
    """Return a model of the same architecture and weights on another device."""
    model = ActorCritic(
        host.actor_sizes,
        host.critic_sizes,
        host.activation_name,
        device,
        space=host.space,
        action_features=host.action_features,
    )
    with torch.no_grad():
        model.flat.copy_(host.flat)
    return model
