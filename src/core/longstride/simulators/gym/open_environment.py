"""A Gymnasium environment that is being stepped, with checks of what it returns."""

from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from typing import Any, NoReturn, cast

import numpy as np

from longstride.errors import PolicyNotFiniteError, SimulatorError, UserError
from longstride.simulators.check.lost_digits import LostDigits
from longstride.simulators.compile_errors import with_line
from longstride.simulators.float32 import LARGEST_REWARD, unfit_number
from longstride.simulators.gym.adapter import GymnasiumSimulator, close
from longstride.simulators.gym.spaces import name_of_number
from longstride.simulators.simulator import EMPTY_MASK, OBSERVATION_NOT_FINITE, POLICY_NOT_FINITE, Simulator

_FAULTS = {
    EMPTY_MASK: "the action mask allows nothing",
    POLICY_NOT_FINITE: "the policy's own outputs were NaN; lower the learning rates",
}

_NOTHING = object()
_RESET, _STEP = ("observation", "info"), ("observation", "reward", "terminated", "truncated", "info")
"""What the functions of an environment return."""


class OpenEnvironment:
    """The environment that a simulator describes, with its last observation and, where it has one, its mask.

    Every method raises a SimulatorError where the environment failed or returned what it should not.

    Attributes:
        name: name of the environment.
        steps: environment steps of this episode.
        masked: True if this episode has masks; its first ``info`` or the method ``action_masks`` decides.
        longest_of: the steps after which each of some episodes of an evaluation is stopped, by their number.
    """

    def __init__(self, simulator: Simulator) -> None:
        assert isinstance(simulator, GymnasiumSimulator)  # the only kind that is not compiled
        made = simulator.make()
        simulator.hooks.add(partial(close, made.env, simulator.name))
        self.name, self._env, self._step = simulator.name, made.env, made.env.step
        self.longest_of = simulator.longest_of
        self._encode, self._decode = made.encode, made.decode
        self._mask_size = sum(made.action_space.choices)
        self._ask_mask = _mask_function(made.env) if self._mask_size else None
        self._observation: Any = None
        self._info: Mapping[str, Any] = {}
        self._episode, self.steps, self.masked = "", 0, False
        self._digits, self._numbers = LostDigits(made.size), np.zeros(made.size)

    def begin(self, seed: int, episode: str) -> None:
        """Start an episode; messages name it ``episode``."""
        self._episode, self.steps = episode, 0
        returned: Any = _NOTHING
        try:
            returned = self._env.reset(seed=seed)
            self._observation, self._info = returned
        except Exception as error:
            self._require_parts("reset", returned, _RESET)
            self._fail_with("reset", error)
        if not isinstance(self._info, Mapping):
            self._fail(f"reset returned the info {self._info!r}, which is not a dictionary")
        self.masked = self._mask_size > 0 and ("action_mask" in self._info or self._ask_mask is not None)

    def observe(self, row: np.ndarray) -> None:
        """Write the observation into ``row``, float32[observation_size]."""
        try:
            self._encode(self._observation, row)
            if self._digits.left:
                self._encode(self._observation, self._numbers)
                self._digits.look(self._numbers)
        except (ValueError, TypeError) as error:
            self._fail(str(error))

    def hint(self) -> str:
        """Return a sentence about numbers of the first observations whose differences are lost; empty for none."""
        sentence = self._digits.sentence(self._name_of)
        return f"{self.name}: {sentence}" if sentence else ""

    def read_mask(self, mask: np.ndarray) -> None:
        """Write the mask of an episode that has masks into ``mask``, bool[n], n values of all choices."""
        given = self._info.get("action_mask") if isinstance(self._info, Mapping) else None
        try:
            if given is None:
                given = self._ask_mask() if self._ask_mask is not None else ()
            parts = [np.ravel(part) for part in given] if isinstance(given, tuple | list) else [np.ravel(given)]
            flat = np.concatenate(parts or [np.empty(0)])
        except Exception as error:
            self._fail_with("action_masks", error)
        if flat.shape != mask.shape:
            self._fail(f"the action mask has {flat.size} values, not {mask.size}")
        mask[:] = flat

    def step(self, action: np.ndarray) -> tuple[float, bool, bool]:
        """Make an environment step with an action of the simulator's space; return reward, terminated, truncated."""
        returned: Any = _NOTHING
        try:
            returned = self._step(self._decode(action))
            self._observation, reward, terminated, truncated, self._info = returned
        except Exception as error:
            self._require_parts("step", returned, _STEP)
            self._fail_with("step", error)
        try:
            reward = float(reward)
        except (TypeError, ValueError):
            self._fail(f"step returned the reward {reward!r}, which is not a number")
        if not isfinite(reward):
            self._fail(f"step returned the reward {reward}")
        if abs(reward) > LARGEST_REWARD:
            self._fail(f"step returned the reward {reward:g}; scale it below {LARGEST_REWARD:g}")
        try:
            terminated, truncated = bool(terminated), bool(truncated and not terminated)
        except ValueError:
            ends = f"terminated {terminated!r} and truncated {truncated!r}"
            self._fail(f"step returned {ends}; each must be one truth value")
        self.steps += 1
        return reward, terminated, truncated

    def check_finite(self, row: np.ndarray) -> None:
        """Check the last observation of a rollout, float32[observation_size], which no policy reads."""
        if not np.isfinite(row).all():
            self.fail(OBSERVATION_NOT_FINITE)

    def fail(self, status: int) -> NoReturn:
        """Raise a SimulatorError for a status code of the policy other than ``OK``."""
        if status == OBSERVATION_NOT_FINITE:
            self._encode(self._observation, self._numbers)
            at = int(np.isfinite(self._numbers).argmin())
            self._fail(unfit_number(self._numbers[at], self._name_of(at)))
        self._fail(_FAULTS[status], PolicyNotFiniteError if status == POLICY_NOT_FINITE else SimulatorError)

    def _require_parts(self, function: str, returned: Any, parts: tuple[str, ...]) -> None:
        """Refuse what a function returned, if it is not a tuple of its parts; older Gym had others."""
        if returned is not _NOTHING and not (isinstance(returned, tuple) and len(returned) == len(parts)):
            what = f"{len(returned)} values" if isinstance(returned, tuple) else f"a {type(returned).__name__}"
            self._fail(f"{function} returned {what}; write return {', '.join(parts)}, as Gymnasium does")

    def _name_of(self, index: int) -> str:
        return name_of_number(self._env.observation_space, index, self.name)

    def _fail_with(self, where: str, error: Exception) -> NoReturn:
        self._fail(f"{where} failed with {with_line(error)}", cause=error)

    def _fail(
        self, problem: str, kind: type[SimulatorError] = SimulatorError, cause: Exception | None = None
    ) -> NoReturn:
        raise kind(f"{self.name}, episode {self._episode}, step {self.steps}: {problem}.") from cause


def _mask_function(env: Any) -> Callable[[], Any] | None:
    """Return the method ``action_masks`` of the outermost wrapper that has one, or of the environment; None for none.

    Raises:
        UserError: it is no method.
    """
    try:
        method = env.get_wrapper_attr("action_masks")
    except AttributeError:
        return None
    if not callable(method):
        raise UserError(f"action_masks of {type(env.unwrapped).__name__} is {method!r:.50}; make it a method.")
    return cast(Callable[[], Any], method)


def seed_of(rng: np.random.Generator) -> int:
    """Return the seed of an environment's episode, drawn from the stream of the episode."""
    return int(rng.integers(2**31))
