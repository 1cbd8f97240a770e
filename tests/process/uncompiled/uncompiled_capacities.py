"""Episodes that end at a capacity say which."""

from typing import Any

from oracles.process_play import pool

from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.simulators.simulator import compile_functions, new_state


def message_of(capacity: dict[str, int], flow: Any) -> tuple[str | None, Any]:
    """Play an episode in which everything is postponed, without the compiled loop."""
    simulator = ProcessSimulator(
        Scenario.model_validate({**pool().scenario.model_dump(by_alias=True), "capacity": capacity, "flow": flow})
    )
    functions, states = compile_functions(simulator), new_state(simulator)
    functions.reset(states[0], simulator.parameters, stream(0, "simulator"))
    while not functions.truncated(states[0], simulator.parameters):
        functions.step(states[0], simulator.parameters, 4, None)
    return simulator.message(states[0]), states[0]


def test_the_capacity_of_open_cases_ends_an_episode_with_its_name():
    message, state = message_of({"open_cases": 60}, {"and": [{"task": "K"}, {"task": "L"}]})
    assert "it reached the capacity of 60 open cases (open cases 60; waiting 60 at L, 60 at K)" in message
    assert message.startswith(f"Episode ended at time {state.time:.0f} of 400: ")
    assert 60 < state.time < 240  # 61 arrivals at a rate of 0.5


def test_the_capacity_of_waiting_tasks_ends_an_episode_with_its_name():
    message, state = message_of({"waiting_tasks": 25}, {"and": [{"task": "K"}, {"task": "L"}]})
    assert "it reached the capacity of 25 waiting tasks (open cases 13; waiting 13 at K, 12 at L)" in message
    assert state.arrived == 13
