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
        variate = compile_functions(simulator).control_variate
        episodes = [variate(e.state, simulator.parameters) for e in play(simulator, which, 800)]
        mean, error = summary(episodes)
        assert abs(mean) < 4 * error, f"{mean:.3f}, standard error {error:.3f}"
        # The variance of a Poisson count is its mean; 6 standard errors of a variance at 800 draws are 30 %.
        assert np.var(episodes) == pytest.approx(_expected(simulator), rel=0.3)


def _expected(simulator: ProcessSimulator) -> float:
    return float(simulator.sizes.expected_cases)
