"""The weight of the entropy bonus against what it should hold."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from helpers.specs import mlp_spec

from longstride.learning.algorithms.entropy_target import EntropyTarget, binary_entropy, often_of, possible_entropy
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
    possible = possible_entropy([trajectory(masks, (2, 3))], (2, 3))
    assert possible.steps == 3  # rows 0, 8, 16
    assert possible.most == pytest.approx(3 * math.log(2) + 2 * math.log(2))
    assert (possible.free, possible.others) == (5, 0.0)  # in row 8 the first choice has one value


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_the_probability_of_the_other_value_has_that_share_of_the_entropy_of_two(share):
    often = often_of(share)
    assert 0.0 <= often <= 0.5
    assert binary_entropy(often) == pytest.approx(share * math.log(2.0), abs=1e-9)


@pytest.mark.parametrize("values", [2, 3, 9, 62])
def test_the_target_is_met_by_a_policy_that_takes_others_as_often_whatever_their_number(values):
    """The entropy is that of the whole distribution, by its definition."""
    often, masks = often_of(0.5), np.ones((16, 2 * values), bool)
    one = [1.0 - often] + [often / (values - 1)] * (values - 1)
    both = -2.0 * sum(p * math.log(p) for p in one)
    target = EntropyTarget(0.5, (values, values))
    target.learn(both, [trajectory(masks, (values, values))], 0.0)
    assert target.share == pytest.approx(target.target)
    assert target.weight == pytest.approx(0.3)
    assert target.figures() == {"entropy_share": target.share, "entropy_target": target.target, "logit_factor": 1.0}


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


def test_the_weight_waits_while_the_entropy_comes_back():
    """Else it would be fifty times as large after ten updates, and the policy would lose what it has learned."""
    target, rollout = EntropyTarget(0.5, (2,)), [trajectory(np.ones((16, 2), bool), (2,))]
    for share, factor in ((0.2, 1.5), (0.1, 1.5), (0.11, 1.0), (0.3, 1.0), (0.29, math.exp(6 * 0.21)), (0.49, 1.0)):
        before = target.weight
        target.learn(share * math.log(2), rollout, 0.0)
        assert target.weight / before == pytest.approx(min(factor, 1.5)), share
    target.learn(0.6 * math.log(2), rollout, 0.0)
    assert target.weight < before, "above the target it falls, however the entropy moves"


@pytest.mark.parametrize("controller", [{}, {"always": True}])
def test_a_policy_that_follows_late_is_not_driven_far_above_its_target(controller, monkeypatch):
    """The entropy of this policy moves by a tenth towards the weight each time, as far as the weight allows."""
    target, rollout, share = EntropyTarget(0.5, (2,)), [trajectory(np.ones((16, 2), bool), (2,))], 0.3
    highest, target.weight = 0.0, 0.03
    for i in range(60):
        if controller:
            target.share = 1.0  # so that it never seems to come back
        target.learn(share * math.log(2), rollout, 0.005 * i)
        share += 0.1 * (min(target.weight / 0.1, 1.0) - share)
        highest = max(highest, share)
    assert (highest > 0.75) == bool(controller)


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
