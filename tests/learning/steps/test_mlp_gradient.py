"""The backward pass of multilayer perceptrons without autograd, against autograd in float64."""

from itertools import pairwise

import pytest
import torch
from helpers.real_steps import prepared_step
from learning.step_costs.test_work import SHAPES

from longstride.learning.steps.mlp_gradient import ACTIVATIONS, MlpGradient, backward, forward

ROWS = 19


def network(widths, dtype, half=None, seed=0):
    """Return layers; hidden ones in half precision, if there is one."""
    generator = torch.Generator().manual_seed(seed)
    layers = []
    for number, (n_in, n_out) in enumerate(pairwise(widths)):
        format_of = half if half and number < len(widths) - 2 else dtype
        weight = torch.randn(n_in, n_out, generator=generator, dtype=torch.float64) / n_in**0.5
        layers.append(
            (weight.to(format_of), torch.randn(n_out, generator=generator, dtype=torch.float64).to(format_of))
        )
    return layers


def ones_of(*formats):
    """Return ones of each number format."""
    return {dtype: torch.ones(1, ROWS, dtype=dtype) for dtype in formats}


def by_autograd(layers, x, slopes, activation):
    """Return outputs and gradients by all layers, each operation in the format of its layer."""
    leaves = [tuple(tensor.clone().requires_grad_() for tensor in layer) for layer in layers]
    for number, (weight, bias) in enumerate(leaves):
        x = torch.addmm(bias, x.to(weight.dtype), weight)
        x = getattr(torch, activation)(x) if number < len(leaves) - 1 else x
    flat = [tensor for layer in leaves for tensor in layer]
    return x.detach(), torch.autograd.grad(x, flat, slopes)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("widths", [(7, 5), (7, 8, 3), (7, 16, 8, 12, 1)])
def test_gradients_are_those_of_autograd(widths, activation):
    layers = network(widths, torch.float64)
    x, slopes = torch.randn(ROWS, widths[0]).double(), torch.randn(ROWS, widths[-1]).double()
    outputs, expected = by_autograd(layers, x, slopes, activation)
    done = forward(layers, x, ACTIVATIONS[activation])
    torch.testing.assert_close(done.outputs, outputs, rtol=1e-12, atol=1e-14)
    places = [tuple(torch.full_like(tensor, torch.nan) for tensor in layer) for layer in layers]
    backward(done, layers, slopes, places, ACTIVATIONS[activation], ones_of(torch.float64))
    assert done.inputs == []
    found = [tensor for layer in places for tensor in layer]
    for place, gradient in zip(found, expected, strict=True):
        assert gradient.abs().max() > 1e-3
        torch.testing.assert_close(place, gradient, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_one_product_computes_the_gradients_of_all_hidden_biases(activation):
    """Their places lie one after another, as far apart as a weight and a bias are large."""
    layers = network((7, 8, 8, 8, 3), torch.float64)
    x, slopes = torch.randn(ROWS, 7).double(), torch.randn(ROWS, 3).double()
    _, expected = by_autograd(layers, x, slopes, activation)
    sizes = [tensor.numel() for layer in layers for tensor in layer]
    flat = torch.full((sum(sizes),), torch.nan, dtype=torch.float64)
    pieces = [piece.view(e.shape) for piece, e in zip(flat.split(sizes), expected, strict=True)]
    places = [*zip(pieces[::2], pieces[1::2], strict=True)]
    biases = MlpGradient._biases(places, flat)
    assert biases is not None and biases.shape == (3, 1, 8)
    done = forward(layers, x, ACTIVATIONS[activation])
    backward(done, layers, slopes, places, ACTIVATIONS[activation], ones_of(torch.float64), biases)
    for place, gradient in zip(pieces, expected, strict=True):
        torch.testing.assert_close(place, gradient, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_gradients_in_half_precision_have_the_formats_of_their_layers(half):
    layers = network((8, 16, 16, 4), torch.float32, half)
    x, slopes = torch.randn(ROWS, 8).to(half), torch.randn(ROWS, 4)
    _, expected = by_autograd(layers, x, slopes, "relu")
    places = [tuple(torch.zeros_like(tensor) for tensor in layer) for layer in layers]
    relu = ACTIVATIONS["relu"]
    backward(forward(layers, x, relu), layers, slopes, places, relu, ones_of(torch.float32, half))
    found = [tensor for layer in places for tensor in layer]
    for place, gradient in zip(found, expected, strict=True):
        torch.testing.assert_close(place, gradient, rtol=2e-2, atol=2e-2 * float(gradient.abs().max()))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("name", ["features", "wide", "small"])
def test_a_step_writes_all_gradients(name, activation, monkeypatch):
    """In float32 to rounding; memory that is not written is not a number."""
    stepper, *arguments = prepared_step(SHAPES[name], "fp32", 64, 32, activation, on_card=True)
    assert stepper._by_hand is not None
    new = stepper._read.new_flat
    monkeypatch.setattr(stepper._read, "new_flat", lambda *given: new(*given).fill_(torch.nan))
    found, report = stepper.gradients(*arguments)
    monkeypatch.undo()
    stepper.use_loss(stepper.loss)
    expected, same = stepper.gradients(*arguments)
    torch.testing.assert_close(report, same, rtol=1e-5, atol=1e-7)
    for part in stepper._slices.values():
        assert expected[part].abs().max() > 1e-4
        torch.testing.assert_close(found[part], expected[part], rtol=1e-4, atol=1e-6)


def test_steps_with_checkpoints_are_left_to_autograd():
    stepper, *_ = prepared_step(SHAPES["small"], "fp32", 8, 8, checkpointing=True, on_card=True)
    assert stepper._by_hand is None
    assert stepper.has_slopes
