"""Adam on actor and critic as one flat tensor each: few launches on a GPU, however many layers there are."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

STATE = ("step", "exp_avg", "exp_avg_sq")
"""Names of torch's Adam for its number of steps and the two moments."""

_PIECES, _LEAST = 32, 2048
"""Pieces of a part on a GPU, and least values of one. Torch's kernel gives each tensor, up to 65,536 values, to one
multiprocessor: the loan desk's two parts in one piece each took 104 us of a step's 974, on an H200, 2026-11-27."""


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
        self._pieces = {name: self._split(name) for name in parts}
        self._one = torch.ones((), device=next(iter(parts.values())).device)

    def _split(self, name: str) -> tuple[list[Tensor], ...]:
        """Return pieces of a part's parameters and of its two moments."""
        flat, state = self._parts[name].detach(), self.state(name)
        return tuple([*torch.split(each, _piece(flat))] for each in (flat, state["exp_avg"], state["exp_avg_sq"]))

    def state(self, part: str) -> dict[str, Tensor]:
        """Return the tensors of a part's optimiser by torch's names; steps change them in place."""
        state: dict[str, Tensor] = self._optimizers[part].state[self._parts[part]]
        return state

    def set_rates(self, rates: Mapping[str, float]) -> None:
        """Set the learning rate of each part, in place."""
        for name, optimizer in self._optimizers.items():
            optimizer.param_groups[0]["lr"].fill_(rates[name])

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
        self, gradients: Mapping[str, Tensor], loss: Tensor, scaler: torch.amp.GradScaler, skipped: Tensor
    ) -> None:
        """Step with the gradients of the parts, float32 and scaled by the scaler; they are clipped in place.

        ``skipped``, a float32 scalar that is 0, becomes 1 where gradient or loss is not finite and nothing is changed.

        The host never waits to learn whether: the optimiser's kernel reads ``found_inf`` where it runs, as it does for
        a gradient scaler (torch/amp/grad_scaler.py), and leaves parameters and state alone where that is 1. It also
        divides the gradient by ``grad_scale``, which is what clips. A norm is finite only if all that it sums up is.
        """
        for name, flat in self._parts.items():
            flat.grad = gradients[name]
            scaler.unscale_(self._optimizers[name])
        norms = loss.new_empty(len(gradients))
        for gradient, norm in zip(gradients.values(), norms, strict=True):
            torch.linalg.vector_norm(gradient, out=norm)
        divisors = ((norms + 1e-6) / self._max_norm).clamp(min=1.0)  # as torch's clip_grad_norm_
        counts = [self.state(name)["step"] for name in gradients]
        torch._amp_foreach_non_finite_check_and_unscale_([norms, loss], skipped, self._one)  # one launch; unscales by 1
        torch._foreach_add_(counts, 1)
        for (name, gradient), divisor in zip(gradients.items(), divisors.unbind(), strict=True):
            self._step(name, gradient, divisor, skipped)
        torch._foreach_sub_(counts, [skipped] * len(counts))
        scaler.update()

    def _step(self, name: str, gradient: Tensor, divisor: Tensor, skipped: Tensor) -> None:
        """Take the step of a part as torch.optim.Adam does, which would take it in one piece."""
        flats, means, squares = self._pieces[name]
        [group], count = self._optimizers[name].param_groups, self.state(name)["step"]
        torch._fused_adam_(
            *(flats, [*torch.split(gradient, _piece(gradient))], means, squares, [], [count] * len(flats)),
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=0.0,
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
            grad_scale=divisor,
            found_inf=skipped,
        )


def _piece(flat: Tensor) -> int:
    """Return the values of a piece: a multiple of 32, so that pieces are aligned as the whole is."""
    if flat.device.type == "cpu":
        return max(len(flat), 1)
    return max(-(-len(flat) // (32 * _PIECES)) * 32, _LEAST)


def _adam(flat: nn.Parameter, rate: float, epsilon: float) -> torch.optim.Adam:
    """Return Adam on a tensor, in one kernel, with a learning rate that a captured step reads."""
    group = {"params": [flat], "lr": torch.full((), rate, device=flat.device), "eps": epsilon}
    return torch.optim.Adam([group], fused=True, capturable=True)
