"""Generalised advantage estimation and discounts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.slow_update import slow_gae

from longstride.learning.advantages import control_variate_coefficient, discount_of, gae, step_discounts
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.rollout.trajectory import allocate
from longstride.simulators.spaces import Discrete


def arrays(rewards, values, gamma, terminated, truncated):
    """Return the arguments of gae; `values` has one more entry than there are steps."""
    values = np.asarray(values, np.float32)
    terminated, truncated = np.asarray(terminated, np.bool_), np.asarray(truncated, np.bool_)
    discounts = np.full(len(rewards), gamma)
    rewards = np.asarray(rewards, np.float32)
    return rewards, values[:-1], values[1:], discounts, terminated, terminated | truncated


NO, END = [False, False, False], [False, False, True]


def test_a_terminated_episode_by_hand():
    """gamma 1/2, lambda 1/2, so each later delta counts a quarter.

    deltas: 1 + 2/2 - 4 = -2;  2 + 8/2 - 2 = 4;  3 + 0 - 8 = -5
    A_2 = -5;  A_1 = 4 - 5/4 = 2.75;  A_0 = -2 + 2.75/4 = -1.3125
    """
    advantages, returns = gae(*arrays([1, 2, 3], [4, 2, 8, 100], 0.5, END, NO), 0.5)
    assert advantages.tolist() == [-1.3125, 2.75, -5.0]
    assert returns.tolist() == [2.6875, 4.75, 3.0]
    assert advantages.dtype == returns.dtype == np.float32


def test_a_truncated_episode_bootstraps_from_its_final_observation():
    """As above, but the last delta is 3 + 100/2 - 8 = 45: A_1 = 4 + 45/4 = 15.25; A_0 = -2 + 15.25/4 = 1.8125."""
    advantages, _ = gae(*arrays([1, 2, 3], [4, 2, 8, 100], 0.5, NO, END), 0.5)
    assert advantages.tolist() == [1.8125, 15.25, 45.0]


def test_nothing_flows_over_the_end_of_an_episode():
    """The first episode ends at step 1: its advantages do not depend on what follows."""
    middle = [False, True, False, False]
    for ends in ((middle, [False, False, False, True]), ([False] * 4, [False, True, False, True])):
        one = gae(*arrays([1, 2, 3, 4], [4, 2, 8, 1, 7], 0.9, *ends), 0.8)[0]
        other = gae(*arrays([1, 2, 30, 40], [4, 2, 8, 10, 70], 0.9, *ends), 0.8)[0]
        assert one[:2].tolist() == other[:2].tolist()
        assert one[2] != other[2]


@given(st.integers(1, 25), st.floats(0, 1), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_gae_equals_the_sum_over_all_later_deltas(steps, gae_lambda, seed):
    rng = np.random.default_rng(seed)
    terminated, truncated = rng.random(steps) < 0.1, rng.random(steps) < 0.1
    rewards, values, next_values = rng.normal(size=(3, steps)).astype(np.float32)
    discounts = rng.random(steps)
    data = rewards, values, next_values, discounts, terminated, terminated | truncated
    advantages, returns = gae(*data, gae_lambda)
    expected = slow_gae(*data, gae_lambda)
    np.testing.assert_allclose(advantages, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(returns, expected + values, rtol=1e-5, atol=1e-5)


def test_lambda_0_is_the_temporal_difference_and_lambda_1_the_discounted_return():
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=20), rng.normal(size=21)
    cut = [False] * 19 + [True]
    data = arrays(rewards, values, 0.9, [False] * 20, cut)
    np.testing.assert_allclose(gae(*data, 0.0)[0], rewards + 0.9 * values[1:] - values[:-1], atol=1e-6)
    returns = [sum(0.9**k * r for k, r in enumerate(rewards[t:])) + 0.9 ** (20 - t) * values[20] for t in range(20)]
    np.testing.assert_allclose(gae(*data, 1.0)[1], returns, rtol=1e-5, atol=1e-5)


def test_true_values_have_no_advantage():
    """One unit of reward for ever at gamma 0.9 is worth 10."""
    advantages, returns = gae(*arrays([1] * 5, [10] * 6, 0.9, [False] * 5, [False] * 4 + [True]), 0.95)
    np.testing.assert_allclose(advantages, 0.0, atol=1e-5)
    np.testing.assert_allclose(returns, 10.0, rtol=1e-6)


def test_discounts_by_time_and_by_decision():
    """gamma per 2 units: 2 units cost 0.81, none cost nothing, 1 unit the square root, 0.9."""
    elapsed = np.array([2.0, 0.0, 1.0, 4.0])
    assert step_discounts(0.81, elapsed, 2.0, "time") == pytest.approx([0.81, 1.0, 0.9, 0.6561])
    assert step_discounts(0.81, elapsed, 2.0, "decision").tolist() == [0.81] * 4
    assert step_discounts(0.81, elapsed, 2.0, "time").dtype == np.float64


def rollout_with_variate(rng, steps=400):
    """Return what targets are made of, for two trajectories; apart from noise a unit of the variate is worth 3."""
    trajectories, values, following, discounts = [], [], [], []
    for _ in range(2):
        trajectory = allocate(PolicySpec(1, Discrete(2), (), (), "tanh", MLP), steps)
        trajectory.control_variate[:] = rng.normal(size=steps)
        trajectory.rewards[:] = rng.normal(size=steps)
        trajectory.terminated[:] = rng.random(steps) < 0.05
        values.append(rng.normal(size=steps).astype(np.float32))
        following.append(rng.normal(size=steps).astype(np.float32))
        discounts.append(rng.random(steps))
        trajectory.rewards[:] += 3.0 * trajectory.control_variate
        trajectories.append(trajectory)
    return trajectories, values, following, discounts


def test_the_coefficient_is_the_slope_of_least_squares():
    rollout = rollout_with_variate(np.random.default_rng(0))
    errors = [
        t.rewards + d * np.where(t.terminated, 0.0, n) - v for t, v, n, d in zip(*rollout, strict=True)
    ]  # of temporal differences
    variate = np.concatenate([t.control_variate for t in rollout[0]]).astype(np.float64)
    expected = np.linalg.lstsq(variate[:, None], np.concatenate(errors), rcond=None)[0][0]
    assert control_variate_coefficient(*rollout) == pytest.approx(expected, rel=1e-6)
    assert control_variate_coefficient(*rollout) == pytest.approx(3.0, abs=0.25)  # standard error 0.06


def test_a_simulator_without_a_control_variate_has_nothing_to_take_out():
    trajectories, *others = rollout_with_variate(np.random.default_rng(0))
    for trajectory in trajectories:
        trajectory.control_variate[:] = 0.0
    assert control_variate_coefficient(trajectories, *others) == 0.0


@pytest.mark.parametrize("interval", [0.001, 1.0, 1000.0])
def test_a_horizon_of_decisions_weighs_as_much_whatever_a_clock_counts(interval):
    """500 decisions of 0.2 time units each: after them a reward has 1 / e of its weight."""
    gamma = discount_of(500 * 0.2 / interval)
    weight = np.prod(step_discounts(gamma, np.full(500, 0.2), interval, "time"))
    assert weight == pytest.approx(np.exp(-1.0), rel=1e-9)


def test_no_horizon_is_so_short_that_there_is_no_discount():
    assert discount_of(0.0) > 0.0
