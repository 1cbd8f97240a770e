"""Compiled functions that count no references to arrays.

Numba counts a reference to each array of a tuple wherever the tuple is handed on or taken apart. A loop that is given
some dozens of arrays is a third shorter without, and compiles so much faster.
"""

from typing import Any

from numba import njit

uncounted: Any = njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""``njit`` for a function that only compiled ones call, that makes no array, and whose arguments outlive it.

What it calls is compiled in the same way, unless it is :func:`counting`. It returns no array, calls what returns one
only :func:`inlined`, and copies an array number by number.
"""


def counting(function: Any) -> Any:
    """Let a compiled function make arrays, whoever calls it, and return it; it returns no array."""
    if hasattr(function, "targetoptions"):  # not with NUMBA_DISABLE_JIT
        function.targetoptions.setdefault("_nrt", True)
    return function


def inlined(function: Any) -> Any:
    """Return a compiled function as one that Numba writes into its callers."""
    return njit(nogil=True, inline="always")(function.py_func) if hasattr(function, "py_func") else function
