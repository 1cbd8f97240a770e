"""Views of records and arrays that report what NumPy accepts in silence."""

import linecache
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from longstride.simulators.check.source_location import place_of_caller
from longstride.simulators.compile_errors import place

_NUMPY = str(Path(np.__file__).parent)


class Hints:
    """Sentences for the user in the order of their discovery, one for each place."""

    def __init__(self) -> None:
        self._sentences: dict[Any, str] = {}

    def add(self, sentence: str, key: Any = None) -> None:
        """Keep a sentence unless one has the same key (by default: the sentence itself)."""
        self._sentences.setdefault(key or sentence, sentence)

    def at_caller(self, event: str, remedy: str) -> None:
        """Keep a sentence about the user's line that is running, the first about each line and remedy."""
        where = place_of_caller()
        self.add(f"{event} ({place(*where)}); {remedy}.", (*where, remedy))

    def as_list(self) -> list[str]:
        """Return the sentences."""
        return list(self._sentences.values())

    def arithmetic_overflow(self, kind: str, flag: int) -> None:
        """Report an overflow; NumPy calls this within ``np.errstate(over="call")``."""
        self.at_caller(
            "Arithmetic overflowed",
            "compiled code computes short integers with 64 bits and gets another result; use int64 or float64 fields",
        )


def watched(array: np.ndarray, hints: Hints, name: str) -> np.ndarray:
    """Return a view of an array that reports negative indices and refuses integers that do not fit."""
    view = array.view(_Array)
    view.hints, view.label = hints, name
    return view


def watched_record(states: np.ndarray, hints: Hints) -> np.ndarray:
    """Return a view of ``state_dtype``[1] whose records are watched, arrays in them included."""
    kind = type("record", (_Record,), {"hints": hints})
    return states.view(np.ndarray).view(np.dtype((kind, np.dtype((np.void, states.dtype)))))


class _Array(np.ndarray):
    hints: Hints
    label: str

    def __array_finalize__(self, other: Any) -> None:
        self.hints, self.label = getattr(other, "hints", None), getattr(other, "label", "")  # type: ignore[assignment]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return the result of a NumPy function; one number, such as a sum, as a number, as NumPy does by itself."""
        return array[()] if array.ndim == 0 else super().__array_wrap__(array, context, return_scalar)

    def __getitem__(self, index: Any) -> Any:
        self._note(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._note(index)
        _set(super().__setitem__, index, value, self.label, self.dtype)
        if isinstance(index, (int, np.integer)) and self.ndim == 1:
            _compare(value, super().__getitem__(index), self.label, self.hints)

    def _note(self, index: Any) -> None:
        for part in index if isinstance(index, tuple) else (index,):
            if (
                isinstance(part, (int, np.integer))
                and part < 0
                and self.hints
                and not _by_numpy()
                and not _deliberate()
            ):
                self.hints.at_caller(
                    f"{self.label} was read or written at {part}",
                    "a negative index counts from the end; if that is meant, say so with % len(...)",
                )


class _Record(np.record):  # type: ignore[misc]  # final in the stubs, not in NumPy
    hints: Hints

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if type(value) is np.ndarray:
            return watched(value, type(self).hints, f"state.{name}")
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        fields: Any = self.dtype.fields or {}
        if name not in fields:
            raise AttributeError(f"the state record has no field {name}; state_dtype names {', '.join(fields)}")
        _set(super().__setattr__, name, value, f"state.{name}", fields[name][0])
        _compare(value, super().__getattribute__(name), f"state.{name}", type(self).hints)


def _set(write: Any, where: Any, value: Any, name: str, dtype: np.dtype[Any]) -> None:
    """Write; if NumPy refuses a Python integer that does not fit, raise our sentence."""
    try:
        write(where, value)
    except OverflowError as error:
        raise OverflowError(f"{value} does not fit into {name}, which is {dtype}; use a wider type") from error


def _compare(value: Any, stored: Any, name: str, hints: Hints | None) -> None:
    """Compare a number with the value that was stored for it."""
    if not isinstance(value, (int, float, np.number)) or not isinstance(stored, np.number) or hints is None:
        return
    if isinstance(stored, np.integer) and (not math.isfinite(value) or int(value) != int(stored)):
        raise OverflowError(f"{value} does not fit into {name}, which is {stored.dtype}; use a wider type")
    if isinstance(stored, np.integer) and value != stored:
        hints.at_caller(
            f"{value} was written into {name}, which keeps {stored}",
            "make the field np.float64, or write int(...) to say that the fraction shall be lost",
        )
    if isinstance(stored, np.floating) and np.isinf(stored) and math.isfinite(value):
        remedy = "use np.float64" if name.startswith("state.") else "scale it or clip it"
        raise OverflowError(f"{value} does not fit into {name}, which is {stored.dtype}; {remedy}")


def _by_numpy() -> bool:
    """Return whether a function of NumPy reads or writes the array."""
    return sys._getframe(3).f_code.co_filename.startswith(_NUMPY)


def _deliberate() -> bool:
    """Return whether the user's line that is running writes out a negative index."""
    return "[-" in linecache.getline(*place_of_caller()).replace(", -", "[-")
