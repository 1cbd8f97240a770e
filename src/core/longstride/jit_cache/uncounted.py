"""Compiled functions that count no references to arrays."""

from typing import Any

from numba import njit

uncounted: Any = njit(nogil=True, _nrt=False)
"""``njit`` for a function that makes no array, and whose arguments outlive it: its code is a third shorter.

Numba counts a reference to each array of a tuple wherever the tuple is handed on or taken apart. What such a function
calls is compiled in the same way, but for functions of users (:func:`longstride.simulators.simulator.compiled`). It can
return no array.
"""
