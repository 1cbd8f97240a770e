"""The weight of the entropy bonus against what it should hold."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from helpers.specs import mlp_spec

from longstride.learning.algorithms.entropy_target import EntropyTarget, allowed_entropy
from longstride.learning.algorithms.ppo import PpoCoefficients
from longstride.learning.schedule import Coefficients
from longstride.rollout.trajectory import allocate
from longstride.simulators.spaces import Box, MultiDiscrete


class Own(NamedTuple):
    bonus: float


def trajectory(masks, choices):
    spec = mlp_spec((3, 4, sum(choices)), space=MultiDiscrete(choices))
    rows = allocate(spec, len(masks), np.zeros)
    rows.masks[:] = masks
    return rows


def weight(target, share_done, scheduled=0.03):
    coefficients = Coefficients(1.0, PpoCoefficients(0.2, scheduled, 0.5))
    return target.held(coefficients, share_done).loss.entropy_coefficient


def test_the_most_possible_entropy_counts_the_allowed_values_of_each_choice():
    masks = np.zeros((17, 5), bool)
    masks[:, :2], masks[:, 2:] = True, [True, True, False]
    masks[8, 1] = False
    total, count = allowed_entropy([trajectory(masks, (2, 3))], (2, 3))
    assert count == 3  # rows 0, 8, 16
    assert total == pytest.approx(3 * math.log(2) + 2 * math.log(2))


def test_real_valued_actions_have_no_target():
    spec = mlp_spec((3, 4, 2), space=Box((-1.0, -1.0), (1.0, 1.0)))
    target = EntropyTarget(0.5, spec.action_space.choices)
    assert weight(target, 0.0) == 0.03
    target.learn(1.4, [allocate(spec, 8, np.zeros)], 0.0)
    assert target.share is None
    assert target.can_move
    assert weight(target, 0.1) == 0.03


def test_the_weight_rises_below_the_target_and_falls_above_it():
    masks, low, high = np.ones((16, 2), bool), EntropyTarget(0.5, (2,)), EntropyTarget(0.5, (2,))
    low.learn(0.1 * math.log(2), [trajectory(masks, (2,))], 0.0)
    high.learn(1.0 * math.log(2), [trajectory(masks, (2,))], 0.0)
    assert low.share == pytest.approx(0.1)
    assert low.weight == pytest.approx(0.3 * 1.5)  # exp(6 * 0.4) is more than the most at once
    assert high.weight == pytest.approx(0.3 * math.exp(-0.25 * 0.5))
    for _ in range(60):
        high.learn(math.log(2), [trajectory(masks, (2,))], 0.0)
    assert weight(high, 0.0) == 0.03  # never below the scheduled weight


def test_the_target_ends_at_half_of_the_run_and_0_is_none():
    assert [EntropyTarget(0.6).at(share) for share in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([0.6, 0.3, 0.0, 0.0])
    assert weight(EntropyTarget(0.0, (2,), weight=1.0), 0.0) == 0.03


def test_after_the_target_the_weight_falls_evenly_to_the_scheduled_one():
    """A bonus that ends at once lets the policy collapse within a few iterations."""
    weights = [weight(EntropyTarget(0.6, (2,), weight=0.8), share) for share in (0.4, 0.5, 0.75, 0.9, 0.99, 1.0)]
    assert weights == pytest.approx([0.8, 0.8, 0.4, 0.16, 0.03, 0.03])


def test_a_loss_without_the_bonus_is_left_alone():
    coefficients = Coefficients(1.0, Own(0.3))
    assert EntropyTarget(0.5, (2,)).held(coefficients, 0.0) is coefficients


def test_a_policy_with_hardly_any_entropy_is_fixed():
    masks, target = np.ones((16, 2), bool), EntropyTarget(0.0, (2,))
    target.learn(0.001, [trajectory(masks, (2,))], 0.9)
    assert not target.can_move
    restored = EntropyTarget(0.0, (2,))
    restored.load_state_dict(target.state_dict())
    assert restored == target
