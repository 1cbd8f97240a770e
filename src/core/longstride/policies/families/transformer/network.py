"""Causal transformer in torch, all steps of a chunk at once.

Vaswani et al., "Attention is all you need" (arXiv 1706.03762), with normalisation before each part of a block (Xiong et
al., arXiv 2002.04745) by the root mean square (Zhang and Sennrich, arXiv 1910.07467), without a gain, which the next
matrix can learn. A layer reads the observation, then each block of width D adds to x

    x = x + heads(norm(x) A) B,    x = x + g(norm(x) C) E,    norm(x) = x / sqrt(mean(x^2) + epsilon)

A has 3 D columns: queries, keys and values of all heads. A query sees the keys of the last W steps of its episode, its
own among them. Queries and keys are turned by their step in the episode (``rotary.py``).

The state of a stream is a ring: for each block the keys, [heads, D / heads, W], and the values, [heads, W, D / heads],
of the last W steps, and at the end the number of steps t that the episode has made. Step t lies in column t mod W.
From 4 W on t goes back to 2 W, which changes nothing, as turns repeat after 2 W steps.

A step depends on W - 1 steps before it by each block, so after L (W - 1) steps nothing depends on the state before.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, scaled_dot_product_attention

from longstride.policies.distributions import to_float32
from longstride.policies.families.torch_family import FirstLayer, HiddenInputs, Layer
from longstride.policies.families.transformer.norm import NORM_EPSILON
from longstride.policies.families.transformer.rotary import rotations
from longstride.policies.memory import Memory, Steps
from longstride.policies.spec import PolicySpec

_KERNEL = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu

_TABLES: dict[tuple[Any, ...], tuple[Tensor, Tensor]] = {}


class _View(NamedTuple):
    """What C chunks of K steps see of each other and of the W steps before them, the same in all blocks.

    Attributes:
        ages: int64[C, K], steps that the episode had made before each step.
        hidden: float[C, 1, K, W + K], 0 for each step that one sees and minus infinity for the others: those before the
            chunk, the oldest first, then its own.
        columns: int64[C, W], columns of the ring in which those before the chunk lie.
        cosines, sines: float[C, 1, K, D / heads / 2], by which queries and keys are turned.
    """

    ages: Tensor
    hidden: Tensor
    columns: Tensor
    cosines: Tensor
    sines: Tensor


def hidden(inputs: HiddenInputs) -> tuple[Tensor, Tensor]:
    """Return the normalised outputs of the last block, float[B, D], and states after some steps, float[N, S].

    The layers are the one that reads the observation, then four products for each block. States have the dtype of the
    residual values. The hidden outputs are the activated units of each block's perceptron, float[B, units], then the
    result.
    """
    spec, memory, after = inputs.spec, inputs.memory, inputs.after
    assert memory is not None
    (weight, bias), *others = inputs.layers
    x = to_float32(torch.addmm(bias, inputs.x.to(weight.dtype), weight))
    view = _view(memory, spec, x.shape[1], weight.dtype)
    rings = memory.states[:, :-1].reshape(len(memory.states), len(others) // 4, -1)
    kept: list[Tensor] = []
    for block, first in enumerate(range(0, len(others), 4)):
        attention, found, up, down = others[first : first + 4]
        past = _in_order(rings[:, block], view.columns, spec.attention_heads)
        heads, steps = _attend(product(norm(x), attention), past, view, attention[0].dtype)
        x = x + product(heads, found)
        units = inputs.activation(product(norm(x), up))
        x = x + product(units, down)
        if inputs.hidden is not None:
            inputs.hidden.append(units)
        if after is not None:
            kept.append(_ring_after(steps, after, view, spec.context_length))
    ages = (
        wrapped(view.ages[after.chunks, after.places] + 1, spec.context_length)
        if after is not None
        else view.ages[:0, 0]
    )
    outputs = norm(x)
    if inputs.hidden is not None:
        inputs.hidden.append(outputs)
    return outputs, torch.cat([*kept, ages.unsqueeze(1).to(x.dtype)], dim=1)


def initialise(layer: FirstLayer) -> None:
    """Draw a matrix of a block: queries, keys and values each for themselves, scaled where it adds to the residual."""
    weight, place = layer.layer[0], layer.number % 4
    for each in torch.split(weight, len(weight), dim=1) if place == 1 else [weight]:
        layer.draw(each)
    if place % 2 == 0:
        weight.mul_((layer.products / 2 - 1) ** -0.5)  # what is added to the residual values, so many times


def norm(x: Tensor) -> Tensor:
    """Return rows divided by the root of their mean square."""
    return rms_norm(x, x.shape[1:], eps=NORM_EPSILON)


def product(x: Tensor, layer: Layer) -> Tensor:
    """Return the outputs of a layer, in the number format of its weights."""
    weight, bias = layer
    return torch.addmm(bias, x.to(weight.dtype), weight)


def _view(memory: Memory, spec: PolicySpec, width: int, dtype: torch.dtype) -> _View:
    """Return what steps see; see :class:`_View`. What is hidden has the number format in which heads compute."""
    window, begins = spec.context_length, memory.begins.view(len(memory.states), -1)
    before, place = memory.states[:, -1:].long(), torch.arange(begins.shape[1], device=begins.device)
    begin = torch.cummax(torch.where(begins, place, -1), dim=1).values  # of the episode; -1 before the chunk
    ages = torch.where(begin >= 0, place - begin, before + place)
    slot = torch.arange(window, device=begins.device)
    distance = place.unsqueeze(1) - place
    own = (distance >= 0) & (distance < window) & (place >= begin.unsqueeze(2))
    reaches = (slot > place.unsqueeze(1)) & (begin.unsqueeze(2) < 0)
    past = reaches & (slot >= window - before).unsqueeze(1)
    cosines, sines = _tables(window, width // spec.attention_heads, begins.device, memory.states.dtype)
    turn = ages % (2 * window)
    seen = torch.cat([past, own], dim=2).unsqueeze(1)
    hidden = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -torch.inf)
    return _View(ages, hidden, (before + slot) % window, cosines[turn].unsqueeze(1), sines[turn].unsqueeze(1))


def _tables(*key: Any) -> tuple[Tensor, Tensor]:
    """Return the tables of :func:`rotations`, made once: torch's compiler cannot trace how they are made.

    The key is the window, the size of a head, the device and the dtype.
    """
    if key not in _TABLES:
        window, head_size, device, dtype = key
        cosines, sines = (torch.from_numpy(table).to(device, dtype) for table in rotations(window, head_size))
        _TABLES[key] = cosines, sines
    return _TABLES[key]


def _in_order(ring: Tensor, columns: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Return keys and values of a block's ring, float[C, heads, W, D / heads] each, the oldest first."""
    (chunks, window), half = columns.shape, ring.shape[1] // 2
    keys = ring[:, :half].view(chunks, heads, -1, window).transpose(2, 3)
    values = ring[:, half:].view(chunks, heads, window, -1)
    order = columns.view(chunks, 1, window, 1).expand(values.shape)
    return keys.gather(2, order), values.gather(2, order)


def _attend(
    product: Tensor, past: tuple[Tensor, Tensor], view: _View, dtype: torch.dtype
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return what the heads find, float[B, D], and keys and values of the steps before the chunks and of their own.

    Those are float[C, heads, W + K, D / heads] each. The heads compute in a number format.
    """
    chunks, heads = past[0].shape[:2]
    rows = to_float32(product).view(chunks, -1, 3, heads, past[0].shape[3])
    query, key, value = rows.permute(2, 0, 3, 1, 4)
    keys = torch.cat([past[0], _turned(key, view)], dim=2)
    values = torch.cat([past[1], value], dim=2)
    query, k, v = (each.to(dtype) for each in (_turned(query, view), keys, values))
    found = heads_of(query, k, v, view.hidden)
    return found.transpose(1, 2).reshape(len(product), -1), (keys, values)


def heads_of(query: Tensor, keys: Tensor, values: Tensor, hidden: Tensor) -> Tensor:
    """Return what the heads find; see :func:`scaled_dot_product_attention`."""
    if query.is_meta:  # where costs are counted torch would take its way without a kernel
        found: Tensor = _KERNEL(query, keys, values, attn_mask=hidden)[0]
        return found
    return scaled_dot_product_attention(query, keys, values, attn_mask=hidden)


def _turned(x: Tensor, view: _View) -> Tensor:
    """Return queries or keys turned by the steps of the episode; value j of a head goes with value j + half."""
    a, b = x.chunk(2, dim=3)
    return torch.cat([a * view.cosines - b * view.sines, a * view.sines + b * view.cosines], dim=3)


def _ring_after(steps: tuple[Tensor, Tensor], after: Steps, view: _View, window: int) -> Tensor:
    """Return a block's rings after some steps, float[N, 2 W D], for keys and values of :func:`_attend`."""
    ages = view.ages[after.chunks, after.places] + 1
    order = (torch.arange(window, device=ages.device) - ages.unsqueeze(1)) % window  # of each column, the oldest first
    rows = after.places.unsqueeze(1) + 1 + order
    unused = (order < window - ages.unsqueeze(1)).view(len(order), 1, window, 1)
    keys, values = (
        torch.where(unused, 0.0, part[after.chunks.unsqueeze(1), :, rows].transpose(1, 2)) for part in steps
    )
    return torch.cat([keys.transpose(2, 3).flatten(1), values.flatten(1)], dim=1)


def wrapped(ages: Tensor, window: int) -> Tensor:
    """Return ages as a state keeps them."""
    return torch.where(ages < 4 * window, ages, 2 * window + ages % (2 * window))
