"""What is expected of the next hours: against a heap, hours on a wall clock, and a hand-made state."""

import math

import numpy as np
import pytest
from oracles.list_schedule import check_times_to_serve, crowd
from oracles.process_play import clerk, office, rework

from longstride.process.kernel.pairs import action_features
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.simulator import compile_functions, new_state


@pytest.mark.parametrize("make", [rework, crowd])
def test_the_time_to_serve_a_queue_is_that_of_a_list_schedule(make):
    check_times_to_serve(make)


def test_who_is_off_duty_or_leaves_before_being_free_is_ready_when_they_come_back():
    simulator = clerk([8.0, 9.0, 10.5, 16.5], ["Monday", "Tuesday"], horizon=48.0)
    functions, states = compile_functions(simulator), new_state(simulator)
    state, p = states[0], simulator.parameters
    functions.reset(state, p, stream(0, "simulator"))
    seen = []
    while not state.ended:
        seen.append((state.time, action_features.time_until_ready(state, p, 0)))
        functions.step(state, p, 0, None)
    # The clerk works 9-12 and 13-17 and needs 2 hours for a task; decisions fall on 9, 11, 13 and 16:30.
    assert [time for time, _ in seen] == [9.0, 11.0, 13.0, 16.5]
    assert [ready for _, ready in seen] == [0.0] * 4
    state.busy_pair[0], state.started[0], state.on_duty[0] = 0, state.time, 1
    for now, busy, ready in ((9.5, True, 1.5), (10.5, True, 2.5), (15.5, True, 17.5), (12.5, False, 0.5)):
        functions.reset(state, p, stream(0, "simulator"))
        while state.time < 13.0 <= now:  # 9.0, then 13.0: the shift changes are those of that time
            functions.step(state, p, 0, None)
        if 12.0 <= now < 13.0:
            state.on_duty[0], state.change_at[0], state.change_after[0] = 0, 13.0, 17.0
        state.time, state.started[0], state.busy_pair[0] = now, now - 0.5, 0 if busy else -1
        assert action_features.time_until_ready(state, p, 0) == pytest.approx(ready)


@pytest.mark.parametrize("make", [office, rework])
def test_the_next_two_shift_changes_are_known_at_all_times(make):
    """Against the times at which duty really changes, over three weeks."""
    simulator = ProcessSimulator(make())
    functions, states = compile_functions(simulator), new_state(simulator)
    state, p = states[0], simulator.parameters
    functions.reset(state, p, stream(2, "simulator"))
    week, changes = 10080.0, {r: [] for r in range(len(state.finish))}
    for i in range(p.shift_count):
        changes[p.shift_resource[i]] += [p.shift_times[i] + k * week for k in range(5)]
    decisions = 0
    while not state.ended:
        for r, times in changes.items():
            later = [*sorted(t for t in times if t > state.time), math.inf, math.inf]
            assert (state.change_at[r], state.change_after[r]) == pytest.approx(tuple(later[:2]))
        mask = np.ones(simulator.action_space.n, bool)
        functions.action_mask(state, p, mask)
        functions.step(state, p, int(mask.argmax()), None)
        decisions += 1
    assert decisions > 100
