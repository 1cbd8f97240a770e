"""Compiles a simulator's functions one by one, so that an error names the function and the user's own line."""

from typing import Any

import numpy as np

from longstride.jit_cache.cache import cached, compile_for
from longstride.jit_cache.compiled_apart import compiled_apart
from longstride.jit_cache.sized_records import is_sized
from longstride.seeding import stream
from longstride.simulators.compile_errors import describe_compile_error
from longstride.simulators.simulator import (
    Compiled,
    Function,
    Simulator,
    compile_functions,
    compiled,
    function_of,
    new_state,
)
from longstride.simulators.spaces import Discrete


def kernel_functions(simulator: Simulator) -> Any:
    """Return the functions of a simulator for kernels to call, by the names of :class:`Compiled`.

    Those of a simulator whose records may have any size are compiled apart, at their first use: one compilation serves
    all of its sizes, and all kernels.
    """
    dtypes = simulator.state_dtype, getattr(simulator.parameters, "dtype", np.void)
    return _Apart(simulator) if all(is_sized(np.dtype(each)) for each in dtypes) else compile_functions(simulator)


class _Apart:
    """The functions of a simulator, each compiled apart at its first use."""

    def __init__(self, simulator: Simulator) -> None:
        self._functions, self._arguments = compile_functions(simulator), _arguments(simulator)

    def __getattr__(self, name: str) -> Function:
        function = compiled_apart(getattr(self._functions, name), self._arguments[name])
        setattr(self, name, function)
        return function  # type: ignore[no-any-return]


def compile_each(simulator: Simulator) -> None:
    """Compile every function and heuristic for the argument types of the compiled loops, which use the result.

    Raises:
        UserError: Numba cannot compile a function; the sentence names the function and the line.
    """
    arguments = _arguments(simulator)
    for name in Compiled._fields:
        if function := function_of(simulator, name):
            _compile(simulator, name, function, arguments[name])
    for name in simulator.heuristics:
        compile_heuristic(simulator, name)


def compile_heuristic(simulator: Simulator, name: str) -> None:
    """Compile one heuristic, or raise a UserError that names the line that Numba cannot compile."""
    _compile(simulator, f"heuristics[{name!r}]", simulator.heuristics[name], _arguments(simulator)["heuristic"])


def _compile(simulator: Simulator, name: str, function: Function, arguments: tuple[Any, ...]) -> None:
    try:
        compile_for(cached(compiled(function)), arguments)
    except Exception as error:  # Numba raises KeyError and others beside NumbaError
        raise describe_compile_error(simulator, error, name, function) from error


def _arguments(simulator: Simulator) -> dict[str, tuple[Any, ...]]:
    """Return arguments of the right types for each function of the contract, and for a heuristic."""
    space, rng = simulator.action_space, stream(0, "compile")
    both, mask = (new_state(simulator)[0], simulator.parameters), np.ones(sum(space.choices), np.bool_)
    features = np.zeros((len(mask), simulator.action_feature_size), np.float32)
    described = np.zeros((len(mask), simulator.description_size), np.float32)
    row = () if isinstance(space, Discrete) else (np.zeros(space.shape, space.dtype),)  # a heuristic fills an array
    return {
        "reset": (*both, rng),
        "observe": (*both, np.zeros(simulator.observation_size, np.float32)),
        "action_mask": (*both, mask),
        "action_features": (*both, mask, features),
        "summarise": (*both, np.zeros(simulator.summary_size, np.float32)),
        "describe_actions": (*both, np.zeros(len(mask), np.int32), described),
        "step": (*both, *(row or (0,)), rng),
        "truncated": both,
        "time": both,
        "control_variate": both,
        "heuristic": (*both, mask, rng, *row),
    }
