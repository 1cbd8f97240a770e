"""Adam on actor and critic as one flat tensor each: few launches on a GPU, however many layers there are."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

STATE = ("step", "exp_avg", "exp_avg_sq")
"""Names of torch's Adam for its number of steps and the two moments."""

BETAS = (0.9, 0.999)
"""Those of torch's Adam."""

_TINY = torch.finfo(torch.float32).tiny
"""Least normal number."""

_PIECES, _LEAST = 32, 2048
"""Pieces of a part on a GPU, and least values of one. Torch's kernel gives each tensor, up to 65,536 values, to one
multiprocessor: the loan desk's two parts in one piece each took 104 us of a step's 974, on an H200, 2026-11-27."""


class Part(NamedTuple):
    """Tensors that a step changes in place, and what it reads.

    Attributes:
        flat: float32[n], parameters.
        mean: float32[n], the first moment; ``square`` is the second one.
        steps: float32 scalar, number of steps.
        rate: float32 scalar, learning rate.
        pieces: parameters and both moments in pieces.
    """

    flat: Tensor
    mean: Tensor
    square: Tensor
    steps: Tensor
    rate: Tensor
    epsilon: float
    pieces: tuple[list[Tensor], ...]


Step = Callable[[Sequence[Part], Sequence[Tensor], Tensor, Tensor, float], None]
"""A function like :func:`step_of_all`."""


class ClippedAdam:
    """Clips the gradient of each part to a norm and steps, or leaves all alone where a number is not finite.

    ``parts`` are float32 tensors that steps change in place, such as the actor's parameters and the critic's; ``adam``
    holds learning rate and epsilon of each. The host reads nothing of the device, so that a step can be captured.
    """

    def __init__(self, parts: Mapping[str, Tensor], adam: Mapping[str, tuple[float, float]], max_norm: float) -> None:
        self._max_norm = max_norm
        self._parts = {name: nn.Parameter(flat) for name, flat in parts.items()}
        self._optimizers = {name: _adam(flat, *adam[name]) for name, flat in self._parts.items()}
        for name, flat in self._parts.items():
            zeros = torch.zeros((), device=flat.device), torch.zeros_like(flat), torch.zeros_like(flat)
            self._optimizers[name].state[flat] = dict(zip(STATE, (t.detach() for t in zeros), strict=True))
        self._held = {name: self._part(name) for name in parts}

    def _part(self, name: str) -> Part:
        """Return the tensors of a part."""
        flat, (steps, *moments) = self._parts[name].detach(), self.state(name).values()
        [group] = self._optimizers[name].param_groups
        pieces = tuple([*torch.split(each, _piece(flat))] for each in (flat, *moments))
        return Part(flat, moments[0], moments[1], steps, group["lr"], group["eps"], pieces)

    def state(self, part: str) -> dict[str, Tensor]:
        """Return the tensors of a part's optimiser by torch's names; steps change them in place."""
        state: dict[str, Tensor] = self._optimizers[part].state[self._parts[part]]
        return state

    def set_rates(self, rates: Mapping[str, float]) -> None:
        """Set the learning rate of each part, in place, before the steps of a rollout.

        On a CPU, moments no larger than the least normal number become 0, for the reason given in
        ``cpu_kernels/adam.py``.
        """
        for name, part in self._held.items():
            part.rate.fill_(rates[name])
            if part.flat.device.type == "cpu":
                for moment in (part.mean, part.square):
                    torch.hardshrink(moment, _TINY, out=moment)

    @property
    def gradient(self) -> Tensor:
        """The gradients of all parts in the last step, clipped."""
        return torch.cat([flat.grad for flat in self._parts.values() if flat.grad is not None])

    def drop_gradients(self) -> None:
        """Free the gradients of the last step, which lie in the memory of a captured one."""
        for flat in self._parts.values():
            flat.grad = None

    @torch.no_grad()
    def step(
        self,
        gradients: Mapping[str, Tensor],
        loss: Tensor,
        scaler: torch.amp.GradScaler,
        skipped: Tensor,
        compute: Step | None = None,
    ) -> None:
        """Step with the gradients of the parts, float32 and scaled by the scaler; they are clipped in place.

        ``skipped``, a float32 scalar that is 0, becomes 1 where gradient or loss is not finite and nothing is changed.
        ``compute`` is another implementation of :func:`step_of_all`.
        """
        for name, flat in self._parts.items():
            flat.grad = gradients[name]
            scaler.unscale_(self._optimizers[name])
        parts = [self._held[name] for name in gradients]
        (compute or step_of_all)(parts, [*gradients.values()], loss, skipped, self._max_norm)
        scaler.update()


def step_of_all(
    parts: Sequence[Part], gradients: Sequence[Tensor], loss: Tensor, skipped: Tensor, max_norm: float
) -> None:
    """Clip and step, operation by operation; see :meth:`ClippedAdam.step`.

    The host never waits to learn whether: the optimiser's kernel reads ``found_inf`` where it runs, as it does for a
    gradient scaler (torch/amp/grad_scaler.py), and leaves parameters and state alone where that is 1. It also divides
    the gradient by ``grad_scale``, which is what clips. A norm is finite only if all that it sums up is.
    """
    norms = loss.new_empty(len(gradients))
    for gradient, norm in zip(gradients, norms, strict=True):
        torch.linalg.vector_norm(gradient, out=norm)
    divisors = ((norms + 1e-6) / max_norm).clamp(min=1.0)  # as torch's clip_grad_norm_
    counts = [part.steps for part in parts]
    torch._amp_foreach_non_finite_check_and_unscale_([norms, loss], skipped, _one(loss.device))  # one launch
    torch._foreach_add_(counts, 1)
    for part, gradient, divisor in zip(parts, gradients, divisors.unbind(), strict=True):
        _step(part, gradient, divisor, skipped)
    torch._foreach_sub_(counts, [skipped] * len(counts))


def _step(part: Part, gradient: Tensor, divisor: Tensor, skipped: Tensor) -> None:
    """Take the step of a part as torch.optim.Adam does, which would take it in one piece."""
    flats, means, squares = part.pieces
    torch._fused_adam_(
        *(flats, [*torch.split(gradient, _piece(gradient))], means, squares, [], [part.steps] * len(flats)),
        lr=part.rate,
        beta1=BETAS[0],
        beta2=BETAS[1],
        weight_decay=0.0,
        eps=part.epsilon,
        amsgrad=False,
        maximize=False,
        grad_scale=divisor,
        found_inf=skipped,
    )


@cache
def _one(device: torch.device) -> Tensor:
    """Return 1, by which the check for numbers that are not finite multiplies them."""
    return torch.tensor(1.0, device=device)


def _piece(flat: Tensor) -> int:
    """Return the values of a piece: a multiple of 32, so that pieces are aligned as the whole is."""
    if flat.device.type == "cpu":
        return max(len(flat), 1)
    return max(-(-len(flat) // (32 * _PIECES)) * 32, _LEAST)


def _adam(flat: nn.Parameter, rate: float, epsilon: float) -> torch.optim.Adam:
    """Return Adam on a tensor, in one kernel, with a learning rate that a captured step reads."""
    group = {"params": [flat], "lr": torch.full((), rate, device=flat.device), "eps": epsilon, "betas": BETAS}
    return torch.optim.Adam([group], fused=True, capturable=True)
