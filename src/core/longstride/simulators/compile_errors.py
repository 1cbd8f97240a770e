"""Errors of a user's code and Numba's long reports as one clause with the user's own line."""

import inspect
import linecache
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numba
import numpy as np
from numba.core.errors import NumbaError

from longstride.errors import SimulatorError, UserError, one_line
from longstride.jit_cache.source_digest import is_of_a_user

_HERE = Path(__file__).parent
_PACKAGE = str(_HERE.parent)
_LIBRARIES = (str(Path(str(file)).parent) for file in (np.__file__, numba.__file__))
FOREIGN = (*(str(_HERE / folder) for folder in ("check", "gym")), *_LIBRARIES, "<")
"""Beginnings of the paths of code that calls a user's code, or that it calls."""

_REMEDY = "use plain arithmetic, loops and NumPy arrays (docs/reference/simulator-contract.md)"
_PLACES = re.compile(r'(?:File "([^"\n]+)", line (\d+))|(?:(?:at|from) ([^\s()]+\.py) \((\d+)\))')

_REASONS = (
    (
        r"Untyped global name '(\w+)'.*<class 'function'>",
        r"\1 is an ordinary Python function; decorate it with @numba.njit(nogil=True)",
    ),
    (
        r"Untyped global name '(\w+)'.*<class '([\w.]+)'>",
        r"\1 (\2) cannot be used in compiled code; pass its contents in parameters",
    ),
    (
        r"reflected (list|set)\(.*assigned to variable '(\w+)' in globals",
        r"\2 is a \1; make it a NumPy array in parameters, or a field of the state record if it changes",
    ),
    (r"\(STORE_GLOBAL\)", "it sets a global; keep what changes in the state record"),
    (
        r"Unknown attribute '(\w+)' of type NumPyRandomGeneratorType",
        "rng.\\1 does not exist in compiled code; use rng.random, rng.integers, rng.normal, rng.exponential, "
        "rng.poisson or another that Numba lists",
    ),
    (
        r"NumPyRandomGeneratorType_integers\(NumPyRandomGeneratorType, \w+\)",
        "rng.integers needs both bounds in compiled code, as in rng.integers(0, n)",
    ),
    (
        r"NumPyRandomGeneratorType_(\w+)\(NumPyRandomGeneratorType(?:, )?([^)\n]*)\)",
        rf"rng.\1 does not take these arguments in compiled code (\2); {_REMEDY}",
    ),
    (
        r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'",
        rf"\2.\1 does not exist in compiled code; {_REMEDY}",
    ),
    (r"Unknown attribute '(\w+)' of type \w*array\(", rf"arrays have no \1 in compiled code; {_REMEDY}"),
    (
        r"Use of unsupported NumPy function '(?:numpy\.)?([\w.]+)'",
        rf"np.\1 does not exist in compiled code, or not with these arguments; {_REMEDY}",
    ),
    (
        r"getitem\(.*?(?:array|Array)\(.*, list\(",
        "a list cannot be the index of an array; write np.array([...]) instead of [...]",
    ),
    (r"Cannot unify (.+?) and (.+?) for '(\w+)[.\d]*'", r"\3 is \1 in one place and \2 in another; give it one type"),
    (r"NameError: (name '\w+' is not defined)", r"\1; define it, or correct its name"),
    (
        r"No implementation of function Function\(<(?:class|function|built-in function) '?([\w.]+).*?>>> (\S[^\n]*)",
        rf"\1 does not take these arguments in compiled code (\2); {_REMEDY}",
    ),
)
"""Patterns of Numba's reports, and their meaning for the author of a simulator."""


def describe_compile_error(
    simulator: object, error: BaseException, name: str = "", function: Callable[..., Any] | None = None
) -> UserError:
    """Turn Numba's report into a sentence with the user's own line, where the report allows it.

    ``name`` and ``function`` are of the function that does not compile, where only one was compiled.
    """
    subject = type(simulator).__name__ + (f".{name}" if name else "")
    return UserError(
        f"Numba cannot compile {subject}{_where(simulator, error, function)}: {_reason(simulator, error, function)}."
    )


def place(file: str, line: int) -> str:
    """Return ``line 7 of shop.py: the line``."""
    text = linecache.getline(file, line).strip()
    return f"line {line} of {file}" + (f": {text}" if text else "")


def place_of_error(trace: TracebackType | None) -> str:
    """Return the innermost line of a traceback that is the user's, also of an error in a library that the user calls.

    Without any such line it is the innermost one that is neither ours, nor NumPy's, nor Numba's; empty for none.
    """
    lines = []
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((*FOREIGN, _PACKAGE)) and not file.endswith(".pyx"):
            lines.append((file, trace.tb_lineno))
        trace = trace.tb_next
    own = [line for line in lines if is_of_a_user(Path(line[0]))] or lines
    return place(*own[-1]) if own else ""


def with_line(error: BaseException) -> str:
    """Return the kind and the text of an error with the user's line, if it is known.

    For example ``KeyError: 'b' (line 7 of shop.py: price = prices["b"])``.
    """
    line = place_of_error(error.__traceback__)
    text = f"{type(error).__name__}: {one_line(error)}".rstrip(": ")
    return text + (f" ({line})" if line else "")


def _reason(simulator: object, error: BaseException, function: Callable[..., Any] | None) -> str:
    """Return the reason in a few words, in our own for the usual reports."""
    if found := _whole_assignment(simulator, function):
        return f"state.{found[0]} is an array; fill it with state.{found[0]}[:] = ..."
    if isinstance(error, KeyError):  # raised by Numba for a field that a record lacks
        return f"there is no field {error.args[0]} in the record; add it to state_dtype or correct its name"
    report = re.sub(r"Literal\[(\w+)\]\([^()]*\)", r"\1", re.sub(r"\x1b\[[\d;]*m", "", str(error)))
    for pattern, meaning in _REASONS:
        if match := re.search(pattern, report, re.DOTALL if ">>>" in pattern else 0):
            return " ".join(match.expand(meaning).split())
    lines = [line.strip() for line in report.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("Failed in", "During", "File", "- Resolution"))]
    first = re.split(r"\.* Raised from", kept[0] if kept else type(error).__name__)[0]
    return f"{first[:200].rstrip(' .:')}; {_REMEDY}"


def _where(simulator: object, error: BaseException, function: Callable[..., Any] | None) -> str:
    """Return the user's line that the error names, else the line where the function begins."""
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    own = _own_files(simulator) | ({code.co_filename} if code else set())
    if isinstance(error, KeyError) and code:
        return f" ({place(code.co_filename, _line_of_field(code, str(error.args[0])))})"
    if code and (found := _whole_assignment(simulator, function)):
        return f" ({place(code.co_filename, found[1])})"
    for match in _PLACES.finditer(str(error)):
        named, line = match[1] or match[3], int(match[2] or match[4])
        for file in own:
            if named.rsplit("/", 1)[-1] == file.rsplit("/", 1)[-1]:
                return f" ({place(file, line)})"
    return f" ({place(code.co_filename, code.co_firstlineno)})" if code else ""


def _own_files(simulator: object) -> set[str]:
    """Return the files of the simulator's class and of its heuristics."""
    functions = [*vars(type(simulator)).values(), *getattr(simulator, "heuristics", {}).values()]
    plain = [getattr(f, "__func__", getattr(f, "py_func", f)) for f in functions]
    files = {f.__code__.co_filename for f in plain if inspect.isfunction(f)}
    return files | {inspect.getsourcefile(type(simulator)) or ""}


def _whole_assignment(simulator: object, function: Callable[..., Any] | None) -> tuple[str, int] | None:
    """Return the first array of the state that a function assigns as if it were a number, with the line; None for none.

    Numba's report says "AssertionError" then, or tells of a cast.
    """
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    dtype = np.dtype(getattr(simulator, "state_dtype", np.void))
    arrays = [name for name in dtype.names or () if dtype[name].subdtype]
    if code is None or not arrays or not code.co_argcount:
        return None
    assigned = re.compile(rf"\b{code.co_varnames[0]}\.({'|'.join(arrays)})\s*=(?!=)")
    for line in sorted({line for _, _, line in code.co_lines() if line}):
        if match := assigned.search(linecache.getline(code.co_filename, line)):
            return match[1], line
    return None


def _line_of_field(code: Any, field: str) -> int:
    """Return the first line of a function that names a field, else the function's first line."""
    first: int = code.co_firstlineno
    lines = sorted({line for _, _, line in code.co_lines() if line})
    return next((n for n in lines if re.search(rf"\.{field}\b", linecache.getline(code.co_filename, n))), first)


@contextmanager
def naming_the_episode(simulator: Any, episode: str | Callable[[], str]) -> Iterator[None]:
    """Turn an exception of a simulator's own code into one sentence that names the episode.

    Args:
        simulator: simulator whose code runs in the block.
        episode: name of the episode, or a function that returns it once the exception was raised.

    Raises:
        UserError: Numba cannot compile a function.
        SimulatorError: a function of the simulator raised.
    """
    try:
        yield
    except NumbaError as error:
        raise describe_compile_error(simulator, error) from error
    except Exception as error:
        name = episode if isinstance(episode, str) else episode()
        remedy = "" if place_of_error(error.__traceback__) else "; set NUMBA_DISABLE_JIT=1 to see the line"
        raise SimulatorError(f"{type(simulator).__name__}, episode {name}: {with_line(error)}{remedy}.") from error
