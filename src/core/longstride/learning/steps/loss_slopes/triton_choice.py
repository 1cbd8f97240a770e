"""The figures of ``one_choice.py`` in one Triton kernel, and two launches that add up its blocks.

Not run on a GPU yet: tests run it in Triton's interpreter. The package triton comes with torch for CUDA.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from longstride.learning.algorithms.interface import Samples
from longstride.learning.algorithms.ppo import PpoCoefficients
from longstride.learning.steps.loss_slopes.one_choice import Figures

_ROWS = 32
"""Samples of a block."""

_SUMS = 5
"""Weighted sums of a block; the largest deviation of a ratio comes behind them."""


@triton.jit
def _kernel(  # type: ignore[no-untyped-def]
    logits, masks, actions, old_log_probs, advantages, returns, values, weights,
    clip_range, by_entropy, by_value, by_logits, by_values, blocks, rows, columns,
    HAS_CRITIC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    row, column = block * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    there = row < rows
    place, inside = row[:, None] * columns + column[None, :], there[:, None] & (column < columns)[None, :]
    allowed = (tl.load(masks + place, mask=inside, other=0) != 0) | (row >= rows)[:, None]  # else 0 / 0 there
    z = tl.where(allowed, tl.load(logits + place, mask=inside, other=0.0), -1e30)
    shifted = z - tl.max(z, axis=1)[:, None]
    e = tl.where(allowed, tl.exp(shifted), 0.0)
    total = tl.sum(e, axis=1)
    log_p, p = shifted - tl.log(total)[:, None], e / total[:, None]
    less_entropy = tl.sum(p * tl.where(allowed, log_p, 0.0), axis=1)
    chosen = column[None, :] == tl.load(actions + row, mask=there, other=0)[:, None]
    log_prob = tl.sum(tl.where(chosen & allowed, log_p, 0.0), axis=1)

    weight = tl.load(weights + row, mask=there, other=0.0)
    advantage = tl.load(advantages + row, mask=there, other=0.0)
    clip = tl.load(clip_range)
    log_ratio = log_prob - tl.load(old_log_probs + row, mask=there, other=0.0)
    ratio = tl.exp(log_ratio)
    gain = ratio * advantage
    clipped = tl.minimum(tl.maximum(ratio, 1.0 - clip), 1.0 + clip) * advantage
    above = ratio - 1.0
    deviation = tl.abs(above)
    by_chosen = gain * weight * (gain <= clipped).to(gain.dtype)
    weighed = (weight * tl.load(by_entropy))[:, None]
    slopes = p * (by_chosen[:, None] + weighed * tl.where(allowed, log_p - less_entropy[:, None], 0.0))
    slopes -= tl.where(chosen, by_chosen[:, None], 0.0)
    tl.store(by_logits + place, slopes, mask=inside)

    # NaN must stay: a minimum of numbers that are not finite might drop it
    objective = tl.where(gain <= clipped, gain, tl.where(clipped < gain, clipped, gain * clipped))
    sums = blocks + block * 6
    tl.store(sums, tl.sum(objective * weight, axis=0))
    tl.store(sums + 1, tl.sum(less_entropy * weight, axis=0))
    tl.store(sums + 2, tl.sum((above - log_ratio) * weight, axis=0))
    tl.store(sums + 3, tl.sum(tl.where(deviation > clip, weight, 0.0), axis=0))
    tl.store(sums + 5, tl.max(tl.where(there & (weight > 0.0), deviation, 0.0), axis=0))
    square = tl.zeros_like(weight)
    if HAS_CRITIC:
        error = tl.load(values + row, mask=there, other=0.0) - tl.load(returns + row, mask=there, other=0.0)
        square = error * error
        tl.store(by_values + row, error * weight * tl.load(by_value), mask=there)
    tl.store(sums + 4, tl.sum(square * weight, axis=0))


def figures_of(
    logits: Tensor, values: Tensor, samples: Samples, weights: Tensor, coefficients: PpoCoefficients
) -> Figures:
    """Return the figures of samples; see :func:`longstride.learning.steps.loss_slopes.one_choice.figures_of`."""
    rows, columns = logits.shape
    count = triton.cdiv(rows, _ROWS)
    blocks = logits.new_empty(count, _SUMS + 1)
    by_logits, by_values = torch.empty_like(logits), torch.empty_like(values)
    clip_range, by_entropy, by_value = (_tensor(each, logits) for each in coefficients)
    _kernel[(count,)](
        *(logits.contiguous(), samples.masks, samples.actions, samples.log_probs, samples.advantages, samples.returns),
        *(values.contiguous(), weights, clip_range, by_entropy, by_value, by_logits, by_values, blocks, rows, columns),
        HAS_CRITIC=len(values) > 0,
        ROWS=_ROWS,
        COLUMNS=triton.next_power_of_2(columns),
    )
    used = _SUMS if len(values) else _SUMS - 1
    return Figures(blocks[:, :used].sum(dim=0), blocks[:, _SUMS].max(), by_logits, by_values)


def _tensor(coefficient: Any, like: Tensor) -> Tensor:
    """Return a coefficient where the kernel can read it; one that is the number 0 is made there."""
    return coefficient if isinstance(coefficient, Tensor) else like.new_full((), coefficient)
