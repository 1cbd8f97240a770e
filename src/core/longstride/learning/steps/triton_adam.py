"""Norms, clipping and Adam of all parts in two Triton kernels, like ``step_of_all`` of ``clipped_adam.py``.

The first one adds up the squares of the gradients in as many pieces as it has programs. All programs of the second one
add up those few numbers themselves. Not run on a GPU yet.
"""

import math
from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from longstride.learning.steps.clipped_adam import BETAS, Part

_PROGRAMS = 256
"""Programs of the first kernel for a part."""

_BLOCK = 1024
"""Numbers of a part that a program computes with at once."""


@triton.jit
def _norm_kernel(  # type: ignore[no-untyped-def]
    gradient, count, size, other_gradient, other_count, other_size, squares, next_counts,
    PROGRAMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    if tl.program_id(1) == 0:
        _add_squares(gradient, count, size, squares, next_counts, PROGRAMS, BLOCK)
    else:
        _add_squares(other_gradient, other_count, other_size, squares + PROGRAMS, next_counts + 1, PROGRAMS, BLOCK)


@triton.jit
def _add_squares(  # type: ignore[no-untyped-def]
    gradient, count, size, squares, next_count, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    program = tl.program_id(0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for begin in range(program * BLOCK, size, PROGRAMS * BLOCK):
        at = begin + tl.arange(0, BLOCK)
        numbers = tl.load(gradient + at, mask=at < size, other=0.0)
        sums += numbers * numbers
    tl.store(squares + program, tl.sum(sums, axis=0))
    if program == 0:
        tl.store(next_count, tl.load(count) + 1.0)


@triton.jit
def _adam_kernel(  # type: ignore[no-untyped-def]
    flat, gradient, mean, square, count, rate, epsilon, size,
    other_flat, other_gradient, other_mean, other_square, other_count, other_rate, other_epsilon, other_size,
    squares, next_counts, loss, skipped, max_norm,
    PARTS: tl.constexpr, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr,
    BETA1: tl.constexpr, BETA2: tl.constexpr, LOG_BETA1: tl.constexpr, LOG_BETA2: tl.constexpr,
):  # fmt: skip
    every = tl.arange(0, PROGRAMS)
    own = tl.sum(tl.load(squares + tl.program_id(1) * PROGRAMS + every), axis=0)
    total = tl.load(loss)
    for part in tl.static_range(PARTS):
        total += tl.sum(tl.load(squares + part * PROGRAMS + every), axis=0)
    is_finite = total - total == 0.0
    divisor = tl.maximum((tl.sqrt(own) + 1e-6) / max_norm, 1.0)
    step = tl.load(next_counts + tl.program_id(1))
    steps = step.to(tl.float64)
    correction1 = (1.0 - tl.exp(steps * LOG_BETA1)).to(tl.float32)
    correction2 = tl.sqrt(1.0 - tl.exp(steps * LOG_BETA2)).to(tl.float32)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.program_id(1) == 0:
        inside = at < tl.where(is_finite, size, 0)
        _update(flat + at, gradient + at, mean + at, square + at, inside, divisor, tl.load(rate) / correction1,
                correction2, epsilon, BETA1, BETA2)  # fmt: skip
        if tl.program_id(0) == 0:
            tl.store(count, step, mask=is_finite)
            tl.store(skipped, tl.where(is_finite, 0.0, 1.0))
    else:
        inside = at < tl.where(is_finite, other_size, 0)
        _update(other_flat + at, other_gradient + at, other_mean + at, other_square + at, inside, divisor,
                tl.load(other_rate) / correction1, correction2, other_epsilon, BETA1, BETA2)  # fmt: skip
        if tl.program_id(0) == 0:
            tl.store(other_count, step, mask=is_finite)


@triton.jit
def _update(  # type: ignore[no-untyped-def]
    flat, gradient, mean, square, inside, divisor, rate, correction, epsilon, BETA1: tl.constexpr, BETA2: tl.constexpr
):  # fmt: skip
    slope = tl.load(gradient, mask=inside, other=0.0) / divisor
    first = tl.load(mean, mask=inside, other=0.0)
    first += (1.0 - BETA1) * (slope - first)
    second = BETA2 * tl.load(square, mask=inside, other=0.0) + (1.0 - BETA2) * slope * slope
    change = rate * first / (tl.sqrt(second) / correction + epsilon)
    tl.store(flat, tl.load(flat, mask=inside, other=0.0) - change, mask=inside)
    tl.store(gradient, slope, mask=inside)
    tl.store(mean, first, mask=inside)
    tl.store(square, second, mask=inside)


def step_of_all(
    parts: Sequence[Part], gradients: Sequence[Tensor], loss: Tensor, skipped: Tensor, max_norm: float
) -> None:
    """Clip and step; see :func:`longstride.learning.steps.clipped_adam.step_of_all`."""
    squares, next_counts = loss.new_empty(len(parts) * _PROGRAMS), loss.new_empty(len(parts))
    (one, other), (slopes, others) = (parts[0], parts[-1]), (gradients[0], gradients[-1])  # the same if there is one
    sizes = len(one.flat), len(other.flat)
    _norm_kernel[(_PROGRAMS, len(parts))](
        *(slopes, one.steps, sizes[0], others, other.steps, sizes[1], squares, next_counts),
        PROGRAMS=_PROGRAMS,
        BLOCK=_BLOCK,
    )
    _adam_kernel[(triton.cdiv(max(sizes), _BLOCK), len(parts))](
        *(one.flat, slopes, one.mean, one.square, one.steps, one.rate, one.epsilon, sizes[0]),
        *(other.flat, others, other.mean, other.square, other.steps, other.rate, other.epsilon, sizes[1]),
        *(squares, next_counts, loss, skipped, max_norm),
        PARTS=len(parts),
        PROGRAMS=_PROGRAMS,
        BLOCK=_BLOCK,
        BETA1=BETAS[0],
        BETA2=BETAS[1],
        LOG_BETA1=math.log(BETAS[0]),
        LOG_BETA2=math.log(BETAS[1]),
    )
