"""Digest of everything that a kernel's machine code depends on; anything unknown is refused.

Numba freezes what a function reaches: the functions that it calls, values in its closure, its module's globals. All of
that is added by its present value, and its source files are added whole. A digest that changes without need costs a
compilation; a digest that misses a change would train on old code.
"""

import enum
import hashlib
import sys
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import types
from numba.core import compiler, config
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

from longstride.jit_cache.sized_records import SizedRecord, SizedRecords
from longstride.jit_cache.source_digest import UnhashableError, is_trusted, package_digest, source_tokens

_CODE = (
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_code", "co_exceptiontable"),
    *("co_names", "co_varnames", "co_freevars", "co_cellvars", "co_name", "co_qualname", "co_filename"),
    *("co_firstlineno", "co_linetable"),
)
"""File and lines too: compiled exceptions carry them."""

_ATOMS = bool | int | float | complex | str | bytes | None | type(...)
_CALLABLES = type | BuiltinFunctionType | FunctionType | np.ufunc
_PLAIN_TYPES = types.Number, types.Boolean, types.Record, types.Array, types.NumPyRandomGeneratorType, types.NoneType
_TUPLE_TYPES = types.Tuple, types.UniTuple, types.NamedTuple, types.NamedUniTuple


def fingerprint(dispatcher: Any, signature: tuple[Any, ...], machine: tuple[str, ...]) -> str:
    """Return the digest of all that a kernel's machine code depends on.

    The signature has the types of its arguments; the machine is Numba's ``codegen().magic_tuple()``.

    Raises:
        UnhashableError: the kernel reaches a value of an unknown kind.
    """
    walk = _Walk()
    walk.add((*_surroundings(), *machine))
    for kind in signature:
        walk.add(_describe(kind))
    walk.add(dispatcher)
    for token in source_tokens(sorted(walk.modules)):
        walk.add(token)
    return walk.digest.hexdigest()


def frozen_values(dispatcher: Any) -> dict[FunctionType, str]:
    """Return a digest of the present values that each function of a kernel takes from outside of itself.

    Numba freezes them when it first compiles the function, for all kernels that call it later.

    Raises:
        UnhashableError: the kernel reaches a value of an unknown kind.
    """
    walk = _Walk()
    walk.add(dispatcher)
    return {function: _values_of(function) for function in walk.functions}


def _values_of(function: FunctionType) -> str:
    names, walk = _names_in(function.__code__), _Walk()
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    reached = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
    reached |= {name: cell.cell_contents for name, cell in cells}
    modules = [vars(value) for value in reached.values() if isinstance(value, ModuleType) and not is_trusted(value)]
    for values in (reached, *modules):
        for name in sorted(values.keys() & {*names, *reached}):
            if isinstance(values[name], _ATOMS | tuple | np.ndarray | np.generic):
                walk.add((name, values[name]))
    return walk.digest.hexdigest()


def _surroundings() -> tuple[str, ...]:
    """Return versions, Numba's present settings, and the digest of our own sources."""
    settings = {n: str(v) for n, v in vars(config).items() if n.isupper() and isinstance(v, _ATOMS)}
    compiling = [f"{n}={v}" for n, v in sorted(settings.items()) if "THREADS" not in n and "CACHE" not in n]
    return sys.version, numba.__version__, llvmlite.__version__, np.__version__, *compiling, package_digest()


def _describe(kind: Any) -> str:
    """Return a complete description of an argument's type."""
    if isinstance(kind, _PLAIN_TYPES):
        return f"{type(kind).__name__} {kind}"
    if isinstance(kind, SizedRecord | SizedRecords):
        return f"{type(kind).__name__} {kind.description}"
    if isinstance(kind, _TUPLE_TYPES):
        of = getattr(kind, "instance_class", tuple)
        name = f"{of.__module__}.{of.__qualname__}{getattr(kind, 'fields', '')}"
        return f"{name}[{', '.join(map(_describe, iter(kind)))}]"
    raise UnhashableError(f"an argument of type {kind}")


class _Walk:
    """Adds everything that can be reached from a value to a digest, and notes all functions and their modules."""

    def __init__(self) -> None:
        self.digest, self.modules, self.functions = hashlib.sha256(), set[str](), list[FunctionType]()
        self._seen: dict[Any, tuple[int, Any]] = {}

    def add(self, value: Any, names: frozenset[str] = frozenset()) -> None:
        """Add a value; if it is a module, the attributes of these names. What is of an unknown kind is refused."""
        if isinstance(value, enum.Enum):
            self._put("member", f"{type(value).__module__}.{value}", repr(value.value))
        elif isinstance(value, _ATOMS):
            self._put(type(value).__name__, value if isinstance(value, bytes) else repr(value))
        elif isinstance(value, tuple | list):
            self._put("sequence", _name_of(type(value)), str(getattr(value, "_fields", "")), str(len(value)))
            for item in value:
                self.add(item, names)
        elif isinstance(value, frozenset | set):
            self._put("set", str(sorted(map(repr, value))))
        elif isinstance(value, np.ndarray | np.generic | np.dtype):
            self._add_numbers(value)
        else:
            self._add_object(value, names)

    def _put(self, *tokens: str | bytes) -> None:
        for token in tokens:
            content = token.encode("utf-8", "surrogatepass") if isinstance(token, str) else token
            self.digest.update(len(content).to_bytes(8, "little") + content)

    def _add_numbers(self, value: Any) -> None:
        dtype = value if isinstance(value, np.dtype) else value.dtype
        if dtype.hasobject:
            raise UnhashableError("an array of Python objects")
        self._put("numbers", type(value).__name__, repr(dtype), str(dtype.itemsize), str(dtype.isalignedstruct))
        if not isinstance(value, np.dtype):
            layout = (value.shape, value.strides, value.flags.writeable, value.flags.aligned)
            self._put(str(layout), value.tobytes())

    def _add_object(self, value: Any, names: frozenset[str]) -> None:
        """Add an object that may refer to itself; each is followed once."""
        key = (id(value), names if isinstance(value, ModuleType) else None)
        if key in self._seen:
            return self._put("again", str(self._seen[key][0]))
        self._seen[key] = len(self._seen), value  # kept, so that no other object gets its address
        if isinstance(value, ModuleType):
            self._add_module(value, names)
        elif isinstance(value, Dispatcher):
            self._add_dispatcher(value)
        elif isinstance(value, types.Type):
            self._put("type", _describe(value))
        elif isinstance(value, _CALLABLES):
            self._add_named(value)
        elif isinstance(value, _Intrinsic):
            self._add_intrinsic(value)
        else:
            raise UnhashableError(f"{value!r:.80} of {_name_of(type(value))}")

    def _add_module(self, module: ModuleType, names: frozenset[str]) -> None:
        self._put("module", module.__name__)
        if is_trusted(module):
            return
        self.modules.add(module.__name__)
        for name in sorted(names & vars(module).keys()):
            self._put(name)
            self.add(vars(module)[name], names)

    def _add_dispatcher(self, dispatcher: Any) -> None:
        if dispatcher._compiler.pipeline_class is not compiler.Compiler or dispatcher.locals:
            raise UnhashableError(f"{dispatcher} with a compiler of its own")
        self._put("kernel", type(dispatcher).__name__)
        for option, value in sorted(dispatcher.targetoptions.items()):
            self._put(option)
            self.add(sorted(value.items()) if isinstance(value, dict) else value)
        self._add_function(dispatcher.py_func)

    def _add_function(self, function: FunctionType) -> None:
        if function.__module__ is None:
            raise UnhashableError(f"{function.__qualname__}, which belongs to no module")
        self._put("function", function.__module__, function.__qualname__)
        self.modules.add(function.__module__)
        self.functions.append(function)
        self._add_code(function.__code__)
        self.add(function.__defaults__)
        self.add(sorted((function.__kwdefaults__ or {}).items()))
        names = _names_in(function.__code__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._put(name)
            try:
                content = cell.cell_contents
            except ValueError:
                raise UnhashableError("a variable that is not set yet") from None
            self.add(content, names)
        for name in sorted(names & function.__globals__.keys()):
            self._put(name)
            self.add(function.__globals__[name], names)

    def _add_code(self, code: CodeType) -> None:
        for attribute in _CODE:
            self.add(getattr(code, attribute))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._add_code(constant)
            else:
                self.add(constant)

    def _add_intrinsic(self, value: Any) -> None:
        """Add a function that generates code: one of our own, whose sources are part of every digest."""
        symbol = getattr(value, "symbol", None)  # the name of a function that is compiled apart is its digest
        if not value._defn.__module__.startswith("longstride.") or (value._defn.__closure__ and symbol is None):
            raise UnhashableError(f"{value._defn.__module__}.{value._defn.__qualname__}, which generates code")
        self._put("intrinsic", value._defn.__module__, value._defn.__qualname__, symbol or "")

    def _add_named(self, value: Any) -> None:
        """Add a function or class by its name: one of a known library, or a class of plain content."""
        name = getattr(value, "__module__", None) or "numpy"  # a ufunc of NumPy 1 has no module
        home: Any = sys.modules.get(name)
        self._put("named", name, _name_of(value))
        if home is not None and is_trusted(home) and getattr(home, _name_of(value), None) is value:
            return
        if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
            self._put(str(value._fields))
        elif isinstance(value, type) and issubclass(value, enum.Enum):
            self._put(*(f"{member.name}={member.value!r}" for member in value))
        else:
            raise UnhashableError(f"{name}.{_name_of(value)}, which is no compiled function")
        self.modules.add(name)


def _names_in(code: CodeType) -> frozenset[str]:
    """Return every name that code may look up, by strings (``getattr``) too, inner functions included."""
    inner = (_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    strings = (constant for constant in code.co_consts if isinstance(constant, str))
    return frozenset(code.co_names).union(strings, *inner)


def _name_of(value: Any) -> str:
    return str(getattr(value, "__qualname__", None) or value.__name__)
