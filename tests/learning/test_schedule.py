"""Schedules by hand, and whether they reach the loss."""

import numpy as np
import pytest

pytest.importorskip("pydantic")

from helpers.toy_runs import toy_model, toy_stepper

from core.config import Config
from core.learning.schedule import Coefficients, Schedule
from core.training.build.components import schedule_of


def test_coefficients_by_hand():
    """After one of four episodes three quarters of the way remain."""
    schedule = Schedule(Coefficients(1.0, 0.2, 0.4, 0.1), Coefficients(0.0, 0.2, 0.0, 0.02))
    assert schedule.at(0 / 4) == (1.0, 0.2, 0.4, 0.1)
    assert schedule.at(1 / 4) == pytest.approx((0.75, 0.2, 0.3, 0.08))
    assert schedule.at(3 / 4) == pytest.approx((0.25, 0.2, 0.1, 0.04))


def test_what_is_constant_is_not_rounded():
    start = Coefficients(1.0, 0.1, 0.3, 0.7)
    assert all(Schedule(start, start).at(i / 49) == start for i in range(49))


def test_the_defaults_are_a_falling_learning_rate_and_nothing_else():
    now = schedule_of(Config()).at(10 / 50)
    assert now == (1.0 - 10 / 50, 0.2, 0.0, 0.0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"learning_rate_schedule": "constant"}, (1.0, 0.2, 0.0, 0.0)),
        ({"clip_range_schedule": "linear", "value_clip_range": 1.0}, (0.75, 0.15, 0.75, 0.0)),
        ({"entropy_coefficient": 0.1, "entropy_coefficient_final": 0.02}, (0.75, 0.2, 0.0, 0.1)),
        (
            {"entropy_coefficient": 0.1, "entropy_coefficient_final": 0.02, "entropy_schedule": "linear"},
            (0.75, 0.2, 0.0, 0.08),
        ),
        ({"entropy_coefficient_final": 0.04, "entropy_schedule": "linear"}, (0.75, 0.2, 0.0, 0.01)),
    ],
)
def test_options_become_a_schedule(values, expected):
    assert schedule_of(Config(**values)).at(1 / 4) == pytest.approx(expected)


def test_coefficients_reach_the_loss():
    """A stepper that is told other coefficients computes the loss of one that was made with them."""
    from learning.algorithms.test_ppo import real_batch

    model, batch = toy_model("bandit"), real_batch("bandit")
    told = toy_stepper(model)
    told.set_coefficients(clip_range=0.05, value_clip_range=0.3, entropy_coefficient=0.2)
    made = toy_stepper(model, clip_range=0.05, value_clip_range=0.3, entropy_coefficient=0.2)
    losses = [[float(term.detach()) for term in stepper.loss(batch)] for stepper in (told, made, toy_stepper(model))]
    assert losses[0] == losses[1]
    assert np.not_equal(losses[0], losses[2])[[0, 1, 2]].all(), "total, policy and value term"
