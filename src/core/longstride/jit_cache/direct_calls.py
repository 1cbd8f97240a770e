"""Calls of a compiled function that do not ask Numba for the types of their arguments."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import typeof


class DirectCalls:
    """A function for arguments that differ from call to call in values, and in nothing else but the layout of arrays.

    For each random generator Numba takes 18 µs to find its type, at every call. Here it looks once for each combination
    of layouts: contiguous or not, writeable or not.

    Args:
        kernel: a compiled function; with ``NUMBA_DISABLE_JIT`` a plain one, which is called as it is.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self._entries: dict[tuple[int, ...], Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        layouts = _layouts(arguments)
        entry = self._entries.get(layouts)
        if entry is not None:
            return entry(*arguments)
        result = self.kernel(*arguments)
        compiled = getattr(self.kernel, "overloads", {}).get(tuple(map(typeof, arguments)))
        if compiled is not None:
            self._entries[layouts] = compiled.entry_point
        return result


def _layouts(arguments: Sequence[Any]) -> tuple[int, ...]:
    """Return the flags of all arrays, also of those in tuples."""
    left, found = list(arguments), []
    for value in left:  # which grows
        if isinstance(value, np.ndarray):
            found.append(value.flags.num)
        elif isinstance(value, tuple):
            left += value
    return tuple(found)
