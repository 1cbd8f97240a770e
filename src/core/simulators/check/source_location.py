"""Where in the user's code something happens."""

import sys
from pathlib import Path
from types import FrameType, TracebackType

import numba
import numpy as np

from core.simulators.compile_errors import place
from core.simulators.simulator import Function

_FOREIGN = tuple(str(Path(file).parent) for file in (__file__, str(np.__file__), str(numba.__file__)))


def plain(function: Function) -> Function:
    """Return the Python function behind a compiled one."""
    result: Function = getattr(function, "py_func", function)
    return result


def place_of_error(trace: TracebackType | None) -> str:
    """Return the innermost line of an error that is neither ours, nor NumPy's, nor Numba's."""
    found = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((*_FOREIGN, "<")):
            found = place(file, trace.tb_lineno)
        trace = trace.tb_next
    return found


def place_of_caller() -> tuple[str, int]:
    """Return file and line of the innermost frame that is neither ours, nor NumPy's, nor Numba's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((*_FOREIGN, "<")):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)


def place_of_function(function: Function) -> str:
    """Return where a function is defined."""
    code = plain(function).__code__
    return f"line {code.co_firstlineno} of {code.co_filename}"
