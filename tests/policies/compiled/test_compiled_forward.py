"""The compiled actor: forward pass, tanh."""

import ctypes
import mmap
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from helpers.specs import mlp_spec

from longstride.errors import UserError
from longstride.policies.compiled.forward import (
    align_params,
    build_forward,
    build_network,
    workspace,
)
from longstride.policies.compiled.products import build_add_product, relu, tanh
from longstride.policies.networks import ActorCritic

CASES = [((3, 2), "relu"), ((5, 8, 3), "relu"), ((6, 17, 17, 4), "tanh"), ((32, 128, 128, 128, 8), "relu")]

NO_STATE = np.zeros(0, np.float32)


@cache
def compiled_forward(sizes, activation):
    return build_forward(mlp_spec(sizes, activation=activation))


def scrambled(sizes, activation):
    """Return a model whose tensors are all random."""
    model = ActorCritic(mlp_spec(sizes, (sizes[0], 1), activation))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight, bias in model.layers("actor"):
            weight.copy_(torch.randn(weight.shape, generator=generator) / weight.shape[0] ** 0.5)
            bias.copy_(torch.randn(bias.shape, generator=generator))
        model.tensors["observation_mean"].copy_(torch.randn(sizes[0], generator=generator))
        model.tensors["observation_scale"].copy_(torch.rand(sizes[0], generator=generator) + 0.5)
    return model


@pytest.mark.parametrize(("sizes", "activation"), CASES)
def test_the_compiled_actor_equals_the_torch_actor(sizes, activation):
    model, forward, scratch = (
        scrambled(sizes, activation),
        compiled_forward(sizes, activation),
        workspace(mlp_spec(sizes)),
    )
    observations = np.random.default_rng(0).normal(0, 3, (50, sizes[0])).astype(np.float32)
    observations[::3] *= np.float32(100.0)  # most of these are clipped
    observations[1::3, ::2] = 0.0
    expected = model.logits(model.normalise(torch.from_numpy(observations))).detach().numpy()
    weights = align_params(model.flat.numpy(), model.spec)
    actual = np.stack([forward(weights, observation, NO_STATE, scratch).copy() for observation in observations])
    scale = np.abs(expected).max(axis=1, keepdims=True)
    assert (np.abs(actual - expected) <= 1e-5 * scale).all()


def test_hidden_layers_of_different_widths_are_refused():
    with pytest.raises(UserError, match=r"one width, not \(6, 17, 9, 4\)"):
        build_forward(mlp_spec((6, 17, 9, 4)))


@pytest.mark.parametrize("n_observation", [1, 8, 151])
def test_aligned_weights_are_the_same_and_their_matrices_begin_with_cache_lines(n_observation):
    sizes = (n_observation, 32, 32, 5)
    offsets = ActorCritic(mlp_spec(sizes, (n_observation, 1), "relu")).layout.offsets
    weights = np.random.default_rng(0).normal(size=offsets["value_mean"]).astype(np.float32)
    for _ in range(5):  # wherever the memory comes from
        copy = align_params(weights, mlp_spec(sizes))
        np.testing.assert_array_equal(copy, weights)
        assert not np.shares_memory(copy, weights)
        assert [copy[offsets[f"actor.{i}.weight"] :].ctypes.data % 64 for i in range(3)] == [0, 0, 0]
        assert [row.ctypes.data % 64 for row in workspace(mlp_spec(sizes), 3).reshape(6, -1)] == [0] * 6


@pytest.mark.parametrize("limit", [10.0, 4.5])
def test_observations_are_shifted_scaled_and_clipped(limit):
    """One output = sum of the normalised inputs: (3 - 1) * 2 = 4, and 100 and -1000, which are clipped."""
    model = ActorCritic(mlp_spec((3, 2), (3, 1), "relu"))
    with torch.no_grad():
        model.tensors["observation_mean"].copy_(torch.tensor([1.0, 0.0, 0.0]))
        model.tensors["observation_scale"].copy_(torch.tensor([2.0, 1.0, 1.0]))
        model.layers("actor")[0][0].copy_(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    observation = np.array([3.0, 100.0, -1000.0], np.float32)
    spec = replace(mlp_spec((3, 2)), observation_limit=limit)
    logits = build_forward(spec)(model.flat.numpy(), observation, NO_STATE, workspace(spec))
    assert logits.tolist() == [4.0 + limit, -limit]


@pytest.mark.parametrize("n_outputs", [1, 2, 3, 5, 7, 16, 62, 100, 127, 128, 131, 300])
@pytest.mark.parametrize("n_inputs", [1, 9, 64, 65, 130])
def test_a_product_is_added_for_every_row_and_nothing_else_changes(n_inputs, n_outputs):
    """Weights under a zero input are NaN: using one would show, and so would what lies behind the matrix."""
    rng, stride = np.random.default_rng(n_inputs), 384
    inputs, weights = rng.normal(size=(3, n_inputs)), rng.normal(size=(n_inputs, n_outputs)).astype(np.float32)
    inputs[:, rng.permutation(n_inputs)[: n_inputs // 2]] = 0.0
    inputs[1] *= rng.random(n_inputs) < 0.5
    values = np.full((6, stride), np.nan, np.float32)
    values[:3, :n_inputs], values[3:, :n_outputs] = inputs, 1.0
    expected = 1.0 + values[:3, :n_inputs].astype(np.float64) @ weights
    weights[(inputs == 0.0).all(axis=0)] = np.nan
    flat = np.concatenate([np.full(7, np.nan, np.float32), weights.ravel(), np.full(200, np.nan, np.float32)])
    build_add_product(n_outputs)(flat, 7, values.reshape(-1), 0, n_inputs, 3 * stride, 3, stride)
    np.testing.assert_allclose(values[3:, :n_outputs], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(values[:3, :n_inputs], inputs.astype(np.float32))


def test_nothing_is_read_behind_the_last_row():
    """The matrix ends where a page ends that may not be read."""
    page = mmap.PAGESIZE
    room = mmap.mmap(-1, 2 * page)
    libc, place = ctypes.CDLL(None, use_errno=True), ctypes.addressof(ctypes.c_char.from_buffer(room))
    if libc.mprotect(ctypes.c_void_p(place + page), page, 0):
        pytest.skip("this system has no mprotect")
    weights = np.frombuffer(room, np.float32, 5 * 7, page - 4 * 5 * 7)
    weights[:] = np.arange(35)
    values = np.concatenate([np.ones(64, np.float32), np.zeros(64, np.float32)])
    build_add_product(7)(weights, 0, values, 0, 5, 64, 1, 64)
    assert values[64:71].tolist() == weights.reshape(5, 7).sum(axis=0).tolist()


@pytest.mark.parametrize(("sizes", "activation"), CASES)
def test_instances_beside_an_instance_change_no_bit_of_it(sizes, activation):
    model, forward = scrambled(sizes, activation), compiled_forward(sizes, activation)
    network, several = build_network(model.spec), workspace(model.spec, 5)
    weights, rng = align_params(model.flat.numpy(), model.spec), np.random.default_rng(1)
    for count in (5, 2, 4, 1):
        observations = rng.normal(0, 3, (count, sizes[0])).astype(np.float32)
        for number in range(count):
            network.load(weights, observations[number], several, number)
        network.advance(weights, np.zeros((5, 0), np.float32), np.arange(5), several, count)
        for number in range(count):
            alone = forward(weights, observations[number], NO_STATE, workspace(mlp_spec(sizes)))
            assert network.outputs(several, number).tobytes() == alone.tobytes()


def test_relu_keeps_nan_and_touches_its_values_only():
    values = np.array([-4.0, -1.0, np.nan, 2.0, -3.0], np.float32)
    relu(values, 1, 3)
    np.testing.assert_array_equal(values, np.array([-4.0, 0.0, np.nan, 2.0, -3.0], np.float32))


def test_tanh_is_within_four_units_in_the_last_place():
    x = np.concatenate([np.linspace(-12, 12, 200_001), np.logspace(-30, 1, 2_000), [0.0, -0.0]]).astype(np.float32)
    expected = np.tanh(x.astype(np.float64)).astype(np.float32)
    actual = x.copy()
    tanh(actual, 0, len(actual))
    assert (np.abs(actual - expected) / np.spacing(np.abs(expected))).max() <= 4.0
    assert np.abs(actual).max() <= 1.0


def test_an_unknown_activation_is_refused():
    with pytest.raises(KeyError):
        build_forward(mlp_spec((3, 2), activation="gelu"))
