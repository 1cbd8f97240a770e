"""What counts as the same: rounding and ties, and nothing else."""

import numpy as np
import pytest

from longstride.commands.export.parity import TOLERANCE, differences, limit_of
from longstride.commands.export.steps import Steps, episodes_of, random_steps
from longstride.policies.families.mlp.family import MLP
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

CHOICE = PolicySpec(2, MultiDiscrete([2, 3]), (4,), (4,), "tanh", MLP)
NUMBERS = PolicySpec(2, Box([-1.0, -20.0], [1.0, 20.0]), (4,), (4,), "tanh", MLP)


def steps_with(masks):
    rows = len(masks)
    return Steps(
        np.zeros((rows, 2), np.float32), np.array(masks), np.zeros((rows, 5, 0), np.float32), np.ones(rows, bool)
    )


OUTPUTS = np.array([[1.0, 0.5, 0.2, 0.1, 9.0], [0.0, 3e-5, 2.0, 1.0, 0.0]], np.float32)
STEPS = steps_with([[True, True, True, True, False], [True] * 5])
REFERENCE = OUTPUTS, np.array([[0.0, 0.0], [1.0, 0.0]])


def compared(outputs, actions, masked=()):
    played = np.asarray(outputs, np.float32), np.asarray(actions, np.float64)
    return differences(CHOICE, STEPS, REFERENCE, {"form": played}, masked)["form"]


def test_rounding_and_ties_are_the_same_policy():
    limit = limit_of(REFERENCE, STEPS)
    assert limit == pytest.approx(2.0 * TOLERANCE)
    assert compared(OUTPUTS + 1e-6, REFERENCE[1]).within(limit)
    tie = compared(OUTPUTS, [[0, 0], [0, 0]])
    assert (tie.actions, tie.beyond_ties) == (1, 0)
    assert tie.within(limit)


@pytest.mark.parametrize(
    ("outputs", "actions", "masked"),
    [
        (OUTPUTS + 3e-4, REFERENCE[1], ()),
        (np.where(OUTPUTS == 2.0, np.nan, OUTPUTS), REFERENCE[1], ()),
        (OUTPUTS, [[1, 0], [1, 0]], ()),
        (OUTPUTS, [[0, 0], [1, 7]], ()),
        (OUTPUTS, REFERENCE[1], ("form",)),
    ],
    ids=["outputs", "not a number", "action", "no action", "forbidden logit"],
)
def test_anything_else_is_another_policy(outputs, actions, masked):
    assert not compared(outputs, actions, masked).within(limit_of(REFERENCE, STEPS))


def test_what_is_forbidden_is_not_compared_without_masks_inside():
    other = OUTPUTS.copy()
    other[0, 4] = -1e30
    assert compared(other, REFERENCE[1], ("form",)).within(1e-9)
    assert compared(other, REFERENCE[1]).within(1e-9)


def test_numbers_may_differ_by_their_range():
    outputs, actions = np.zeros((1, 2), np.float32), np.array([[0.5, 10.0]])
    steps = Steps(
        np.zeros((1, 2), np.float32), np.zeros((1, 0), bool), np.zeros((1, 0, 0), np.float32), np.ones(1, bool)
    )
    for change, same in (([5e-5, 1e-3], True), ([2e-4, 0.0], False), ([0.0, 4e-3], False)):
        found = differences(NUMBERS, steps, (outputs, actions), {"form": (outputs, actions + change)}, ())["form"]
        assert found.within(limit_of((outputs, actions), steps)) == same


def test_random_steps_have_the_scales_of_the_policy_and_an_allowed_value_of_each_choice():
    params = np.zeros(200, np.float32)
    params[:4] = 5.0, -3.0, 0.5, 100.0  # means, then scales
    steps = random_steps(CHOICE, params, 2000, 0)
    np.testing.assert_allclose(steps.observations.mean(axis=0), [5.0, -3.0], atol=0.2)
    np.testing.assert_allclose(steps.observations.std(axis=0), [2.0, 0.01], rtol=0.1)
    assert steps.masks[:, :2].any(axis=1).all()
    assert steps.masks[:, 2:].any(axis=1).all()
    assert 0.6 < steps.masks.mean() < 0.9
    lengths = [episode.stop - episode.start for episode in episodes_of(steps)]
    assert (sum(lengths), max(lengths)) == (2000, 64)
    assert random_steps(PolicySpec(2, Discrete(3), (4,), (4,), "tanh", MLP, 2), params, 5, 0).features.shape == (
        5,
        3,
        2,
    )
