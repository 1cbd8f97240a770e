"""A transformer's compiled step against torch and the formulas, over many times its window; instances side by side."""

from functools import cache, partial

import numpy as np
import pytest
import torch
from helpers.memory_models import memory_model, play_compiled, some_begins
from helpers.memory_models import observed as observed_of
from helpers.toy_runs import actor_weights
from helpers.transformer_models import transformer_spec
from oracles.slow_transformer import SlowTransformer

from longstride.policies.compiled.forward import align_params, build_network, new_policy_states, workspace
from longstride.policies.families.torch_family import HiddenInputs
from longstride.policies.families.transformer.compiled import softmax
from longstride.policies.families.transformer.network import hidden
from longstride.policies.memory import Memory, Steps
from longstride.simulators.spaces import Box

CASES = {
    "usual": transformer_spec(attention=(7, 2, 2)),
    "odd heads, more keys than are read together": transformer_spec(
        30, Box([-1.0] * 3, [1.0] * 3), (28, 4), 1, "relu", attention=(70, 2, 1)
    ),
}


@cache
def compiled(name):
    """Return model, parameters and network of a case."""
    model = memory_model(CASES[name])
    params = align_params(actor_weights(model), model.spec)
    return model, params, build_network(model.spec)


observed = partial(observed_of, spread=2)


def played(name, observations, begins, state):
    """Return the compiled outputs; the state becomes that after the last step."""
    return play_compiled(*compiled(name), observations, begins, state)


def by_torch(model, observations, begins, state):
    """Return outputs and the state after the last step."""
    memory, last = Memory(torch.from_numpy(state[None].copy()), torch.from_numpy(begins)), len(observations) - 1
    with torch.no_grad():
        normalised = model.seen_by("actor", model.normalise(torch.from_numpy(observations)))
        after = Steps(torch.tensor([0]), torch.tensor([last]))
        layers = model.layers("actor")[:-1]
        _, states = hidden(HiddenInputs(model.spec, normalised, layers, model.activation, memory, after))
        return model.logits(normalised, memory=memory).numpy(), states[0].numpy()


@pytest.mark.parametrize("name", CASES)
def test_the_compiled_steps_are_those_of_torch_and_of_the_formulas(name):
    """From the first steps of an episode to over four windows, where the age goes back, and then from a reset."""
    model, *_ = compiled(name)
    steps, state = 4 * model.spec.context_length + 60, np.zeros(model.spec.state_size, np.float32)
    begins, observations = some_begins(steps, steps - 40), observed(model.spec, steps)
    outputs = played(name, observations, begins, state)
    expected, after = by_torch(model, observations, begins, np.zeros_like(state))
    slow, scale = SlowTransformer(model, "actor").play(observations, begins), np.abs(expected).max()
    assert np.abs(outputs - expected).max() <= 1e-5 * scale
    assert np.abs(outputs - slow).max() <= 1e-5 * scale
    np.testing.assert_allclose(state, after, rtol=1e-4, atol=1e-5)
    assert state[-1] == (26 if name == "usual" else 40)


@pytest.mark.parametrize("age", [3, 7, 27])
def test_a_chunk_goes_on_from_the_state_that_the_compiled_step_left(age):
    model, *_ = compiled("usual")
    observations, begins = observed(model.spec, age + 50), some_begins(age + 50)
    state = np.zeros(model.spec.state_size, np.float32)
    played("usual", observations[:age], begins[:age], state)
    before = state.copy()
    outputs = played("usual", observations[age:], begins[age:], state)
    expected, after = by_torch(model, observations[age:], begins[age:], before)
    assert np.abs(outputs - expected).max() <= 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(state, after, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_instances_side_by_side_are_the_same_as_alone_to_the_bit(name):
    """Their states lie in any order, and anything lay in the workspace before."""
    model, params, network = compiled(name)
    steps, instances = 12, 3
    observations = [observed(model.spec, steps, seed) for seed in range(instances)]
    states, scratch = new_policy_states(model.spec, instances), workspace(model.spec, instances)
    scratch[:] = np.random.default_rng(0).normal(size=len(scratch))
    together, members = [], np.array([2, 0, 1])
    for t in range(steps):
        for place in range(instances):
            network.load(params, observations[place][t], scratch, place)
        network.advance(params, states, members, scratch, instances)
        together.append([network.outputs(scratch, place).copy() for place in range(instances)])
    for place in range(instances):
        state = np.zeros(model.spec.state_size, np.float32)
        alone = played(name, observations[place], some_begins(steps), state)
        np.testing.assert_array_equal(np.stack([row[place] for row in together]), alone)
        np.testing.assert_array_equal(states[members[place]], state)


def test_what_is_not_finite_comes_out_and_a_reset_clears_it():
    model, params, network = compiled("usual")
    state, scratch, observation = new_policy_states(model.spec, 1), workspace(model.spec), observed(model.spec, 2)[1]
    bad = params.copy()
    begin = model.layout.offsets["actor.1.weight"]
    bad[begin : begin + 16] = np.nan  # of the queries alone
    outputs = []
    for weights in (bad, params, params):
        network.load(weights, observation, scratch, 0)
        network.advance(weights, state, np.zeros(1, np.int64), scratch, 1)
        outputs.append(network.outputs(scratch, 0).copy())
        state[:] = 0.0
    assert np.isnan(outputs[0]).any()
    np.testing.assert_array_equal(outputs[1], outputs[2])
    assert np.isfinite(outputs[1]).all()


@pytest.mark.parametrize("n", [1, 2, 15, 64, 70])
def test_the_softmax_is_exact_but_for_the_rounding_of_differences(n):
    rng = np.random.default_rng(n)
    for scale in (0.1, 3.0, 40.0):
        values = np.concatenate([[7.0], scale * rng.normal(size=n), [9.0]]).astype(np.float32)
        exact = np.exp(values[1:-1].astype(np.float64) - values[1:-1].max())
        softmax(values, 1, n)
        np.testing.assert_allclose(values[1:-1], exact / exact.sum(), rtol=1e-5, atol=1e-30)
        assert (values[0], values[-1]) == (7.0, 9.0)
