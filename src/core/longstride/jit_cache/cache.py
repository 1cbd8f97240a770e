"""Loads a kernel from the folder in place of compiling it, or puts it there after compiling.

Numba's own ``cache=True`` does not fit. It checks only the file that holds a function, so it would load a kernel whose
callee has changed. And a kernel that is built for a simulator is a new function to it in every process.
"""

import itertools
import os
import pickle
import secrets
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from numba import typeof
from numba.core import compiler
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import _Cache
from numba.core.codegen import RuntimeLinker
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaExperimentalFeatureWarning
from numba.core.serialize import dumps

from longstride.jit_cache.fingerprint import fingerprint, frozen_values
from longstride.jit_cache.source_digest import UnhashableError
from longstride.jit_cache.store import UnusableFolderError, open_folder, read, usual_folder, write
from longstride.jit_cache.whole_kernel import compile_whole_kernel

VARIABLE = "LONGSTRIDE_KERNEL_CACHE"
"""Environment variable: whether kernels are kept, or the folder to use."""

_OFF, _ON = ("off", "0", "no", "false"), ("", "on", "1", "yes", "true")
"""Its values, in any case, that are no folder: compile in every run, and use the usual folder."""

F = TypeVar("F")

# Two simulators whose records begin alike give screens of it. Fields keep their places, so the shorter one can be read.
warnings.filterwarnings("ignore", r"Record\(", NumbaExperimentalFeatureWarning)


@dataclass
class CacheStats:
    """Counts of the cached kernels of this process: loaded, or compiled as the folder lacked them or could not be used.

    The folder is None before the first kernel and without one. The note is a sentence that it cannot be used; empty if
    it can, or if it is switched off.
    """

    loaded: int = 0
    compiled: int = 0
    folder: Path | None = None
    note: str = ""


CACHE_STATS = CacheStats()

_FROZEN: WeakKeyDictionary[FunctionType, str] = WeakKeyDictionary()
"""Values with which this process has compiled each function."""


def cached(kernel: F) -> F:
    """Return a compiled function after connecting it with the folder; a plain function is unchanged.

    Only functions that Python calls need it: their callees are compiled into them.
    """
    dispatcher: Any = kernel
    if _IS_COUNTED and isinstance(kernel, Dispatcher) and not isinstance(dispatcher._cache, _KernelCache):
        dispatcher._cache = _KernelCache(dispatcher)
        compile_whole_kernel(dispatcher)
    return kernel


def compile_for(kernel: Any, arguments: Sequence[Any]) -> None:
    """Compile a function for the types of some arguments, or load it; with ``NUMBA_DISABLE_JIT`` do nothing.

    Raises:
        NumbaError: Numba cannot compile the function.
    """
    if isinstance(kernel, Dispatcher):
        kernel.compile(tuple(map(typeof, arguments)))


class _KernelCache(_Cache):
    """The hooks that Numba calls before and after it compiles a function; a failure here does not stop it."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self._names: dict[Any, str] = {}

    @property
    def cache_path(self) -> str:
        return str(_folder() or "")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function of a signature, or None."""
        folder = _folder()
        if folder is None:
            return None
        target_context.refresh()
        try:
            self._names[sig] = fingerprint(self._dispatcher, tuple(sig), target_context.codegen().magic_tuple())
        except UnhashableError:
            return None
        try:
            state = pickle.loads(read(folder, self._names[sig]) or b"")
            function: Any = compiler.CompileResult._rebuild(target_context, *state)  # type: ignore[no-untyped-call]
        except Exception:  # there is no such file, or classes or Numba's internals have changed
            return None
        if function.signature.args != tuple(sig):
            return None
        CACHE_STATS.loaded += 1
        return function

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a compiled function to the folder."""
        CACHE_STATS.compiled += 1
        name, folder = self._names.pop(sig, None), _folder()
        if name is None or folder is None or _froze_others(self._dispatcher):
            return
        if data.lifted or not _is_complete(data.library):
            return
        try:
            write(folder, name, dumps(data._reduce()))  # type: ignore[no-untyped-call]
        except OSError as error:
            _give_up(f"{folder}: {error.strerror}")
        except Exception:  # pickle raises many kinds
            return

    def enable(self) -> None:
        """Do nothing: the environment switches it off, and a file with another fingerprint is never read."""

    disable = flush = enable


def _froze_others(dispatcher: Any) -> bool:
    """Return whether a kernel was compiled with a function that had frozen other values than its fingerprint names."""
    now = frozen_values(dispatcher)
    return any([_FROZEN.setdefault(function, values) != values for function, values in now.items()])


def _is_complete(library: Any) -> bool:
    """Return whether compiled code can run in another process: it holds no address of this one, and all that it calls.

    Where functions call each other in a circle, or one calls itself with other types, Numba leaves an address to be
    filled in once the callee is compiled. Nothing fills it in where the code is loaded, which crashes (its issue 6061).
    """
    left_open = (value.name.startswith(RuntimeLinker.PREFIX) for value in library._final_module.global_variables)
    return not library.has_dynamic_globals and not any(left_open)


def _folder() -> Path | None:
    """Return the folder, opened once a process; None if there is none to use."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted.lower() in _OFF or CACHE_STATS.note:
        return None
    wanted = "" if wanted.lower() in _ON else wanted
    if CACHE_STATS.folder is None:
        try:
            CACHE_STATS.folder = open_folder(Path(wanted).absolute() if wanted else usual_folder())
        except UnusableFolderError as error:
            _give_up(f"{wanted or '~/.cache/longstride'}: {error}")
    return CACHE_STATS.folder


def _give_up(reason: str) -> None:
    CACHE_STATS.folder = None
    CACHE_STATS.note = f"Compiled kernels cannot be kept in {reason}; every run compiles them."


def _number_functions_from_anywhere() -> None:
    """Start the numbers in the names of compiled functions at random.

    Numba counts the functions of a process from 1, and the linker takes equal names for one function. A kernel from the
    folder could be linked to a function of this process with the same name and number, and use its closure.
    """
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(48))


_IS_COUNTED = isinstance(vars(FunctionIdentity).get("_unique_ids"), itertools.count)
"""False for a Numba that numbers functions in another, untested way: it compiles everything itself."""
_number_functions_from_anywhere()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_number_functions_from_anywhere)
