"""Minimal gated recurrent units in torch, all steps of a chunk at once.

Feng et al., "Were RNNs all we needed?" (arXiv 2410.01201), with an output gate beside the layer's input (a highway
connection: Srivastava et al., "Highway networks", 2015). A layer of H units makes one product of its input x_t,
3 H numbers q, u and p, and then

    z = sigmoid(q),  c = g(u),  h_t = (1 - z) (1 - r_t) h_{t-1} + z c,  output = sigmoid(p) h_t + (1 - sigmoid(p)) x_t

where g(u) = u + 1/2 for u >= 0 and sigmoid(u) below, and r_t = 1 where an episode begins. Neither gate looks at
h_{t-1}, so that all steps of a chunk are a scan of linear functions. It is computed on the numbers themselves: their
logarithms lose three digits in float32 and have none for a reset.
"""

import math
from typing import Any

import torch
from torch import Tensor

from longstride.policies.families.mingru.compiled_scan import scan_gradients, scan_steps
from longstride.policies.families.mingru.export import MINGRU_EXPORT
from longstride.policies.families.torch_family import FirstLayer, HiddenInputs, TorchFamily
from longstride.policies.spec import CHUNK


def remember(x: Tensor, weight: Tensor, bias: Tensor, start: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
    """Return a layer's outputs float[B, H], and its states after each step, float[C, K, H].

    Args:
        x: float[B, H], inputs of C chunks of K steps, one chunk after another.
        weight: float[H, 3 H].
        bias: float[3 H].
        start: float[C, H], states before each chunk; states have its dtype.
        begins: bool[B, 1], whether a step is the first of an episode.
    """
    product = torch.addmm(bias, x.to(weight.dtype), weight).to(start.dtype)
    q, u, p = product.chunk(3, dim=1)
    new = torch.sigmoid(q)
    candidate = torch.where(u >= 0.0, u + 0.5, torch.sigmoid(u))
    kept = torch.where(begins, 0.0, 1.0 - new)
    chunks = len(start), -1, start.shape[1]
    scanned = kept.view(chunks), (new * candidate).view(chunks), start.contiguous()
    states: Tensor = _Scan.apply(*scanned)  # type: ignore[no-untyped-call]
    gate = torch.sigmoid(p)
    return gate * states.reshape(x.shape) + (1.0 - gate) * x, states


def hidden(inputs: HiddenInputs) -> tuple[Tensor, Tensor]:
    """Return the outputs of the last layer, and the states after some steps, float[N, S].

    The states of all layers lie one after the other.
    """
    (weight, bias), *layers = inputs.layers
    memory, after, begin, states = inputs.memory, inputs.after, 0, list[Tensor]()
    assert memory is not None
    x = inputs.activation(torch.addmm(bias, inputs.x.to(weight.dtype), weight))
    outputs = [x]
    for weight, bias in layers:
        start = memory.states[:, begin : begin + len(weight)]
        x, of_layer = remember(x.to(start.dtype), weight, bias, start, memory.begins)
        begin += len(weight)
        if after is not None:
            states.append(of_layer[after.chunks, after.places])
        if inputs.hidden is not None:
            outputs.append(x)
    if inputs.hidden is not None:
        inputs.hidden.extend(outputs)
    return x, torch.cat(states, dim=1) if states else memory.states[:0]


def initialise(layer: FirstLayer) -> None:
    """Draw the matrices of gates and candidate, and let the units remember for 1 to CHUNK steps.

    The gate's bias is minus the logarithm of a time. Source: Tallec and Ollivier, "Can recurrent neural networks warp
    time?", 2018, section 3; but for the logarithms of the times, which are uniform here: half of the units remember for
    less than a dozen steps.
    """
    weight, bias = layer.layer
    for block in torch.split(weight, len(weight), dim=1):
        layer.draw(block)
    bias[: len(bias) // 3].uniform_(-math.log(CHUNK), 0.0, generator=layer.generator)


class _Scan(torch.autograd.Function):
    """h_t = kept_t h_{t-1} + added_t along the second axis, and its derivative, the same scan backwards."""

    @staticmethod
    def forward(context: Any, kept: Tensor, added: Tensor, start: Tensor) -> Tensor:
        """Return float[C, K, H] states for float[C, K, H] kept and added, and float[C, H] start."""
        if _step_by_step(kept):
            states = torch.empty_like(kept)
            scan_steps(*(tensor.numpy() for tensor in (kept, added, start, states)))
        else:
            states = scan(kept, added, start)
        context.save_for_backward(kept, states, start)
        return states

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the derivatives by kept, added and start."""
        kept, states, start = context.saved_tensors
        if _step_by_step(kept):
            found = torch.empty_like(kept), torch.empty_like(kept), torch.empty_like(start)
            given = kept, states, start, gradient.contiguous()
            scan_gradients(*(tensor.numpy() for tensor in (*given, *found)))
            return found
        later = torch.cat([kept[:, 1:], torch.zeros_like(kept[:, :1])], dim=1)
        total = scan(later.flip(1), gradient.flip(1), torch.zeros_like(start)).flip(1)
        before = torch.cat([start.unsqueeze(1), states[:, :-1]], dim=1)
        return total * before, total, total[:, 0] * kept[:, 0]


def _step_by_step(tensor: Tensor) -> bool:
    """Return whether a scan runs on the CPU, where one step after the other is the least work."""
    return tensor.device.type == "cpu" and type(tensor) is Tensor and not torch.compiler.is_compiling()


def scan(kept: Tensor, added: Tensor, start: Tensor) -> Tensor:
    """Return float[C, K, H], h_t = kept_t h_{t-1} + added_t from h_0 = start, in about log2 K rounds over all steps.

    After a round of distance d, step t holds the composition of the last 2 d steps (Hillis and Steele, "Data parallel
    algorithms", 1986). Where kept is 0 nothing of before is left, to the bit.
    """
    added = torch.cat([added[:, :1] + kept[:, :1] * start.unsqueeze(1), added[:, 1:]], dim=1)
    distance, steps = 1, kept.shape[1]
    while distance < steps:
        further = added[:, distance:] + kept[:, distance:] * added[:, :-distance]
        added = torch.cat([added[:, :distance], further], dim=1)
        if 2 * distance < steps:
            kept = torch.cat([kept[:, :distance], kept[:, distance:] * kept[:, :-distance]], dim=1)
        distance *= 2
    return added


MINGRU_IN_TORCH = TorchFamily(hidden, initialise, MINGRU_EXPORT)
