"""A policy with memory for other programs: the formulas step by step, resets, rows of a batch, what is refused."""

import os
from functools import cache

import numpy as np
import pytest
from helpers.memory_models import memory_model, memory_spec
from helpers.toy_runs import actor_weights
from oracles.slow_memory import SlowNetwork

from longstride.errors import UserError
from longstride.jit_cache.cache import CACHE_STATS, VARIABLE
from longstride.policies.loaded_policy import LoadedPolicy
from longstride.simulators.spaces import Box, Discrete

SPACES = {"choice": Discrete(5), "numbers": Box([-9.0] * 3, [9.0] * 3)}
ROWS = np.random.default_rng(0).normal(0, 2, (12, 20, 6)).astype(np.float32)
"""Observations of 12 episodes of 20 steps."""


@cache
def model_of(name):
    return memory_model(memory_spec(space=SPACES[name]))


@cache
def loaded(name, number):
    model = model_of(name)
    return LoadedPolicy(model.spec, actor_weights(model))


def policy_of(name, number=0):
    """Return one of some equal policies, loaded once, at the beginning of an episode."""
    policy = loaded(name, number)
    policy.reset(0)
    return policy


def greedy(name, observations):
    """Return the likeliest actions of an episode by the formulas."""
    outputs = SlowNetwork(model_of(name), "actor").play(observations, np.arange(len(observations)) == 0).outputs
    return outputs.argmax(axis=1) if name == "choice" else np.clip(9.0 * outputs, -9.0, 9.0)


def acted(policy, observations, **arguments):
    return np.array([policy.act(row, **arguments) for row in observations])


@pytest.mark.parametrize("name", SPACES)
def test_each_call_is_the_next_step_of_an_episode_and_reset_begins_another(name):
    policy = policy_of(name)
    for episode in ROWS[:3]:
        np.testing.assert_allclose(acted(policy, episode), greedy(name, episode), rtol=1e-4, atol=1e-5)
        policy.reset()
    without_reset = [acted(policy, episode) for episode in ROWS]
    assert not np.allclose(without_reset, [greedy(name, episode) for episode in ROWS], atol=1e-3)


@pytest.mark.parametrize("name", SPACES)
def test_each_row_of_a_batch_has_a_memory_of_its_own(name):
    """Of more rows than go through the network at once; and the same to the bit as alone."""
    policy, alone = policy_of(name), policy_of(name, 1)
    batch = np.stack([policy.act(ROWS[:, t]) for t in range(20)], axis=1)
    for row, episode in zip(batch, ROWS, strict=True):
        alone.reset()
        np.testing.assert_array_equal(row, acted(alone, episode))
    policy.reset()
    np.testing.assert_array_equal(policy.act(ROWS[:, 0]), batch[:, 0])


def test_a_batch_of_another_size_is_refused_and_changes_nothing():
    policy = policy_of("choice")
    first = policy.act(ROWS[:4, 0])
    with pytest.raises(UserError) as error:
        policy.act(ROWS[:3, 1])
    assert str(error.value) == (
        "The batch has 3 observations, the one before had 4, and the policy has memory of each row; keep the number, "
        "or call reset() when episodes begin."
    )
    second, other = policy.act(ROWS[:4, 1]), policy_of("choice", 1)
    np.testing.assert_array_equal(other.act(ROWS[:4, 0]), first)
    np.testing.assert_array_equal(other.act(ROWS[:4, 1]), second)
    policy.reset()
    assert policy.act(ROWS[:3, 1]).shape == (3,)


def test_single_observations_and_batches_remember_apart():
    policy, alone = policy_of("numbers"), policy_of("numbers", 1)
    for t in range(5):
        policy.act(ROWS[:4, t])
        np.testing.assert_array_equal(policy.act(ROWS[5, t]), alone.act(ROWS[5, t]))


@pytest.mark.parametrize("fault", ["observation", "mask"])
def test_a_refused_call_is_no_step(fault):
    """Nor of the rows of a batch before the one that is wrong."""
    policy, other = policy_of("choice"), policy_of("choice", 1)
    bad, masks = ROWS[:4, 1].copy(), np.ones((4, 5), np.bool_)
    if fault == "mask":
        masks[3] = False
    else:
        bad[3, 2] = np.nan
    for each in (policy, other):
        each.act(ROWS[:4, 0])
        each.act(ROWS[0, 0])
    with pytest.raises(UserError, match=r"in row 3 of the batch|observation\[3, 2\] is nan"):
        policy.act(bad, masks)
    with pytest.raises(UserError):
        policy.act(bad[3], masks[3])
    np.testing.assert_array_equal(policy.act(ROWS[:4, 1]), other.act(ROWS[:4, 1]))
    assert policy.act(ROWS[0, 1]) == other.act(ROWS[0, 1])


def test_draws_remember_as_greedy_actions_do():
    policy = policy_of("choice")
    policy.reset(3)
    drawn = acted(policy, ROWS[0], greedy=False)
    policy.reset(3)
    np.testing.assert_array_equal(acted(policy, ROWS[0], greedy=False), drawn)
    policy.reset(3)
    batch = np.stack([policy.act(ROWS[:1, t], greedy=False) for t in range(20)])
    np.testing.assert_array_equal(batch[:, 0], drawn)


@pytest.mark.skipif(os.environ.get(VARIABLE) == "off", reason="kernels are not kept")
def test_the_kernel_is_kept_and_need_not_be_compiled_again():
    loaded("choice", 0)
    before = CACHE_STATS.loaded
    LoadedPolicy(model_of("choice").spec, actor_weights(model_of("choice")))
    assert CACHE_STATS.loaded == before + 1


def test_memory_that_is_given_back_continues_an_episode():
    """As a service does that keeps nothing itself: the rows of two episodes in turns, each with its own memory."""
    policy, memories = policy_of("choice"), [policy_of("choice").memory, policy_of("choice").memory]
    found: list[list[int]] = [[], []]
    for step in range(20):
        for i in (0, 1):
            policy.memory = memories[i]
            action, probabilities = policy.decide(ROWS[i, step])
            assert probabilities.argmax() == action
            memories[i] = policy.memory
            found[i].append(action)
    assert found == [greedy("choice", ROWS[i]).tolist() for i in (0, 1)]
