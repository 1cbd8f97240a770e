"""The place in the user's code where something happens."""

import sys
from types import FrameType

from longstride.simulators.compile_errors import FOREIGN
from longstride.simulators.simulator import Function


def plain(function: Function) -> Function:
    """Return the Python function behind a compiled one."""
    result: Function = getattr(function, "py_func", function)
    return result


def place_of_caller() -> tuple[str, int]:
    """Return file and line of the innermost frame that is neither ours, nor NumPy's, nor Numba's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(FOREIGN):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)


def place_of_function(function: Function) -> str:
    """Return the line and file where a function is defined."""
    code = plain(function).__code__
    return f"line {code.co_firstlineno} of {code.co_filename}"
