"""Gymnasium environments as simulators, and simulators as Gymnasium environments.

Gymnasium is optional, so it is imported where it is used.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

from longstride.errors import UserError
from longstride.simulators.check.random_action import random_action
from longstride.simulators.compile_errors import with_line
from longstride.simulators.gym.spaces import Decode, Encode, action_space_of, build_encode
from longstride.simulators.hooks import Hooks
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import ActionSpace

PREFIX = "gymnasium:"

_OWN_ENVIRONMENTS = "gymnasium.envs."
"""Package of Gymnasium's own environments."""

LONGEST_EPISODE = 1_000_000
"""Environment steps after which an evaluation stops an environment without a time limit, at the latest."""

_LONGEST_EVALUATION, _SHORTEST_LIMIT = 4 * LONGEST_EPISODE, 10_000
"""Steps of all episodes of a policy together in such an environment, which a policy that is stuck would never leave,
and steps of an episode that are allowed all the same."""


class Made(NamedTuple):
    """An environment of Gymnasium with the size of an observation's row, our action space, and the converters."""

    env: Any
    size: int
    encode: Encode
    action_space: ActionSpace
    decode: Decode


class OpenEnvironments(Hooks):
    """The environments of a simulator that play, and are closed at the end."""

    def __init__(self) -> None:
        self._open: list[Callable[[], None]] = []

    def add(self, close: Callable[[], None]) -> None:
        """Call a function at the end, which closes an environment."""
        self._open.append(close)

    def close(self) -> list[str]:
        """Close all; return a sentence about each that failed."""
        failures = []
        while self._open:
            try:
                self._open.pop(0)()
            except UserError as error:
                failures.append(str(error))
        return failures


class GymnasiumSimulator(Simulator):
    """The description of a Gymnasium environment, which Python steps (``open_environment.py``).

    Args:
        name: name of the environment for people and checkpoints.
        new: returns another such environment, or raises a UserError.

    Raises:
        UserError: no such environment exists here, or one of its spaces is not supported.
    """

    heuristics: Mapping[str, Any] = {"random": random_action}
    metric_units: Mapping[str, str] = {"length": "steps"}
    compiled = False
    resumable = False

    def __init__(self, name: str, new: Callable[[], Any]) -> None:
        self.name, self._new = name, new
        self.hooks: OpenEnvironments = OpenEnvironments()
        made = self.make()
        self.observation_size, self.action_space = made.size, made.action_space
        limit = made.env.spec.max_episode_steps if made.env.spec is not None else None
        self._has_time_limit, self.max_steps = bool(limit), int(limit or LONGEST_EPISODE)
        close(made.env, self.name)

    def description(self) -> dict[str, Any]:
        """Return the contract's description with the environment's name."""
        return {**super().description(), "simulator": self.name}

    def longest_of(self, episodes: int) -> int:
        """Return the steps after which each of some episodes of an evaluation is stopped."""
        share = max(_LONGEST_EVALUATION // max(episodes, 1), _SHORTEST_LIMIT)
        return self.max_steps if self._has_time_limit else min(self.max_steps, share)

    def make(self) -> Made:
        """Make an environment, or raise a UserError as the constructor does."""
        env = self._new()
        try:
            size, encode = build_encode(env.observation_space, self.name)
            return Made(env, size, encode, *action_space_of(env.action_space, self.name))
        except UserError:
            close(env, self.name)
            raise
        except Exception as error:
            close(env, self.name)
            raise UserError(f"{self.name}: its spaces cannot be read: {with_line(error)}.") from error


def registered(name: str, options: Mapping[str, Any]) -> GymnasiumSimulator:
    """Return the environment of a registered id, or of ``module:id`` for a module that registers it.

    Options are keyword arguments of ``gymnasium.make``; in its own name the id follows ``gymnasium:``.

    Raises:
        UserError: as for the class.
    """
    return GymnasiumSimulator(PREFIX + name, partial(_make, name, dict(options)))


def to_gymnasium(simulator: Simulator) -> Any:
    """Return a simulator as a ``gymnasium.Env``.

    Raises:
        UserError: gymnasium is not installed, or the simulator is incomplete.
    """
    require_gymnasium()
    from longstride.simulators.gym.env import SimulatorEnv  # imports gymnasium

    return SimulatorEnv(simulator)


def is_gymnasiums_own(name: str) -> bool:
    """Return whether a simulator's name is that of an environment that Gymnasium itself has; nothing is built."""
    identifier = name.removeprefix(PREFIX)
    if identifier == name or ":" in identifier:
        return False
    try:
        from gymnasium import registry
    except ImportError:
        return False
    entry = getattr(registry.get(identifier), "entry_point", None)
    return isinstance(entry, str) and entry.startswith(_OWN_ENVIRONMENTS)


def require_gymnasium() -> None:
    """Raise a UserError if gymnasium is not installed."""
    try:
        import gymnasium  # noqa: F401
    except ImportError:
        raise UserError(
            "Gymnasium is not installed; pip install 'longstride[gymnasium]' (or pip install gymnasium) adds it."
        ) from None


def _make(name: str, options: Mapping[str, Any]) -> Any:
    """Make an environment; a failure becomes a sentence."""
    require_gymnasium()
    import gymnasium
    from gymnasium.error import UnregisteredEnv

    try:
        return gymnasium.make(name, **{"disable_env_checker": True, **options})
    except UnregisteredEnv:
        known = {each.lower(): each for each in gymnasium.registry}
        module, colon, wanted = name.rpartition(":")
        near = get_close_matches(wanted.lower(), known, 1)
        hint = "gymnasium.pprint_registry() lists what there is."
        if near:
            hint = f"did you mean {PREFIX}{module}{colon}{known[near[0]]}?"
        raise UserError(f"Gymnasium has no environment {name}; {hint}") from None
    except Exception as error:
        given = "".join(f" with {option}={value}" for option, value in options.items())
        raise UserError(f"Gymnasium cannot make {name}{given}: {with_line(error)}.") from error


def close(env: Any, name: str) -> None:
    """Close an environment of a simulator of some name.

    Raises:
        UserError: it fails.
    """
    try:
        env.close()
    except Exception as error:
        raise UserError(f"{name}: close failed with {with_line(error)}.") from error
