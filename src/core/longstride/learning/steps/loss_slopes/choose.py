"""Which implementation of the figures of ``one_choice.py`` a GPU runs: Triton's, if it computes the same there."""

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


def figures_on(device: torch.device) -> tuple[Compute, str]:
    """Return the implementation for a device, and a sentence if the kernel does not work there.

    A failure, of many kinds as it compiles, leaves torch's operations.
    """
    if device.type != "cuda" or torch.version.cuda is None:
        return figures_of, ""
    try:
        from longstride.learning.steps.loss_slopes import triton_choice  # which is not installed everywhere
    except ImportError:
        return figures_of, ""
    try:
        differs = difference(triton_choice.figures_of, device)
    except Exception as error:
        return figures_of, f"The Triton kernel of the loss is not used: {first_line(error)}."
    if not differs <= _TOLERANCE:
        return figures_of, f"The Triton kernel of the loss is not used: it differs by {differs:.2g} from torch."
    return triton_choice.figures_of, ""


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
