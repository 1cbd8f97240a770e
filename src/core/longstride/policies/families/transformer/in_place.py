"""One step of a transformer for many streams: each ring gets one more column, in its place.

Where ``network.py`` makes new rings, this reads each of them once and writes a column. Softmax does not depend on the
order of the steps that are seen, so columns stay where they are. Those that no step of the episode has written are
hidden, not set to 0. Keys lie as values do, [heads, W, D / heads], as kernels of attention read them; otherwise rings
are those of ``network.py``, which has the formulas.

Rings in BF16 have half the bytes, and long rings are most of what a step reads. Attention then reads queries, keys and
values in BF16 and adds up in float32; all else stays in float32. The age has its four bytes as the last two numbers of
such a row, as BF16 does not hold every whole number above 256. The operation that turns queries and keys writes in the
format of the rings, and does so for values too, which it does not turn. So BF16 costs one operation more for each
block: what the heads find goes back to float32.
"""

from functools import cache

import numpy as np
import torch
from torch import Tensor

from longstride.policies.distributions import to_float32
from longstride.policies.families.torch_family import HiddenInputs, InPlace, TorchFamily
from longstride.policies.families.transformer.export import TRANSFORMER_EXPORT
from longstride.policies.families.transformer.network import (
    heads_of,
    hidden,
    initialise,
    norm,
    product,
    wrapped,
)
from longstride.policies.families.transformer.rotary import rotations
from longstride.policies.spec import PolicySpec

_BF16_HEAD = 8
"""Kernels of attention in BF16 read 16 bytes at once, so a head's size must be a multiple of so many numbers."""


def step(inputs: HiddenInputs) -> Tensor:
    """Return the normalised outputs of the last block, float[B, D], and write the next states over the given ones."""
    spec, memory = inputs.spec, inputs.memory
    assert memory is not None
    (weight, bias), *others = inputs.layers
    x = to_float32(torch.addmm(bias, inputs.x.to(weight.dtype), weight))
    states, window, heads = memory.states, spec.context_length, spec.attention_heads
    (rows, width), size = x.shape, x.shape[1] // heads
    kept, age = _rings_and_age(states)
    rings = kept.view(rows, len(others) // 4, 2, heads, window, size)
    ages = age.masked_fill(memory.begins, 0.0).long()
    place = (ages % window).view(rows, 1, 1, 1, 1).expand(rows, 2, heads, 1, size)
    unseen = torch.arange(window, device=ages.device) > ages
    mask = torch.zeros(unseen.shape, dtype=states.dtype, device=ages.device).masked_fill_(unseen, -torch.inf)
    mask = mask.view(rows, 1, 1, window)
    turn = (ages % (2 * window)).squeeze(1)
    in_bf16 = states.dtype != x.dtype
    parts = 3 if in_bf16 else 2  # queries, keys, and values where they change their format
    cosines, sines = (table[turn] for table in _tables(window, size, ages.device, x.dtype, in_bf16))
    for block, first in enumerate(range(0, len(others), 4)):
        attention, found, up, down = others[first : first + 4]
        given = to_float32(product(norm(x), attention)).view(rows, 3, heads, size)
        turned = torch.empty(given.shape, dtype=states.dtype, device=given.device) if in_bf16 else given
        old = given[:, :parts]
        torch.addcmul(old * cosines, old.roll(size // 2, -1), sines, out=turned[:, :parts])
        keys, values = rings[:, block].scatter_(3, place, turned[:, 1:].unsqueeze(3)).unbind(1)
        seen = heads_of(turned[:, 0].unsqueeze(2), keys, values, mask)
        x = x + product(seen.reshape(rows, width), found)
        x = x + product(inputs.activation(product(norm(x), up)), down)
    age.copy_(wrapped(ages + 1, window))
    return norm(x)


@cache
def _tables(
    window: int, head_size: int, device: torch.device, dtype: torch.dtype, with_values: bool
) -> tuple[Tensor, Tensor]:
    """Return cosines twice, and sines with the sign of the other half: float[2 W, 1, 1, D / heads].

    With values they are [2 W, 3, 1, D / heads], for queries, keys and values, which 1 and 0 leave as they are.
    """
    cosines, sines = rotations(window, head_size)
    tables = np.concatenate([cosines, cosines], axis=1), np.concatenate([-sines, sines], axis=1)
    unturned = np.ones_like(tables[0]), np.zeros_like(tables[1])
    first, second = (
        torch.from_numpy(np.stack([table, table, other] if with_values else [table], axis=1)).to(device, dtype)
        for table, other in zip(tables, unturned, strict=True)
    )
    return first.unsqueeze(2), second.unsqueeze(2)


def _rings_and_age(states: Tensor) -> tuple[Tensor, Tensor]:
    """Return views of packed states: their rings, and the age in float32[N, 1], which BF16 would round."""
    numbers = torch.float32.itemsize // states.dtype.itemsize
    return states[:, :-numbers], states[:, -numbers:].view(torch.float32)


def pack(spec: PolicySpec, states: Tensor, dtype: torch.dtype) -> Tensor:
    """Return float32[N, S] states as :func:`step` keeps them, their rings in a number format."""
    packed = states.new_empty(len(states), width(spec, dtype), dtype=dtype)
    _turn(spec, states, packed, (spec.attention_heads, -1, spec.context_length))
    return packed


def unpack(spec: PolicySpec, states: Tensor) -> Tensor:
    """Return float32[N, S], the states of :func:`step` as every other function takes them."""
    unpacked = states.new_empty(len(states), spec.state_size, dtype=torch.float32)
    _turn(spec, states, unpacked, (spec.attention_heads, spec.context_length, -1))
    return unpacked


def _turn(spec: PolicySpec, source: Tensor, into: Tensor, shape: tuple[int, int, int]) -> None:
    """Copy states with keys, matrices of a shape in each block, transposed."""
    (rings, age), (new_rings, new_age) = _rings_and_age(source), _rings_and_age(into)
    old, new = (each.view(len(each), len(spec.actor_hidden), 2, -1) for each in (rings, new_rings))
    new[:, :, 0] = old[:, :, 0].reshape(*old.shape[:2], *shape).transpose(3, 4).flatten(2)
    new[:, :, 1] = old[:, :, 1]
    new_age.copy_(age)


def width(spec: PolicySpec, dtype: torch.dtype) -> int:
    """Return the numbers of a packed state: its rings, and the four bytes of the age."""
    return spec.state_size - 1 + torch.float32.itemsize // dtype.itemsize


def bf16_problem(spec: PolicySpec) -> str:
    """Return why no kernel of attention reads rings in BF16."""
    size = spec.actor_hidden[0] // spec.attention_heads
    return f"heads have {size} units, which is no multiple of {_BF16_HEAD}" if size % _BF16_HEAD else ""


_IN_PLACE = InPlace(step, pack, unpack, width, bf16_problem)

TRANSFORMER_IN_TORCH = TorchFamily(hidden, initialise, TRANSFORMER_EXPORT, in_place=_IN_PLACE)
"""A causal transformer; :mod:`longstride.policies.families.transformer.network` has the formulas."""
