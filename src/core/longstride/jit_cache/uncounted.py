"""Compiled functions that count no references to arrays.

Numba counts a reference to each array of a tuple wherever the tuple is handed on or taken apart. A loop that is given
some dozens of arrays is a third shorter without, and compiles so much faster.
"""

from collections.abc import Callable
from typing import Any

from numba import njit

Function = Callable[..., Any]

_OPTIONS: dict[str, Any] = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

uncounted: Callable[[Function], Function] = njit(nogil=True, **_OPTIONS)
"""``njit`` for a function that only compiled ones call, that makes no array, and whose arguments outlive it.

What it calls is compiled in the same way, unless it is :func:`counting`. It returns no array, calls what returns one
only :func:`inlined`, and copies an array number by number.
"""


def counting(function: Function) -> Function:
    """Let a compiled function make arrays, whoever calls it, and return it; it returns no array."""
    if hasattr(function, "targetoptions"):  # not with NUMBA_DISABLE_JIT
        function.targetoptions.setdefault("_nrt", True)
    return function


def inlined(function: Function) -> Function:
    """Return a compiled function as one that Numba writes into its callers."""
    python = getattr(function, "py_func", None)
    return njit(nogil=True, inline="always")(python) if python else function
