"""The event loop against the slow reference, decision for decision; more in uncompiled/."""

import numpy as np
import pytest
from helpers.slow_cases import mostly_slow
from oracles.process_comparison import compare_episode
from oracles.process_play import office, rework

from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.simulator import compile_functions, new_state


@pytest.mark.parametrize("make", mostly_slow([office, rework], office))
def test_compiled_agrees_with_the_reference(make):
    for seed in range(3):
        reference = compare_episode(make(), seed, postpone=0.3 * (seed > 0))
        assert len(reference.cases) > 100
        assert reference.decisions > 150


def test_no_two_tasks_of_a_case_share_random_numbers():
    simulator = ProcessSimulator(office())
    functions, states = compile_functions(simulator), new_state(simulator)
    state, p, mask = states[0], simulator.parameters, np.ones(simulator.action_space.n, bool)
    functions.reset(state, p, stream(0, "simulator"))
    streams: dict[int, tuple[int, int]] = {}
    while not state.ended:
        for a in range(3):
            slot = state.queue_head[a]
            for _ in range(state.queue_length[a]):
                task = int(state.slot_case[slot]), int(state.slot_node[slot])
                assert streams.setdefault(int(state.slot_stream[slot]), task) == task
                slot = state.slot_next[slot]
        mask[:] = True
        functions.action_mask(state, p, mask)
        functions.step(state, p, int(mask.argmax()), None)
    assert len(streams) > 500
