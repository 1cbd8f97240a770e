"""A transformer's step in place against the same step with new rings (network.py)."""

import numpy as np
import pytest
import torch
from helpers.memory_models import memory_model
from helpers.transformer_models import transformer_spec

from longstride.learning.step_costs.count import count_answers
from longstride.policies.batched_forward import TorchForward
from longstride.policies.families.torch_families import TORCH_FAMILIES
from longstride.policies.families.torch_family import HiddenInputs
from longstride.policies.families.transformer.family import TRANSFORMER
from longstride.policies.memory import Memory, Steps
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Discrete

ROWS, STEPS = 11, 60
FAMILY = TORCH_FAMILIES["transformer"]


def inputs_of(model, observations, begins, states, after=None):
    layers = model.layers("actor")[:-1]
    return HiddenInputs(model.spec, observations, layers, model.activation, Memory(states, begins), after)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("share_of_begins", [0.0, 0.15, 1.0])
@torch.no_grad()
def test_outputs_are_the_same_for_many_steps(layers, share_of_begins):
    """Past 4 W steps, where ages go back; the states of one step are unpacked for the other now and then."""
    model, generator = memory_model(transformer_spec(layers=layers)), torch.Generator().manual_seed(0)
    spec, each = model.spec, torch.arange(ROWS)
    after = Steps(each, torch.zeros_like(each))
    states = torch.zeros(ROWS, spec.state_size)
    packed = FAMILY.in_place.pack(spec, states, torch.float32)
    for step in range(STEPS):
        observations = 2.0 * torch.randn(ROWS, spec.observation_size, generator=generator)
        begins = torch.rand(ROWS, 1, generator=generator) < share_of_begins
        expected, states = FAMILY.hidden(inputs_of(model, observations, begins, states, after))
        found = FAMILY.in_place.step(inputs_of(model, observations, begins, packed))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-6)
        assert torch.equal(packed[:, -1], states[:, -1]), "ages"
        unpacked = FAMILY.in_place.unpack(spec, packed)
        seen = states != 0.0  # the others are columns that no step of the episode has written
        torch.testing.assert_close(unpacked[seen], states[seen], rtol=1e-4, atol=2e-6)
        if step % 7 == 6:  # what a checkpoint does
            packed = FAMILY.in_place.pack(spec, unpacked, torch.float32)


def test_packed_states_are_unpacked_to_the_bit():
    spec = transformer_spec(layers=2)
    states = torch.randn(ROWS, spec.state_size)
    packed = FAMILY.in_place.pack(spec, states, torch.float32)
    assert not torch.equal(packed, states)
    assert torch.equal(FAMILY.in_place.unpack(spec, packed), states)


def test_bf16_rounds_rings_once_and_ages_never():
    """307 is an age that BF16 does not hold."""
    spec = transformer_spec(layers=2)
    states = torch.randn(ROWS, spec.state_size)
    states[:, -1] = 307.0
    first = FAMILY.in_place.unpack(spec, FAMILY.in_place.pack(spec, states, torch.bfloat16))
    assert torch.equal(first[:, :-1], states[:, :-1].bfloat16().float())
    assert torch.equal(first[:, -1], states[:, -1])
    assert not torch.equal(first, states)
    assert torch.equal(FAMILY.in_place.unpack(spec, FAMILY.in_place.pack(spec, first, torch.bfloat16)), first)


def answers(forward, inputs):
    """Return float32[steps, B, outputs] of the first half."""
    found = []
    for observations, begins in inputs:
        forward.observations[0], forward.begins[0] = observations, begins
        forward.launch(0)
        forward.wait(0)
        found.append(forward.outputs[0].copy())
    return torch.from_numpy(np.stack(found))


def inputs_for(spec, steps):
    rng = np.random.default_rng(0)
    return [
        (rng.normal(0, 2, (ROWS, spec.observation_size)), rng.random((ROWS, 1)) < (0.02 if step else 2.0))
        for step in range(steps)
    ]


def bf16_and_fp32(spec):
    model = memory_model(spec)
    for in_bf16 in (True, False):
        forward = TorchForward(spec, 1, ROWS, torch.device("cpu"), bf16_states=in_bf16)
        forward.load(model.flat[: model.layout.actor_size].numpy())
        yield forward


@pytest.mark.parametrize("window", [5, 128])
def test_log_probabilities_with_rings_in_bf16(window):
    """For 300 steps: BF16 keeps 8 bits, so keys and values err by up to 0.4 %, and logits here reach 4 and more.

    Errors of single steps average out among those that attention sees; nothing adds up with the age of an episode, as a
    key depends on the W - 1 steps before it in each block below alone.
    """
    spec = transformer_spec(widths=(32, 24), layers=3, attention=(window, 2, 2))
    half, full = (answers(forward, inputs_for(spec, 300)).log_softmax(2) for forward in bf16_and_fp32(spec))
    assert full.min() < -4.0
    difference = (half - full).abs()
    assert 1e-4 < difference.max() < 0.03, "twice the 0.0146 that this seed has"
    assert difference[200:].mean() < 2.0 * difference[20:100].mean(), "errors do not grow"


def test_a_run_with_rings_in_bf16_resumes_to_the_bit():
    """Through float32, as in a checkpoint: rounded numbers come back as they were."""
    spec = transformer_spec(widths=(32, 24))
    whole, _ = bf16_and_fp32(spec)
    parts, _ = bf16_and_fp32(spec)
    inputs = inputs_for(spec, 60)
    expected = answers(whole, inputs)
    answers(parts, inputs[:30])
    states = parts.copy_states()(0)
    assert states.dtype == np.float32
    resumed, _ = bf16_and_fp32(spec)
    resumed.set_states(0, states)
    assert torch.equal(answers(resumed, inputs[30:]), expected[30:])
    assert np.array_equal(resumed.copy_states()(0), whole.copy_states()(0))


@pytest.mark.parametrize(("in_bf16", "size"), [(False, 4), (True, 2)])
def test_a_step_reads_each_ring_once_and_writes_a_column(in_bf16, size):
    """Of 128 and of 256 steps: a longer ring adds its bytes once, as those that attention reads."""
    rings = [
        PolicySpec(4, Discrete(2), *[(64,) * 3] * 2, "relu", TRANSFORMER, 0, window, 2, 4) for window in (128, 256)
    ]
    short, long = (count_answers(spec, in_bf16).sums.traffic.per_row for spec in rings)
    added = size * (rings[1].state_size - rings[0].state_size)
    mask = 3 * 128 * 4 + 2 * 128 * (8 + 4)  # read by each of three blocks; made of places and ages
    assert added < long - short < added + 3 * mask


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_bf16_adds_an_operation_for_each_block(layers):
    """Only products of matrices stay in float32."""
    spec = transformer_spec(layers=layers, widths=(32, 24))
    full, half = count_answers(spec), count_answers(spec, bf16_states=True)
    assert half.launches == full.launches + layers
    assert half.sums.wide_flops.per_row + half.sums.flops.per_row == full.sums.flops.per_row
    assert half.sums.flops.per_row == 4 * 5 * 32 * layers, "attention: two products with five steps"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_keys_and_values_begin_at_multiples_of_16_bytes(dtype):
    """Kernels of attention read them in place, and end a process on a GPU whose rows lie between."""
    spec = transformer_spec(layers=2)
    assert spec.state_size % 4, "an odd row has the age behind the rings"
    forward = TorchForward(spec, 2, ROWS, torch.device("cpu"), bf16_states=dtype == torch.bfloat16)
    for half in forward._states:
        assert half.shape == (ROWS, FAMILY.in_place.width(spec, dtype))
        assert half.dtype == dtype
        assert all(row.data_ptr() % 16 == 0 for row in half)


def test_kernels_in_bf16_take_heads_of_a_multiple_of_8():
    assert FAMILY.in_place.bf16_problem(transformer_spec(widths=(32, 24))) == ""
    assert FAMILY.in_place.bf16_problem(transformer_spec(widths=(24, 24))).startswith("heads have 12 units, ")
