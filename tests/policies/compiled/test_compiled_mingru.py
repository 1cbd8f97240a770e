"""The compiled step of a policy with memory against torch and against the formulas; instances side by side."""

from functools import cache

import numpy as np
import pytest
import torch
from helpers.memory_models import memory_model, memory_spec, observed, play_compiled, some_begins
from helpers.toy_runs import actor_weights
from oracles.slow_memory import SlowNetwork

from longstride.policies.compiled.forward import (
    align_params,
    build_forward,
    build_network,
    new_actor_arrays,
    new_policy_states,
    workspace,
)
from longstride.policies.memory import Memory
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

CASES = {
    "one choice": memory_spec(),
    "odd sizes": memory_spec(10, Discrete(5), (32, 32), activation="relu"),
    "more observations than units": memory_spec(151, MultiDiscrete([30, 20]), (48,)),
    "more outputs than products": memory_spec(3, Discrete(62), (16,)),
    "numbers": memory_spec(7, Box([-1.0] * 3, [1.0] * 3), (17, 17, 17)),
    "one of all": memory_spec(1, Discrete(1), (1,)),
}


@cache
def compiled(name):
    """Return model, parameters and network of a case."""
    model = memory_model(CASES[name])
    params = align_params(actor_weights(model), model.spec)
    return model, params, build_network(model.spec)


def played(name, observations, begins, start):
    """Return the compiled outputs and the state after the last step."""
    state = start.copy()
    return play_compiled(*compiled(name), observations, begins, state), state


@pytest.mark.parametrize("name", CASES)
def test_the_compiled_steps_are_those_of_torch_and_of_the_formulas(name):
    model, *_ = compiled(name)
    spec, begins = model.spec, some_begins(60, 25, 26)
    observations = observed(spec, 60)
    start = np.random.default_rng(1).normal(size=spec.state_size).astype(np.float32)
    outputs, state = played(name, observations, begins, start)
    with torch.no_grad():
        memory = Memory(torch.from_numpy(start[None]), torch.from_numpy(begins))
        by_torch = model.logits(model.normalise(torch.from_numpy(observations)), memory=memory).numpy()
    slow = SlowNetwork(model, "actor").play(observations, begins[:, 0], start.astype(np.float64))
    scale = np.abs(by_torch).max()
    assert np.abs(outputs - by_torch).max() <= 1e-5 * scale
    assert np.abs(outputs - slow.outputs).max() <= 1e-5 * scale
    np.testing.assert_allclose(state, slow.states[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["one choice", "odd sizes", "more observations than units", "numbers"])
def test_instances_side_by_side_are_the_same_as_alone_to_the_bit(name):
    """They keep their states apart, whatever lay in the workspace before."""
    model, params, network = compiled(name)
    steps, instances = 12, 5
    observations = [observed(model.spec, steps, seed) for seed in range(instances)]
    states, scratch = new_policy_states(model.spec, instances), workspace(model.spec, instances)
    scratch[:] = np.random.default_rng(0).normal(size=len(scratch))
    together = []
    for t in range(steps):
        for place in range(instances):
            network.load(params, observations[place][t], scratch, place)
        network.advance(params, states, np.arange(instances), scratch, instances)
        together.append([network.outputs(scratch, place).copy() for place in range(instances)])
    for place in range(instances):
        alone, state = played(
            name, observations[place], some_begins(steps), np.zeros(model.spec.state_size, np.float32)
        )
        np.testing.assert_array_equal(np.stack([row[place] for row in together]), alone)
        np.testing.assert_array_equal(states[place], state)


def test_fewer_instances_leave_the_places_behind_them_alone():
    model, params, network = compiled("one choice")
    states, scratch = new_policy_states(model.spec, 3), workspace(model.spec, 3)
    for place in range(3):
        network.load(params, observed(model.spec, 3)[place], scratch, place)
    last = scratch[2 * len(scratch) // 3 :].copy()
    network.advance(params, states, np.array([2, 0, 1]), scratch, 2)
    np.testing.assert_array_equal(scratch[2 * len(scratch) // 3 :], last)
    assert states.any(axis=1).tolist() == [True, False, True]


def test_parameters_that_are_not_aligned_give_the_same_bits():
    model, params, _ = compiled("odd sizes")
    forward, spec = build_forward(model.spec), model.spec
    shifted = np.zeros(len(params) + 1, np.float32)[1:]
    shifted[:] = params
    for observation in observed(spec, 8):
        found = [
            forward(weights, observation, state, workspace(spec)).copy()
            for weights, state in ((params, new_policy_states(spec, 1)[0]), (shifted, new_policy_states(spec, 1)[0]))
        ]
        np.testing.assert_array_equal(*found)


def test_an_episode_begins_with_a_state_of_zeros():
    model, params, _ = compiled("one choice")
    arrays = new_actor_arrays(params, model.spec)
    assert arrays.state.shape == (32,)
    assert not arrays.state.any()
    build_forward(model.spec)(params, observed(model.spec, 1)[0], arrays.state, arrays.workspace)
    assert arrays.state.all()
