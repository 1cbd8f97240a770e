"""Compiles a kernel together with all that it calls, as one unit: LLVM optimises and translates each function once.

Numba does it function by function. Each is optimised together with copies of all that it calls, translated, and given
two wrappers, for calls from Python and from C. Where only the outermost one is ever called from Python, that takes
longer than all the rest. Here the functions that a kernel calls stay unoptimised until LLVM sees the whole kernel.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

import numba
from numba.core import sigutils
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary, RuntimeLinker
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.environment import lookup_environment
from numba.core.errors import NumbaError

F = TypeVar("F")

TESTED = ("0.68",)
"""Versions of Numba whose private methods are known here, as their tests say; any other compiles in its own way."""

_ENVIRONMENT = "_ZN08NumbaEnv"
"""What Numba's names of environments begin with: pointers to the Python objects that a function's code uses."""


def compile_whole_kernel(function: F) -> F:
    """Let a compiled function that Python calls compile all its callees with it; return any other as it is.

    So it does with a version of Numba that is not in ``TESTED``: that compiles for twice as long.
    """
    if isinstance(function, Dispatcher) and _is_tested(numba.__version__):
        dispatcher: Any = function
        compiler = dispatcher._compiler
        compiler.compile = partial(_compile_in_unit, dispatcher.targetctx, compiler.compile)
    return function


def _is_tested(version: str) -> bool:
    """Return whether a version of Numba, such as 0.68.1, is one of ``TESTED``."""
    return ".".join(version.split(".")[:2]) in TESTED


def _compile_in_unit(context: Any, compile_one: Callable[..., Any], *arguments: Any) -> Any:
    """Compile a function, and in the same unit everything that is compiled on the way."""
    try:
        with _UNIT.begun(context):
            return compile_one(*arguments)
    except NumbaError:
        raise
    except Exception:  # another Numba, another way: its own way is slower and works
        return compile_one(*arguments)


class _InUnit:
    """Stands for the entry point of a function that has no machine code of its own."""


class _Unit:
    """The callees of the kernel that is being compiled. Numba compiles in one thread at a time, under its lock."""

    def __init__(self) -> None:
        self._is_open = False
        self._callees: list[tuple[Any, Any, Any]] = []  # dispatcher, key among its overloads, stand-in
        self._waiting: list[Any] = []  # their code
        self.compile, self._add = Dispatcher.compile, Dispatcher.add_overload
        self._get = Dispatcher.get_compile_result

    @contextmanager
    def begun(self, context: Any) -> Iterator[None]:
        """Compile everything in this block as callees of one unit, unless it is one already."""
        with global_compiler_lock, ExitStack() as stack:
            if not self._is_open:
                stack.enter_context(_replaced(Dispatcher, "compile", self._by_unit(self._compile_callee)))
                stack.enter_context(_replaced(Dispatcher, "add_overload", self._by_unit(self._add_overload)))
                stack.enter_context(_replaced(Dispatcher, "get_compile_result", self._by_unit(self._get_callable)))
                stack.enter_context(_replaced(context.codegen(), "_library_class", _Library))
                stack.enter_context(_no_collections())
                stack.callback(self._end, context)
                self._is_open = True
            yield

    def complete_callees(self) -> None:
        """Translate each callee for itself, too: those that call each other in a circle do it by their addresses."""
        callees, self._waiting = self._waiting, []
        for library in callees:
            library._ensure_finalized()

    def _end(self, context: Any) -> None:
        """Take back what stands for entry points: whoever calls a callee from Python has it compiled for that."""
        callees, self._is_open, self._callees, self._waiting = self._callees, False, [], []
        for dispatcher, key, stand_in in callees:
            if getattr(dispatcher.overloads.get(key), "entry_point", None) is stand_in:
                del dispatcher.overloads[key]
            context.remove_user_function(stand_in)

    def _by_unit(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method for dispatchers that waits while another thread compiles; it may be no unit's afterwards."""

        def of_dispatcher(dispatcher: Any, argument: Any) -> Any:
            with global_compiler_lock:
                return method(dispatcher, argument)

        return of_dispatcher

    def _compile_callee(self, dispatcher: Any, signature: Any) -> Any:
        key, return_type = sigutils.normalize_signature(signature)  # type: ignore[no-untyped-call]
        key = tuple(key)
        # What Numba's own cache keeps on disk has to be complete, and so has what Python calls already.
        if not self._is_open or key in dispatcher.overloads or not isinstance(dispatcher._cache, NullCache):
            return self.compile(dispatcher, signature)
        compiled = vars(dispatcher).setdefault("_in_units", {}).get((key, return_type))
        if compiled is not None:
            return self._add_overload(dispatcher, compiled)
        compiler = dispatcher._compiler
        compiler._customize_flags = _without_entry_points(compiler)
        try:
            return self.compile(dispatcher, signature)
        finally:
            vars(compiler).pop("_customize_flags", None)

    def _add_overload(self, dispatcher: Any, result: Any) -> None:
        """Add a callee without machine code: only where calls of it are compiled, not where Python would look."""
        if not self._is_open or result.entry_point is not None:
            return self._add(dispatcher, result)
        key, stand_in = tuple(result.signature.args), _InUnit()
        dispatcher.targetctx.insert_user_function(stand_in, result.fndesc, [result.library])
        vars(dispatcher).setdefault("_in_units", {})[key, None] = result
        dispatcher.overloads[key] = result._replace(entry_point=stand_in)
        self._callees.append((dispatcher, key, stand_in))
        self._waiting.append(result.library)

    def _get_callable(self, dispatcher: Any, signature: Any) -> Any:
        """Return a complete function, for one whose address is taken."""
        result: Any = self._get(dispatcher, signature)
        if not isinstance(result.entry_point, _InUnit):
            return result
        del dispatcher.overloads[tuple(result.signature.args)]
        self.compile(dispatcher, signature)
        return self._get(dispatcher, signature)


_UNIT = _Unit()


class _Library(JITCodeLibrary):
    """The code of a function, which is optimised and translated once its address is asked for: in a unit, never."""

    def add_linking_library(self, library: Any) -> None:
        """Note a callee's code; one that could wait for its caller's does."""
        if isinstance(library, _Library):
            self._linking_libraries.append(library)
        else:
            super().add_linking_library(library)  # type: ignore[no-untyped-call]

    def _get_module_for_linking(self) -> Any:
        """Return a module that can be linked into several: while it waits, without its callees."""
        if self._finalized:
            return super()._get_module_for_linking()  # type: ignore[no-untyped-call]
        if self._shared_module is None:
            self._shared_module = self._final_module.clone()
            for function in self._shared_module.functions:
                if not function.is_declaration and function.linkage.name == "external":
                    function.linkage = "linkonce_odr"
        return self._shared_module

    def _optimize_functions(self, module: Any) -> None:
        """Leave that to the whole unit, which optimises each function again."""
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Link all callees, optimise and translate."""
        linked = _all_linked(self)
        if any(map(_has_unresolved, [self, *linked])):
            _UNIT.complete_callees()
        self._linking_libraries, self._shared_module = linked, None
        super().finalize()  # type: ignore[no-untyped-call]
        names = [v.name for v in self._final_module.global_variables if v.name.startswith(_ENVIRONMENT)]
        look_up: Any = lookup_environment
        self._environments = {name: found for name in names if (found := look_up(name)) is not None}
        for name, environment in self._environments.items():
            self._codegen.set_env(name, environment)  # type: ignore[attr-defined]


def _all_linked(library: Any) -> list[Any]:
    """Return the code that a function's needs, each before what it calls: the linker drops what nothing asked for."""
    seen: dict[Any, None] = {}
    order = []

    def visit(one: Any) -> None:
        for called in one._linking_libraries:
            if called not in seen:
                seen[called] = None
                if not called._finalized:
                    visit(called)
                order.append(called)

    visit(library)
    return order[::-1]


def _has_unresolved(library: Any) -> bool:
    return any(v.name.startswith(RuntimeLinker.PREFIX) for v in library._final_module.global_variables)


def _without_entry_points(compiler: Any) -> Callable[[Any], Any]:
    """Return what sets a compiler's flags for a function that neither Python nor C calls."""

    def customize(flags: Any) -> Any:
        flags = type(compiler)._customize_flags(compiler, flags)
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        return flags

    return customize


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    had, before = name in vars(owner), getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if had:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Collect no garbage: a seventh of the time, as Numba makes objects by the million and keeps most of them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
