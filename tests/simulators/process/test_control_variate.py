"""The control variate, arrivals in excess of their rate: by hand, and its mean of 0 whatever the policy."""

import numpy as np
import pytest
from oracles.process_play import RANDOM, SPT, play, scenario, service, summary

from core.seeding import stream
from core.simulators.process.simulator import ProcessSimulator
from core.simulators.simulator import compile_functions, new_state

HOURLY = [0.0] * 9 + [4.0] * 3 + [1.0] * 5 + [0.0] * 7  # of a working day


def desk(**arrivals) -> ProcessSimulator:
    return ProcessSimulator(
        scenario(
            horizon={"value": 24.0 * 16},
            arrivals=arrivals,
            resources=["fast", "slow"],
            service=[service("A", "fast", "constant", mean=0.2), service("A", "slow", "constant", mean=0.6)],
        )
    )


def variate_at(simulator: ProcessSimulator, time: float, arrived: int) -> float:
    functions, states, p = compile_functions(simulator), new_state(simulator), simulator.parameters
    functions.reset(states[0], p, stream(0, "simulator"))
    states[0].time, states[0].arrived = time, arrived
    return functions.control_variate(states[0], p)


def test_by_hand():
    weekly = desk(process="weekly", rates=HOURLY * 5 + [0.0] * 48)
    assert variate_at(weekly, 10.5, 8) == pytest.approx(8 - 1.5 * 4)
    assert variate_at(weekly, 24.0 * 7 + 13.25, 100) == pytest.approx(100 - 5 * 17 - 12 - 1.25)
    assert variate_at(desk(process="poisson", rate=0.5), 30.0, 18) == 3.0
    assert variate_at(desk(process="replay", times=[0.0, 0.5]), 30.0, 2) == 0.0


@pytest.mark.parametrize("which", [RANDOM, SPT])
def test_the_mean_over_episodes_is_0_whatever_the_policy(which):
    for simulator in (desk(process="weekly", rates=HOURLY * 5 + [0.0] * 48), desk(process="poisson", rate=0.5)):
        variate = compile_functions(simulator).control_variate
        episodes = [variate(e.state, simulator.parameters) for e in play(simulator, which, 800)]
        mean, error = summary(episodes)
        assert abs(mean) < 4 * error, f"{mean:.3f}, standard error {error:.3f}"
        # The variance of a Poisson count is its mean; 6 standard errors of a variance at 800 draws are 30 %.
        assert np.var(episodes) == pytest.approx(_expected(simulator), rel=0.3)


def _expected(simulator: ProcessSimulator) -> float:
    return float(simulator.sizes.expected_cases)
