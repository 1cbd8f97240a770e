"""The forward pass of a half-batch: the model's own outputs, and no row that depends on another."""

import numpy as np
import pytest
import torch
from helpers.batched import torch_forward
from helpers.memory_models import memory_model, memory_spec
from helpers.toy_runs import toy_model
from helpers.transformer_models import transformer_spec

from longstride.policies.memory import Memory
from longstride.rollout.batched.arrays import half_batches

INSTANCES = 21
MODELS = {
    "relu": lambda: toy_model("shop"),
    "tanh": lambda: toy_model("tracker"),
    "memory": lambda: memory_model(memory_spec()),
    "transformer": lambda: memory_model(transformer_spec()),
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def answer(forward, half, observations, begins):
    forward.observations[half], forward.begins[half] = observations, begins
    forward.launch(half)
    forward.wait(half)
    return forward.outputs[half].copy()


def inputs(forward, seed):
    rng = np.random.default_rng(seed)
    shape = forward.observations.shape[1:]
    return rng.normal(0, 2, shape).astype(np.float32), rng.random((shape[0], 1)) < 0.3


def test_halves_are_padded():
    assert [half_batches(n) for n in (1, 2, 3, 16, 17, 256, 1000)] == [
        *((1, 8), (2, 8), (2, 8), (2, 8), (2, 16), (2, 128), (2, 504)),
    ]


def test_outputs_and_states_are_the_models(model):
    """To the bit, but for a step that replaces states in their place, whose sums have another order."""
    largest = 1e-6 if model._family.in_place else 0.0
    forward = torch_forward(model, INSTANCES)
    states = torch.zeros(forward.outputs.shape[1], model.spec.state_size)
    for seed in range(3):
        observations, begins = inputs(forward, seed)
        normalised = model.normalise(torch.from_numpy(observations))
        memory = Memory(states, torch.from_numpy(begins)) if model.spec.has_memory else None
        with torch.no_grad():
            expected = model.logits(normalised, memory=memory).numpy()
        first = answer(forward, 1, observations, begins)
        np.testing.assert_allclose(first, expected, rtol=0, atol=largest)
        assert np.array_equal(answer(forward, 0, observations, begins), first), "each half has states of its own"
        states = torch.from_numpy(forward.copy_states()(1))
        assert not model.spec.has_memory or states.any()


def test_no_row_depends_on_another(model):
    """To the bit: what a row's neighbours are, or that they are not even numbers, changes nothing."""
    forward = torch_forward(model, INSTANCES)
    observations, begins = inputs(forward, 0)
    expected, others = answer(forward, 0, observations, begins), inputs(forward, 1)
    for row in range(len(observations)):
        for strange in (others[0], np.full_like(observations, np.nan)):
            alone = strange.copy()
            alone[row] = observations[row]
            forward.set_states(0, np.zeros_like(forward.copy_states()(0)))
            assert np.array_equal(answer(forward, 0, alone, begins)[row], expected[row]), row


def test_states_are_set_and_read(model):
    forward = torch_forward(model, INSTANCES)
    states = np.random.default_rng(0).normal(size=(5, model.spec.state_size)).astype(np.float32)
    forward.set_states(1, states)
    assert np.array_equal(forward.copy_states()(1)[:5], states)
    assert not forward.copy_states()(0).any()
