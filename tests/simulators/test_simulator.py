"""The contract's base class: what a user's simulator gets without a word, and what is refused."""

import pytest
from oracles.toy_simulators import Bandit

from core.errors import UserError
from core.simulators.simulator import Simulator
from core.simulators.validate import require_complete


def capabilities(simulator):
    return simulator.compiled, simulator.resumable, simulator.default_rollout_steps, simulator.expected_steps


def test_a_simulator_that_states_no_capability_is_compiled_resumable_and_played_by_whole_episodes():
    assert capabilities(Bandit()) == (True, True, 0, None)


def test_the_process_simulator_knows_the_steps_of_a_nominal_episode():
    loading = pytest.importorskip("core.simulators.loading")
    desk = loading.load_simulator("process", "loan_desk", "", "", "weekly", {}).simulator
    assert capabilities(desk) == (True, True, 0, round(desk.sizes.expected_tasks))
    assert 50_000 < desk.expected_steps < desk.max_steps


def test_an_environment_is_stepped_by_python_in_short_rollouts():
    pytest.importorskip("gymnasium")
    adapter = pytest.importorskip("core.simulators.gym.adapter")
    assert capabilities(adapter.GymnasiumSimulator("CartPole-v1", {})) == (False, False, 0, None)


@pytest.mark.parametrize("missing", ["observation_size", "action_space", "max_steps", "state_dtype"])
def test_a_missing_attribute_is_named(missing):
    attributes = {name: value for name, value in vars(Bandit).items() if name != missing and name[:2] != "__"}
    with pytest.raises(UserError, match=f"Incomplete has no {missing}: set it in the class"):
        require_complete(type("Incomplete", (Simulator,), attributes)())


@pytest.mark.parametrize("missing", ["reset", "observe", "step"])
def test_a_missing_function_is_named(missing):
    attributes = {name: value for name, value in vars(Bandit).items() if name != missing and name[:2] != "__"}
    with pytest.raises(UserError, match=f"Incomplete defines no function {missing}"):
        require_complete(type("Incomplete", (Simulator,), attributes)())
