"""check_simulator finds nothing in what keeps the contract; what it finds is in test_check_findings."""

import numpy as np
import pytest
from oracles.toy_simulators import Bandit, Choices, Forgetful, Shop, Squashed, Tracker, Unfilled

from longstride.errors import SimulatorError
from longstride.process.load import bundled_scenarios
from longstride.simulators.check import check_simulator, random_action
from longstride.simulators.loading import BUILT_IN, load_simulator
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete


@pytest.mark.parametrize("simulator", [Shop, Bandit, Choices, Tracker, Squashed, Forgetful, Unfilled])
def test_nothing_is_wrong_with_the_toys(simulator):
    assert check_simulator(simulator()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_nothing_is_wrong_with_what_is_built_in(name):
    assert check_simulator(load_simulator(name).simulator) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", bundled_scenarios())
def test_nothing_is_wrong_with_the_bundled_processes(name):
    assert check_simulator(load_simulator("process", {"scenario": name}).simulator, 50) == []


class Reductions(Simulator):
    """Queues whose reward and end are reductions of an array field."""

    observation_size, action_space, max_steps = 3, Discrete(3), 50
    state_dtype = np.dtype([("queue", np.int64, (3,)), ("work", np.float32, (3,))])

    def reset(state, parameters, rng):
        state.queue[:] = 0
        state.work[:] = 0.0

    def observe(state, parameters, observation):
        observation[:] = state.queue

    def step(state, parameters, action, rng):
        state.queue[:] += rng.integers(0, 2)
        state.queue[action] = max(state.queue[action] - 2, 0)
        state.work[:] = 0.5 * state.queue
        return -1.0 * state.queue.sum() - np.max(state.work), (state.queue > 9).all()

    def truncated(state, parameters):
        return state.queue.max() > 40

    def time(state, parameters):
        return state.work.sum() * 0.0


def test_reductions_of_array_fields_are_numbers():
    assert check_simulator(Reductions()) == []


class NoValue(Choices):
    def action_mask(state, parameters, mask):
        if state.count == 5:
            mask[3:5] = False  # both values of the second choice; those of the others stay


class Unbounded(Tracker):
    def step(state, parameters, action, rng):
        assert action.dtype == np.float32
        return np.nan if action[1] < -2.0 else 0.0, False


def test_a_choice_without_a_value_is_found():
    with pytest.raises(SimulatorError, match="step 5: action_mask allowed no value of a choice; allow at least one"):
        check_simulator(NoValue())


def test_actions_without_a_bound_are_drawn_widely():
    with pytest.raises(SimulatorError, match="step returned the reward nan"):
        check_simulator(Unbounded())


def test_random_actions_cover_what_is_allowed():
    rng = np.random.default_rng(1)
    mask = np.array([1, 0, 1, 1, 1, 0], np.bool_)
    drawn = [random_action(MultiDiscrete([3, 3]), mask, rng) for _ in range(100)]
    assert {tuple(a.tolist()) for a in drawn} == {(0, 0), (0, 1), (2, 0), (2, 1)}
    assert {random_action(Discrete(6), mask, rng) for _ in range(100)} == {0, 2, 3, 4}
    box = Box([-3.0, 5.0, -np.inf, -np.inf], [4.0, np.inf, -5.0, np.inf])
    numbers = np.stack([random_action(box, mask[:0], rng) for _ in range(500)])
    low, high = box.bounds
    assert ((low <= numbers) & (numbers <= high)).all()
    assert numbers.dtype == np.float32
    assert numbers[:, 0].std() == pytest.approx(7 / 12**0.5, rel=0.1)
    assert numbers[:, 1].min() < 5.1
    assert numbers[:, 1].max() > 6.5
    assert numbers[:, 3].std() == pytest.approx(1.0, rel=0.15)
