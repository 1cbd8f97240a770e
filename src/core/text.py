"""Text for people: one format for bytes, one for durations, one for counted words."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Say = Callable[[str], None]
"""Prints one line."""


def say_on(console: "Console") -> Say:
    """Return a function that prints text on a console as it is."""
    return partial(console.print, highlight=False, markup=False, soft_wrap=True)


_BYTE_UNITS = {"GB": (1e9, 1e10, 2), "MB": (1e6, 1e6, 1), "kB": (1e3, 0, 1)}
"""Bytes of a unit, the size from which it is used, and its decimals. Sizes below 10 GB in MB differ visibly."""

_HOUR, _DAY = 3600, 86_400


def format_bytes(size: float, unit: str = "") -> str:
    """Return bytes in decimal units, such as ``443.0 MB`` or ``48.00 GB``: in a given unit, else in one that suits."""
    unit = unit or next(name for name, (_, least, _) in _BYTE_UNITS.items() if size >= least)
    length, _, decimals = _BYTE_UNITS[unit]
    return f"{size / length:,.{decimals}f} {unit}"


def format_duration(seconds: float) -> str:
    """Return a duration such as ``12.3 ms``, ``41.4 s``, ``3 min 5 s``, ``2 h 58 min`` or ``5 d 2 h``."""
    if round(seconds) >= 60:
        return _whole_units(seconds)
    for unit, length in (("s", 1.0), ("ms", 1e-3)):
        if seconds == 0 or seconds >= 0.9995 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _whole_units(seconds: float) -> str:
    """Return a duration of a minute or more as one or two whole numbers; days from two days on."""
    units = (("d", _DAY, 2 * _DAY), ("h", _HOUR, _HOUR), ("min", 60, 60), ("s", 1, 0))
    first = next(i for i, (_, _, least) in enumerate(units) if round(seconds) >= least)
    (large, length, _), (small, part, _) = units[first : first + 2]
    whole, rest = divmod(round(seconds / part), length // part)
    return f"{whole} {large}" + (f" {rest} {small}" if rest else "")


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 core``, ``2 cores``, ``1,024 copies``."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
