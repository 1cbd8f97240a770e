"""Random generators as arrays of addresses, for compiled loops that play with many of them.

Numba takes 10 µs of Python and 250 instructions of a kernel for each generator that a kernel is given, and a kernel is
compiled for their number. Five numbers say all that it takes from one: where its state is, and its functions.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils as untyped_cgutils
from numba.core import config as numba_config
from numba.extending import intrinsic

Generators = tuple[np.random.Generator, np.random.Generator]
"""Random streams of an instance: the simulator's, the policy's."""

_FIELDS = ("state_address", "state", "fnptr_next_uint64", "fnptr_next_uint32", "fnptr_next_double")
"""Numbers of a generator, by Numba's names for them."""

cgutils: Any = untyped_cgutils

_compiles = not vars(numba_config)["DISABLE_JIT"]


class GeneratorRows(NamedTuple):
    """Rows for :func:`as_generator` of S instances, the simulators' and the policies'.

    Rows are int64[5]. Whoever hands them to a loop keeps the generators until it has returned. Where nothing is
    compiled they are the generators themselves.
    """

    simulator: Any  # int64[S, 5]
    policy: Any  # int64[S, 5]


def rows_of(pairs: Sequence[Generators]) -> GeneratorRows:
    """Return the rows of the generators of S instances."""
    if not _compiles:
        return GeneratorRows(*map(tuple, zip(*pairs, strict=True)))
    simulator, policy = zip(*pairs, strict=True)
    return GeneratorRows(*(np.array(list(map(_row_of, each)), np.int64) for each in (simulator, policy)))


def row_of(generator: np.random.Generator) -> Any:
    """Return the row of one generator for :func:`as_generator`, for an instance of its own: int64[1, 5]."""
    return np.array([_row_of(generator)], np.int64) if _compiles else (generator,)


def _row_of(generator: np.random.Generator) -> tuple[int, ...]:
    bits = generator.bit_generator
    address: int = bits.ctypes.state_address
    return address, address, *_functions_of(type(bits))


@cache
def _functions_of(kind: Any) -> tuple[int, ...]:
    of = kind().ctypes
    functions = of.next_uint64, of.next_uint32, of.next_double
    return tuple(ctypes.cast(each, ctypes.c_void_p).value or 0 for each in functions)


def _empty(context: Any, builder: Any, kind: Any) -> Any:
    """Return a structure of null pointers: one without an owner counts no references."""
    nothing = cgutils.get_null_value(context.get_value_type(kind))
    return cgutils.create_struct_proxy(kind)(context, builder, value=nothing)


@intrinsic
def _as_generator(context: Any, row: Any) -> Any:
    """Return the generator of a row."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        begin = context.make_array(row)(context, builder, arguments[0]).data
        generator, bits = _empty(context, builder, types.npy_rng), _empty(context, builder, types.npy_bitgen)
        for place, name in enumerate(_FIELDS):
            setattr(bits, name, builder.load(cgutils.gep_inbounds(builder, begin, place)))
        generator.bit_generator = bits._getvalue()
        return generator._getvalue()

    return types.npy_rng(row), generate


def _itself(generator: np.random.Generator) -> np.random.Generator:
    return generator


as_generator: Any = _as_generator if _compiles else _itself
"""``as_generator(row) -> generator``, for compiled code."""
