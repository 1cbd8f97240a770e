"""The compiled counterpart of ``torch_step.TorchStepper``: same steps, checkpoints, remedies."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait

import numpy as np
import torch
from torch import Tensor, nn

from core.hardware.types import Precision
from core.learning.algorithms.ppo import Batch, LossTerms
from core.learning.oom_recovery import OomRetry
from core.learning.precision import grad_scaler
from core.learning.steps.cpu_kernels.adam import adam, clipping, corrections, norm
from core.learning.steps.cpu_kernels.backprop import Passes, Workspace
from core.learning.steps.cpu_kernels.blas import hold_to_one_thread
from core.learning.steps.cpu_kernels.loss_gradients import Coefficients, Columns
from core.learning.steps.interface import ADAM_EPSILON, Chunk, StepSettings, T, map_chunks, pool_of
from core.policies.networks import ActorCritic

_ROWS = 256
"""Most samples of a piece. Their activations stay in a core's caches; which pieces there are decides in which order
gradients are added up, so the number of threads must not."""

_RATIO_ERROR = LossTerms._fields.index("ratio_error")


class KernelStepper:
    """Runs minibatch steps on one model on the CPU, in FP32 (a :class:`core.learning.steps.interface.Stepper`).

    A minibatch is cut into pieces of at most 256 samples, or fewer where memory has run out; the gradients of the
    pieces are added up in order.

    Args:
        model: changed by :meth:`step`.
        settings: of the first steps; :meth:`set_coefficients` changes those that have a schedule.
        learning_rate_actor: of Adam, initially.
        learning_rate_critic: the same for the critic.
        epsilon_actor: epsilon of the actor's Adam.
    """

    def __init__(
        self,
        model: ActorCritic,
        settings: StepSettings,
        learning_rate_actor: float,
        learning_rate_critic: float,
        epsilon_actor: float = ADAM_EPSILON,
    ) -> None:
        self.model, self.settings = model, settings
        self.device = model.flat.device
        self._pool = pool_of(settings.threads)
        parts = [model.part_parameters("actor"), model.part_parameters("critic")]
        self._parameters = [parameter for part in parts for parameter in part]
        self._rates, self._epsilons = (learning_rate_actor, learning_rate_critic), (epsilon_actor, ADAM_EPSILON)
        self.memory = OomRetry(settings.microbatch, self.device)
        self.use_precision(settings.precision)
        hold_to_one_thread()
        self._passes = Passes(model)
        self._flat = model.flat.numpy()
        self._moments = np.zeros((2, model.flat.numel()), np.float32)
        self._steps = 0
        self._slices = [slice(*_range_of(part)) for part in parts]
        self._spaces: list[Workspace] = []
        self._total = np.zeros_like(self._flat)

    def use_precision(self, precision: Precision) -> None:
        """Note the format; these kernels know only FP32, and a plan gives them no other."""
        self.precision = precision
        self.scaler = grad_scaler(self.device, precision)

    def compile(self) -> None:
        """Compile the kernels, or load them, by a pass over one sample that changes nothing."""
        self._passes.compile()
        nothing = np.zeros((4, 1), np.float32)
        norm(nothing[0])
        adam(nothing[0], nothing[1], nothing[2], nothing[3], 0.0, 0.0, 1.0, 1.0)

    def set_learning_rates(self, actor: float, critic: float) -> None:
        """Set the learning rates of the coming steps."""
        self._rates = actor, critic

    def set_coefficients(self, clip_range: float, value_clip_range: float, entropy_coefficient: float) -> None:
        """Set those coefficients of the coming steps' loss that have a schedule."""
        self.settings = self.settings.with_coefficients(clip_range, value_clip_range, entropy_coefficient)

    def map_chunks(self, function: Callable[[Chunk], T], *columns: Tensor) -> Iterable[T]:
        """Apply a function to the microbatches of some columns; results come in order, from threads."""
        return map_chunks(self._pool, self.memory.microbatch, function, *columns)

    def step(self, rollout: Batch, indices: Tensor, weights: Tensor) -> Tensor:
        """Take one optimiser step, or none where loss or gradient is not finite."""
        columns, order, shares = _columns(rollout), indices.numpy(), weights.numpy()
        terms = self.memory.run("gradients", len(order), lambda: self._sum_up(columns, order, shares))
        s = self.settings
        terms[0] = terms[1] + s.value_coefficient * terms[2] - s.entropy_coefficient * terms[3]
        norms = [norm(self._total[part]) for part in self._slices]
        report = np.append(terms, 0.0).astype(np.float32)
        if np.isfinite([*norms, report[0]]).all():
            self._adam(norms)
        else:
            report[-1] = 1.0
        return torch.from_numpy(report)

    def _adam(self, norms: list[float]) -> None:
        """Clip the gradients, of these norms, and step."""
        self._steps += 1
        correction, root = corrections(self._steps)
        for part, length, rate, epsilon in zip(self._slices, norms, self._rates, self._epsilons, strict=True):
            scale = clipping(length, self.settings.max_grad_norm)
            arrays = (self._flat[part], self._total[part], self._moments[0][part], self._moments[1][part])
            adam(*arrays, scale, rate / correction, root, epsilon)

    def optimizer_tensors(self) -> dict[str, Tensor]:
        """Return the state of the optimiser by the names of torch's stepper; empty before the first step."""
        if self._steps == 0:
            return {}
        moments = torch.from_numpy(self._moments)
        tensors = {}
        for i, parameter in enumerate(self._parameters):
            begin, end = _range_of([parameter])
            tensors[f"optimizer.{i}.step"] = torch.tensor(float(self._steps))
            for name, flat in zip(("exp_avg", "exp_avg_sq"), moments, strict=True):
                tensors[f"optimizer.{i}.{name}"] = flat[begin:end].view(parameter.shape).clone()
        return tensors

    def load_optimizer_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take over what ``optimizer_tensors`` of either stepper returned; without any the optimiser begins anew."""
        self._steps = int(tensors.get("optimizer.0.step", torch.zeros(())).item())
        self._moments.fill(0.0)
        for i, parameter in enumerate(self._parameters if self._steps else []):
            begin, end = _range_of([parameter])
            for row, name in enumerate(("exp_avg", "exp_avg_sq")):
                self._moments[row, begin:end] = tensors[f"optimizer.{i}.{name}"].cpu().numpy().ravel()

    def _sum_up(self, columns: Columns, indices: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Leave the gradient of a minibatch in the total; return float64[7], its loss terms but for their total."""
        s, rows = self.settings, min(self.memory.microbatch, _ROWS)
        coefficients = Coefficients(s.clip_range, s.entropy_coefficient, s.value_coefficient, s.value_clip_range)
        pieces = [slice(i, i + rows) for i in range(0, len(indices), rows)]
        self._total.fill(0.0)
        terms = np.zeros(len(LossTerms._fields))
        for space in self._spaces_of(
            pieces, rows, lambda at, space: self._passes.run(columns, indices[at], weights[at], coefficients, space)
        ):
            self._total += space.gradient
            largest = np.maximum(terms[_RATIO_ERROR], space.terms[_RATIO_ERROR])  # the others are sums
            terms += space.terms
            terms[_RATIO_ERROR] = largest
        return terms

    def _spaces_of(
        self, pieces: list[slice], rows: int, work: Callable[[slice, Workspace], None]
    ) -> Iterator[Workspace]:
        """Yield the workspace of each piece in order, which the next but a few overwrite."""
        pool = self._pool if len(pieces) > 1 else None
        spaces = self._workspaces(rows, min(len(pieces), self.settings.threads + 1) if pool else 1)
        if pool is None:
            for piece in pieces:
                work(piece, spaces[0])
                yield spaces[0]
            return
        futures: list[Future[None]] = []
        try:
            for i, piece in enumerate(pieces):
                if i >= len(spaces):
                    futures[i - len(spaces)].result()
                    yield spaces[i % len(spaces)]
                futures.append(pool.submit(work, piece, spaces[i % len(spaces)]))
            for i in range(len(pieces) - len(spaces), len(pieces)):
                futures[i].result()
                yield spaces[i % len(spaces)]
        finally:
            wait(futures)  # after a failure nothing may be running any more that writes to a workspace

    def _workspaces(self, rows: int, count: int) -> list[Workspace]:
        """Return workspaces for so many samples each, made once."""
        if self._spaces and self._spaces[0].rows != rows:
            self._spaces = []
        while len(self._spaces) < count:
            self._spaces.append(self._passes.workspace(rows))
        return self._spaces[:count]


def _range_of(parameters: list[nn.Parameter]) -> tuple[int, int]:
    """Return where parameters that follow each other begin and end in the flat array."""
    return int(parameters[0].storage_offset()), int(parameters[-1].storage_offset()) + parameters[-1].numel()


def _columns(rollout: Batch) -> Columns:
    """Return the rollout's arrays, which share its memory."""
    actions = rollout.actions.numpy()
    return Columns(
        rollout.observations.numpy(),
        actions.reshape(len(actions), -1),
        rollout.log_probs.numpy(),
        rollout.masks.numpy(),
        rollout.features.numpy(),
        rollout.advantages.numpy(),
        rollout.returns.numpy(),
        rollout.values.numpy(),
    )
