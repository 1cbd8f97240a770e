"""The control variate, arrivals in excess of their rate: its mean of 0 whatever the policy."""

import numpy as np
import pytest
from helpers.process_desk import HOURLY, desk
from oracles.process_play import RANDOM, SPT, play, summary

from longstride.process.simulator import ProcessSimulator
from longstride.simulators.simulator import compile_functions

WEEK = HOURLY * 5 + [0.0] * 48


@pytest.mark.slow
@pytest.mark.parametrize("which", [RANDOM, SPT])
def test_the_mean_over_episodes_is_0_whatever_the_policy(which):
    for simulator in (desk(process="weekly", rates=WEEK), desk(process="poisson", rate=0.5)):
        # The variance of a Poisson count is its mean; 6 standard errors of a variance at 800 draws are 30 %.
        assert _variance_around_0(simulator, which) == pytest.approx(_expected(simulator), rel=0.3)


@pytest.mark.slow
def test_gaps_that_vary_less_leave_less():
    gaps = (0.25 + 1.5 * (np.arange(100) + 0.5) / 100).tolist()  # uniform, with variance 1.5**2 / 12
    simulator = desk(process="weekly", rates=WEEK, gaps=gaps)
    assert _variance_around_0(simulator, RANDOM) == pytest.approx(1.5**2 / 12 * _expected(simulator), rel=0.3)


def _variance_around_0(simulator: ProcessSimulator, which: int) -> float:
    variate = compile_functions(simulator).control_variate
    episodes = [variate(e.state, simulator.parameters) for e in play(simulator, which, 800)]
    mean, error = summary(episodes)
    assert abs(mean) < 4 * error, f"{mean:.3f}, standard error {error:.3f}"
    return float(np.var(episodes))


def _expected(simulator: ProcessSimulator) -> float:
    return float(simulator.sizes.expected_cases)
