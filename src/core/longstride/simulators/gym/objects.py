"""Environments that a program passes itself: an object, a class, or a function that returns one."""

import copy
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from longstride.errors import UserError, one_line
from longstride.simulators.compile_errors import with_line
from longstride.simulators.gym.adapter import GymnasiumSimulator, close
from longstride.simulators.source_files import recorded_source

OBJECT = "object"
"""Key in a checkpoint's source: whether the environment was an object, which no name makes again."""


def is_environment(given: Any) -> bool:
    """Return whether something is an environment of Gymnasium's interface."""
    return not isinstance(given, type) and _has_interface(given)


def is_environment_class(given: Any) -> bool:
    """Return whether something is a class of environments."""
    return isinstance(given, type) and _has_interface(given)


def _has_interface(given: Any) -> bool:
    """Return whether there is what Gymnasium asks for; spaces may be set by the constructor of a class."""
    spaces = isinstance(given, type) or (hasattr(given, "observation_space") and hasattr(given, "action_space"))
    return spaces and callable(getattr(given, "reset", None)) and callable(getattr(given, "step", None))


def from_environment(env: Any) -> tuple[GymnasiumSimulator, dict[str, Any]]:
    """Return the simulator of an environment, and the source that a checkpoint records.

    The environments that play are copies of it; it stays as it is.

    Raises:
        UserError: it cannot be copied, or a space is not supported.
    """
    name = _name_of(type(getattr(env, "unwrapped", env)))
    return GymnasiumSimulator(name, partial(_copy, env, name)), {"simulator": name, "options": {}, OBJECT: True}


def source_of_maker(maker: Any) -> dict[str, Any]:
    """Return what a checkpoint records of a class or function that makes environments."""
    name = _name_of(maker)
    source: dict[str, Any] = {"simulator": name, "options": {}}
    if "<" in name:  # a lambda, or a function within another
        return {**source, OBJECT: True}
    return {**source, **recorded_source(name)}


def _name_of(kind: Any) -> str:
    return f"{getattr(kind, '__module__', '__main__')}:{getattr(kind, '__qualname__', '<object>')}"


def made_by(maker: Callable[..., Any], name: str, options: Mapping[str, Any], made: Any) -> GymnasiumSimulator:
    """Return the simulator of the environments that a class or function makes of options; ``made`` one is closed.

    Raises:
        UserError: it fails, or returns something else.
    """

    def new() -> Any:
        try:
            env = maker(**options)
        except UserError:
            raise
        except Exception as error:
            given = f"with {dict(options)}" if options else "without arguments"
            raise UserError(f"{name} cannot be made {given}: {with_line(error)}.") from error
        if not is_environment(env):
            raise UserError(
                f"{name} returned {env!r:.80}, which is not an environment: it lacks spaces, reset or step."
            )
        return env

    close(made, name)
    return GymnasiumSimulator(name, new)


def _copy(env: Any, name: str) -> Any:
    """Return a copy of an environment; of one that cannot be copied, another one with its Gymnasium spec."""
    try:
        return copy.deepcopy(env)
    except Exception as error:
        if (again := _from_spec(env)) is not None:
            return again
        raise UserError(
            f"{name} cannot be copied ({type(error).__name__}: {one_line(error)}), and a training plays several; pass "
            "a function that makes one: train(lambda: ...)."
        ) from error


def _from_spec(env: Any) -> Any:
    """Return another environment with the Gymnasium spec of one; None if there is none, or it makes none."""
    if (spec := getattr(env, "spec", None)) is None:
        return None
    import gymnasium

    with suppress(Exception):
        return gymnasium.make(spec, disable_env_checker=True)
    return None
