"""The control variate, arrivals in excess of their rate, by hand."""

import math

import numpy as np
import pytest
from helpers.process_desk import HOURLY, desk

from longstride.process.kernel.arrivals import draw_arrival
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.simulator import compile_functions, new_state


def variate_at(simulator: ProcessSimulator, time: float, arrived: int, next_arrival: float = 0.0) -> float:
    functions, states, p = compile_functions(simulator), new_state(simulator), simulator.parameters
    functions.reset(states[0], p, stream(0, "simulator"))
    states[0].time, states[0].arrived, states[0].next_arrival = time, arrived, next_arrival
    return functions.control_variate(states[0], p)


def test_by_hand():
    weekly = desk(process="weekly", rates=HOURLY * 5 + [0.0] * 48)
    assert variate_at(weekly, 10.5, 8) == pytest.approx(8 - 1.5 * 4)
    assert variate_at(weekly, 24.0 * 7 + 13.25, 100) == pytest.approx(100 - 5 * 17 - 12 - 1.25)
    assert variate_at(desk(process="poisson", rate=0.5), 30.0, 18) == 3.0
    gaps = desk(process="weekly", rates=HOURLY * 5 + [0.0] * 48, gaps=[0.5, 1.5])
    assert variate_at(gaps, 10.5, 8, next_arrival=11.0) == pytest.approx(9 - 2 * 4), "the current gap counts as a whole"
    assert variate_at(gaps, 10.5, 8, next_arrival=math.inf) == pytest.approx(8 - 1.5 * 4)
    assert variate_at(desk(process="replay", times=[0.0, 0.5]), 30.0, 2) == 0.0


def test_within_an_episode_gaps_of_any_variance_have_the_mean_0():
    """On the second day; counted up to the moment itself, arrivals would be 0.4 too few in the mean."""
    gaps = (0.25 + 1.5 * (np.arange(100) + 0.5) / 100).tolist()  # uniform, with variance 1.5**2 / 12
    simulator = desk(process="weekly", rates=HOURLY * 5 + [0.0] * 48, gaps=gaps)
    functions, p, state = compile_functions(simulator), simulator.parameters, new_state(simulator)[0]
    functions.reset(state, p, stream(0, "simulator"))
    found = []
    for _ in range(1_000):
        state.next_arrival, state.arrived = 0.0, 0
        draw_arrival(state, p)
        while state.next_arrival <= 24.0 + 10.0:
            state.arrived += 1
            draw_arrival(state, p)
        state.time = 24.0 + 10.0
        found.append(functions.control_variate(state, p))
    assert abs(np.mean(found)) < 4 * np.std(found) / math.sqrt(1_000) < 0.3
    assert np.var(found) == pytest.approx(1.5**2 / 12 * (17 + 4), rel=0.25)
