"""The compiled LongQueue, the one for Gymnasium, and the one that the usual trainers were measured on, step by step."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from benchmarks.long_queue import LongQueue, LongQueueEnvironment
from longstride.seeding import stream
from longstride.simulators.simulator import compile_functions, new_state

PEER = Path(__file__).parents[3] / "shared" / "peers" / "longqueue.py"


def peer():
    if not PEER.exists():
        pytest.skip("the environment that the usual trainers were measured on is not here")
    specification = importlib.util.spec_from_file_location("longqueue", PEER)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.LongQueue


@pytest.mark.parametrize("other", [lambda: LongQueueEnvironment, peer], ids=["own", "peer"])
def test_equal_dynamics(other):
    """Same generator, same actions: lengths and arrivals exactly, float32 logarithms to their last place."""
    steps, functions = 9000, compile_functions(LongQueue(9000))
    environment, simulator, states = other()(episode=steps), LongQueue(steps), new_state(LongQueue())
    seen, _ = environment.reset(seed=1)
    environment.unwrapped.np_random = stream(5, "arrivals")
    rng, actions = stream(5, "arrivals"), stream(5, "actions").integers(0, 8, steps)
    functions.reset(states[0], simulator.parameters, rng)
    for t, action in enumerate(actions):
        observation = np.zeros(32, np.float32)
        functions.observe(states[0], simulator.parameters, observation)
        if t:
            np.testing.assert_array_max_ulp(observation, seen, maxulp=2)
        seen, reward, ended, truncated, _ = environment.step(action)
        ours, terminated = functions.step(states[0], simulator.parameters, action, rng)
        assert ours == pytest.approx(reward, rel=1e-6)
        assert (terminated, truncated) == (ended, False)
    assert ended and states[0].lengths.sum() > 20
