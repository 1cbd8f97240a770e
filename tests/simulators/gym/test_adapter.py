"""Gymnasium environments by name: what they look like, what is refused and how."""

import sys

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from gymnasium import spaces
from oracles import toy_environments

from longstride.errors import UserError
from longstride.simulators.gym.adapter import registered, to_gymnasium
from longstride.simulators.loading import from_source, load_simulator
from longstride.simulators.spaces import Box, Discrete, MultiDiscrete

ANY = "LongstrideSpaces-v0"
ONE, TWO = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)


def load(name, options=None):
    return load_simulator(f"gymnasium:{name}", options)


@pytest.mark.parametrize(
    ("name", "observations", "actions", "steps"),
    [
        ("CartPole-v1", 4, Discrete(2), 500),
        ("Pendulum-v1", 3, Box([-2], [2]), 200),
        ("FrozenLake-v1", 16, Discrete(4), 100),
        ("Blackjack-v1", 32 + 11 + 2, Discrete(2), 1_000_000),
        ("oracles.toy_environments:LongstrideWalk-v0", 2, Discrete(3), 1_000_000),
    ],
)
def test_an_environment_by_its_name(name, observations, actions, steps):
    loaded = load(name)
    simulator = loaded.simulator
    assert (simulator.observation_size, simulator.action_space, simulator.max_steps) == (observations, actions, steps)
    assert simulator.description()["simulator"] == f"gymnasium:{name}"
    assert from_source(loaded.source).simulator.description() == simulator.description()


def test_options_go_to_make():
    loaded = load("CartPole-v1", {"max_episode_steps": 20})
    assert loaded.simulator.max_steps == 20
    assert from_source(loaded.source).simulator.max_steps == 20
    assert from_source(loaded.source, {"max_episode_steps": 30}).simulator.max_steps == 30


def test_choices_of_a_matrix_and_bounds_of_one():
    simulator = registered(ANY, {"observations": ONE, "actions": spaces.MultiDiscrete([[3, 2], [2, 5]])})
    assert simulator.action_space == MultiDiscrete([3, 2, 2, 5])
    box = spaces.Box(np.array([[-1, -np.inf]], np.float32), np.array([[1, np.inf]], np.float32))
    simulator = registered(ANY, {"observations": ONE, "actions": spaces.MultiBinary([2, 3])})
    assert simulator.action_space == MultiDiscrete([2] * 6)
    simulator = registered(ANY, {"observations": ONE, "actions": box})
    assert simulator.action_space == Box([-1, -np.inf], [1, np.inf])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("CartPol-v1", r"no environment CartPol-v1; did you mean gymnasium:CartPole-v1\?"),
        ("cartpole-v1", r"did you mean gymnasium:CartPole-v1\?"),
        ("CartPole-v7", r"no environment CartPole-v7; did you mean gymnasium:CartPole-v[01]\?"),
        ("Lunarlander", r"did you mean gymnasium:LunarLander-v3\?"),
        ("nowhere/CartPole-v1", r"no environment nowhere/CartPole-v1; did you mean gymnasium:CartPole-v1\?"),
        ("oracles.toy_environments:LongstridWalk-v0", "mean gymnasium:oracles.toy_environments:LongstrideWalk-v0"),
        ("qqqqqqqq", r"no environment qqqqqqqq; gymnasium\.pprint_registry\(\) lists"),
        ("no_such_module:Foo-v0", "cannot make no_such_module:Foo-v0: ModuleNotFoundError"),
    ],
)
def test_a_name_that_is_not_there(name, sentence):
    with pytest.raises(UserError, match=sentence):
        load(name)


def test_an_option_that_the_environment_does_not_take():
    with pytest.raises(UserError, match=r"cannot make CartPole-v1 with legs=3: TypeError: .*'legs'"):
        load("CartPole-v1", {"legs": 3})


@pytest.mark.parametrize(
    ("observations", "actions", "sentence"),
    [
        (spaces.Text(5), TWO, "observation is in a Text space, .* supported are Box, Discrete"),
        (spaces.Dict({"a": ONE, "b": spaces.Sequence(TWO)}), TWO, r"observation\['b'\] is in a Sequence space"),
        (
            spaces.Tuple([ONE, spaces.Dict({"g": spaces.Graph(ONE, TWO)})]),
            TWO,
            r"observation\[1\]\['g'\] is in a Graph",
        ),
        (ONE, spaces.Tuple([TWO, TWO]), r"the action space Tuple.* supported are Discrete, MultiDiscrete, MultiB"),
        (ONE, spaces.Box(0, 9, (2,), np.int64), r"action space Box.*int64.* not supported.*declare integers as Multi"),
        (
            ONE,
            spaces.Box(np.zeros(2, np.float32), np.array([1, 0], np.float32)),
            "each bound of Box.* below must be less",
        ),
    ],
)
def test_a_space_that_is_not_supported(observations, actions, sentence):
    with pytest.raises(UserError, match=sentence):
        registered(ANY, {"observations": observations, "actions": actions})


def test_without_gymnasium_the_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    for use in (lambda: load("CartPole-v1"), lambda: to_gymnasium(None)):
        with pytest.raises(UserError, match=r"not installed; pip install 'longstride\[gymnasium\]'"):
            use()


def test_the_toys_are_registered():
    assert toy_environments.gymnasium.spec(ANY).id == ANY
