"""The update of an iteration: values, advantages, epochs over minibatches, on the device that the plan chose."""

import math
import time
from collections.abc import Generator
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from longstride.hardware.types import Execution, Precision
from longstride.learning.advantages import compile_advantages
from longstride.learning.algorithms.interface import Algorithm, RolloutBatch, Samples
from longstride.learning.batch.prepare import Prepared, prepare_batch
from longstride.learning.batch.upload import upload_rollout
from longstride.learning.device_transfer import DeviceBuffers, ModelTransfer, synchronise
from longstride.learning.distributed.minibatch_drawer import MinibatchDrawer
from longstride.learning.distributed.ranks import ALONE, Ranks
from longstride.learning.divergence import DivergenceGuard
from longstride.learning.gradient_noise import GradientNoise, gradient_noise
from longstride.learning.memory.chunks import ChunkRows, chunk_rows
from longstride.learning.minibatches import Minibatches, minibatch_shape
from longstride.learning.reference_penalty import Penalty
from longstride.learning.schedule import Coefficients
from longstride.learning.step_selection.autotune import StepRunner
from longstride.learning.step_selection.executor import Executor
from longstride.learning.steps.cpu_kernels.stepper import KernelStepper
from longstride.learning.steps.interface import RATIO_ERROR, SKIPPED, Stepper, UpdateSettings, by_name
from longstride.learning.steps.torch_step import TorchStepper
from longstride.policies.networks import ActorCritic, restore_model


class UpdateReport(NamedTuple):
    """Figures of one update. What was not finite is None.

    Attributes:
        losses: figures of the algorithm's loss terms by name, means over the steps that were not skipped, and
            ``initial_ratio_error``, that of the first minibatch alone.
        gradient_noise: of the actor's gradient before the first step; None where it is not measured.
        skipped_steps: steps of ``optimizer_steps`` that were skipped because loss or gradient was not finite.
        out_of_memory: fields of :class:`OutOfMemory` for each time that memory ran out.
        fallbacks: fields of :class:`Fallback` for each return to good parameters.
        execution_notes: sentences about what was chosen or given up.
        execution_trials: fields of each :class:`~longstride.learning.step_selection.autotune.ExecutionTrial`.
        execution_seconds: seconds of these trials, in the first update; not part of ``update_seconds``.
    """

    losses: dict[str, float | None]
    explained_variance: float | None
    gradient_noise: GradientNoise | None
    precision: Precision
    learning_rate: float
    epochs: int
    optimizer_steps: int
    skipped_steps: int
    batch_size: int
    model_transfers: int
    transfer_seconds: float
    update_seconds: float
    out_of_memory: list[dict[str, Any]]
    fallbacks: list[dict[str, Any]]
    execution: Execution
    execution_notes: list[str]
    execution_trials: list[dict[str, Any]]
    execution_seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name as JSON values, those of the loss terms beside the others."""
        others = self._asdict()
        noise = others.pop("gradient_noise")
        figures = {"gradient_signal": _finite(noise.signal), "gradient_noise": _finite(noise.noise)} if noise else {}
        return {**others.pop("losses"), **figures, **others}


class Updater:
    """Owns the model on the update's device, which is the host's on the CPU, and its optimiser."""

    def __init__(
        self,
        host: ActorCritic,
        device: torch.device,
        algorithm: Algorithm,
        settings: UpdateSettings,
        ranks: Ranks = ALONE,
    ) -> None:
        self.host, self.device, self.algorithm, self.settings = host, device, algorithm, settings
        self.ranks = ranks
        self.model = host if device.type == "cpu" else ActorCritic(host.spec, device, on_card=True)
        self.transfer = ModelTransfer(host, self.model)
        self.transfer.to_device()
        compiled = settings.executions == ("numba",)
        self.stepper: Stepper = (KernelStepper if compiled else TorchStepper)(self.model, algorithm, settings, ranks)
        executor = Executor(self.stepper, "numba" if compiled else "eager")
        self.runner = StepRunner(executor, settings.executions, self._largest, run_steps=settings.run_steps)
        self.buffers = DeviceBuffers(device)
        self._drawer = MinibatchDrawer(settings.epochs, self._largest, device, self.runner.slots, ranks)
        self._critic_states = host.flat.new_zeros(0, host.spec.critic_state_size, device=device)
        self.guard = DivergenceGuard(self.stepper)
        coefficient = settings.kl_coefficient
        self._penalty = Penalty(self.model, coefficient) if coefficient > 0.0 else None
        rates = settings.learning_rate_actor, settings.learning_rate_critic
        self._planned = [settings.microbatch, settings.precision, *rates]  # what failures change

    @property
    def microbatch(self) -> int:
        """Most samples in a forward pass now."""
        return self.stepper.memory.microbatch

    @property
    def learning_rates(self) -> dict[str, float]:
        """Learning rates of ``"actor"`` and ``"critic"`` after all returns to good parameters, before the schedule."""
        return {part: rate * self.guard.rate_factor for part, (rate, _) in self.settings.adam.items()}

    def compile(self) -> float:
        """Compile what updates need, or load it; return the seconds it took."""
        begin = time.perf_counter()
        self.runner.note(self.stepper.compile())
        compile_advantages()
        return time.perf_counter() - begin

    def update(self, rollout: RolloutBatch, coefficients: Coefficients, rng: np.random.Generator) -> UpdateReport:
        """Improve the model from the rollout that its actor has just collected; minibatches are drawn from ``rng``.

        Raises:
            DivergedError: the parameters are not finite, and no remedy is left.
            MemoryError: (or the RuntimeError of torch that means it) memory ran out at the smallest microbatch.
        """
        begin, precision = time.perf_counter(), self.stepper.precision
        rollout = rollout._replace(total=self.ranks.sums)
        chunks = self._chunks(rollout)
        all_sizes = None if chunks is None else chunks.valid.sum(axis=1)
        count = rollout.steps if chunks is None else len(chunks.rows)
        early = self._drawer.draw(count, rng, all_sizes) if self.algorithm.learns_from_all else None  # while it goes up
        factor = coefficients.learning_rate_factor * self.guard.rate_factor
        self.stepper.set_coefficients(coefficients._replace(learning_rate_factor=factor))
        self.transfer.start_iteration()
        self.transfer.to_device()
        self.stepper.memory.run("snapshot", rollout.steps, self.guard.start_update)
        prepared, upload_seconds = self._prepare(rollout, chunks)
        noise = self._gradient_noise(prepared.samples, rollout, chunks) if self.settings.measure_noise else None
        used = count if prepared.learned_from is None else len(prepared.learned_from)
        draw = early or self._drawer.draw(used, rng, prepared.sizes, prepared.learned_from)
        reports, epochs = self._epochs(prepared.samples, draw.epochs)
        skipped = int(by_name(self.algorithm, reports)[SKIPPED].sum())
        fallback = self.guard.end_update(len(reports), skipped)
        if fallback:
            self._forget()
        self.transfer.to_host()
        synchronise(self.device)
        log, transfer_seconds = self.runner.take_log(), self.transfer.seconds + upload_seconds
        return UpdateReport(
            losses={**_loss_figures(self.algorithm, reports), **prepared.figures},
            explained_variance=_finite(prepared.explained_variance),
            gradient_noise=noise,
            precision=precision,
            learning_rate=self.settings.learning_rate_actor * factor,
            epochs=epochs,
            optimizer_steps=len(reports),
            skipped_steps=skipped,
            batch_size=minibatch_shape(draw.samples, self._largest)[1] * self.host.spec.chunk,
            model_transfers=self.transfer.count,
            transfer_seconds=transfer_seconds,
            update_seconds=time.perf_counter() - begin - transfer_seconds - log.seconds,
            out_of_memory=[event._asdict() for event in self.stepper.memory.take_events()],
            fallbacks=[fallback._asdict()] if fallback else [],
            execution=self.runner.executor.execution,
            execution_notes=log.sentences,
            execution_trials=[trial._asdict() for trial in log.trials],
            execution_seconds=log.seconds,
        )

    def close(self) -> None:
        """Free a captured step of several ranks: NCCL cannot end while a graph holds its exchange."""
        if self.ranks.size > 1:
            self.stepper.memory.free_caches()
            synchronise(self.device)

    def rollback(self, reason: str) -> dict[str, Any]:
        """Return to the last good parameters outside of an update; return the fields of :class:`Fallback`.

        Raises:
            DivergedError: there are no such parameters, or no remedy is left.
        """
        fallback = self.guard.rollback(reason)
        self._forget()
        self.transfer.to_host()
        return fallback._asdict()

    def forget_moments(self) -> None:
        """Let the optimiser begin anew: its moments are those of gradients of another size."""
        self.stepper.load_optimizer_tensors({})

    def _forget(self) -> None:
        """Let the critic begin without memory: its states are those of parameters that were not finite."""
        self._critic_states = torch.zeros_like(self._critic_states)

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return tensors by name and JSON values: model, optimiser, gradient scaler, and what failures have changed."""
        tensors = {f"model.{name}": tensor for name, tensor in self.host.tensors.items()}
        recovery = {
            "planned": self._planned,
            "microbatch": self.microbatch,
            "precision": self.stepper.precision,
            "execution": self.runner.chosen,
            **self.guard.state_dict(),
        }
        metadata = {"grad_scaler": self.stepper.scaler.state_dict(), "recovery": recovery}
        if self.host.spec.has_memory:
            tensors["critic_states"] = self._critic_states.cpu()
        return tensors | self.stepper.optimizer_tensors(), metadata

    def load_state_dict(self, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned; other names are ignored.

        What failures have changed is restored only if the plan is the same.

        Raises:
            UserError: the tensors of the model have other shapes or are missing.
        """
        restore_model(self.host, tensors)
        self.transfer.to_device()
        self.stepper.load_optimizer_tensors(tensors)
        if self.host.spec.has_memory:
            self._critic_states = tensors["critic_states"].to(self.device)
        recovery = metadata.get("recovery", {})
        if recovery.get("planned") == self._planned:
            self.stepper.memory.microbatch = recovery["microbatch"]
            self.stepper.use_precision(recovery["precision"])
            self.runner.resume_with(recovery.get("execution"))
            self.guard.load_state_dict(recovery)
        if metadata["grad_scaler"]:  # empty where the run did not compute in FP16
            self.stepper.scaler.load_state_dict(metadata["grad_scaler"])

    @property
    def _largest(self) -> int:
        """Most samples of a minibatch: steps, or chunks of steps."""
        return max(self.settings.batch_size // self.host.spec.chunk, 1)

    def _chunks(self, rollout: RolloutBatch) -> ChunkRows | None:
        """Return the chunks of a rollout; None for a policy without memory."""
        spec = self.host.spec
        steps = [t.steps for t in rollout.trajectories]
        return chunk_rows(steps, spec.chunk, spec.context) if spec.has_memory else None

    def _prepare(self, rollout: RolloutBatch, chunks: ChunkRows | None) -> tuple[Prepared, float]:
        """Return what the epochs need, and the seconds in which the rollout crossed the bus."""
        begin = time.perf_counter()
        self.buffers.use(keep=self.runner.captures)
        uploaded = upload_rollout(self.stepper, rollout, self.buffers, chunks)
        synchronise(self.device)
        seconds = time.perf_counter() - begin if self.device.type != "cpu" else 0.0
        carried = self._critic_states
        if len(carried) != len(rollout.trajectories):  # the first rollout
            carried = carried.new_zeros(len(rollout.trajectories), carried.shape[1])
        prepared = prepare_batch(self.stepper, rollout, uploaded, self.buffers, self._penalty, chunks, carried)
        self._critic_states = prepared.critic_states
        return prepared, seconds

    def _gradient_noise(
        self, samples: Samples, rollout: RolloutBatch, chunks: ChunkRows | None
    ) -> GradientNoise | None:
        """Return the noise of the actor's gradient over the rollout, from the parts that are independent."""
        counts = [t.steps for t in rollout.trajectories] if chunks is None else chunks.counts.tolist()
        indices, size = torch.arange(sum(counts), device=self.device), self.algorithm.group_size
        parts = torch.split(indices, [sum(counts[k : k + size]) for k in range(0, len(counts), size)])
        return gradient_noise((self.stepper.actor_gradient(samples, part) for part in parts), self.ranks.sums)

    def _epochs(self, samples: Samples, draws: Generator[Minibatches, None, None]) -> tuple[Tensor, int]:
        """Run the epochs; return float32[steps, columns], their reports on the host, and the number of epochs done."""
        reports: list[Tensor] = []
        with closing(draws):
            for epoch, minibatches in enumerate(draws, 1):
                reports.append(self.runner.epoch(samples, minibatches))
                if self.settings.target_kl > 0.0 and epoch < self.settings.epochs:
                    approx_kl = by_name(self.algorithm, reports[-1])["approx_kl"].mean().item()
                    if approx_kl > 1.5 * self.settings.target_kl:
                        break
        return torch.cat(reports).cpu(), epoch


def _loss_figures(algorithm: Algorithm, reports: Tensor) -> dict[str, float | None]:
    """Return the figures of an update's loss terms from float32[steps, columns], the reports of its steps."""
    columns = by_name(algorithm, reports)
    means = by_name(algorithm, reports[columns[SKIPPED] == 0].mean(dim=0))
    figures = {name: _finite(means[name].item()) for name in algorithm.terms if name != RATIO_ERROR}
    return {**figures, f"initial_{RATIO_ERROR}": _finite(columns[RATIO_ERROR][0].item())}


def _finite(number: float) -> float | None:
    """Return a number as JSON can hold it: None for NaN and infinity."""
    return number if math.isfinite(number) else None
