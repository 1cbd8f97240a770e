"""Gymnasium environments that a program passes: objects, classes, functions."""

import sys
import threading

import numpy as np
import pytest

pytest.importorskip("pydantic")
pytest.importorskip("gymnasium")

import gymnasium

from longstride import Hyperparameters, UserError, evaluate, train
from longstride.cli import main

SETTINGS = Hyperparameters(training_episodes=1, num_envs=2, rollout_steps=64, batch_size=64)
FILE = """
import gymnasium
import numpy as np


class Door(gymnasium.Env):
    def __init__(self, doors=3):
        self.observation_space = gymnasium.spaces.Box(0, 1, (doors,))
        self.action_space, self.steps, self.resets = gymnasium.spaces.Discrete(doors), 0, 0

    def _show(self):
        self.open = int(self.np_random.integers(self.action_space.n))
        return np.eye(self.action_space.n, dtype=np.float32)[self.open]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.resets = 0, self.resets + 1
        return self._show(), {}

    def step(self, action):
        reward, self.steps = float(action == self.open), self.steps + 1
        return self._show(), reward, False, self.steps >= 8, {}


def wide():
    return Door(4)
"""


@pytest.fixture
def doors(tmp_path, monkeypatch):
    """Return the module of a file in a folder that is the working folder."""
    (tmp_path / "doors.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import doors

    yield doors
    del sys.modules["doors"]


def trained(simulator, name):
    return train(simulator, SETTINGS, run_directory=f"runs/{name}", quiet=True, report=False)


def test_copies_of_an_object_play_and_it_stays_as_it_is(doors, capsys):
    env = doors.Door(4)
    run = trained(env, "object")
    assert env.resets == 0
    assert set(evaluate(run, episodes=2, quiet=True).rows) >= {"trained", "random"}
    assert evaluate("runs/object", env, episodes=2, quiet=True).episodes == 2
    assert main(["evaluate", "--checkpoint", "runs/object", "--trust-simulator"]) == 2
    error = capsys.readouterr().err
    assert "a Door, was an object of a program" in error
    assert "longstride.evaluate(run, environment)" in error


@pytest.mark.parametrize("name", ["Door", "wide"])
def test_a_class_or_function_is_found_again_by_its_name(doors, name, capsys):
    run = trained(getattr(doors, name), name)
    assert run.hyperparameters.simulator == f"doors:{name}"
    assert main(["evaluate", "--checkpoint", f"runs/{name}", "--evaluation-episodes", "2", "--trust-simulator"]) == 0
    assert main(["train", "--simulator", f"doors.py:{name}", "--training-episodes", "1", "--rollout-steps", "64"]) == 0


def test_gymnasiums_own_and_wrapped_ones(doors):
    limited = gymnasium.wrappers.TimeLimit(doors.Door(4), 3)
    assert trained(limited, "wrapped").metrics[0]["metrics"]["length"] == 3
    run = trained(gymnasium.make("CartPole-v1"), "cartpole")
    assert run.hyperparameters.simulator.endswith(":CartPoleEnv")
    assert trained(lambda: doors.Door(4), "lambda").completed


def test_what_cannot_be_copied_or_made_is_a_sentence(doors):
    env = doors.Door()
    env.lock = threading.Lock()
    with pytest.raises(UserError, match=r"doors:Door cannot be copied \(TypeError: cannot pickle .*pass a function"):
        trained(env, "lock")

    class Needy(doors.Door):
        def __init__(self, size):
            super().__init__(size)

    with pytest.raises(UserError, match=r"Needy cannot be built without arguments \(pass an object that you have made"):
        trained(Needy, "needy")
    with pytest.raises(UserError, match=r"simulator is 3; pass a Simulator, a Gymnasium environment"):
        trained(3, "three")
    with pytest.raises(UserError, match=r"returned array\(.*no longstride.Simulator and no Gymnasium environment"):
        trained(lambda: np.zeros(3), "array")
