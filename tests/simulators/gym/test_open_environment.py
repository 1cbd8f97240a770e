"""An environment that is being stepped: masks of wrappers, the user's line in errors, closing, float32."""

import re

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium
from gymnasium import spaces

from longstride.errors import SimulatorError, UserError
from longstride.simulators.gym.adapter import registered
from longstride.simulators.gym.open_environment import OpenEnvironment
from longstride.simulators.hooks import close_all


class Meter(gymnasium.Env):
    """Shows a number and the step in float64; `fault` names the method that fails."""

    closed = 0

    def __init__(self, number=0.0, fault="", dtype=np.float64):
        self.observation_space = spaces.Dict({"meter": spaces.Box(-np.inf, np.inf, (2,), dtype)})
        self.action_space, self.number, self.fault, self.dtype = spaces.Discrete(3), number, fault, dtype

    @property
    def action_space(self):
        return self._fails("spaces") or self._actions

    @action_space.setter
    def action_space(self, space):
        self._actions = space

    def _fails(self, method):
        return self.fault == method and {}[method]

    def reset(self, *, seed=None, options=None):
        self.count = self._fails("reset") or 0
        return self._look(), {}

    def step(self, action):
        self.count += 1 + self._fails("step")
        return self._look(), 0.0, False, False, {}

    def _look(self):
        return {"meter": np.array([self.count, self.number + self.count % 2], self.dtype)}

    def close(self):
        Meter.closed += 1
        self._fails("close")


class Masker(gymnasium.Wrapper):
    def __init__(self, env, mask, fault=""):
        super().__init__(env)
        self.mask, self.fault = mask, fault

    def action_masks(self):
        return np.array(self.mask) if self.fault != "action_masks" else {}["mask"]


class Attribute(gymnasium.Wrapper):
    action_masks = (True, True, False)


def opened(make, seed=0):
    gymnasium.registry.pop("LongstrideMeter-v0", None)
    gymnasium.register("LongstrideMeter-v0", make)
    environment = OpenEnvironment(registered("LongstrideMeter-v0", {}))
    environment.begin(seed, "0")
    return environment


def mask_of(environment):
    mask = np.zeros(3, np.bool_)
    environment.read_mask(mask)
    return mask.tolist()


@pytest.fixture(autouse=True)
def registry():
    Meter.closed = 0
    yield
    gymnasium.registry.pop("LongstrideMeter-v0", None)


def test_the_mask_of_the_outermost_wrapper_counts():
    inner = Masker(gymnasium.wrappers.TimeLimit(Meter(), 20), [True, False, True])
    environment = opened(lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TimeLimit(inner, 20)))
    assert environment.masked
    assert mask_of(environment) == [True, False, True]
    assert mask_of(opened(lambda: Masker(inner, [False, False, True]))) == [False, False, True]
    assert not opened(Meter).masked
    with pytest.raises(UserError, match=r"action_masks of Meter is \(True, True, False\); make it a method"):
        opened(lambda: Attribute(Meter()))


@pytest.mark.parametrize("fault", ["reset", "step", "spaces", "action_masks"])
def test_an_error_names_the_line_of_the_user(fault):
    with pytest.raises(UserError, match=rf"KeyError: '.*' \(line \d+ of .*{__name__.split('.')[-1]}.py: .*\{{\}}\["):
        environment = opened(lambda: Masker(Meter(fault=fault), [True] * 3, fault))
        environment.step(np.array(0))
        mask_of(environment)


class Answers(Meter):
    """Returns what it was given from reset and step."""

    def __init__(self, from_reset=None, from_step=None):
        super().__init__()
        self.from_reset, self.from_step = from_reset, from_step

    def reset(self, *, seed=None, options=None):
        usual = super().reset(seed=seed)
        return self.from_reset(usual[0]) if self.from_reset else usual

    def step(self, action):
        return self.from_step(super().step(action)[0])


@pytest.mark.parametrize(
    ("from_reset", "from_step", "sentence"),
    [
        (lambda seen: seen, None, "reset returned a dict; write return observation, info, as Gymnasium does"),
        (lambda seen: None, None, "reset returned a NoneType; write return observation, info,"),
        (None, lambda seen: (seen, 0.0, False, {}), "step returned 4 values; write return observation, reward, term"),
        (None, lambda seen: None, "step returned a NoneType; write return observation, reward, terminated, truncated,"),
        (None, lambda seen: (seen, -1e300, False, False, {}), "step returned the reward -1e+300; scale it below 1e+12"),
    ],
)
def test_what_an_older_environment_returns_is_said_with_what_to_write(from_reset, from_step, sentence):
    with pytest.raises(UserError, match=re.escape(sentence)):
        opened(lambda: Answers(from_reset, from_step)).step(np.array(0))


def test_all_environments_are_closed_and_a_failure_is_a_sentence():
    gymnasium.register("LongstrideMeter-v0", lambda: Meter(fault="close" if Meter.closed else ""))
    simulator = registered("LongstrideMeter-v0", {})
    assert Meter.closed == 1, "the one that shows the spaces"
    for _ in range(2):
        OpenEnvironment(simulator)
    sentences = close_all(simulator)
    assert Meter.closed == 3
    assert len(sentences) == 2
    assert "close failed with KeyError: 'close' (line" in sentences[0]
    assert close_all(simulator) == []
    assert Meter.closed == 3


@pytest.mark.parametrize(
    ("number", "dtype", "hint"),
    [
        (1.764e9, np.float64, "observation['meter'][1] is around 1764000001, where float32 keeps only steps of 128"),
        (1.764e9, np.int64, "observation['meter'][1] is around 1764000001, where float32 keeps only steps of 128"),
        (1.764e9, np.float32, "observation['meter'][1] is around 1764000000, where float32 keeps only steps of 128"),
        (1.0e5, np.float64, ""),
        (3.0e5, np.float32, ""),
    ],
)
def test_differences_that_float32_loses_are_named(number, dtype, hint):
    environment, row = opened(lambda: Meter(number, dtype=dtype)), np.zeros(2, np.float32)
    for _ in range(10):
        environment.observe(row)
        environment.step(np.array(0))
    assert (hint in environment.hint()) if hint else not environment.hint()


@pytest.mark.filterwarnings("error")
def test_a_number_too_large_for_float32_is_named_with_its_place():
    with pytest.raises(SimulatorError, match=r"observation\['meter'\]\[1\] is 1e\+300, which is too large for float32"):
        opened(lambda: Meter(1e300)).observe(np.zeros(2, np.float32))
