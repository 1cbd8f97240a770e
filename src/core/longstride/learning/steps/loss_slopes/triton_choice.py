"""The figures of ``one_choice.py`` in one Triton kernel, and another one that adds up its blocks.

It reads the samples where they lie in the rollout, weighs the features of the actions, and adds up the derivatives by
their weights. The package triton comes with torch for CUDA; tests also run the kernel in its interpreter.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from longstride.learning.algorithms.interface import Samples
from longstride.learning.algorithms.ppo import LossTerms, PolicyTerms, PpoCoefficients
from longstride.learning.steps.loss_slopes.one_choice import Figures

_VALUES = 256
"""Logits of a block, at least one sample's. On an H200 (2026-11-27, 31,744 samples, 64 actions of two features) blocks
of 4 samples in one warp take 31 us, of 32 in four warps 56."""

_SUMS = 5
"""Weighted sums of a block; the largest deviation of a ratio comes behind them."""

_TILE = 1024
"""Blocks that are added at once. One multiprocessor adds up all: 8,000 blocks are 250 kB. Not timed on a GPU."""


@triton.jit
def _kernel(  # type: ignore[no-untyped-def]
    logits, masks, actions, old_log_probs, advantages, returns, values, weights,
    features, feature_weights, places, clip_range, by_entropy, by_value, by_logits, by_values, blocks, rows, columns,
    HAS_CRITIC: tl.constexpr, HAS_PLACES: tl.constexpr, FEATURES: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    row, column = block * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    there = row < rows
    source = row.to(tl.int64)  # of a sample in the rollout
    if HAS_PLACES:
        source = tl.load(places + row, mask=there, other=0)
    place, inside = row[:, None] * columns + column[None, :], there[:, None] & (column < columns)[None, :]
    at = source[:, None] * columns + column[None, :]
    allowed = (tl.load(masks + at, mask=inside, other=0) != 0) | (row >= rows)[:, None]  # else 0 / 0 there
    z = tl.load(logits + place, mask=inside, other=0.0)
    for k in tl.static_range(FEATURES):
        z += tl.load(feature_weights + k) * tl.load(features + at * FEATURES + k, mask=inside, other=0.0)
    z = tl.where(allowed, z, -1e30)
    shifted = z - tl.max(z, axis=1)[:, None]
    e = tl.where(allowed, tl.exp(shifted), 0.0)
    total = tl.sum(e, axis=1)
    log_p, p = shifted - tl.log(total)[:, None], e / total[:, None]
    less_entropy = tl.sum(p * tl.where(allowed, log_p, 0.0), axis=1)
    chosen = column[None, :] == tl.load(actions + source, mask=there, other=0)[:, None]
    log_prob = tl.sum(tl.where(chosen & allowed, log_p, 0.0), axis=1)

    weight = tl.load(weights + row, mask=there, other=0.0)
    advantage = tl.load(advantages + source, mask=there, other=0.0)
    clip = tl.load(clip_range)
    log_ratio = log_prob - tl.load(old_log_probs + source, mask=there, other=0.0)
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
    sums = blocks + block * (6 + FEATURES)
    tl.store(sums, tl.sum(objective * weight, axis=0))
    tl.store(sums + 1, tl.sum(less_entropy * weight, axis=0))
    tl.store(sums + 2, tl.sum((above - log_ratio) * weight, axis=0))
    tl.store(sums + 3, tl.sum(tl.where(deviation > clip, weight, 0.0), axis=0))
    tl.store(sums + 5, tl.max(tl.where(there & (weight > 0.0), deviation, 0.0), axis=0))
    square = tl.zeros_like(weight)
    if HAS_CRITIC:
        error = tl.load(values + row, mask=there, other=0.0) - tl.load(returns + source, mask=there, other=0.0)
        square = error * error
        tl.store(by_values + row, error * weight * tl.load(by_value), mask=there)
    tl.store(sums + 4, tl.sum(square * weight, axis=0))
    for k in tl.static_range(FEATURES):
        feature = tl.load(features + at * FEATURES + k, mask=inside, other=0.0)
        tl.store(sums + 6 + k, tl.sum(tl.sum(tl.where(inside, slopes * feature, 0.0), axis=1), axis=0))


@triton.jit
def _report_kernel(  # type: ignore[no-untyped-def]
    blocks, count, by_entropy, by_value, report, by_features,
    HAS_CRITIC: tl.constexpr, FEATURES: tl.constexpr, COLUMNS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, COLUMNS)
    sums, largest = tl.zeros((TILE, COLUMNS), tl.float32), tl.zeros((TILE, COLUMNS), tl.float32)
    for begin in range(0, count, TILE):
        row = begin + tl.arange(0, TILE)
        inside = (row < count)[:, None] & (column < 6 + FEATURES)[None, :]
        numbers = tl.load(blocks + row[:, None] * (6 + FEATURES) + column[None, :], mask=inside, other=0.0)
        sums, largest = sums + numbers, tl.maximum(largest, numbers)
    of_columns, highest = tl.sum(sums, axis=0), tl.max(largest, axis=0)
    policy_loss, entropy = -_at(of_columns, column, 0), -_at(of_columns, column, 1)
    value_loss, last = 0.5 * _at(of_columns, column, 4), 2
    tl.store(report + 1, policy_loss)
    if HAS_CRITIC:
        tl.store(report + 2, value_loss)
        last = 3
    tl.store(report, policy_loss + tl.load(by_value) * value_loss - tl.load(by_entropy) * entropy)
    tl.store(report + last, entropy)
    tl.store(report + last + 1, _at(of_columns, column, 2))
    tl.store(report + last + 2, _at(of_columns, column, 3))
    tl.store(report + last + 3, _at(highest, column, 5))
    tl.store(report + last + 4, 0.0)
    tl.store(by_features + column - 6, of_columns, mask=(column >= 6) & (column < 6 + FEATURES))


@triton.jit
def _at(numbers, column, place: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.sum(tl.where(column == place, numbers, 0.0), axis=0)


def figures_of(
    logits: Tensor,
    values: Tensor,
    samples: Samples,
    weights: Tensor,
    coefficients: PpoCoefficients,
    places: Tensor | None = None,
    feature_weights: Tensor | None = None,
    by_features: Tensor | None = None,
) -> Figures:
    """Return the figures of samples; see :func:`longstride.learning.steps.loss_slopes.one_choice.figures_of`."""
    rows, columns = logits.shape
    filled = triton.next_power_of_2(columns)
    of_a_block = max(_VALUES // filled, 1)
    count = triton.cdiv(rows, of_a_block)
    n_features = 0 if feature_weights is None else len(feature_weights)
    blocks = logits.new_empty(count, _SUMS + 1 + n_features)
    by_logits, by_values = torch.empty_like(logits), torch.empty_like(values)
    clip_range, by_entropy, by_value = (_tensor(each, logits) for each in coefficients)
    _kernel[(count,)](
        *(logits.contiguous(), samples.masks, samples.actions, samples.log_probs, samples.advantages, samples.returns),
        *(values.contiguous(), weights, samples.features, feature_weights, places, clip_range, by_entropy, by_value),
        *(by_logits, by_values, blocks, rows, columns),
        HAS_CRITIC=len(values) > 0,
        HAS_PLACES=places is not None,
        FEATURES=n_features,
        ROWS=of_a_block,
        COLUMNS=filled,
        num_warps=min(max(filled // _VALUES, 1), 8),
    )
    report = logits.new_empty(len(LossTerms._fields if len(values) else PolicyTerms._fields) + 2)
    by_features = logits.new_empty(n_features) if by_features is None else by_features
    _report_kernel[(1,)](
        *(blocks, count, by_entropy, by_value, report, by_features),
        HAS_CRITIC=len(values) > 0,
        FEATURES=n_features,
        COLUMNS=triton.next_power_of_2(blocks.shape[1]),
        TILE=_TILE,
        num_warps=8,
    )
    return Figures(report, by_logits, by_values, by_features)


def _tensor(coefficient: Any, like: Tensor) -> Tensor:
    """Return a coefficient where the kernel can read it; one that is the number 0 is made there."""
    return coefficient if isinstance(coefficient, Tensor) else like.new_full((), coefficient)
