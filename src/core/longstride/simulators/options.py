"""Checks of simulator options: each returns the value or raises a ValueError of one sentence."""

import math
import operator
from collections.abc import Sequence
from numbers import Real
from typing import Any, TypeVar

Choice = TypeVar("Choice")


def one_of(name: str, value: Any, allowed: Sequence[Choice]) -> Choice:
    """Return the allowed value that equals ``value``.

    Raises:
        ValueError: there is none.
    """
    for choice in allowed:
        if value == choice and isinstance(value, bool) == isinstance(choice, bool):
            return choice
    raise ValueError(f"{name} is one of {', '.join(map(str, allowed))}, not {value!r}")


def as_whole(value: Any) -> int | None:
    """Return any kind of integer, such as one of NumPy, as an int; None for anything else, truth values included."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def whole(name: str, value: Any, low: int, high: int) -> int:
    """Return a whole number between two others, both allowed.

    Raises:
        ValueError: it is none, or beyond them.
    """
    found = as_whole(value)
    if found is None or not low <= found <= high:
        raise ValueError(f"{name} is a whole number from {low} to {high}, not {value!r}")
    return found


def number(name: str, value: Any, low: float, high: float) -> float:
    """Return a number strictly between two others.

    Raises:
        ValueError: it is none, or not between them.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not low < float(value) < high:
        end = f"and below {high:g}" if math.isfinite(high) else ""
        raise ValueError(f"{name} is a number above {low:g} {end}".rstrip() + f", not {value!r}")
    return float(value)
