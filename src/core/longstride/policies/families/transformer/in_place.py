"""One step of a transformer for many streams: each ring gets one more column, in its place.

Where ``network.py`` makes new rings, this reads each of them once and writes a column. Softmax does not depend on the
order of the steps that are seen, so columns stay where they are. Those that no step of the episode has written are
hidden, not set to 0. Keys lie as values do, [heads, W, D / heads], as kernels of attention read them; otherwise rings
are those of ``network.py``, which has the formulas.
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


def step(inputs: HiddenInputs) -> Tensor:
    """Return the normalised outputs of the last block, float[B, D], and write the next states over the given ones."""
    spec, memory = inputs.spec, inputs.memory
    assert memory is not None
    (weight, bias), *others = inputs.layers
    x = to_float32(torch.addmm(bias, inputs.x.to(weight.dtype), weight))
    states, window, heads = memory.states, spec.context_length, spec.attention_heads
    rows, size = len(states), x.shape[1] // heads
    rings = states[:, :-1].view(rows, len(others) // 4, 2, heads, window, size)
    ages = states[:, -1:].masked_fill(memory.begins, 0.0).long()
    place = (ages % window).view(rows, 1, 1, 1).expand(rows, heads, 1, size)
    unseen = torch.arange(window, device=ages.device) > ages
    mask = torch.zeros(unseen.shape, device=ages.device).masked_fill_(unseen, -torch.inf).view(rows, 1, 1, window)
    turn = (ages % (2 * window)).squeeze(1)
    cosines, sines = (table[turn].view(rows, 1, 1, size) for table in _doubled(window, size, ages.device, states.dtype))
    for block, first in enumerate(range(0, len(others), 4)):
        attention, found, up, down = others[first : first + 4]
        keys, values = rings[:, block].unbind(1)
        queries_keys_values = to_float32(product(norm(x), attention)).view(rows, 3, heads, size)
        both = queries_keys_values[:, :2]
        query, key = torch.addcmul(both * cosines, both.roll(size // 2, -1), sines).unbind(1)
        keys.scatter_(2, place, key.unsqueeze(2))
        values.scatter_(2, place, queries_keys_values[:, 2].unsqueeze(2))
        seen = heads_of(query.unsqueeze(2), keys, values, mask)
        x = x + product(seen.reshape(rows, -1), found)
        x = x + product(inputs.activation(product(norm(x), up)), down)
    states[:, -1:] = wrapped(ages + 1, window)
    return norm(x)


@cache
def _doubled(window: int, head_size: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return float[2 W, D / heads], cosines twice, and sines with the sign of the other half."""
    cosines, sines = rotations(window, head_size)
    first, second = (np.concatenate(pair, axis=1) for pair in ((cosines, cosines), (-sines, sines)))
    return torch.from_numpy(first).to(device, dtype), torch.from_numpy(second).to(device, dtype)


def pack(spec: PolicySpec, states: Tensor) -> Tensor:
    """Return float32[N, S] states as :func:`step` keeps them."""
    return _turned(spec, states, (spec.attention_heads, -1, spec.context_length))


def unpack(spec: PolicySpec, states: Tensor) -> Tensor:
    """Return float32[N, S], the states of :func:`step` as every other function takes them."""
    return _turned(spec, states, (spec.attention_heads, spec.context_length, -1))


def _turned(spec: PolicySpec, states: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """Return states whose keys, matrices of a shape in each block, are transposed."""
    turned = states.clone()
    blocks = len(spec.actor_hidden)
    keys, source = (each[:, :-1].view(len(states), blocks, 2, -1)[:, :, 0] for each in (turned, states))
    keys.copy_(source.reshape(len(states), blocks, *shape).transpose(3, 4).flatten(2))
    return turned


TRANSFORMER_IN_TORCH = TorchFamily(hidden, initialise, TRANSFORMER_EXPORT, in_place=InPlace(step, pack, unpack))
"""A causal transformer; :mod:`longstride.policies.families.transformer.network` has the formulas."""
