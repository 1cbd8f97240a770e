"""Functions that are compiled for themselves, once, and called by the kernels that are built around them.

A kernel is usually compiled together with all that it calls. A large function that many kernels call, as a simulator's
``step``, is better compiled apart: each kernel then only has a call of it, by a symbol that its fingerprint names.
Errors come through as from any compiled function. What it costs is the inlining of the call.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from numba import typeof
from numba.core import cgutils, types
from numba.core.dispatcher import Dispatcher
from numba.core.extending import intrinsic
from numba.core.typing.templates import signature

from longstride.jit_cache.cache import cached
from longstride.jit_cache.fingerprint import fingerprint
from longstride.jit_cache.source_digest import UnhashableError

_KNOWN: dict[str, tuple[Any, Any]] = {}
"""Compiled code, which must stay, and what kernels call in its place, by digest."""


def compiled_apart(function: Any, arguments: Sequence[Any]) -> Any:
    """Return a function for kernels to call that is compiled for the types of some arguments, or loaded.

    A function that cannot be named for other processes is returned as it is, and so is a plain one.

    Raises:
        NumbaError: Numba cannot compile the function.
    """
    return _apart(function, tuple(map(typeof, arguments))) if isinstance(function, Dispatcher) else function


@cache
def _apart(function: Any, kinds: tuple[Any, ...]) -> Any:
    dispatcher: Any = cached(function)
    try:
        name = fingerprint(dispatcher, kinds, dispatcher.targetctx.codegen().magic_tuple())
    except UnhashableError:
        return function
    if name not in _KNOWN:
        dispatcher.compile(kinds)
        compiled = dispatcher.overloads[kinds]
        address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        llvm.add_symbol(_symbol(name), address)
        _KNOWN[name] = compiled, _caller(_symbol(name), compiled.signature.return_type, kinds)
    return _KNOWN[name][1]


def _symbol(name: str) -> str:
    return f"longstride_{name}"


def _caller(symbol: str, returned: Any, kinds: tuple[Any, ...]) -> Any:
    """Return what compiles to a call of a symbol; numbers that are not whole are not taken for integers."""

    def typed(*given: Any) -> Any:
        cut = (
            isinstance(of, types.Float) and isinstance(kind, types.Integer)
            for of, kind in zip(given, kinds, strict=True)
        )
        return None if any(cut) else (signature(returned, *kinds), generate)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = context.call_conv.get_function_type(returned, kinds)
        function = cgutils.get_or_insert_function(builder.module, kind, symbol)
        status, result = context.call_conv.call_function(builder, function, returned, kinds, args)
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return result

    caller: Any = intrinsic(_WITH_ARGUMENTS[len(kinds)](typed))
    caller.symbol = symbol  # its fingerprint
    return caller


def _two(typed: Callable[..., Any]) -> Any:
    return lambda typing_context, a, b: typed(a, b)


def _three(typed: Callable[..., Any]) -> Any:
    return lambda typing_context, a, b, c: typed(a, b, c)


def _four(typed: Callable[..., Any]) -> Any:
    return lambda typing_context, a, b, c, d: typed(a, b, c, d)


_WITH_ARGUMENTS: dict[int, Callable[[Callable[..., Any]], Any]] = {2: _two, 3: _three, 4: _four}
"""Numba asks a function for the names of its arguments."""
