"""Processes of different sizes are played by one compiled kernel, as by their functions one by one."""

import numpy as np
import pytest
from oracles.process_play import FIFO, LAZY, SPT, choose, play, play_of, scenario, service

from longstride.process.load import find_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.rollout.episode_loop import new_episode_arrays
from longstride.seeding import stream
from longstride.simulators.compile import kernel_functions
from longstride.simulators.simulator import compile_functions, new_state


def crew(people, activities, **changes):
    """Return a process in which everybody can do everything."""
    names, work = [f"P{i}" for i in range(people)], [f"A{i}" for i in range(activities)]
    services = [
        service(a, p, "exponential", mean=0.4 + 0.1 * i + 0.05 * k)
        for i, a in enumerate(work)
        for k, p in enumerate(names)
    ]
    given = {
        "horizon": {"value": 30.0},
        "arrivals": {"process": "poisson", "rate": 0.9 * people / activities},
        "activities": work,
        "resources": names,
        "service": services,
        "flow": {"seq": [{"task": a} for a in work]},
    }
    return ProcessSimulator(scenario(**{**given, **changes}))


SIMULATORS = {
    "one": lambda: crew(1, 1),
    "few": lambda: crew(2, 3),
    "many": lambda: crew(7, 4),
    "parallel": lambda: crew(3, 2, flow={"and": [{"task": "A0"}, {"task": "A1"}]}),
    "costs": lambda: crew(2, 2, aims={"costs": {"everyone": 30.0}, "objective": {"cost": 1.0}}),
}


@pytest.mark.parametrize("name", SIMULATORS)
@pytest.mark.parametrize("which", [FIFO, SPT, LAZY])
def test_the_loop_plays_what_its_functions_play(name, which):
    simulator = SIMULATORS[name]()
    functions = compile_functions(simulator)
    (compiled,) = play(simulator, which, 1)
    states, p = new_state(simulator), simulator.parameters
    state, (rng, policy_rng) = states[0], (stream(0, "simulator", 0), stream(0, "policy", 0))
    arrays, total, steps = new_episode_arrays(simulator), 0.0, 0
    functions.reset(state, p, rng)
    over = False
    while not over:
        functions.observe(state, p, arrays.observed.observation)
        arrays.observed.mask[:] = True
        functions.action_mask(state, p, arrays.observed.mask)
        action = choose(state, p, arrays.observed, which, policy_rng, arrays.row)
        reward, terminated = functions.step(state, p, action, rng)
        total, steps = total + reward, steps + 1
        over = terminated or functions.truncated(state, p)
    assert (steps, total) == (compiled.steps, compiled.total)
    for field in simulator.state_dtype.names:
        np.testing.assert_array_equal(state[field], compiled.state[field], err_msg=field)


def test_all_sizes_share_one_kernel():
    simulators = [made() for made in SIMULATORS.values()] + [ProcessSimulator(find_scenario("loan_desk"))]
    assert len({simulator.state_dtype for simulator in simulators}) == len(simulators)
    loops = {play_of(simulator) for simulator in simulators}
    for simulator in simulators[:3]:
        play(simulator, FIFO, 1)
    (loop,) = loops
    assert len(loop.overloads) == 1
    assert len({kernel_functions(simulator).step for simulator in simulators}) == 1
