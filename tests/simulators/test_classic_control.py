"""The classic control problems against Gymnasium's, step by step.

Both sides get the same state and action. Sine, cosine and square differ in their last places between libraries, so a
step may differ by STATE in the float64 state, by REWARD in the reward (Pendulum's square of the torque is a float32)
and by two units in the last place of float32 in an observation. Terminated, truncated and initial states may not.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

pytest.importorskip("gymnasium")

import gymnasium

from longstride.errors import UserError
from longstride.simulators.check import check_simulator
from longstride.simulators.classic_control import Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum
from longstride.simulators.loading import BUILT_IN, load_simulator
from longstride.simulators.simulator import compiled, function_of, new_state
from longstride.simulators.spaces import Discrete

STATE, REWARD, OBSERVATION = 1e-11, 1e-9, 2.0**-22
UNCORRECTED = 1e-6
PI = float(np.pi)

pytestmark = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="NumPy 1 mixes float32 and Python's floats by other rules"
)


class Problem(NamedTuple):
    """A simulator and Gymnasium's: bounds of initial states, bounds of states to try, values to try in any case."""

    kind: type
    id: str
    initial: tuple
    tried: tuple
    edges: tuple


PROBLEMS = {
    "cartpole": Problem(
        CartPole,
        "CartPole-v1",
        ((-0.05, 0.05),) * 4,
        ((-3.0, 3.0), (-10.0, 10.0), (-0.5, 0.5), (-10.0, 10.0)),
        ((2.4, -2.4), (0.0,), (24 * PI / 360, -24 * PI / 360), (0.0,)),
    ),
    "mountain_car": Problem(
        MountainCar,
        "MountainCar-v0",
        ((-0.6, -0.4), (0.0, 0.0)),
        ((-1.2, 0.6), (-0.07, 0.07)),
        ((-1.2, 0.6, 0.5, 0.499), (-0.07, 0.07, 0.0)),
    ),
    "mountain_car_continuous": Problem(
        MountainCarContinuous,
        "MountainCarContinuous-v0",
        ((-0.6, -0.4), (0.0, 0.0)),
        ((-1.2, 0.6), (-0.07, 0.07)),
        ((-1.2, 0.6, 0.45, 0.449), (-0.07, 0.07, 0.0)),
    ),
    "acrobot": Problem(
        Acrobot,
        "Acrobot-v1",
        ((-0.1, 0.1),) * 4,
        ((-PI, PI), (-PI, PI), (-4 * PI, 4 * PI), (-9 * PI, 9 * PI)),
        ((PI, -PI, 0.0), (PI, -PI, 0.0), (4 * PI, -4 * PI, 0.0), (9 * PI, -9 * PI, 0.0)),
    ),
    "pendulum": Problem(
        Pendulum,
        "Pendulum-v1",
        ((-PI, PI), (-1.0, 1.0)),
        ((-50.0, 50.0), (-8.0, 8.0)),
        ((PI, -PI, 3 * PI, -3 * PI, 2 * PI, 0.0, -1e-17), (-8.0, 8.0, 0.0)),
    ),
}
OPTIONS = {
    "cartpole": {"sutton_barto_reward": True},
    "mountain_car": {"goal_velocity": 0.03},
    "mountain_car_continuous": {"goal_velocity": 0.03},
    "pendulum": {"g": 9.81},
}
VARIANTS = [*((name, ()) for name in PROBLEMS), *((name, tuple(options.items())) for name, options in OPTIONS.items())]
each = pytest.mark.parametrize("name", PROBLEMS)
each_variant = pytest.mark.parametrize(("name", "options"), VARIANTS)
plain_and_compiled = pytest.mark.parametrize("compile_it", [False, True], ids=["plain", "compiled"])


class Pair:
    """Our simulator and Gymnasium's, in one state."""

    def __init__(self, name, options, compile_it):
        problem = PROBLEMS[name]
        self.simulator = problem.kind(**dict(options))
        self.env = gymnasium.make(problem.id, disable_env_checker=True, **dict(options))
        plain = {part: function_of(self.simulator, part) for part in ("reset", "observe", "step")}
        self.calls = {part: compiled(function) if compile_it else function for part, function in plain.items()}
        self.record = new_state(self.simulator)[0]
        self.fields = [field for field in self.simulator.state_dtype.names if field != "single"]
        self.rng = np.random.default_rng(0)
        self.env.reset(seed=0)

    def reset(self, seed):
        """Start both from generators in one state and compare."""
        self.rng = np.random.default_rng(seed)
        self.calls["reset"](self.record, self.simulator.parameters, self.rng)
        theirs, _ = self.env.reset(seed=seed)
        assert self.values() == pytest.approx(list(map(float, self.env.unwrapped.state)), rel=1e-15, abs=1e-16)
        np.testing.assert_allclose(self.observation(), theirs, rtol=OBSERVATION, atol=STATE)

    def put(self, values, single):
        """Set the state of both, in the precision that Gymnasium has it in."""
        for field, value in zip(self.fields, values, strict=True):
            self.record[field] = value
        if "single" in self.simulator.state_dtype.names:
            self.record.single = single
        self.env.unwrapped.state = np.array(values, np.float32 if single else np.float64)
        self.env.unwrapped.steps_beyond_terminated = None

    def correct(self):
        """Give Gymnasium our state, so that the next step begins in the same one."""
        self.env.unwrapped.state = np.array(self.values(), np.asarray(self.env.unwrapped.state).dtype)

    def values(self):
        return [float(self.record[field]) for field in self.fields]

    def observation(self):
        observation = np.zeros(self.simulator.observation_size, np.float32)
        self.calls["observe"](self.record, self.simulator.parameters, observation)
        return observation

    def random_action(self, rng):
        """Return an action that Gymnasium takes, for the Box ones in places out of bounds."""
        if isinstance(self.simulator.action_space, Discrete):
            return int(rng.integers(self.simulator.action_space.n))
        return (1.3 * self.simulator.action_space.high[0] * rng.uniform(-1.0, 1.0, 1)).astype(np.float32)

    def step(self, action, env, state=STATE, reward=REWARD):
        """Step both and compare; return Gymnasium's terminated and truncated."""
        theirs, their_reward, terminated, truncated, _ = env.step(action)
        our_reward, ended = self.calls["step"](self.record, self.simulator.parameters, action, self.rng)
        difference = np.array(self.values()) - np.asarray(env.unwrapped.state, np.float64)
        if isinstance(self.simulator, Acrobot):  # π and -π are one angle
            difference[:2] -= 2 * PI * np.round(difference[:2] / (2 * PI))
        assert np.abs(difference).max() < state
        assert theirs.dtype == np.float32
        np.testing.assert_allclose(self.observation(), theirs, rtol=OBSERVATION, atol=state)
        assert abs(float(our_reward) - float(their_reward)) < reward
        assert bool(ended) == terminated
        return terminated, truncated


@cache
def pair(name, options, compile_it=True):
    return Pair(name, options, compile_it)


def play(both, rng, correct, **tolerance):
    """Compare one episode of actions that are held for some steps; return its number of steps."""
    action, steps, done, keep = both.random_action(rng), 0, False, rng.choice([0.0, 0.9, 0.97])
    while not done:
        if isinstance(both.simulator, CartPole) and keep > 0.95:  # keeps the pole up
            action = int(np.dot([0.1, 0.3, 3.0, 1.0], both.values()) > 0)
        elif rng.random() > keep:
            action = both.random_action(rng)
        terminated, truncated = both.step(action, both.env, **tolerance)
        steps, done = steps + 1, terminated or truncated
        assert truncated == (steps == both.simulator.max_steps)
        if correct:
            both.correct()
    return steps


@each_variant
@plain_and_compiled
def test_every_step_of_many_episodes(name, options, compile_it):
    both, rng, lengths = pair(name, options, compile_it), np.random.default_rng(1), []
    while sum(lengths) < 3_000 or len(lengths) < 8:
        both.reset(int(rng.integers(2**31)))
        lengths.append(play(both, rng, correct=True))
    if name != "acrobot":
        assert max(lengths) == both.simulator.max_steps, "the time limit was seen"


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "acrobot"])
def test_whole_episodes_without_correction(name):
    """The acrobot is left out: its motion is chaotic and magnifies the last place of a sine."""
    both, rng = pair(name, ()), np.random.default_rng(2)
    for seed in range(8):
        both.reset(seed)
        play(both, rng, correct=False, state=UNCORRECTED, reward=UNCORRECTED)


def states(problem):
    """Return the strategy of states with their edges."""
    fields = zip(problem.tried, problem.edges, strict=True)
    return st.tuples(*(st.sampled_from(edges) | st.floats(*bounds) for bounds, edges in fields))


def actions(space):
    """Return the strategy of actions, the Box ones beyond their bounds too."""
    if isinstance(space, Discrete):
        return st.integers(0, space.n - 1)
    high = space.high[0]
    values = st.sampled_from([-high, high, 0.0, 10 * high]) | st.floats(-2 * high, 2 * high, width=32)
    return values.map(lambda value: np.array([value], np.float32))


@pytest.mark.slow
@each_variant
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_state_and_action(name, options, data):
    both = pair(name, options)
    values = data.draw(states(PROBLEMS[name]))
    single = name == "mountain_car_continuous" and data.draw(st.booleans())
    both.put([float(np.float32(value)) for value in values] if single else values, single)
    np.testing.assert_allclose(
        both.observation(), np.float32(_observed(both.env.unwrapped)), rtol=OBSERVATION, atol=STATE
    )
    both.step(data.draw(actions(both.simulator.action_space)), both.env.unwrapped)


def _observed(env):
    """Return Gymnasium's observation of its state."""
    for method in ("_get_ob", "_get_obs"):
        if hasattr(env, method):
            return getattr(env, method)()
    return env.state


@each
def test_initial_states_are_uniform(name):
    both, problem = pair(name, ()), PROBLEMS[name]
    rng, drawn = np.random.default_rng(3), []
    for _ in range(2_000):
        both.calls["reset"](both.record, both.simulator.parameters, rng)
        drawn.append(both.values())
    for values, (low, high) in zip(np.transpose(drawn), problem.initial, strict=True):
        assert values.min() >= low - 1e-8
        assert values.max() <= high + 1e-8
        if low < high:
            assert kstest(values, "uniform", (low, high - low)).pvalue > 1e-3


@each
def test_spaces_and_time_limits_are_gymnasiums(name):
    both = pair(name, ())
    ours, theirs = both.simulator.action_space, both.env.action_space
    assert both.simulator.max_steps == both.env.spec.max_episode_steps
    assert (both.simulator.observation_size,) == both.env.observation_space.shape
    if isinstance(ours, Discrete):
        assert ours.n == theirs.n
    else:
        assert ours.low == tuple(theirs.low)
        assert ours.high == tuple(theirs.high)


@pytest.mark.parametrize("name", ["cartpole", "mountain_car", "acrobot"])
def test_the_contract_is_kept(name):
    check_simulator(PROBLEMS[name].kind(), 600)


@pytest.mark.parametrize("name", ["cartpole", "mountain_car", "acrobot"])
def test_the_short_name_is_the_class(name):
    loaded = load_simulator(name, {"max_steps": 7})
    assert type(loaded.simulator) is PROBLEMS[name].kind
    assert loaded.simulator.max_steps == 7
    assert loaded.source == {"simulator": name, "options": {"max_steps": 7}}
    long = load_simulator(BUILT_IN[name])
    assert long.simulator.description() == loaded.simulator.description()


def test_every_problem_has_a_short_name():
    assert {name for name, kind in BUILT_IN.items() if ".classic_control:" in kind} == set(PROBLEMS)
    assert all(BUILT_IN[name].endswith(f":{problem.kind.__name__}") for name, problem in PROBLEMS.items())


@pytest.mark.parametrize(
    ("name", "options", "part"),
    [
        ("cartpole", {"sutton_barto_reward": 1}, "sutton_barto_reward is true or false, not 1."),
        ("mountain_car", {"goal_velocity": "fast"}, "cannot be built with goal_velocity=fast: ValueError: "),
        ("cartpole", {"max_step": 9}, "has no option max_step (there are max_steps, sutton_barto_reward); did you"),
        ("acrobot", {"max_steps": 0}, "Acrobot.max_steps must be a positive integer, not 0."),
    ],
)
def test_wrong_options_are_sentences(name, options, part):
    with pytest.raises(UserError) as error:
        load_simulator(name, options)
    assert part in str(error.value)
