"""Which kernels a GPU runs in a step: Triton's, if they compute the same there as torch's operations."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from longstride.errors import first_line
from longstride.learning.algorithms.interface import Samples
from longstride.learning.algorithms.ppo import PpoCoefficients
from longstride.learning.steps.clipped_adam import ClippedAdam, Step, step_of_all
from longstride.learning.steps.loss_slopes.one_choice import Compute, figures_of

_TOLERANCE = 1e-4
"""Largest difference to torch's operations, of figures of about unit size: a hundred times that of rounding."""

_STEPS, _ROWS, _ACTIONS, _FEATURES = 120, 97, 13, 2
"""Of a rollout, of a minibatch, and of a policy."""


def gather(source: Tensor, places: Tensor, dtype: torch.dtype) -> Tensor:
    """Return rows of float32[N, columns] at int64[B] places, in a number format."""
    return source.index_select(0, places).to(dtype)


class Kernels(NamedTuple):
    """What a step of one choice of actions computes with; :data:`LAUNCHES` are those of Triton's.

    Attributes:
        figures: a function like ``one_choice.figures_of``.
        gather: a function like :func:`gather`.
        adam: a function like ``clipped_adam.step_of_all``.
    """

    figures: Compute = figures_of
    gather: Callable[[Tensor, Tensor, torch.dtype], Tensor] = gather
    adam: Step = step_of_all


LAUNCHES = {"figures": 2, "gather": 1, "adam": 2}
"""Launches of each of Triton's kernels, with those that add up its blocks."""


def kernels_on(device: torch.device) -> tuple[Kernels, str]:
    """Return the implementations for a device, and a sentence if one of Triton's kernels does not work there.

    A failure, of many kinds as they compile, leaves torch's operations in place of that kernel.
    """
    if device.type != "cuda" or torch.version.cuda is None:
        return Kernels(), ""
    try:  # triton is not installed everywhere
        from longstride.learning.steps import triton_adam
        from longstride.learning.steps.loss_slopes import triton_choice, triton_gather
    except ImportError:
        return Kernels(), ""
    chosen, problems = Kernels(), []
    tried: tuple[tuple[str, Any, Callable[..., float]], ...] = (
        ("figures", triton_choice.figures_of, difference),
        ("gather", triton_gather.gather, difference_of_rows),
        ("adam", triton_adam.step_of_all, difference_of_steps),
    )
    for name, kernel, difference_to_torch in tried:
        problem = _problem(partial(difference_to_torch, kernel, device))
        if problem:
            problems.append(f"The Triton kernel {name} is not used: {problem}.")
        else:
            chosen = chosen._replace(**{name: kernel})
    return chosen, " ".join(problems)


def _problem(difference_to_torch: Callable[[], float]) -> str:
    """Return why a kernel is not used, if it is not."""
    try:
        differs = difference_to_torch()
    except Exception as error:
        return first_line(error)
    return "" if differs <= _TOLERANCE else f"it differs by {differs:.2g} from torch"


def difference_of_rows(
    chosen: Callable[[Tensor, Tensor, torch.dtype], Tensor],
    device: torch.device,
    formats: Sequence[torch.dtype] = (torch.float32, torch.bfloat16, torch.float16),
) -> float:
    """Return the largest difference of rows that an implementation chooses to those that torch does."""
    source = torch.randn(_STEPS, 300, generator=torch.Generator().manual_seed(0)).to(device)
    places = torch.arange(_ROWS, device=device).flip(0)
    return max(float((chosen(source, places, each) - gather(source, places, each)).abs().max()) for each in formats)


def difference_of_steps(step: Step, device: torch.device) -> float:
    """Return the largest difference of an implementation of the optimiser's step to torch's, of some steps.

    Some are clipped, and one is left out, as a number is not finite.
    """
    found = (_after_steps(each, device, 1) + _after_steps(each, device, 2) for each in (step, step_of_all))
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-3)) for a, b in zip(*found, strict=True))


def _after_steps(step: Step, device: torch.device, count: int) -> list[Tensor]:
    """Return parameters, state, gradients and reports after steps of one part or two by random gradients."""
    generator, names = torch.Generator().manual_seed(0), ("actor", "critic")[:count]
    flats = [torch.randn(size, generator=generator).to(device) for size in (_STEPS, 40 * _STEPS)[:count]]
    rates = {"actor": (0.01, 1e-3), "critic": (0.02, 1e-5)}
    adam = ClippedAdam(dict(zip(names, flats, strict=True)), rates, 10.0)
    found = list(flats)
    for size in (1.0, 0.1, torch.inf, 0.3):
        gradients = [size * torch.randn(len(flat), generator=generator).to(device) for flat in flats]
        report, scaler = torch.zeros(2, device=device), torch.amp.GradScaler(device.type, enabled=False)
        adam.step(dict(zip(names, gradients, strict=True)), report[0], scaler, report[1], step)
        found += [report, *(gradients if size < torch.inf else [])]
    return [*found, *(tensor for part in names for tensor in adam.state(part).values())]


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
    arguments = *outputs, samples, weights / weights.sum(), *rest, None
    pairs = zip(compute(*arguments), figures_of(*arguments), strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)
