"""Between Gymnasium and simulators: its environments to train on, and simulators as its environments.

In: :class:`GymnasiumSimulator` describes an environment, :class:`OpenEnvironment` is one that is being played. Out:
:func:`to_gymnasium`. Gymnasium is imported where it is used: it is optional.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from math import isfinite
from typing import Any, NamedTuple, NoReturn

import numpy as np

from core.errors import PolicyNotFiniteError, SimulatorError, UserError
from core.simulators.check import random_action
from core.simulators.gym.spaces import Decode, Encode, action_space_of, build_encode
from core.simulators.simulator import EMPTY_MASK, OBSERVATION_NOT_FINITE, POLICY_NOT_FINITE, Simulator

PREFIX = "gymnasium:"

ROLLOUT_STEPS = 2_048
"""Decisions of a rollout where nobody says how many: the episodes of an environment are short."""

LONGEST_EPISODE = 1_000_000
"""Where an evaluation stops an environment that has no time limit and does not end."""


_NOT_FINITE = "the observation holds a NaN or an infinite value"


class Made(NamedTuple):
    """An environment and how its values are read and written."""

    env: Any
    size: int
    encode: Encode
    action_space: Any
    decode: Decode


class GymnasiumSimulator(Simulator):
    """What a Gymnasium environment looks like from outside; nothing of it is compiled.

    Args:
        name: a registered id, or ``module:id``, where the module registers it.
        options: keyword arguments of ``gymnasium.make``.

    Raises:
        UserError: there is no such environment here, or one of its spaces is not supported.
    """

    heuristics: Mapping[str, Any] = {"random": random_action}

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name, self.options = PREFIX + name, dict(options)
        made = self.make()
        self.observation_size, self.action_space = made.size, made.action_space
        limit = made.env.spec.max_episode_steps if made.env.spec is not None else None
        self.max_steps = int(limit or LONGEST_EPISODE)
        made.env.close()

    def description(self) -> dict[str, Any]:
        """Return what a checkpoint records to be refused by another simulator."""
        return {**super().description(), "simulator": self.name}

    def make(self) -> Made:
        """Make an environment.

        Raises:
            UserError: it cannot be made, or one of its spaces is not supported.
        """
        env = _make(self.name.removeprefix(PREFIX), self.options)
        size, encode = build_encode(env.observation_space, self.name)
        return Made(env, size, encode, *action_space_of(env.action_space, self.name))


class OpenEnvironment:
    """An environment that is being played: its last observation and, where it has one, its mask.

    Args:
        simulator: what to make.

    Attributes:
        steps: decisions of this episode.
        masked: whether the episode has masks, which its first ``info`` or the method ``action_masks`` decides.
    """

    def __init__(self, simulator: GymnasiumSimulator) -> None:
        made = simulator.make()
        self._name, self._reset, self._step = simulator.name, made.env.reset, made.env.step
        self._encode, self._decode = made.encode, made.decode
        self._mask_size = sum(made.action_space.choices)
        self._ask_mask = getattr(made.env.unwrapped, "action_masks", None) if self._mask_size else None
        self._observation: Any = None
        self._info: Mapping[str, Any] = {}
        self._episode, self.steps, self.masked = "", 0, False

    def begin(self, seed: int, episode: str) -> None:
        """Start an episode.

        Args:
            seed: of ``reset``.
            episode: its name, for sentences.

        Raises:
            SimulatorError: the environment failed.
        """
        self._episode, self.steps = episode, 0
        try:
            self._observation, self._info = self._reset(seed=seed)
        except Exception as error:
            self._fail_with("reset", error)
        if not isinstance(self._info, Mapping):
            self._fail(f"reset returned the info {self._info!r}, which is no dictionary")
        self.masked = self._mask_size > 0 and ("action_mask" in self._info or self._ask_mask is not None)

    def look(self, row: np.ndarray) -> None:
        """Write the observation.

        Args:
            row: float32[observation size].

        Raises:
            SimulatorError: it is not what the environment declares.
        """
        try:
            self._encode(self._observation, row)
        except (ValueError, TypeError) as error:
            self._fail(str(error))

    def look_at_mask(self, mask: np.ndarray) -> None:
        """Write the mask of an episode that has masks.

        Args:
            mask: bool[values of all choices].

        Raises:
            SimulatorError: it is missing or of another size.
        """
        found = self._info.get("action_mask") if isinstance(self._info, Mapping) else None
        if found is None:
            found = self._ask_mask() if self._ask_mask is not None else ()
        parts = [np.ravel(part) for part in found] if isinstance(found, tuple | list) else [np.ravel(found)]
        flat = np.concatenate(parts or [np.empty(0)])
        if flat.shape != mask.shape:
            self._fail(f"the action mask has {flat.size} values, not {mask.size}")
        mask[:] = flat

    def step(self, action: np.ndarray) -> tuple[float, bool, bool]:
        """Decide; return reward, terminated and truncated (not both).

        Args:
            action: a row of our action space.

        Raises:
            SimulatorError: the environment failed or returned something else.
        """
        try:
            self._observation, reward, terminated, truncated, self._info = self._step(self._decode(action))
        except Exception as error:
            self._fail_with("step", error)
        try:
            reward = float(reward)
        except (TypeError, ValueError):
            self._fail(f"step returned the reward {reward!r}, which is no number")
        if not isfinite(reward):
            self._fail(f"step returned the reward {reward}")
        try:
            terminated, truncated = bool(terminated), bool(truncated and not terminated)
        except ValueError:
            self._fail(
                f"step returned terminated {terminated!r} and truncated {truncated!r}; each must be one truth value"
            )
        self.steps += 1
        return reward, terminated, truncated

    def check_finite(self, row: np.ndarray) -> None:
        """Check an observation that no decision follows.

        Raises:
            SimulatorError: it is not finite.
        """
        if not np.isfinite(row).all():
            self._fail(_NOT_FINITE)

    def fail(self, status: int) -> NoReturn:
        """Say what the policy found.

        Args:
            status: other than OK.

        Raises:
            SimulatorError: always.
        """
        self._fail(
            {
                OBSERVATION_NOT_FINITE: _NOT_FINITE,
                EMPTY_MASK: "the action mask allows nothing",
                POLICY_NOT_FINITE: "the policy's own outputs were NaN; lower the learning rates",
            }[status],
            PolicyNotFiniteError if status == POLICY_NOT_FINITE else SimulatorError,
        )

    def _fail_with(self, where: str, error: Exception) -> NoReturn:
        what = " ".join(str(error).split())[:300].rstrip(".")
        raise SimulatorError(
            f"{self._name}, episode {self._episode}, step {self.steps}: {where} failed with "
            f"{type(error).__name__}: {what}."
        ) from error

    def _fail(self, what: str, kind: type[SimulatorError] = SimulatorError) -> NoReturn:
        raise kind(f"{self._name}, episode {self._episode}, step {self.steps}: {what}.") from None


def seed_of(rng: np.random.Generator) -> int:
    """Return the seed of an episode of an environment, from the stream of the episode."""
    return int(rng.integers(2**31))


def to_gymnasium(simulator: Simulator) -> Any:
    """Return a simulator as a ``gymnasium.Env``.

    Raises:
        UserError: gymnasium is not installed, or the simulator lacks something.
    """
    require_gymnasium()
    from core.simulators.gym.env import SimulatorEnv

    return SimulatorEnv(simulator)


def require_gymnasium() -> None:
    """Check that gymnasium is here.

    Raises:
        UserError: it is not.
    """
    try:
        import gymnasium  # noqa: F401
    except ImportError:
        raise UserError(
            "Gymnasium is not installed; pip install 'longstride[gymnasium]' (or pip install gymnasium) adds it."
        ) from None


def _make(name: str, options: Mapping[str, Any]) -> Any:
    """Make an environment, or say in a sentence why not."""
    require_gymnasium()
    import gymnasium
    from gymnasium.error import UnregisteredEnv

    try:
        return gymnasium.make(name, **{"disable_env_checker": True, **options})
    except UnregisteredEnv:
        known = {each.lower(): each for each in gymnasium.registry}
        module, colon, wanted = name.rpartition(":")
        near = get_close_matches(wanted.lower(), known, 1)
        hint = (
            f"did you mean {PREFIX}{module}{colon}{known[near[0]]}?"
            if near
            else "gymnasium.pprint_registry() lists what there is."
        )
        raise UserError(f"Gymnasium has no environment {name}; {hint}") from None
    except Exception as error:
        given = "".join(f" with {option}={value}" for option, value in options.items())
        what = " ".join(str(error).split())[:300].rstrip(".")
        raise UserError(f"Gymnasium cannot make {name}{given}: {type(error).__name__}: {what}.") from error
