"""The compiled counterpart of ``torch_step.TorchStepper``: same steps, checkpoints, remedies."""

import math
from collections.abc import Callable, Iterable
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longstride.hardware.types import Precision
from longstride.learning.algorithms.grpo import Grpo
from longstride.learning.algorithms.interface import Algorithm, Samples
from longstride.learning.algorithms.ppo import LossTerms, Ppo, PpoCoefficients, total_loss
from longstride.learning.distributed.add_minibatch import add_minibatch, room_for
from longstride.learning.distributed.ranks import ALONE, Ranks
from longstride.learning.oom_recovery import OomRetry, map_in_order
from longstride.learning.schedule import Coefficients
from longstride.learning.steps.cpu_kernels.adam import BETAS, adam, norm
from longstride.learning.steps.cpu_kernels.backprop import Backprop, arrays_of
from longstride.learning.steps.cpu_kernels.loss_gradients import RATIO_ERROR, TERMS, KernelCoefficients, Piece
from longstride.learning.steps.cpu_kernels.mlp import Workspace, hold_to_one_thread
from longstride.learning.steps.interface import UpdateSettings
from longstride.learning.torch_settings import grad_scaler
from longstride.policies.networks import ActorCritic
from longstride.policies.spec import PolicySpec

_KNOWN = {"clip_range", "value_coefficient", "entropy_coefficient"}
"""Coefficients of PPO whose terms the kernels compute."""

_ROWS = 256
"""Most samples of a piece. Their activations stay in a core's caches; which pieces there are decides in which order
gradients are added up, so the number of threads must not."""

_MOMENTS = "exp_avg", "exp_avg_sq"
"""Torch's names of Adam's moments."""

_LARGEST = float(np.finfo(np.float32).max)

_IS_MAXIMUM = torch.arange(len(TERMS)) == RATIO_ERROR

_NO_TERMS = LossTerms(*(0.0 for _ in LossTerms._fields))
"""Terms of no samples: those that the kernels do not compute have the coefficient 0."""


class KernelStepper:
    """Runs minibatch steps on one model on the CPU, in FP32 (a :class:`longstride.learning.steps.interface.Stepper`).

    A minibatch is cut into pieces of at most 256 samples, or fewer where memory has run out; the gradients of the
    pieces are added up in order. :func:`unsupported` says what it cannot compute.
    """

    def __init__(
        self, model: ActorCritic, algorithm: Algorithm, settings: UpdateSettings, ranks: Ranks = ALONE
    ) -> None:
        self.model, self.algorithm, self.settings, self.ranks = model, algorithm, settings, ranks
        self.device = model.flat.device
        names = ("actor", "critic") if algorithm.needs_critic else ("actor",)
        self._names = [name for part in names for name in model.layout.names(part)]
        self._slices = {part: model.layout.slice_of(part) for part in names}
        self.memory = OomRetry(settings.microbatch, self.device, settings.threads)
        hold_to_one_thread()
        self._backprop = Backprop(model)
        self._run = self._backprop.run if algorithm.needs_critic else self._backprop.run_actor
        self._flat = model.flat.numpy()
        self._exchanged = np.zeros(len(self._flat) + room_for(ranks, len(TERMS)), np.float32)
        self._gradient = self._exchanged[: len(self._flat)]
        self._moments = np.zeros((2, *self._flat.shape), np.float32)
        self._steps = 0
        self._rows, self._workspaces = 0, list[Workspace]()
        self._columns: tuple[Samples, Samples] | None = None  # a rollout, and the same as arrays
        self.set_coefficients(Coefficients(1.0, algorithm.coefficients))
        self.use_precision(settings.precision)

    def use_precision(self, precision: Precision) -> None:
        """Note the format; these kernels know only FP32, and a plan gives them no other."""
        self.precision = precision
        self.scaler = grad_scaler(self.device, precision)

    def compile(self) -> str:
        """Compile the kernels, or load them, by a pass over one sample that changes nothing; return no sentence."""
        self._backprop.compile()
        zero = np.zeros(1, np.float32)
        norm(zero)
        adam(zero, zero, zero, zero, 0.0, 0.0, 1.0, 1.0)
        return ""

    def set_coefficients(self, coefficients: Coefficients) -> None:
        """Set learning rates and coefficients of the loss for the next steps, those of another rollout."""
        self._columns = None
        self._coefficients, self._of_kernels = coefficients, kernel_coefficients(coefficients.loss)

    def step(self, rollout: Samples, indices: Tensor, weights: Tensor) -> Tensor:
        """Take one optimiser step, or none where loss or gradient is not finite; return its report."""
        arrays, order, shares = self._arrays_of(rollout), indices.numpy(), weights.numpy()
        computed = self.memory.run("gradients", len(order), lambda: self._gradients(arrays, order, shares, self._run))
        if self.ranks.size > 1:
            end = max(where.stop for where in self._slices.values())
            report = torch.from_numpy(computed.astype(np.float32))
            computed = add_minibatch(self.ranks, torch.from_numpy(self._exchanged), end, report, _IS_MAXIMUM).numpy()
        terms = dict(zip(TERMS, computed.tolist(), strict=True))
        total = total_loss(_NO_TERMS._replace(**terms), self._coefficients.loss)
        norms = {part: norm(self._gradient[where]) for part, where in self._slices.items()}
        skipped = not all(abs(number) <= _LARGEST for number in (*norms.values(), total))  # a NaN is not
        if not skipped:
            self._adam(norms)
        figures = [terms.get(name, np.nan) for name in self.algorithm.terms]
        return torch.from_numpy(np.array([total, *figures, skipped], np.float32))

    def _adam(self, norms: dict[str, float]) -> None:
        """Clip the gradients of actor and critic, of these norms, and step."""
        self._steps += 1
        correction, root = 1.0 - BETAS[0] ** self._steps, math.sqrt(1.0 - BETAS[1] ** self._steps)
        settings = self.settings.adam
        for part, where in self._slices.items():
            scale = min(1.0, self.settings.max_grad_norm / (norms[part] + 1e-6))  # as torch's clip_grad_norm_
            rate, epsilon = settings[part]
            rate *= self._coefficients.learning_rate_factor
            arrays = self._flat[where], self._gradient[where], self._moments[0, where], self._moments[1, where]
            adam(*arrays, scale, rate / correction, root, epsilon)

    def optimizer_tensors(self) -> dict[str, Tensor]:
        """Return the state of the optimiser by the names of torch's stepper; empty before the first step."""
        if self._steps == 0:
            return {}
        tensors = {}
        for i, parameter in enumerate(self._names):
            tensors[f"optimizer.{i}.step"] = torch.tensor(float(self._steps))
            for name, moments in zip(_MOMENTS, torch.from_numpy(self._moments), strict=True):
                tensors[f"optimizer.{i}.{name}"] = self.model.layout.view(moments, parameter).clone()
        return tensors

    def load_optimizer_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Restore what ``optimizer_tensors`` of either stepper returned; without any the optimiser starts afresh."""
        self._steps = int(tensors.get("optimizer.0.step", torch.zeros(())).item())
        self._moments.fill(0.0)
        for i, parameter in enumerate(self._names if self._steps else []):
            for name, moments in zip(_MOMENTS, torch.from_numpy(self._moments), strict=True):
                self.model.layout.view(moments, parameter).copy_(tensors[f"optimizer.{i}.{name}"])

    def copy_optimizer(self) -> tuple[int, np.ndarray]:
        """Return a copy of the optimiser's state for :meth:`restore_optimizer`."""
        return self._steps, self._moments.copy()

    def restore_optimizer(self, copy: tuple[int, np.ndarray]) -> None:
        """Restore a copy in place."""
        self._steps, self._moments[:] = copy

    def actor_gradient(self, rollout: Samples, indices: Tensor) -> Tensor:
        """Return the actor's gradient of the mean loss of some samples."""
        arrays, order = self._arrays_of(rollout), indices.numpy()
        shares = np.full(len(order), 1.0 / len(order), np.float32)
        run = self._backprop.run_actor
        self.memory.run("gradients", len(order), lambda: self._gradients(arrays, order, shares, run))
        return torch.from_numpy(self._gradient[self._slices["actor"]].copy())

    def _arrays_of(self, rollout: Samples) -> Samples:
        """Return a rollout's columns as arrays, the same ones for all steps of an update."""
        if self._columns is None or self._columns[0] is not rollout:
            self._columns = rollout, arrays_of(rollout)
        return self._columns[1]

    def _gradients(
        self, rollout: Samples, indices: np.ndarray, weights: np.ndarray, run: Callable[[Piece, Workspace], Workspace]
    ) -> np.ndarray:
        """Write the gradient of a minibatch; return float64[6], its loss terms by :data:`TERMS`."""
        rows = min(self.memory.microbatch, _ROWS)
        cuts = [slice(begin, begin + rows) for begin in range(0, len(indices), rows)]
        pieces = [Piece(rollout, indices[cut], weights[cut], self._of_kernels) for cut in cuts]
        pool = self.memory.pool if len(pieces) > 1 else None
        workspaces = self._workspaces_of(rows, min(len(pieces), self.settings.threads + 1) if pool else 1)
        jobs = zip(pieces, cycle(workspaces), strict=False)  # a workspace is used again once its result was added
        self._gradient.fill(0.0)
        terms = np.zeros(len(TERMS))
        for workspace in map_in_order(pool, lambda job: run(*job), jobs, len(workspaces)):
            self._gradient += workspace.gradient
            ratio_error = np.maximum(terms[RATIO_ERROR], workspace.terms[RATIO_ERROR])
            terms += workspace.terms
            terms[RATIO_ERROR] = ratio_error
        return terms

    def _workspaces_of(self, rows: int, count: int) -> list[Workspace]:
        """Return workspaces for so many samples each, made once."""
        if self._rows != rows:
            self._rows, self._workspaces = rows, []
        while len(self._workspaces) < count:
            self._workspaces.append(self._backprop.workspace(rows))
        return self._workspaces[:count]


def unsupported(spec: PolicySpec, algorithm: Algorithm, coefficients: Iterable[Any]) -> str:
    """Return why compiled kernels cannot take the steps with such coefficients, a phrase; empty if they can."""
    if not spec.family.update_kernels:
        return f"compiled kernels are for multilayer perceptrons, not for {spec.family.name}"
    if type(algorithm) not in (Ppo, Grpo):  # a subclass may compute another loss
        return f"compiled kernels compute the losses of PPO and GRPO, not of {type(algorithm).__name__}"
    used = {name: True for each in coefficients for name, number in each._asdict().items() if number != 0.0}
    unknown = [name.upper() for name in used if name not in _KNOWN]
    return f"compiled kernels do not compute the loss term of {unknown[0]}" if unknown else ""


def kernel_coefficients(coefficients: PpoCoefficients) -> KernelCoefficients:
    """Return the kernels' coefficients; the derivatives are those of :func:`total_loss`, which is linear."""
    ones = [_NO_TERMS._replace(**{term: 1.0}) for term in ("policy_loss", "value_loss", "entropy")]
    return KernelCoefficients(float(coefficients.clip_range), *(float(total_loss(one, coefficients)) for one in ones))
