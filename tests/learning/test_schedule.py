"""Schedules by hand, and whether they reach the loss."""

import numpy as np
import pytest

pytest.importorskip("pydantic")

from helpers.toy_runs import toy_coefficients, toy_model, toy_stepper

from longstride.config import Config
from longstride.learning.algorithms.ppo import PpoCoefficients
from longstride.learning.schedule import Coefficients, Schedule
from longstride.training.assembly.algorithm import build_algorithm, build_schedule


def test_coefficients_by_hand():
    """After one of four episodes three quarters of the way remain."""
    start, end = PpoCoefficients(0.2, 0.1, 0.5), PpoCoefficients(0.2, 0.02, 0.5)
    schedule = Schedule(Coefficients(1.0, start), Coefficients(0.0, end))
    assert schedule.at(0 / 4) == (1.0, start)
    for share, factor, expected in ((1 / 4, 0.75, (0.2, 0.08, 0.5)), (3 / 4, 0.25, (0.2, 0.04, 0.5))):
        coefficients = schedule.at(share)
        assert coefficients.learning_rate_factor == factor
        assert coefficients.loss == pytest.approx(PpoCoefficients(*expected))
        assert isinstance(coefficients.loss, PpoCoefficients)


def test_what_is_constant_is_not_rounded():
    start = Coefficients(1.0, PpoCoefficients(0.1, 0.3, 0.7))
    assert all(Schedule(start, start).at(i / 49) == start for i in range(49))


def scheduled(config):
    return build_schedule(config, build_algorithm(config).coefficients)


def test_by_default_learning_rates_and_entropy_fall_to_zero():
    factor, loss = scheduled(Config()).at(10 / 50)
    assert factor == 1.0 - 10 / 50
    assert loss == pytest.approx(PpoCoefficients(0.2, 0.03 * 40 / 50, 0.5))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"learning_rate_schedule": "constant"}, (1.0, 0.2, 0.0)),
        ({"clip_range_schedule": "linear"}, (0.75, 0.15, 0.0)),
        ({"entropy_coefficient": 0.1, "entropy_coefficient_final": 0.02}, (0.75, 0.2, 0.1)),
        (
            {"entropy_coefficient": 0.1, "entropy_coefficient_final": 0.02, "entropy_schedule": "linear"},
            (0.75, 0.2, 0.08),
        ),
        ({"entropy_coefficient_final": 0.04, "entropy_schedule": "linear"}, (0.75, 0.2, 0.01)),
    ],
)
def test_options_become_a_schedule(values, expected):
    """Expected are the factor of the learning rates, the clip range and the coefficient of the entropy."""
    usual = {"entropy_coefficient": 0.0, "entropy_schedule": "constant"}
    factor, loss = scheduled(Config(**{**usual, **values})).at(1 / 4)
    assert (factor, loss.clip_range, loss.entropy_coefficient) == pytest.approx(expected)
    assert loss.value_coefficient == 0.5


def test_coefficients_reach_the_loss():
    """A stepper that is told other coefficients computes the loss of one that was made with them."""
    from learning.algorithms.test_ppo import real_samples

    model, (samples, weights) = toy_model("bandit"), real_samples("bandit")
    changes = {"clip_range": 0.05, "entropy_coefficient": 0.2, "value_coefficient": 0.7}
    told = toy_stepper(model)
    told.set_coefficients(toy_coefficients(**changes))
    made, usual = toy_stepper(model, **changes), toy_stepper(model)
    losses = [stepper.loss(samples, weights) for stepper in (told, made, usual)]
    figures = [
        [float(x.detach()) for x in (loss.total, loss.terms.policy_loss, loss.terms.value_loss)] for loss in losses
    ]
    assert figures[0] == figures[1]
    assert np.not_equal(figures[0][:2], figures[2][:2]).all()
