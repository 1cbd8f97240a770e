"""Differential rewards by hand, the values of a chain that are known, and what they cannot be used for."""

import numpy as np
import pytest
from helpers.toy_runs import rollout_batch

from longstride.errors import UserError
from longstride.learning.algorithms.ppo import Ppo, PpoCoefficients
from longstride.learning.normalization import AverageReward
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.rollout.trajectory import allocate
from longstride.simulators.spaces import Discrete


def trajectory(rewards):
    spec = PolicySpec(1, Discrete(2), (), (), "tanh", MLP)
    made = allocate(spec, len(rewards), lambda shape, dtype: np.zeros(shape, dtype))
    made.rewards[:] = rewards
    return made


def test_the_mean_of_all_time_is_taken_off_for_each_unit_of_time():
    """Rewards 1, 2, 6 in 1, 1 and 4 intervals: 1.5 an interval, so that -0.5, 0.5 and 0 are left."""
    average = AverageReward()
    (found,) = average.subtract([trajectory([1.0, 2.0, 6.0])], [np.array([1.0, 1.0, 4.0])])
    assert average.rate == pytest.approx(1.5)
    np.testing.assert_allclose(found.rewards, [-0.5, 0.5, 0.0])
    (found,) = average.subtract([trajectory([5.0, 5.0])], [np.ones(2)])  # nine tenths of 1.5, a tenth of 5
    assert average.rate == pytest.approx(1.85)
    np.testing.assert_allclose(found.rewards, [3.15, 3.15], rtol=1e-6)


def test_a_rollout_without_time_keeps_the_rate():
    average = AverageReward()
    (found,) = average.subtract([trajectory([0.0, 0.0])], [np.zeros(2)])
    assert average.rate is None
    assert found.rewards.tolist() == [0.0, 0.0]


def test_a_process_that_ends_is_a_sentence():
    ending = trajectory([1.0, 2.0])
    ending.terminated[1] = True
    with pytest.raises(UserError, match=r"AVERAGE_REWARD is on, but the simulator terminated an episode; .*\.$"):
        AverageReward().subtract([ending], [np.ones(2)])


def test_differential_values_of_a_chain_are_a_fixed_point():
    """Two states in turns with rewards 0 and 2: the rate is 1, h = (-1/2, 1/2) up to a constant.

    With these values and any constant all advantages are 0, and the targets are h itself, whatever lambda.
    """
    ppo = Ppo(0.8, PpoCoefficients(0.2, 0.0, 0.5), average_reward=True)
    steps = 10
    (found,) = AverageReward().subtract([trajectory([0.0, 2.0] * (steps // 2))], [np.ones(steps)])
    values = np.tile(np.array([-0.5, 0.5], np.float32), steps // 2)
    rollout = rollout_batch([found], [np.ones(steps)])
    for constant in (0.0, 7.0):
        shifted = values + np.float32(constant)
        targets = ppo.targets(rollout, [shifted], [np.append(shifted[1:], shifted[0])])
        np.testing.assert_allclose(targets.returns, values, atol=1e-6)
        np.testing.assert_allclose(targets.advantages, 0.0, atol=1e-6)
