"""How the threads of a collector wait for each other: counters of turns, read and written in order.

A turn is one step of all instances of a half-batch. The collector opens it by counting up ``turns``; a thread that has
made its part counts up its own number in ``done``. What was written before a counter is there for whoever has read it.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import config as numba_config
from numba.extending import intrinsic

from longstride.rollout.loop_arrays import zeros_apart

HALVES = 2
"""Most half-batches: while the device answers one, the cores step the other."""

STOP = -1
"""Count of a half that says that the rollout is over."""

NO_TURN, OVER = -1, -2
"""What :func:`next_turn` returns in place of a half: nothing was opened in time, or the rollout is over."""

_APART = 8
"""Counters of 64 bits that lie on a cache line."""


def new_counters(count: int) -> np.ndarray:
    """Return int64[count, HALVES, 8], zeros: a cache line for each counter, of which the first number counts."""
    return zeros_apart(count * HALVES * _APART, np.dtype(np.int64)).reshape(count, HALVES, _APART)


def _load_in_python(counters, line, half):  # type: ignore[no-untyped-def]
    return counters[line, half, 0]


def _store_in_python(counters, line, half, value):  # type: ignore[no-untyped-def]
    counters[line, half, 0] = value


@intrinsic
def _load(context, counters, line, half):  # type: ignore[no-untyped-def]
    """Return a counter; what its writer had written before is visible afterwards."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature, arguments)
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(counters, types.int64, types.int64), generate


@intrinsic
def _store(context, counters, line, half, value):  # type: ignore[no-untyped-def]
    """Write a counter after all that was written before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature, arguments)
        builder.store_atomic(arguments[3], place, "release", 8)
        return context.get_dummy_value()

    return types.void(counters, types.int64, types.int64, types.int64), generate


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generate the address of a counter."""
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    number, i64 = builder.add(builder.mul(arguments[1], ir.IntType(64)(HALVES)), arguments[2]), ir.IntType(64)
    return builder.gep(data, [builder.mul(number, i64(_APART))])


_compiles = not vars(numba_config)["DISABLE_JIT"]
load: Any = _load if _compiles else _load_in_python
store: Any = _store if _compiles else _store_in_python


@njit(nogil=True)
def next_turn(turns, done, thread, spins):  # type: ignore[no-untyped-def]
    """Return the half of a turn that is open for a thread, after at most so many looks, NO_TURN or OVER."""
    for _ in range(spins + 1):
        for half in range(HALVES):
            opened = load(turns, 0, half)
            if opened == STOP:
                return OVER
            if opened > load(done, thread, half):
                return half
    return NO_TURN


@njit(nogil=True)
def all_done(turns, done, half, spins):  # type: ignore[no-untyped-def]
    """Return whether all threads have made the turn of a half that was opened last, after at most so many looks."""
    opened, thread = load(turns, 0, half), 0
    for _ in range(spins + 1):
        while thread < len(done) and load(done, thread, half) == opened:
            thread += 1
        if thread == len(done):
            return True
    return False


@njit(nogil=True)
def open_turn(turns, half):  # type: ignore[no-untyped-def]
    """Open the next turn of a half."""
    store(turns, 0, half, load(turns, 0, half) + 1)


@njit(nogil=True)
def stop(turns):  # type: ignore[no-untyped-def]
    """End the rollout for all threads."""
    for half in range(HALVES):
        store(turns, 0, half, STOP)
