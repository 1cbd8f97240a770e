"""A transformer's step in place against the same step with new rings (network.py)."""

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
    packed = FAMILY.in_place.pack(spec, states)
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
            packed = FAMILY.in_place.pack(spec, unpacked)


def test_packed_states_are_unpacked_to_the_bit():
    spec = transformer_spec(layers=2)
    states = torch.randn(ROWS, spec.state_size)
    packed = FAMILY.in_place.pack(spec, states)
    assert not torch.equal(packed, states)
    assert torch.equal(FAMILY.in_place.unpack(spec, packed), states)


def test_a_step_reads_each_ring_once_and_writes_a_column():
    """Of 128 and of 256 steps: a longer ring adds its bytes once, as those that attention reads."""
    rings = [
        PolicySpec(4, Discrete(2), *[(64,) * 3] * 2, "relu", TRANSFORMER, 0, window, 2, 4) for window in (128, 256)
    ]
    short, long = (count_answers(spec).sums.traffic.per_row for spec in rings)
    added = 4 * (rings[1].state_size - rings[0].state_size)
    mask = 3 * 128 * 4 + 2 * 128 * (8 + 4)  # read by each of three blocks; made of places and ages
    assert added < long - short < added + 3 * mask


def test_keys_and_values_begin_at_multiples_of_16_bytes():
    """Kernels of attention read them in place, and end a process on a GPU whose rows lie between."""
    spec = transformer_spec(layers=2)
    assert spec.state_size % 4, "an odd row has the age behind the rings"
    forward = TorchForward(spec, 2, ROWS, torch.device("cpu"))
    for half in forward._states:
        assert half.shape == (ROWS, spec.state_size)
        assert all(row.data_ptr() % 16 == 0 for row in half)
