"""The update of an episode: values, advantages, epochs over minibatches, on the device that the plan chose."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.learning.advantages import compile_advantages
from core.learning.algorithms.ppo import Batch, LossTerms
from core.learning.device_transfer import DeviceBuffers, ModelTransfer, synchronise
from core.learning.divergence import DivergenceGuard
from core.learning.minibatches import minibatch_shape, split
from core.learning.prepare_batch import Lambdas, prepare_rollout, upload_observations
from core.learning.step_selection.autotune import StepRunner
from core.learning.step_selection.executor import Executor
from core.learning.steps.cpu_kernels.stepper import KernelStepper
from core.learning.steps.interface import Stepper, StepSettings
from core.learning.steps.torch_step import TorchStepper
from core.learning.update_stats import UpdateReport, figures_of_steps, finite
from core.learning.value_scale import rescale_values
from core.policies.networks import ActorCritic
from core.rollout.trajectory import Trajectory

_GUARD_FACTS = "rate_factor", "fallbacks", "streak"


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
        executions = step_settings.executions
        stepper = KernelStepper if executions == ("compiled",) else TorchStepper
        self.stepper: Stepper = stepper(self.model, step_settings, *rates, settings.epsilon_actor)
        executor = Executor(self.stepper, "compiled" if executions == ("compiled",) else "eager")
        self.runner = StepRunner(executor, executions, settings.batch_size)
        self.columns = DeviceBuffers(device)
        self.guard = DivergenceGuard(self.stepper)

    def compile(self) -> float:
        """Compile what updates need, or load it; return the seconds it took."""
        begin = time.perf_counter()
        self.stepper.compile()
        compile_advantages()
        return time.perf_counter() - begin

    def update(
        self,
        trajectories: list[Trajectory],
        discounts: list[np.ndarray],
        rng: np.random.Generator,
        learning_rate_factor: float = 1.0,
        value_lambdas: list[np.ndarray] | None = None,
    ) -> UpdateReport:
        """Improve the model from the episodes that its CPU copy has just played.

        Args:
            trajectories: the episodes.
            discounts: float64[T] of each.
            rng: source of the permutations.
            learning_rate_factor: of the schedule, 1 at the start.
            value_lambdas: float64[T] of each, from t to t + 1; the setting's number everywhere by default.
        """
        begin = time.perf_counter()
        settings, stepper = self.settings, self.stepper
        stepper.set_learning_rates(
            settings.learning_rate_actor * learning_rate_factor, settings.learning_rate_critic * learning_rate_factor
        )
        self.transfer.start_iteration()
        self.transfer.to_device()
        samples = sum(t.steps for t in trajectories)
        stepper.memory.run("snapshot", samples, self.guard.start_update)
        begin_upload = time.perf_counter()
        self.columns.keep = self.runner.captures
        observations = upload_observations(stepper, trajectories, self.columns)
        synchronise(self.device)
        upload_seconds = time.perf_counter() - begin_upload
        value_lambdas = value_lambdas or [np.full(t.steps, settings.value_lambda) for t in trajectories]
        lambdas = Lambdas(settings.gae_lambda, value_lambdas)
        prepared = stepper, trajectories, discounts, observations, lambdas, self.columns
        rollout, explained_variance = prepare_rollout(*prepared)
        reports, epochs = self._epochs(rollout, rng)
        skipped = int(reports[:, -1].sum())
        fallback = self.guard.end_update(len(reports), skipped)
        self.transfer.to_host()
        synchronise(self.device)
        notes = self.runner.take_notes()
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
            update_seconds=time.perf_counter() - begin - transfer_seconds - notes.seconds,
            out_of_memory=[event._asdict() for event in stepper.memory.take_events()],
            fallbacks=[fallback._asdict()] if fallback else [],
            execution=self.runner.executor.execution,
            execution_notes=notes.sentences,
            execution_trials=[trial._asdict() for trial in notes.trials],
            execution_seconds=notes.seconds,
        )

    def rollback(self, reason: str) -> dict[str, Any]:
        """Go back to the last good weights outside of an update; return what :class:`Fallback` says.

        Raises:
            DivergedError: there are none, or all remedies have been tried.
        """
        fallback = self.guard.rollback(reason)
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
            "execution": self.runner.chosen,
            **{name: getattr(guard, name) for name in _GUARD_FACTS},
        }

    def restore_recovery(self, facts: dict[str, Any]) -> None:
        """Go on with what :meth:`recovery_facts` returned, unless something else is planned now."""
        if facts.get("planned") != self.recovery_facts()["planned"]:
            return
        self.stepper.memory.microbatch = facts["microbatch"]
        self.stepper.use_precision(facts["precision"])
        self.runner.go_on_with(facts.get("execution"))
        for name in _GUARD_FACTS:
            setattr(self.guard, name, facts[name])

    def receive(self) -> None:
        """Copy the host's weights to the device outside of an episode, after they were restored."""
        self.transfer.to_device()

    def rescale_values(self, factor: float) -> None:
        """Multiply all that the host's critic says, before an update whose rewards are in other units."""
        rescale_values(self.host, factor)

    def _epochs(self, rollout: Batch, rng: np.random.Generator) -> tuple[Tensor, int]:
        """Run the epochs; return float32[steps, 8], what the steps returned, and the number of epochs done."""
        reports: list[Tensor] = []
        for epoch in range(1, self.settings.epochs + 1):
            indices, weights = split(len(rollout.actions), self.settings.batch_size, rng)
            reports.append(self.runner.epoch(rollout, indices, weights))
            if self.settings.target_kl > 0.0 and epoch < self.settings.epochs:
                kl = reports[-1][:, LossTerms._fields.index("approx_kl")].mean().item()
                if kl > 1.5 * self.settings.target_kl:
                    break
        return torch.cat(reports).cpu(), epoch


def _copy_to(host: ActorCritic, device: torch.device) -> ActorCritic:
    """Return a model of the same architecture and weights on another device."""
    model = ActorCritic(host.spec, device)
    with torch.no_grad():
        model.flat.copy_(host.flat)
    return model
