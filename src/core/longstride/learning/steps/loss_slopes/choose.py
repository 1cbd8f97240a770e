"""Which kernels a GPU runs in a step: Triton's, if they compute the same there as torch's operations."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from longstride.errors import first_line
from longstride.learning.algorithms.interface import Samples
from longstride.learning.algorithms.ppo import PpoCoefficients
from longstride.learning.steps.loss_slopes.one_choice import Compute, figures_of

_TOLERANCE = 1e-4
"""Largest difference to torch's operations, of figures of about unit size: a hundred times that of rounding."""

_STEPS, _ROWS, _ACTIONS, _FEATURES = 120, 97, 13, 2
"""Of a rollout, of a minibatch, and of a policy."""


def gather(source: Tensor, places: Tensor, dtype: torch.dtype) -> Tensor:
    """Return rows of float32[N, columns] at int64[B] places, in a number format."""
    return source.index_select(0, places).to(dtype)


class Kernels(NamedTuple):
    """What a step of one choice of actions computes with: a function like ``one_choice.figures_of``, and a gather."""

    figures: Compute = figures_of
    gather: Callable[[Tensor, Tensor, torch.dtype], Tensor] = gather


def kernels_on(device: torch.device) -> tuple[Kernels, str]:
    """Return the implementations for a device, and a sentence if Triton's kernels do not work there.

    A failure, of many kinds as they compile, leaves torch's operations.
    """
    if device.type != "cuda" or torch.version.cuda is None:
        return Kernels(), ""
    try:  # triton is not installed everywhere
        from longstride.learning.steps.loss_slopes import triton_choice, triton_gather
    except ImportError:
        return Kernels(), ""
    kernels = Kernels(triton_choice.figures_of, triton_gather.gather)
    try:
        differs = max(difference(kernels.figures, device), difference_of_rows(kernels.gather, device))
    except Exception as error:
        return Kernels(), f"The Triton kernels of a step are not used: {first_line(error)}."
    if not differs <= _TOLERANCE:
        return Kernels(), f"The Triton kernels of a step are not used: they differ by {differs:.2g} from torch."
    return kernels, ""


def difference_of_rows(
    chosen: Callable[[Tensor, Tensor, torch.dtype], Tensor],
    device: torch.device,
    formats: Sequence[torch.dtype] = (torch.float32, torch.bfloat16, torch.float16),
) -> float:
    """Return the largest difference of rows that an implementation chooses to those that torch does."""
    source = torch.randn(_STEPS, 300, generator=torch.Generator().manual_seed(0)).to(device)
    places = torch.arange(_ROWS, device=device).flip(0)
    return max(float((chosen(source, places, each) - gather(source, places, each)).abs().max()) for each in formats)


def difference(compute: Compute, device: torch.device) -> float:
    """Return the largest difference of an implementation to torch's operations on some random samples."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(device)

    actions = torch.arange(_STEPS, device=device) % _ACTIONS
    masks = (normal(_STEPS, _ACTIONS) > 0.0).scatter(1, actions.unsqueeze(1), True)
    none, log_probs, features = normal(_STEPS, 0), -2.0 + 0.3 * normal(_STEPS), normal(_STEPS, _ACTIONS, _FEATURES)
    samples = Samples(none, actions, log_probs, masks, features, normal(_STEPS), normal(_STEPS), normal(_STEPS))
    places = torch.randperm(_STEPS, generator=generator)[:_ROWS].to(device)
    weights = (normal(_ROWS).abs() + 1.0).clamp(max=2.0)
    coefficients = PpoCoefficients(*(torch.tensor(number, device=device) for number in (0.2, 0.01, 0.5)))
    outputs, rest = (normal(_ROWS, _ACTIONS), normal(_ROWS)), (coefficients, places, normal(_FEATURES))
    arguments = *outputs, samples, weights / weights.sum(), *rest
    pairs = zip(compute(*arguments), figures_of(*arguments), strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)
