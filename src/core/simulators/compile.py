"""Compiles a simulator's functions one by one, so that an error names the function and the user's own line."""

from typing import Any

import numpy as np

from core.jit_cache.cache import cached, compile_for
from core.seeding import stream
from core.simulators.compile_errors import describe_compile_error
from core.simulators.simulator import Function, Simulator, compiled, function_of, new_state
from core.simulators.spaces import Discrete


def compile_each(simulator: Simulator) -> None:
    """Compile every function and heuristic for the argument types of the compiled loops, which use the result.

    Raises:
        UserError: Numba cannot compile a function; the sentence names the function and the line.
    """
    for name, arguments in _arguments(simulator).items():
        function = function_of(simulator, name)
        if function is not None:
            _compile(simulator, name, function, arguments)
    for name in simulator.heuristics:
        compile_heuristic(simulator, name)


def compile_heuristic(simulator: Simulator, name: str) -> None:
    """Compile one heuristic.

    Raises:
        UserError: Numba cannot compile the heuristic; the sentence names the line.
    """
    state, rng = new_state(simulator)[0], stream(0, "compile")
    action = () if isinstance(simulator.action_space, Discrete) else (_action(simulator),)
    arguments = (state, simulator.parameters, _mask(simulator), rng, *action)
    _compile(simulator, f"heuristics[{name!r}]", simulator.heuristics[name], arguments)


def _compile(simulator: Simulator, name: str, function: Function, arguments: tuple[Any, ...]) -> None:
    try:
        compile_for(cached(compiled(function)), arguments)
    except Exception as error:  # Numba raises KeyError and others beside NumbaError
        raise describe_compile_error(simulator, error, name, function) from error


def _arguments(simulator: Simulator) -> dict[str, tuple[Any, ...]]:
    """Return arguments of the right types for each function of the contract."""
    state, rng, mask = new_state(simulator)[0], stream(0, "compile"), _mask(simulator)
    both = (state, simulator.parameters)
    features = np.zeros((len(mask), simulator.action_feature_size), np.float32)
    return {
        "reset": (*both, rng),
        "observe": (*both, np.zeros(simulator.observation_size, np.float32)),
        "action_mask": (*both, mask),
        "action_features": (*both, mask, features),
        "step": (*both, _action(simulator), rng),
        "truncated": both,
        "time": both,
        "control_variate": both,
    }


def _mask(simulator: Simulator) -> np.ndarray:
    return np.ones(sum(simulator.action_space.choices), np.bool_)


def _action(simulator: Simulator) -> Any:
    """Return an action of the type that ``step`` receives."""
    space = simulator.action_space
    return 0 if isinstance(space, Discrete) else np.zeros(space.shape, space.dtype)
