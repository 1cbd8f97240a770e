"""A simulator's compiled helpers, compiled again with a check of every index."""

from types import FunctionType
from typing import Any

from numba import jit
from numba.core.dispatcher import Dispatcher

from longstride.jit_cache.cache import cached
from longstride.simulators.check.source_location import plain
from longstride.simulators.simulator import Function


class CheckedHelpers:
    """Copies functions so that their compiled helpers check every index, which compiled code does not.

    The helpers stay compiled: in ordinary Python they may be slow or have another meaning. Only helpers that a module
    names are found, not attributes of a class or of another module. Without ``compiled`` they run as ordinary Python,
    which can be interrupted if one never ends.
    """

    def __init__(self, compiled: bool = True) -> None:
        self._compiled = compiled
        self._modules: dict[int, dict[str, Any]] = {}
        self._helpers: dict[int, Any] = {}

    def ordinary(self, function: Function) -> Function:
        """Return the plain function behind a simulator's function; it calls checked helpers."""
        python = plain(function)
        if not isinstance(python, FunctionType) or not _calls_compiled(python):
            return python
        names = self._names(python.__globals__)
        copy = FunctionType(python.__code__, names, python.__name__, python.__defaults__, python.__closure__)
        copy.__kwdefaults__ = python.__kwdefaults__
        return copy

    def _names(self, names: dict[str, Any]) -> dict[str, Any]:
        """Return a module's names with checked helpers, the same dictionary each time."""
        if id(names) not in self._modules:
            copy = self._modules[id(names)] = dict(names)
            copy.update({name: self._checked(value) for name, value in names.items() if isinstance(value, Dispatcher)})
        return self._modules[id(names)]

    def _checked(self, helper: Any) -> Any:
        """Return a helper that checks every index, as do the helpers that it calls."""
        if id(helper) not in self._helpers:
            options = {**helper.targetoptions, "boundscheck": True}
            self._helpers[id(helper)] = None  # a helper may call itself through its module
            function = self.ordinary(helper)
            self._helpers[id(helper)] = cached(jit(**options)(function)) if self._compiled else function
        return self._helpers[id(helper)] or helper


def _calls_compiled(function: FunctionType) -> bool:
    return any(isinstance(function.__globals__.get(name), Dispatcher) for name in function.__code__.co_names)
