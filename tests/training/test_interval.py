"""What gamma and the critic's lambda count where a simulator has a clock: no result depends on the clock's unit."""

import io
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("pydantic")

import longstride
from longstride.learning.distributed.ranks import ALONE
from longstride.learning.distributed.shares import share_of
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete
from longstride.training.rewards import RewardPipeline
from longstride.training.run_directory.checkpoint import load_checkpoint


class Unit(NamedTuple):
    """Time units of a second of work."""

    unit: float


class Worker(Simulator):
    """Work fast for 1 second or carefully for 3; who is tired earns less. The clock counts units of the parameters."""

    observation_size, action_space, max_steps = 1, Discrete(2), 50
    state_dtype = np.dtype([("tired", np.float64), ("clock", np.float64)])

    def __init__(self, unit: float = 1.0) -> None:
        self.parameters = Unit(unit)

    def reset(state, parameters, rng):
        """Begin fresh."""
        state.tired, state.clock = 0.0, 0.0

    def observe(state, parameters, observation):
        """Write how tired the worker is."""
        observation[0] = state.tired

    def step(state, parameters, action, rng):
        """Work."""
        seconds = (3.0 if action == 1 else 1.0) * (0.5 + rng.random())
        state.clock += parameters.unit * seconds
        state.tired = 0.9 * state.tired + (0.0 if action == 1 else 1.0)
        return seconds - 0.3 * state.tired, False

    def time(state, parameters):
        """Return the clock."""
        return state.clock


SMALL = {
    "training_episodes": 3,
    "num_envs": 4,
    "grow_rollouts": False,
    "num_hidden_layers": 1,
    "actor_hidden_size": 8,
    "critic_hidden_size": 8,
}


def trained(directory, simulator, **changes):
    """Return the parameters and the metadata of a run."""
    settings = longstride.Hyperparameters(**SMALL, **changes)
    with redirect_stdout(io.StringIO()):
        longstride.train(simulator, settings, run_directory=directory, quiet=True)
    tensors, metadata = load_checkpoint(directory)
    parameters = {name: tensor.numpy() for name, tensor in tensors.items() if name.startswith("model.")}
    return parameters, metadata


@pytest.mark.parametrize("changes", [{}, {"gamma": 0.97}], ids=str)
def test_the_unit_of_a_clock_changes_nothing(tmp_path, changes):
    """A power of two, so that nothing is rounded otherwise."""
    parameters, first = trained(tmp_path / "seconds", Worker(), **changes)
    same, second = trained(tmp_path / "others", Worker(1024.0), **changes)
    assert all(np.array_equal(parameters[name], same[name]) for name in parameters)
    assert second["interval"] == 1024.0 * first["interval"]


def test_the_interval_is_the_mean_time_from_one_decision_to_the_next(tmp_path):
    _, metadata = trained(tmp_path / "run", Worker(60.0))
    assert 60.0 < metadata["interval"] < 180.0
    assert metadata["gamma"] == pytest.approx(np.exp(-1 / 500))


def test_an_interval_that_the_simulator_names_is_taken(tmp_path):
    worker = Worker(60.0)
    worker.mean_interval = 30.0
    assert trained(tmp_path / "run", worker)[1]["interval"] == 30.0


def test_a_run_that_maximised_the_mean_reward_without_a_discount_gets_one():
    """Earlier versions could; their checkpoints have a discount of 1, and the mean reward."""
    settings = SimpleNamespace(gamma=0.0, grow_horizon=False, growth=None, discount_per="decision", horizon=500.0)
    rewards = RewardPipeline(Worker(), settings, None, share_of(1, 1, 0, 1), ALONE)
    rewards.restore({}, np.zeros(1), {"gamma": 0.9, "interval": 2.0}, episodes_continue=False)
    assert (rewards.gamma, rewards.is_ready) == (0.9, True)
    rewards.restore({}, np.zeros(1), {"gamma": 1.0, "interval": 2.0, "average_reward": -0.3}, episodes_continue=False)
    assert not rewards.is_ready
    rewards.choose_discount_by_decisions()
    assert rewards.gamma == pytest.approx(np.exp(-1 / 500))
